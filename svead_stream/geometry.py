"""Partitions of a data set: scales of features, where anchors lie, what a distance is worth, and what it is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream.arrays import empty_partitions
from svead_stream.kernels import layout, search
from svead_stream.kernels.batch import SLOPE, Geometry

F64 = NDArray[np.float64]

_SMALLEST = 1e-150  # a feature that spreads less is constant
_FARTHEST = 1e150  # squares of it still add up
EXPLAINED = 2**20  # numbers in the largest array of `shares_of`, which takes as many rows at once, and at least one
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


def shares_of(X: F64, anchors: F64, scales: F64, cells: F64) -> F64:
    """Share of each feature in the squared distances that make the score of each row; rows sum to 1.

    Parameters
    ----------
    X
        Rows; NaN is missing.
    anchors, scales, cells
        As `SVEAD` has them.
    """
    weight = np.where(scales > 0, 1 / np.maximum(scales, 1 / _FARTHEST), 0.0)
    slopes = np.nan_to_num(score_table(cells)[..., SLOPE])
    shares = np.zeros(X.shape)
    step = max(1, EXPLAINED // anchors.size)
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        gaps = (X[rows, None, None] - anchors) * weight  # (rows, t, m, d)
        gaps = np.clip(gaps, -_FARTHEST, _FARTHEST, out=gaps) ** 2
        squares = np.nansum(gaps, axis=3)
        nearest = squares.argmin(axis=2)[..., None]
        far = np.take_along_axis(squares, nearest, axis=2)[..., 0]
        gaps = np.take_along_axis(gaps, nearest[..., None], axis=2)[:, :, 0]
        worth = np.take_along_axis(slopes[None], nearest, axis=2)[..., 0] * np.sqrt(far) / np.where(far > 0, far, 1)
        shares[rows] = np.einsum("nt,ntd->nd", worth, np.nan_to_num(gaps))
    total = shares.sum(axis=1, keepdims=True)
    return np.where(total > 0, shares / np.where(total > 0, total, 1), 1 / X.shape[1])


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
