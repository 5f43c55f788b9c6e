"""The two passes of the paper's algorithm over a chunk of a data set: cell statistics, then scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from svead_stream.kernels.compiled import kernel
from svead_stream.kernels.layout import BLOCK, F64, I32, Partitions, Points
from svead_stream.kernels.search import add_to_cell, locate_block, to_frame, transpose

# columns of a score table
SLOPE, CONSTANT = 0, 1


class Geometry(NamedTuple):
    """Partitions, and the frame that they are placed in; nothing in it changes."""

    frame: F64  # (3, d)
    partitions: Partitions


class Scratch(NamedTuple):
    """Room for one block of points; one per thread."""

    points: Points  # without warped units
    found: I32  # (BLOCK,)
    apart: F64  # (BLOCK,)
    summed: F64  # (BLOCK,)
    scored: F64  # (BLOCK,)


def scratch_for(geometry: Geometry) -> Scratch:
    d, dp = geometry.frame.shape[1], geometry.partitions.scale.shape[1]
    return Scratch(
        Points(np.zeros((BLOCK, dp), np.float32), np.zeros((d, BLOCK), np.float32), np.zeros(BLOCK, np.int64)),
        np.zeros(BLOCK, np.int32),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
    )


@kernel
def run(X: NDArray[np.floating], geometry: Geometry, room: Scratch, cells: F64, table: F64, out: F64) -> None:
    """Pass a chunk through the partitions: into the cells if there are any, else into scores by the table.

    A point that falls into cell j at distance d scores `table[k, j, SLOPE] * d + table[k, j, CONSTANT]`; cells whose
    slope is NaN do not score.
    """
    frame, partitions, points = geometry.frame, geometry.partitions, room.points
    t, d = partitions.metric.shape[0], frame.shape[1]
    learn = cells.shape[0] > 0
    for first in range(0, X.shape[0], BLOCK):
        n = min(BLOCK, X.shape[0] - first)
        for b in range(n):
            _, points.gaps[b] = to_frame(X[first + b], frame, points.x[b])
            transpose(points.x[b], 0, points.xt, 0, b, d)
            room.summed[b] = 0.0
            room.scored[b] = 0.0
        for k in range(t):
            locate_block(k, n, points, partitions, room.found, room.apart)
            for b in range(n):
                j = room.found[b]
                if j >= 0:
                    if learn:
                        add_to_cell(cells[k, j], room.apart[b])
                    elif table[k, j, SLOPE] == table[k, j, SLOPE]:
                        room.summed[b] += table[k, j, SLOPE] * room.apart[b] + table[k, j, CONSTANT]
                        room.scored[b] += 1.0
        if not learn:
            for b in range(n):
                out[first + b] = room.summed[b] / max(room.scored[b], 1.0)
