"""Compiling ahead of the first event, and telling of it: the first start takes long, and would be silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba.core import event


def warm_up(one_by_one: bool = True) -> None:
    """Compile, or load from the cache, all kernels that a stream needs.

    Call it before events arrive: without a cache on disk the first event would otherwise wait for the compiler.

    Parameters
    ----------
    one_by_one
        Also what single events need; without, mini-batches (`judge_many`, `score_learn_many`) are ready sooner.

    Examples
    --------
    >>> import svead_stream
    >>> svead_stream.warm_up()
    """
    from svead_stream.judging import ConformalFilter
    from svead_stream.streaming import StreamingSVEAD

    model = StreamingSVEAD(n_partitions=2, n_anchors=1, normal_after=8, seed=0)
    judge = ConformalFilter(model)
    judge.judge_many(np.arange(16.0)[:, None])
    if one_by_one:
        for value in range(64):
            judge.judge_one({0: float(value)})
        judge.judge_one({0: 1.0}, learn=False)
        model.explain_one({0: 1.0})


class _FirstCompilation(event.Listener):
    """Hears of functions that are compiled; Numba tells nothing of those it finds compiled on the disk."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self.say = say
        self.began: float | None = None

    def on_start(self, told: Any) -> None:
        if self.began is None:
            self.began = time.monotonic()
            folder = told.data["dispatcher"].stats.cache_path
            if folder:
                kept = f"the first time here, to be kept in {folder} (NUMBA_CACHE_DIR names another folder)"
            else:
                kept = "at every start, for want of a folder to keep it in (let NUMBA_CACHE_DIR name one)"
            self.say(f"compiling the detector for up to a minute, {kept}")

    def on_end(self, told: Any) -> None: ...


@contextmanager
def telling_of_compilation(say: Callable[[str], object]) -> Iterator[None]:
    """Say when something is compiled in here for the first time on this machine, and how long it all took."""
    first = _FirstCompilation(say)
    with event.install_listener("numba:compile", first):
        yield
    if first.began is not None:
        say(f"compiled in {time.monotonic() - first.began:.0f} s")
