"""Where a point falls and what it scores there; used by the streaming and by the batch detector.

Three rules keep the numbers the same for one event, for a mini-batch and on any machine:

* float32 arithmetic of the search is written as fused multiply-adds, one feature after the other, lane by lane; the
  one-event search has anchors in its lanes, the mini-batch search has points, and each pair meets the same operations;
* no fast-math, so that nothing is reassociated;
* within a partition points are taken in the order of arrival.

Points live in a *frame*: centred and scaled in float64 once per event, then float32, so that offsets of 1e12 cost no
precision. A partition's own scaling is a weight per feature on top of it. The nearest anchor maximises
x.a - |a|^2 / 2; the exact distance, in difference form, is needed for the winner only.
"""

from __future__ import annotations

import math

import numpy as np

from svead_stream.kernels.compiled import kernel
from svead_stream.kernels.layout import (
    ANCHORS,
    BLOCK,
    CENTRE,
    COUNT,
    F32,
    F64,
    I32,
    LENGTH,
    MAX,
    RATE,
    SUM,
    TOTAL,
    USED,
    WARP_RATE,
    WARPED,
    Partitions,
    Points,
)
from svead_stream.kernels.simd import (
    LANES,
    fma,
    index_of_greater,
    index_of_greatest,
    keep_greater,
    load,
    mul,
    splat,
    splat_at,
    splat_int,
    store_int,
    sub,
    total,
)

LARGEST = 1e100  # a larger number counts as this one, so that sums of squares stay finite
SATURATED = np.float32(1e15)  # frame units; squares of it still add up in float32
NOTHING = np.float32(-np.inf)
_ONE, _LARGE = (int(np.float64(v).view(np.int64)) for v in (1.0, 2.0**52))
WIDTH = 0.25  # how much of a cell's mean distance adds to that of an event in it


@kernel
def number(v: float) -> float:
    """What counts of a value: nothing of an infinity, which becomes NaN; a huge number is the largest."""
    return min(max(v, -LARGEST), LARGEST) if abs(v) < math.inf else math.nan


@kernel
def to_frame(row: F64, frame: F64, x: F32) -> tuple[int, int]:
    """Put a row into frame units.

    Returns how many values are numbers, and how many are missing of the features that the frame knows; only these
    become NaN.
    """
    centre, rate = frame[CENTRE], frame[RATE]
    present, gaps = 0, 0
    for f in range(centre.shape[0]):
        v = number(row[f])
        here = v == v
        z = min(max((v - centre[f]) * rate[f], -SATURATED), SATURATED)
        x[f] = z if here else (np.nan if rate[f] > 0 else 0.0)
        present += here
        gaps += not here and rate[f] > 0
    return present, gaps


@kernel
def warp(z: float) -> float:
    """Linear up to 1, then logarithmic: the binary logarithm of 1 + |z|, interpolated between powers of two."""
    bits = np.float64(1.0 + abs(z)).view(np.int64) - _ONE
    # What follows is bits * 2**-52 in steps that processors have for vectors.
    exponent = np.int64(bits >> 52 | _LARGE).view(np.float64) - 2.0**52
    fraction = np.int64(bits & 2**52 - 1 | _ONE).view(np.float64) - 1.0
    return math.copysign(exponent + fraction, z)


@kernel
def to_warped(row: F64, frame: F64, x: F32) -> None:
    """Put a row into warped units, in which heavy tails are short."""
    centre, warp_rate = frame[CENTRE], frame[WARP_RATE]
    for f in range(centre.shape[0]):
        v = number(row[f])
        z = warp(min(max((v - centre[f]) * warp_rate[f], -SATURATED), SATURATED))
        x[f] = z if v == v else (np.nan if warp_rate[f] > 0 else 0.0)


@kernel
def transpose(x: F32, start: int, xt: F32, first: int, b: int, d: int) -> None:
    """Copy d coordinates of a point from its row to its column b of a block."""
    for f in range(d):
        xt[first + f, b] = x[start + f]


