"""How a detector scores and learns one event, and the steps that a mini-batch shares with it.

The order of things for each event that is learned, the n-th: both memories score it against their cells as they are;
its distances are added to them; it is offered to the samples; then what is due at n is refreshed.
"""

from __future__ import annotations

import math

import numpy as np

from svead_stream.kernels.compiled import kernel, short_kernel
from svead_stream.kernels.lasting import follow, remember, repeats, to_score
from svead_stream.kernels.layout import (
    COUNT,
    F32,
    F64,
    I32,
    I64,
    INVERSE_UNIT,
    MISSING,
    SEEN,
    STORED,
    SUM,
    TOTAL,
    TRUST,
    U64,
    WARPED,
    Found,
    Partitions,
    Sample,
)
from svead_stream.kernels.refresh import until_refresh
from svead_stream.kernels.rng import draw
from svead_stream.kernels.search import (
    distance,
    learn_in_cell,
    nearest,
    nearest_with_gaps,
    number,
    score_in_cell,
    to_frame,
    to_warped,
)

LOGS_TOGETHER = 8  # factors multiplied before a logarithm is taken
LARGEST_FACTOR = 1e30  # so many of them stay finite


# the steps that one event and a block of them share


@kernel
def relative_factor(score: float, inverse_unit: float) -> float:
    """1 + s / unit, where scores are relative to those of usual points: logarithms of these are added up."""
    return min(1.0 + score * inverse_unit, LARGEST_FACTOR)


@kernel
def ends_product(k: int) -> bool:
    """Whether the product of factors goes into the sum, as its logarithm, after partition k."""
    return k % LOGS_TOGETHER == LOGS_TOGETHER - 1


@kernel
def mean_score(summed: float, factor: float, trusted: float) -> float:
    """How strange an event is to all partitions: the mean of s, or with factors of 1 + s / unit the mean logarithm."""
    return (summed + math.log(factor)) / trusted if trusted > 0.0 else 0.0


@kernel
def attribute(b: int, x: F32, relative: bool, p: Partitions, found: Found, shares: F64) -> None:
    """The share of each feature in the score of point b: that in the distances; all 0 where these are."""
    dp = p.placed.shape[2]
    shares[:] = 0.0
    for k in range(p.metric.shape[0]):
        j, start = found.cell[k, b], dp if p.shape[k, WARPED] > 0 else 0
        if j < 0:
            continue
        whole = 0.0
        for f in range(shares.shape[0]):
            whole += squared_gap(k, j, f, x, start, p)
        if whole == 0.0:
            continue
        worth = found.score[k, b]
        if relative:
            worth = math.log1p(worth * p.metric[k, INVERSE_UNIT])
        worth *= p.metric[k, TRUST]
        for f in range(shares.shape[0]):
            shares[f] += worth * squared_gap(k, j, f, x, start, p) / whole
    total = 0.0
    for f in range(shares.shape[0]):
        total += shares[f]
    if total > 0.0:
        for f in range(shares.shape[0]):
            shares[f] /= total


@kernel
def squared_gap(k: int, j: int, f: int, x: F32, start: int, p: Partitions) -> float:
    """What feature f adds to the squared distance; nothing where it is missing."""
    gap = np.float64(x[start + f]) - np.float64(p.placed[k, j, f])
    return gap * gap * np.float64(p.scale[k, f]) if gap == gap else 0.0


@kernel
def reservoir_update(row: F64, strangeness: float, fade: float, counters: I64, rng: U64, sample: Sample) -> None:
    """Count an event and let it into the sample with the probability that keeps the sample uniform, or fading."""
    window, d = sample.rows.shape
    counters[SEEN] += 1
    slot = counters[STORED]
    if slot < window:
        counters[STORED] += 1
    else:
        if draw(rng) >= max(window / counters[SEEN], fade):
            return
        slot = int(draw(rng) * window)
    sample.suspicion[slot] = strangeness
    sample.arrived[slot] = counters[SEEN]
    for f in range(d):
        sample.rows[slot, f] = number(row[f])


# one event


