"""What tests fetch is fetched once, also where several processes of tests want it at the same time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = Path(__file__).parents[1] / ".cache" / "lock"


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Others wait: look in here whether it is there already."""
    _LOCK.parent.mkdir(exist_ok=True)
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
