"""Partitions of a data set: scales of features, where anchors lie, and what a distance is worth in their cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream.arrays import empty_partitions
from svead_stream.kernels import layout, search
from svead_stream.kernels.batch import Geometry

F64 = NDArray[np.float64]

_SMALLEST = 1e-150  # a feature that spreads less is constant
FRAME_ROWS = 4_096  # enough to centre and scale the arithmetic; the results do not hang on it


def score_table(cells: F64, keep: str = "both") -> F64:
    """What a distance is worth in each cell: the paper's score, or one of its two factors alone.

    Parameters
    ----------
    cells
        Count, sum and maximum of distances, as in `SVEAD.cells_`.
    keep
        `"both"` factors, only the relative `"position"` d / d_max, or only the `"scale"` d_mean.
    """
    count, total, largest = np.moveaxis(cells, -1, 0)
    mean = total / np.maximum(count, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        position = np.where(largest > 0, 1 / largest, 1.0)
    if keep == "both":
        slope, constant = np.where(largest > 0, position * mean, 1.0), np.zeros_like(mean)
    elif keep == "position":
        slope, constant = position, np.zeros_like(mean)
    elif keep == "scale":
        slope, constant = np.zeros_like(mean), mean
    else:
        raise ValueError(f"keep={keep!r}: it must be 'both', 'position' or 'scale'")
    return np.stack([np.where(count > 1, slope, np.nan), constant], axis=-1)


def merge_cells(into: F64, other: F64) -> None:
    """Add the statistics of other points in the same cells: counts and sums add up, maxima are kept."""
    into[..., : layout.MAX] += other[..., : layout.MAX]
    np.maximum(into[..., layout.MAX], other[..., layout.MAX], out=into[..., layout.MAX])


def bounded(X: NDArray[Any]) -> NDArray[Any]:
    """The same with huge numbers as the largest that counts; a copy only where there are some."""
    largest = search.LARGEST
    if X.dtype != np.float64 or max(np.fmax.reduce(X, axis=None), -np.fmin.reduce(X, axis=None)) <= largest:
        return X
    return X.clip(-largest, largest)


def spreads(X: NDArray[np.floating], scaling: str) -> F64:
    """The scale of each feature over all of X, a column at a time; 1 where it is constant, 0 where nothing is known."""
    result = np.ones(X.shape[1])
    for f in range(X.shape[1]):
        column = X[:, f]
        if np.isnan(column[:FRAME_ROWS]).all() and np.isnan(column).all():
            result[f] = 0.0
        elif scaling != "none":
            spread = _spread(column[~np.isnan(column)] if np.isnan(column).any() else column, scaling)
            result[f] = spread if spread > _SMALLEST else 1.0
    return result


def _spread(column: NDArray[np.floating], scaling: str) -> float:
    if scaling == "iqr":
        low, high = np.percentile(column, [25, 75])
        return float(high - low)
    reach = float(np.ptp(column))
    # The deviation of equal numbers may not be 0.
    return float(np.std(column, dtype=np.float64)) if scaling == "std" and reach > 0 else reach


def frame_of(rows: NDArray[np.floating]) -> tuple[F64, F64]:
    """Centre and rate of each feature, to centre and scale the arithmetic."""
    rows = bounded(rows)
    centre, rate = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for f in range(rows.shape[1]):
        column = rows[:, f][~np.isnan(rows[:, f])].astype(np.float64)
        if len(column):
            centre[f] = np.median(column)
            scale = np.std(column) if np.ptp(column) > 0 else 1.0
            rate[f] = 1 / scale if scale > _SMALLEST else 1.0
    return centre, rate


def placed(anchors: F64, scales: F64, centre: F64, rate: F64) -> Geometry:
    """Partitions by these anchors as the search needs them, with features divided by these scales."""
    t, m, d = anchors.shape
    frame = np.stack([centre, rate, rate])
    partitions = empty_partitions(t, m, d)
    partitions.shape[:, layout.ANCHORS] = m
    weight = np.repeat(np.where(scales > 0, 1 / np.where(scales > 0, scales, 1), 0.0)[None], t, axis=0)
    halves = np.zeros(m)
    for k in range(t):
        search.place(k, anchors, weight, frame, partitions, halves)
    return Geometry(frame, partitions)
