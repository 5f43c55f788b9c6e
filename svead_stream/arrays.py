"""The arrays of a memory: made empty, widened for new features, checked when they come from outside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream.kernels import layout
from svead_stream.kernels.layout import BLOCK, State
from svead_stream.kernels.refresh import move_frame
from svead_stream.kernels.search import LARGEST
from svead_stream.kernels.simd import LANES
from svead_stream.snapshot import Arrays, expect
from svead_stream.soundness import check_memory

Shapes = dict[str, tuple[type, tuple[int, ...]]]
_LINE = 64  # bytes

GROUPS: dict[str, Any] = {
    "sample": layout.Sample,
    "partitions": layout.Partitions,
    "points": layout.Points,
    "block": layout.Points,
    "found": layout.Found,
    "sums": layout.Sums,
    "scratch": layout.Scratch,
}


def padded(n: int, to: int) -> int:
    """The next multiple."""
    return -(-n // to) * to


def partition_shapes(t: int, m: int, d: int) -> Shapes:
    """Type and shape of the arrays of `Partitions`, in its order."""
    dp, mp = padded(d, LANES), padded(m, 2 * LANES)
    return {
        "metric": (np.float64, (t, 4)),
        "shape": (np.int64, (t, 3)),
        "product": (np.float32, (t, 1 + d, mp)),
        "placed": (np.float32, (t, m, dp)),
        "scale": (np.float32, (t, dp)),
        "feature": (np.int64, (t, d)),
    }


def shapes(t: int, m: int, window: int, d: int) -> Shapes:
    """Type and shape of every array, in the order of `State` and its groups."""
    blocks, dp = -(-window // BLOCK), padded(d, LANES)
    return {
        "counters": (np.int64, (3,)),
        "rng": (np.uint64, (1,)),
        "kind": (np.uint64, (1,)),
        "cutoff": (np.float64, (2,)),
        "spread": (np.float64, (5, d)),
        "frame": (np.float64, (3, d)),
        "sample.rows": (np.float64, (window, d)),
        "sample.suspicion": (np.float64, (window,)),
        "sample.arrived": (np.int64, (window,)),
        "anchors": (np.float64, (t, m, d)),
        "weight": (np.float64, (t, d)),
        "cells": (np.float64, (t, m, 3)),
        **{f"partitions.{name}": shape for name, shape in partition_shapes(t, m, d).items()},
        "points.x": (np.float32, (blocks, BLOCK, 2 * dp)),
        "points.xt": (np.float32, (blocks, 2 * d, BLOCK)),
        "points.gaps": (np.int64, (blocks, BLOCK)),
        "block.x": (np.float32, (BLOCK, 2 * dp)),
        "block.xt": (np.float32, (2 * d, BLOCK)),
        "block.gaps": (np.int64, (BLOCK,)),
        "found.cell": (np.int32, (t, BLOCK)),
        "found.score": (np.float64, (t, BLOCK)),
        "sums.summed": (np.float64, (BLOCK,)),
        "sums.factor": (np.float64, (BLOCK,)),
        "sums.trusted": (np.float64, (BLOCK,)),
        "scratch.values": (np.float64, (window, LANES)),
        "scratch.order": (np.int64, (max(window, d),)),
        "scratch.draws": (np.float64, (d,)),
        "scratch.counts": (np.int64, (LANES,)),
        "scratch.source": (np.int64, (BLOCK,)),
        "scratch.cell_of": (np.int32, (blocks * BLOCK,)),
        "scratch.far": (np.float64, (blocks * BLOCK,)),
        "scratch.halves": (np.float64, (m,)),
    }


SAVED = (
    *("counters", "rng", "kind", "cutoff", "spread", "frame", "anchors", "weight", "cells"),
    *("sample.rows", "sample.suspicion", "sample.arrived"),
    *("partitions.metric", "partitions.shape"),
)


def numbers(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """What counts of values, as `kernels.search.number` has it: infinities are NaN, a huge number is the largest."""
    return np.where(np.isfinite(rows), np.clip(rows, -LARGEST, LARGEST), np.nan)


def array(state: State, name: str) -> NDArray[Any]:
    """The array of that name, as `shapes` has it."""
    found: Any = state
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def zeros(shapes: Shapes) -> dict[str, Any]:
    """Arrays of zeros, each of which begins with a line of the cache: vectors across two lines take longer to load."""
    sizes = [padded(math.prod(shape) * np.dtype(dtype).itemsize, _LINE) for dtype, shape in shapes.values()]
    room = np.zeros(sum(sizes) + _LINE, np.uint8)
    at, arrays = -room.ctypes.data % _LINE, {}
    for (name, (dtype, shape)), size in zip(shapes.items(), sizes, strict=True):
        arrays[name] = np.ndarray(shape, dtype, room, at)
        at += size
    return arrays


def empty_partitions(t: int, m: int, d: int) -> layout.Partitions:
    return layout.Partitions(**zeros(partition_shapes(t, m, d)))


def empty(t: int, m: int, window: int, d: int) -> State:
    arrays = zeros(shapes(t, m, window, d))
    arrays["sample.rows"].fill(np.nan)
    arrays["partitions.metric"][:, layout.TRUST] = 1.0
    for name, group in GROUPS.items():
        arrays[name] = group(**{part: arrays.pop(f"{name}.{part}") for part in group._fields})
    return State(**arrays)


def widened(state: State, d: int) -> State:
    """The same memory with room for d features; of the new ones nothing is known yet."""
    (t, m, _), window = state.anchors.shape, state.sample.rows.shape[0]
    return filled(empty(t, m, window, d), {name: array(state, name) for name in SAVED})


def filled(state: State, saved: Arrays) -> State:
    """A new state with these arrays, which may have fewer features, and with all that follows from them."""
    for name, given in saved.items():
        array(state, name)[tuple(slice(n) for n in given.shape)] = given
    move_frame(state)
    return state


def restored(arrays: Arrays, t: int, m: int, window: int, d: int) -> State:
    """A state from arrays of unknown origin: whatever could lead a kernel astray is refused."""
    expected = shapes(t, m, window, d)
    given = {name: expect(arrays, name, *expected[name]) for name in SAVED}
    check_memory(given, m, window, d)
    return filled(empty(t, m, window, d), given)
