"""Compiling ahead of the first event, and telling of it where it takes long and would be silent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba.core import event

from svead_stream.kernels.precompiled import BUILT_FOR, kinds_here, remove_old


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


def precompile() -> None:
    """Compile into the package what is not there yet, for all kinds of processors of which this is one."""
    remove_old()
    command = [sys.executable, "-c", "from svead_stream.warm import run_all_kernels; run_all_kernels()"]
    running = []
    for kind in kinds_here():
        target = {BUILT_FOR: kind, "NUMBA_CPU_NAME": kind, "NUMBA_CPU_FEATURES": ""}
        running.append(subprocess.Popen(command, env=os.environ | target))
    for code in [process.wait() for process in running]:
        if code:
            raise subprocess.CalledProcessError(code, command)


def run_all_kernels() -> None:
    """Do once what users do, for `precompile`."""
    from svead_stream.batch import SVEAD
    from svead_stream.judging import ConformalFilter
    from svead_stream.streaming import StreamingSVEAD

    warm_up()
    rows = np.arange(64.0)[:, None]
    judge = ConformalFilter(StreamingSVEAD(n_partitions=2, n_anchors=1, normal_after=8, seed=0))
    judge.judge_many(rows)
    for is_anomaly in (True, False):
        judge.feedback_one({0: 100.0}, is_anomaly, teach=not is_anomaly)
    judge.judge_many(rows)
    for value in range(256):  # until partitions are renewed
        judge.judge_one({0: float(value)})
    _ = ConformalFilter.from_bytes(judge.to_bytes()).burns_in
    for numbers in (rows, rows.astype(np.float32)):
        fitted = SVEAD(n_partitions=2, n_anchors=1).fit(numbers)
        fitted.score_samples(numbers)
    StreamingSVEAD.from_batch(fitted, rows)


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
