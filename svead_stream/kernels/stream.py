"""How a memory scores and learns: one event, or a mini-batch.

The order of things for each event that is learned, the n-th: it is scored against the cells as they are; its
distances are added to them; it is offered to the sample; then what is due at n is refreshed. A
mini-batch runs partition by partition over the events up to the next refresh, which changes nothing in the numbers:
partitions do not look at each other between refreshes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from svead_stream.kernels.lasting import follow, remember, repeats, to_score
from svead_stream.kernels.model import (
    LARGEST_FACTOR,
    LOGS_TOGETHER,
    MISSING,
    MIXED,
    SEEN,
    STORED,
    Plan,
    State,
    draw,
)
from svead_stream.kernels.refresh import (
    refresh,
    to_coordinates,
    until_refresh,
)
from svead_stream.kernels.search import (
    BLOCK,
    COUNT,
    F32,
    F64,
    I32,
    I64,
    INVERSE_UNIT,
    LENGTH,
    SUM,
    TOTAL,
    U64,
    USED,
    WARPED,
    distance,
    is_number,
    learn_in_cell,
    locate_block,
    nearest,
    nearest_with_gaps,
    score_in_cell,
    to_frame,
    to_warped,
)
from svead_stream.kernels.simd import kernel


@kernel
def combined(summed: float, factor: float, scored: int) -> float:
    """How strange an event is to all partitions: the mean of s, or with factors of 1 + s / unit the mean logarithm."""
    return (summed + math.log(factor)) / scored if scored > 0 else 0.0


@kernel
def score_point(
    row: F64,
    relative: bool,
    centre: F64,
    rate: F64,
    warp_rate: F64,
    metric: F64,
    cells: F64,
    product: F32,
    bias: F32,
    placed: F32,
    scale: F32,
    feature: I64,
    x: F32,
    found: I32,
    apart: F64,
) -> float:
    """How strange one row is to a memory, NaN if it is empty.

    Leaves its frame coordinates in x, its cells in found (-1: none) and its distances in apart.
    """
    d, dp = centre.shape[0], placed.shape[2]
    present, gaps = to_frame(row, centre, rate, x)
    if present == 0:
        return np.nan
    to_warped(row, centre, warp_rate, x[dp:])
    summed, factor, scored = 0.0, 1.0, 0
    for k in range(metric.shape[0]):
        start = dp if metric[k, WARPED] > 0 else 0
        if gaps == 0:
            j = nearest(k, x, start, int(metric[k, USED]), feature, product, bias)
            far = metric[k, LENGTH] * distance(k, j, x, start, placed, scale)
        else:
            j, far = nearest_with_gaps(k, x[start : start + d], placed, scale, metric)
        found[k] = j
        apart[k] = far
        if j >= 0:
            scored += 1
            s = score_in_cell(far, cells[k, j, COUNT], cells[k, j, SUM], metric[k, TOTAL])
            if relative:
                factor *= min(1.0 + s * metric[k, INVERSE_UNIT], LARGEST_FACTOR)
            else:
                summed += s
        if k % LOGS_TOGETHER == LOGS_TOGETHER - 1:
            summed += math.log(factor)
            factor = 1.0
    return combined(summed, factor, scored)


@kernel
def score_event(
    row: F64,
    short: tuple[Any, ...],
    long: tuple[Any, ...],
    counters: I64,
    relative: bool,
    levels: F64,
    last: F64,
    strangeness: F64,
) -> float:
    """Score one row by the memory that it is less strange to; leaves in strangeness what it is to each of both."""
    strangeness[0] = score_point(row, relative, *short)
    strangeness[1] = score_point(row, relative, *long)
    return to_score(min(strangeness[0], strangeness[1]), repeats(row, last), counters[SEEN], relative, levels)


@kernel
def learn_event(
    row: F64, short: tuple[Any, ...], long: tuple[Any, ...], counters: I64, levels: F64, last: F64, strangeness: F64
) -> bool:
    """Learn the row that was scored last; returns whether a refresh is due."""
    if math.isnan(strangeness[0]):
        return False
    follow(min(strangeness[0], strangeness[1]), repeats(row, last), counters[SEEN], levels)
    remember(row, last)
    learn_point(row, strangeness[0], *short)
    return learn_point(row, strangeness[1], *long)


@kernel
def share_out(
    relative: bool, metric: F64, cells: F64, placed: F32, scale: F32, x: F32, found: I32, apart: F64, shares: F64
) -> None:
    """Add to the shares what each feature contributed to the score of the row that was scored last."""
    dp = placed.shape[2]
    for k in range(metric.shape[0]):
        j, start = found[k], dp if metric[k, WARPED] > 0 else 0
        if j < 0 or apart[k] == 0.0:
            continue
        worth = score_in_cell(apart[k], cells[k, j, COUNT], cells[k, j, SUM], metric[k, TOTAL])
        if relative:
            worth = math.log1p(worth * metric[k, INVERSE_UNIT])
        whole = 0.0
        for f in range(shares.shape[0]):
            whole += squared_gap(k, j, f, x, start, placed, scale)
        for f in range(shares.shape[0]):
            shares[f] += worth * squared_gap(k, j, f, x, start, placed, scale) / whole


@kernel
def squared_gap(k: int, j: int, f: int, x: F32, start: int, placed: F32, scale: F32) -> float:
    """What feature f adds to the squared distance; nothing where it is missing."""
    gap = np.float64(x[start + f]) - np.float64(placed[k, j, f])
    return gap * gap * np.float64(scale[k, f]) if gap == gap else 0.0


@kernel
def offer(
    row: F64,
    strangeness: float,
    fade: float,
    counters: I64,
    rng: U64,
    rows: F64,
    suspicion: F64,
    arrived: I64,
) -> None:
    """Count an event and let it into the sample with the probability that keeps the sample uniform, or fading."""
    window, d = rows.shape
    counters[SEEN] += 1
    slot = counters[STORED]
    if slot < window:
        counters[STORED] += 1
    else:
        if draw(rng) >= max(window / counters[SEEN], fade):
            return
        slot = int(draw(rng) * window)
    suspicion[slot] = strangeness
    arrived[slot] = counters[SEEN]
    for f in range(d):
        rows[slot, f] = row[f] if is_number(row[f]) else np.nan


@kernel
def learn_point(
    row: F64,
    strangeness: float,
    fade: float,
    share: float,
    counters: I64,
    rng: U64,
    rows: F64,
    suspicion: F64,
    arrived: I64,
    metric: F64,
    cells: F64,
    found: I32,
) -> bool:
    """Learn the row that was scored last; returns whether a refresh is due."""
    for f in range(rows.shape[1]):
        counters[MISSING] += not is_number(row[f])
    for k in range(cells.shape[0]):
        if found[k] >= 0:
            learn_in_cell(metric[k], cells[k, found[k]], share)
    offer(row, strangeness, fade, counters, rng, rows, suspicion, arrived)
    return until_refresh(counters[SEEN] - 1) == 1


@kernel
def stream(X: F64, state: State, plan: Plan, learn: bool, out: F64) -> None:
    """How strange the rows of X are to a memory, in order, NaN for empty ones; each is then learned if asked."""
    t, d = state.metric.shape[0], state.centre.shape[0]
    x, xt, gaps, source = state.block, state.block_t, state.block_gaps, state.source
    found, apart = state.cell_of, state.far
    summed, factor, scored = state.summed, state.factor, state.scored
    relative = plan.scaling == MIXED
    at = 0
    while at < X.shape[0]:
        wanted = BLOCK
        if learn:
            wanted = min(BLOCK, until_refresh(state.counters[SEEN]))
        n = 0
        while n < wanted and at < X.shape[0]:
            out[at] = np.nan
            present, gaps[n] = to_coordinates(X[at], state, x[n], xt, n)
            source[n] = at
            at += 1
            if present > 0:
                n += 1
                if learn:
                    state.counters[MISSING] += d - present
        summed[:] = 0.0
        factor[:] = 1.0
        scored[:] = 0
        for k in range(t):
            locate_block(
                k,
                n,
                x,
                xt,
                gaps,
                state.product,
                state.bias,
                state.placed,
                state.scale,
                state.feature,
                state.metric,
                found,
                apart,
            )
            metric = state.metric[k]
            inverse = metric[INVERSE_UNIT]
            for b in range(n):
                if found[b] >= 0:
                    cell = state.cells[k, found[b]]
                    s = score_in_cell(apart[b], cell[COUNT], cell[SUM], metric[TOTAL])
                    scored[b] += 1
                    if relative:
                        factor[b] *= min(1.0 + s * inverse, LARGEST_FACTOR)
                    else:
                        summed[b] += s
                    if learn:
                        learn_in_cell(metric, cell, plan.share)
            if k % LOGS_TOGETHER == LOGS_TOGETHER - 1:
                for b in range(n):
                    summed[b] += math.log(factor[b])
                    factor[b] = 1.0
        for b in range(n):
            out[source[b]] = combined(summed[b], factor[b], scored[b])
            if learn:
                offer(
                    X[source[b]],
                    out[source[b]],
                    plan.fade,
                    state.counters,
                    state.rng,
                    state.rows,
                    state.suspicion,
                    state.arrived,
                )
        if learn and n == wanted and until_refresh(state.counters[SEEN] - 1) == 1:
            refresh(state, plan)