@kernel
def score_point(row: F64, relative: bool, frame: F64, p: Partitions, cells: F64, x: F32, found: Found) -> float:
    """How strange one row is to a memory, NaN if it is empty; leaves its frame coordinates in x."""
    d, dp = frame.shape[1], p.placed.shape[2]
    present, gaps = to_frame(row, frame, x)
    if present == 0:
        return np.nan
    to_warped(row, frame, x[dp:])
    summed, factor, trusted = 0.0, 1.0, 0.0
    for k in range(p.metric.shape[0]):
        start = dp if p.shape[k, WARPED] > 0 else 0
        if gaps == 0:
            j = nearest(k, x, start, p)
            far = distance(k, j, x, start, p)
        else:
            j, far = nearest_with_gaps(k, x[start : start + d], p)
        found.cell[k, 0] = j
        if j >= 0:
            trust = p.metric[k, TRUST]
            trusted += trust
            score = score_in_cell(far, cells[k, j, COUNT], cells[k, j, SUM], p.metric[k, TOTAL])
            found.score[k, 0] = score
            if not relative:
                summed += trust * score
            elif trust == 1.0:
                factor *= relative_factor(score, p.metric[k, INVERSE_UNIT])
            else:
                summed += trust * math.log(relative_factor(score, p.metric[k, INVERSE_UNIT]))
        if ends_product(k):
            summed += math.log(factor)
            factor = 1.0
    return mean_score(summed, factor, trusted)


@kernel
def learn_point(
    row: F64,
    strangeness: float,
    fade: float,
    share: float,
    counters: I64,
    rng: U64,
    sample: Sample,
    metric: F64,
    cells: F64,
    cell: I32,
) -> bool:
    """Learn the row that was scored last; returns whether a refresh is due."""
    for f in range(row.shape[0]):
        counters[MISSING] += math.isnan(number(row[f]))
    for k in range(cells.shape[0]):
        if cell[k, 0] >= 0:
            learn_in_cell(metric[k], cells[k, cell[k, 0]], share)
    reservoir_update(row, strangeness, fade, counters, rng, sample)
    return until_refresh(counters[SEEN] - 1) == 1


@short_kernel
def score_event(
    row: F64,
    relative: bool,
    counters: I64,
    levels: F64,
    last: F64,
    strangeness: F64,
    short_frame: F64,
    short_metric: F64,
    short_shape: I64,
    short_product: F32,
    short_placed: F32,
    short_scale: F32,
    short_feature: I64,
    short_cells: F64,
    short_x: F32,
    short_cell: I32,
    short_score: F64,
    long_frame: F64,
    long_metric: F64,
    long_shape: I64,
    long_product: F32,
    long_placed: F32,
    long_scale: F32,
    long_feature: I64,
    long_cells: F64,
    long_x: F32,
    long_cell: I32,
    long_score: F64,
) -> float:
    """Score one row by the memory that it is less strange to; leaves in strangeness what it is to each, then the least.

    Python pays for each argument, and far more for named groups than for flat ones: they are grouped here.
    """
    strangeness[0] = score_point(
        row,
        relative,
        short_frame,
        Partitions(short_metric, short_shape, short_product, short_placed, short_scale, short_feature),
        short_cells,
        short_x,
        Found(short_cell, short_score),
    )
    strangeness[1] = score_point(
        row,
        relative,
        long_frame,
        Partitions(long_metric, long_shape, long_product, long_placed, long_scale, long_feature),
        long_cells,
        long_x,
        Found(long_cell, long_score),
    )
    strangeness[2] = min(strangeness[0], strangeness[1])
    return to_score(strangeness[2], repeats(row, last), counters[SEEN], relative, levels)


@short_kernel
def learn_event(
    row: F64,
    levels: F64,
    last: F64,
    strangeness: F64,
    short_fade: float,
    short_share: float,
    short_counters: I64,
    short_rng: U64,
    short_rows: F64,
    short_suspicion: F64,
    short_arrived: I64,
    short_metric: F64,
    short_cells: F64,
    short_cell: I32,
    long_fade: float,
    long_share: float,
    long_counters: I64,
    long_rng: U64,
    long_rows: F64,
    long_suspicion: F64,
    long_arrived: I64,
    long_metric: F64,
    long_cells: F64,
    long_cell: I32,
) -> bool:
    """Learn the row that was scored last; returns whether a refresh is due."""
    if math.isnan(strangeness[0]):
        return False
    follow(strangeness[2], repeats(row, last), short_counters[SEEN], levels)
    remember(row, last)
    learn_point(
        row,
        strangeness[0],
        short_fade,
        short_share,
        short_counters,
        short_rng,
        Sample(short_rows, short_suspicion, short_arrived),
        short_metric,
        short_cells,
        short_cell,
    )
    return learn_point(
        row,
        strangeness[1],
        long_fade,
        long_share,
        long_counters,
        long_rng,
        Sample(long_rows, long_suspicion, long_arrived),
        long_metric,
        long_cells,
        long_cell,
    )
