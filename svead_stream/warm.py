"""Compiling ahead of the first event."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np


def warm_up() -> None:
    """Compile, or load from the cache, all kernels that a stream needs.

    Call it before events arrive: without a cache on disk the first event would otherwise wait for the compiler.

    Examples
    --------
    >>> import svead_stream
    >>> svead_stream.warm_up()
    """
    from svead_stream.alerts import ConformalFilter
    from svead_stream.streaming import StreamingSVEAD

    model = StreamingSVEAD(n_partitions=2, n_anchors=1, normal_after=8, seed=0)
    ConformalFilter(model).score_learn_many(np.arange(16.0)[:, None])
    for value in range(64):
        event: dict[Hashable, float] = {0: float(value)}
        model.score_one(event)
        model.learn_one(event)
    model.explain_one({0: 1.0})
