"""Compiling ahead of the first event."""

from __future__ import annotations

import numpy as np


def warm_up() -> None:
    """Compile, or load from the cache, all kernels that a stream needs.

    Call it before events arrive: without a cache on disk the first event would otherwise wait for the compiler.

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
    for value in range(64):
        judge.judge_one({0: float(value)})
    judge.judge_one({0: 1.0}, learn=False)
    model.explain_one({0: 1.0})