@kernel
def place(k: int, anchors: F64, weight: F64, frame: F64, p: Partitions, halves: F64) -> None:
    """Derive from a partition's anchors and weights what the search and the distance need."""
    centre, rate, d, m = frame[CENTRE], frame[RATE], frame.shape[1], p.shape[k, ANCHORS]
    warped = p.shape[k, WARPED] > 0
    length = 0.0
    for f in range(d):
        if rate[f] > 0:
            length = max(length, weight[k, f] if warped else weight[k, f] / rate[f])
    used = 0
    for f in range(d):
        w = np.float32(0.0)
        if rate[f] > 0 and length > 0:
            w = np.float32(((weight[k, f] if warped else weight[k, f] / rate[f]) / length) ** 2)
        p.scale[k, f] = w
        if w > 0:
            p.feature[k, used] = f
            used += 1
    p.metric[k, LENGTH] = length
    p.shape[k, USED] = used
    for j in range(m):
        halves[j] = 0.0
        for f in range(d):
            per = frame[WARP_RATE, f] if warped else rate[f]
            z = min(max((anchors[k, j, f] - centre[f]) * per, -SATURATED), SATURATED)
            p.placed[k, j, f] = warp(z) if warped else z
    for i in range(used):
        f = p.feature[k, i]
        for j in range(m):
            z = np.float64(p.placed[k, j, f])
            weighted = np.float64(p.scale[k, f]) * z
            p.product[k, 1 + i, j] = weighted
            halves[j] += 0.5 * weighted * z
    p.product[k, 0] = NOTHING
    for j in range(m):
        p.product[k, 0, j] = -halves[j]


@kernel
def nearest(k: int, x: F32, start: int, p: Partitions) -> int:
    """The nearest anchor of one point without gaps: sixteen anchors at a time in the lanes."""
    product, listed, used = p.product, p.feature[k], p.shape[k, USED]
    mp = product.shape[2]
    best = splat(NOTHING)
    index = splat_int(0)
    for j in range(0, mp, 2 * LANES):
        q = k * product.shape[1] * mp + j
        c0 = load(product, q)
        c1 = load(product, q + LANES)
        for i in range(used):
            q += mp
            v = splat_at(x, start + listed[i])
            c0 = fma(load(product, q), v, c0)
            c1 = fma(load(product, q + LANES), v, c1)
        index = index_of_greater(c0, best, splat_int(j), index)
        best = keep_greater(c0, best)
        index = index_of_greater(c1, best, splat_int(j + LANES), index)
        best = keep_greater(c1, best)
    winner: int = index_of_greatest(best, index)
    return winner


@kernel
def nearest_of_block(k: int, n: int, xt: F32, start: int, p: Partitions, found: I32) -> None:
    """The nearest anchor of n points without gaps: sixteen points in the lanes, four anchors at a time."""
    product, listed, used, m = p.product, p.feature[k], p.shape[k, USED], p.shape[k, ANCHORS]
    mp = product.shape[2]
    for b in range(0, n, 2 * LANES):
        best0 = splat(NOTHING)
        best1 = best0
        index0 = splat_int(0)
        index1 = index0
        for j in range(0, m, 4):
            q = k * product.shape[1] * mp + j
            c00 = splat_at(product, q)
            c01 = c00
            c10 = splat_at(product, q + 1)
            c11 = c10
            c20 = splat_at(product, q + 2)
            c21 = c20
            c30 = splat_at(product, q + 3)
            c31 = c30
            for f in range(used):
                q += mp
                at = start + b + listed[f] * BLOCK
                x0 = load(xt, at)
                x1 = load(xt, at + LANES)
                a = splat_at(product, q)
                c00 = fma(a, x0, c00)
                c01 = fma(a, x1, c01)
                a = splat_at(product, q + 1)
                c10 = fma(a, x0, c10)
                c11 = fma(a, x1, c11)
                a = splat_at(product, q + 2)
                c20 = fma(a, x0, c20)
                c21 = fma(a, x1, c21)
                a = splat_at(product, q + 3)
                c30 = fma(a, x0, c30)
                c31 = fma(a, x1, c31)
            i = splat_int(j)
            index0 = index_of_greater(c00, best0, i, index0)
            best0 = keep_greater(c00, best0)
            index1 = index_of_greater(c01, best1, i, index1)
            best1 = keep_greater(c01, best1)
            i = splat_int(j + 1)
            index0 = index_of_greater(c10, best0, i, index0)
            best0 = keep_greater(c10, best0)
            index1 = index_of_greater(c11, best1, i, index1)
            best1 = keep_greater(c11, best1)
            i = splat_int(j + 2)
            index0 = index_of_greater(c20, best0, i, index0)
            best0 = keep_greater(c20, best0)
            index1 = index_of_greater(c21, best1, i, index1)
            best1 = keep_greater(c21, best1)
            i = splat_int(j + 3)
            index0 = index_of_greater(c30, best0, i, index0)
            best0 = keep_greater(c30, best0)
            index1 = index_of_greater(c31, best1, i, index1)
            best1 = keep_greater(c31, best1)
        store_int(found, b, index0)
        store_int(found, b + LANES, index1)


