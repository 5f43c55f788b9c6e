"""The arrays of a memory: made empty, widened for new features, checked when they come from outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from svead_stream.errors import SnapshotError
from svead_stream.kernels import model, search
from svead_stream.kernels.model import State
from svead_stream.kernels.refresh import move_frame
from svead_stream.kernels.simd import LANES
from svead_stream.snapshot import Arrays, expect

N_COUNTERS = 3


def shapes(t: int, m: int, window: int, d: int) -> dict[str, tuple[type, tuple[int, ...]]]:
    """Type and shape of every array, in the order of `State`."""
    blocks, dp, mp = -(-window // search.BLOCK), search.padded(d, LANES), search.padded(m, 2 * LANES)
    return {
        "counters": (np.int64, (N_COUNTERS,)),
        "rng": (np.uint64, (1,)),
        "cutoff": (np.float64, (2,)),
        "centre": (np.float64, (d,)),
        "rate": (np.float64, (d,)),
        "warp_rate": (np.float64, (d,)),
        "spread": (np.float64, (5, d)),
        "rows": (np.float64, (window, d)),
        "suspicion": (np.float64, (window,)),
        "arrived": (np.int64, (window,)),
        "anchors": (np.float64, (t, m, d)),
        "weight": (np.float64, (t, d)),
        "metric": (np.float64, (t, 6)),
        "cells": (np.float64, (t, m, 3)),
        "sample": (np.float32, (blocks, search.BLOCK, 2 * dp)),
        "sample_t": (np.float32, (blocks, 2 * d, search.BLOCK)),
        "sample_gaps": (np.int64, (blocks, search.BLOCK)),
        "product": (np.float32, (t, d, mp)),
        "bias": (np.float32, (t, mp)),
        "placed": (np.float32, (t, m, dp)),
        "scale": (np.float32, (t, dp)),
        "feature": (np.int64, (t, d)),
        "values": (np.float64, (window, LANES)),
        "order": (np.int64, (max(window, d),)),
        "cell_of": (np.int32, (blocks * search.BLOCK,)),
        "far": (np.float64, (blocks * search.BLOCK,)),
        "halves": (np.float64, (m,)),
        "block": (np.float32, (search.BLOCK, 2 * dp)),
        "block_t": (np.float32, (2 * d, search.BLOCK)),
        "block_gaps": (np.int64, (search.BLOCK,)),
        "source": (np.int64, (search.BLOCK,)),
        "summed": (np.float64, (search.BLOCK,)),
        "factor": (np.float64, (search.BLOCK,)),
        "scored": (np.int64, (search.BLOCK,)),
    }


SAVED = tuple(State._fields[: State._fields.index("sample")])


def empty(t: int, m: int, window: int, d: int) -> State:
    state = State(**{name: np.zeros(shape, dtype) for name, (dtype, shape) in shapes(t, m, window, d).items()})
    state.rows.fill(np.nan)
    return state


def widened(state: State, d: int) -> State:
    """The same memory with room for d features; of the new ones nothing is known yet."""
    (t, m, _), window = state.anchors.shape, state.rows.shape[0]
    wide = empty(t, m, window, d)
    for name in SAVED:
        old, new = getattr(state, name), getattr(wide, name)
        new[tuple(slice(n) for n in old.shape)] = old
    move_frame(wide)
    return wide


def restored(arrays: Arrays, t: int, m: int, window: int, d: int) -> State:
    """A state from arrays of unknown origin: whatever could lead a kernel astray is refused."""
    expected = shapes(t, m, window, d)
    given = {name: expect(arrays, name, *expected[name]) for name in SAVED}
    _check(given, m, window)
    state = empty(t, m, window, d)._replace(**given)
    move_frame(state)
    return state


def _check(a: dict[str, Any], m: int, window: int) -> None:
    counters, anchors = a["counters"], a["metric"][:, search.ANCHORS]
    sound = {
        "counters": (counters >= 0).all() and counters[model.STORED] <= min(window, counters[model.SEEN]),
        "metric": np.isfinite(a["metric"]).all() and ((anchors >= 0) & (anchors <= m)).all(),
        "rows": not np.isinf(a["rows"]).any(),
        "arrived": ((a["arrived"] >= 0) & (a["arrived"] <= counters[model.SEEN])).all(),
    }
    for name in ("cutoff", "centre", "suspicion", "anchors"):
        sound[name] = np.isfinite(a[name]).all()
    for name in ("rate", "warp_rate", "spread", "weight", "cells"):
        sound[name] = (np.isfinite(a[name]) & (a[name] >= 0)).all()
    for name, fine in sound.items():
        if not fine:
            raise SnapshotError(f"the snapshot does not fit together: array {name!r} has impossible values")
