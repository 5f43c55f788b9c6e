"""Tells that the detector is being compiled: the first start takes long, and would say nothing meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

log = logging.getLogger(__name__)


class _FirstCompilation(event.Listener):
    """Hears of functions that are compiled; Numba tells nothing of those it finds compiled on the disk."""

    began: float | None = None

    def on_start(self, told: Any) -> None:
        if self.began is None:
            self.began = time.monotonic()
            folder = told.data["dispatcher"].stats.cache_path
            kept = f"to be kept in {folder}" if folder else "and that each time, for want of a folder to keep it in"
            log.info("compiling the detector for a minute or two, %s (NUMBA_CACHE_DIR names the folder)", kept)

    def on_end(self, told: Any) -> None: ...


@contextmanager
def telling_of_compilation() -> Iterator[None]:
    """Log when something is compiled in here for the first time on this machine, and how long it all took."""
    first = _FirstCompilation()
    with event.install_listener("numba:compile", first):
        yield
    if first.began is not None:
        log.info("compiled in %.0f s", time.monotonic() - first.began)