@kernel
def distance(k: int, j: int, x: F32, start: int, p: Partitions) -> float:
    """From a point without gaps to anchor j of partition k."""
    placed, scale = p.placed, p.scale
    m, dp = placed.shape[1], placed.shape[2]
    s = splat(np.float32(0.0))
    for f in range(0, dp, LANES):
        gap = sub(load(x, start + f), load(placed, (k * m + j) * dp + f))
        s = fma(mul(gap, gap), load(scale, k * dp + f), s)
    return p.metric[k, LENGTH] * np.float64(np.sqrt(total(s)))


@kernel
def nearest_with_gaps(k: int, x: F32, p: Partitions) -> tuple[int, float]:
    """Anchor and distance over the features present, rescaled to all that the partition uses; -1 if it uses none."""
    placed, scale, d = p.placed, p.scale, x.shape[0]
    present = 0
    for f in range(d):
        if scale[k, f] > 0 and x[f] == x[f]:
            present += 1
    if present == 0:
        return -1, 0.0
    winner, best = 0, np.inf
    for j in range(p.shape[k, ANCHORS]):
        s = 0.0
        for f in range(d):
            if x[f] == x[f]:
                gap = np.float64(x[f]) - np.float64(placed[k, j, f])
                s += gap * gap * np.float64(scale[k, f])
        if s < best:
            winner, best = j, s
    return winner, p.metric[k, LENGTH] * math.sqrt(best * p.shape[k, USED] / present)


@kernel
def locate_block(k: int, n: int, points: Points, p: Partitions, found: I32, apart: F64) -> None:
    """Cells and distances of n points in partition k; warped coordinates, if any, stand behind the others."""
    d, dp, width = p.feature.shape[1], p.placed.shape[2], points.x.shape[1]
    start, start_t = (dp, d * BLOCK) if p.shape[k, WARPED] > 0 else (0, 0)
    nearest_of_block(k, n, points.xt, start_t, p, found)
    for b in range(n):
        apart[b] = distance(k, found[b], points.x, b * width + start, p)
    for b in range(n):
        if points.gaps[b] > 0:
            found[b], apart[b] = nearest_with_gaps(k, points.x[b, start : start + d], p)


@kernel
def fourth_root(x: float) -> float:
    """Exact for powers of 16, linear from each power of two to the next: two steps with integers."""
    return np.int64((np.float64(x).view(np.int64) - _ONE >> 2) + _ONE).view(np.float64)


@kernel
def score_in_cell(d: float, count: float, summed: float, total: float) -> float:
    """How strange an event is at distance d: the farther, and the wider and rarer its cell, the more.

    Count and sum of distances are those of its cell as it is (a new event, unlike a point of a data set, is not in it
    yet); the total is the count of all cells.
    """
    each = 1.0 / max(count, 1.0)
    return (d + WIDTH * summed * each) * fourth_root(total * each)


@kernel
def add_to_cell(cell: F64, d: float) -> None:
    """Count a point of the data that a partition is built from."""
    cell[COUNT] += 1.0
    cell[SUM] += d
    cell[MAX] = max(cell[MAX], d)


@kernel
def learn_in_cell(metric: F64, cell: F64, share: float) -> None:
    """Count a later event as part of a point, as far away as the points of its cell are on average.

    So the cells of a long memory are not taken over by what comes now, and none is widened by outliers: what comes
    makes its cell less rare at once, and wider only when a partition is built from settled points.
    """
    mean = cell[SUM] / max(cell[COUNT], 1.0)
    cell[COUNT] += share
    cell[SUM] += share * mean
    metric[TOTAL] += share
