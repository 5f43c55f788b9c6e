"""How a streaming model scores and learns: one event, a mini-batch, and the refresh of sample, frame and partitions.

The order of things for each event that is learned, the n-th: it is scored against the cells as they are; its
distances are added to them, where it looks usual; it is offered to the sample; then what is due at n is refreshed. A
mini-batch runs partition by partition over the events up to the next refresh, which changes nothing in the numbers:
partitions do not look at each other between refreshes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from svead_stream.kernels.search import (
    ANCHORS,
    BLOCK,
    COUNT,
    F32,
    F64,
    I32,
    I64,
    INVERSE_UNIT,
    LENGTH,
    MAX,
    SUM,
    U64,
    WARPED,
    is_number,
    learn_in_cell,
    locate_block,
    nearest,
    nearest_with_gaps,
    place,
    score_in_cell,
    squared_distance,
    to_frame,
    to_warped,
    transpose,
)
from svead_stream.kernels.simd import kernel

FIRST_BUILD = 8  # events learned when the first partitions are built
POINTS_PER_ANCHOR = 4  # at least, in the sample; a young model has fewer anchors
SMALLEST_SCALE = 1e-150  # a feature that spreads less is constant
TRIMMED = 0.1  # share of the sample, the most suspicious, that is left out of anchors, scales and cells
MOST_USUAL = 7.0  # a partition does not add an event that would score more than so many times the usual there
LOGS_TOGETHER = 8  # factors multiplied before a logarithm is taken
LARGEST_FACTOR = 1e30  # so many of them stay finite

# positions in the counters
SEEN, STORED, BUILT, MISSING = 0, 1, 2, 3
LIMIT = 3  # in a cell, after COUNT, SUM and MAX
# scalings, the first four with a row of spreads; MIXED takes all in turn
NONE, STD, IQR, RANGE, LOG, MIXED = 0, 1, 2, 3, 4, 5


class Plan(NamedTuple):
    """The parameters that kernels need."""

    refresh: int
    scaling: int
    fade: float  # least probability of an event to enter the sample


class State(NamedTuple):
    """The arrays of a model. The second group follows from the first; only the first is saved."""

    counters: I64  # SEEN, STORED, BUILT, MISSING
    rng: U64  # (1,)
    cutoff: F64  # (1,) suspicion above which a point of the sample is left out
    centre: F64  # (d,) of the frame
    rate: F64  # (d,) frame units per unit; 0 where nothing is known of the feature
    warp_rate: F64  # (d,) the same for warped units
    spread: F64  # (4, d) none, std, iqr, range; 0 where nothing is known
    rows: F64  # (window, d) the sample, NaN where missing
    suspicion: F64  # (window,)
    anchors: F64  # (t, m, d)
    weight: F64  # (t, d) 0 where a partition does not use the feature
    metric: F64  # (t, 5) LENGTH, INVERSE_UNIT, USED, ANCHORS, WARPED
    cells: F64  # (t, m, 4) COUNT, SUM, MAX, and LIMIT, the largest distance that is added

    sample: F32  # (blocks, BLOCK, 2 * dp) the sample in frame units, then warped
    sample_t: F32  # (blocks, 2 * d, BLOCK)
    sample_gaps: I64  # (blocks, BLOCK) missing values of each
    product: F32  # (t, d, mp) weighted anchors, for the search
    bias: F32  # (t, mp)
    placed: F32  # (t, m, dp) anchors, for the distance
    scale: F32  # (t, dp)

    values: F64  # (window,) scratch from here on: kernels do not allocate
    order: I64  # (max(window, d),)
    cell_of: I32  # (blocks * BLOCK,)
    far: F64  # (blocks * BLOCK,)
    ratio: F64  # (m,)
    block: F32  # (BLOCK, 2 * dp) events in frame units, then warped
    block_t: F32  # (2 * d, BLOCK)
    block_gaps: I64  # (BLOCK,)
    source: I64  # (BLOCK,) their rows
    summed: F64  # (BLOCK,)
    factor: F64  # (BLOCK,)
    scored: I64  # (BLOCK,) partitions


@kernel
def draw(rng: U64) -> float:
    """A number in [0, 1): splitmix64."""
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53


@kernel
def choose(rng: U64, items: I64, n: int, wanted: int) -> None:
    """Move a uniform choice without replacement to the front of the first n items."""
    for i in range(wanted):
        j = i + int(draw(rng) * (n - i))
        items[i], items[j] = items[j], items[i]


@kernel
def combined(summed: float, factor: float, scored: int, relative: bool) -> float:
    """The score over all partitions: their mean, or 1 - 1 / (geometric mean of 1 + s / unit), from 0 to 1."""
    if scored == 0:
        return 0.0
    if relative:
        return 1.0 - math.exp(-(summed + math.log(factor)) / scored)
    return summed / scored


@kernel
def score_point(
    row: F64,
    centre: F64,
    rate: F64,
    warp_rate: F64,
    metric: F64,
    cells: F64,
    product: F32,
    bias: F32,
    placed: F32,
    scale: F32,
    relative: bool,
    x: F32,
    found: I32,
    apart: F64,
) -> float:
    """Score one row; leaves its frame coordinates in x, its cells in found (-1: none) and its distances in apart."""
    d, dp = centre.shape[0], placed.shape[2]
    present, gaps = to_frame(row, centre, rate, x)
    if present == 0:
        return 0.0
    to_warped(row, centre, warp_rate, x[dp:])
    summed, factor, scored = 0.0, 1.0, 0
    for k in range(metric.shape[0]):
        start = dp if metric[k, WARPED] > 0 else 0
        if gaps == 0:
            j = nearest(k, x, start, product, bias)
            far = metric[k, LENGTH] * math.sqrt(squared_distance(k, j, x, start, placed, scale))
        else:
            j, far = nearest_with_gaps(k, x[start : start + d], placed, scale, metric)
        found[k] = j
        apart[k] = far
        if j >= 0:
            scored += 1
            s = score_in_cell(cells[k, j], far)
            if relative:
                factor *= min(1.0 + s * metric[k, INVERSE_UNIT], LARGEST_FACTOR)
            else:
                summed += s
        if k % LOGS_TOGETHER == LOGS_TOGETHER - 1:
            summed += math.log(factor)
            factor = 1.0
    return combined(summed, factor, scored, relative)


@kernel
def offer(
    row: F64,
    x: F32,
    gaps: int,
    score: float,
    fade: float,
    counters: I64,
    rng: U64,
    rows: F64,
    suspicion: F64,
    sample: F32,
    sample_t: F32,
    sample_gaps: I64,
) -> None:
    """Count an event and let it into the sample with the probability that keeps the sample uniform, or fading."""
    window, d = rows.shape
    dp = x.shape[0] // 2
    counters[SEEN] += 1
    slot = counters[STORED]
    if slot < window:
        counters[STORED] += 1
    else:
        if draw(rng) >= max(window / counters[SEEN], fade):
            return
        slot = int(draw(rng) * window)
    suspicion[slot] = score
    block, b = slot // BLOCK, slot % BLOCK
    sample_gaps[block, b] = gaps
    for f in range(d):
        rows[slot, f] = row[f] if is_number(row[f]) else np.nan
    for f in range(x.shape[0]):
        sample[block, b, f] = x[f]
    transpose(x, 0, sample_t[block], 0, b, d)
    transpose(x, dp, sample_t[block], d, b, d)


@kernel
def learn_point(
    row: F64,
    score: float,
    fade: float,
    counters: I64,
    rng: U64,
    rows: F64,
    suspicion: F64,
    cells: F64,
    sample: F32,
    sample_t: F32,
    sample_gaps: I64,
    x: F32,
    found: I32,
    apart: F64,
) -> bool:
    """Learn the row that was scored last; answers whether a refresh is due."""
    d = rows.shape[1]
    missing, gaps = 0, 0
    for f in range(d):
        if not is_number(row[f]):
            missing += 1
        if x[f] != x[f]:
            gaps += 1
    if missing == d:
        return False
    counters[MISSING] += missing
    for k in range(cells.shape[0]):
        if found[k] >= 0 and apart[k] <= cells[k, found[k], LIMIT]:
            learn_in_cell(cells[k, found[k]], apart[k])
    offer(row, x, gaps, score, fade, counters, rng, rows, suspicion, sample, sample_t, sample_gaps)
    return until_refresh(counters[SEEN] - 1, rows.shape[0]) == 1


@kernel
def until_refresh(n: int, window: int) -> int:
    """How many events from the n-th on until something is refreshed: as a young sample doubles, then regularly."""
    if n >= window:
        return BLOCK - n % BLOCK
    at = FIRST_BUILD
    while at <= n:
        at *= 2
    return min(at, window) - n


@kernel
def survey(state: State) -> None:
    """Look at the kept sample: where each feature lies and how it spreads; then move to the new frame."""
    values, kept = state.values, state.order
    n_kept = list_kept(state)
    for f in range(state.centre.shape[0]):
        n = 0
        low, high = np.inf, -np.inf
        for i in kept[:n_kept]:
            v = state.rows[i, f]
            if v == v:
                values[n] = v
                n += 1
                low, high = min(low, v), max(high, v)
        state.rate[f] = 0.0
        state.warp_rate[f] = 0.0
        state.spread[:, f] = 0.0
        if n > 0:
            middle = (n - 1) // 2
            state.centre[f] = quantile(values, n, 0.5, 0, n - 1)
            between = quantile(values, n, 0.75, middle, n - 1) - quantile(values, n, 0.25, 0, middle)
            state.spread[:, f] = 1.0
            if high - low > SMALLEST_SCALE:
                state.spread[STD, f] = deviation(values, n, low, high - low)
                state.spread[RANGE, f] = high - low
            state.spread[IQR, f] = between if between > SMALLEST_SCALE else 0.0
            state.rate[f] = 1.0 / state.spread[STD, f]
            state.warp_rate[f] = 1.0 / (between if between > SMALLEST_SCALE else state.spread[RANGE, f])
    move_frame(state)


@kernel
def list_kept(state: State) -> int:
    """Put the points of the sample that are not left out into the order, and answer how many they are."""
    n = 0
    for i in range(state.counters[STORED]):
        if state.suspicion[i] <= state.cutoff[0]:
            state.order[n] = i
            n += 1
    return n


@kernel
def take_cutoff(state: State) -> None:
    """The suspicion above which points of the sample are left out."""
    stored = state.counters[STORED]
    for i in range(stored):
        state.values[i] = state.suspicion[i]
    state.cutoff[0] = quantile(state.values, stored, 1.0 - TRIMMED, 0, stored - 1)


@kernel
def quantile(values: F64, n: int, q: float, low: int, high: int) -> float:
    """The quantile of the first n values, interpolated, whose rank is known to lie between low and high.

    Hoare's selection: moves values around so that none before its rank is larger and none after it is smaller.
    """
    k = int(q * (n - 1))
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    if k == n - 1:
        return values[k]
    following = values[k + 1]
    for i in range(k + 2, n):
        following = min(following, values[i])
    return values[k] + (q * (n - 1) - k) * (following - values[k])


@kernel
def deviation(values: F64, n: int, low: float, reach: float) -> float:
    """Standard deviation of the first n values, in units of their range so that nothing overflows."""
    rate, mean, square = 1.0 / reach, 0.0, 0.0
    for i in range(n):
        mean += (values[i] - low) * rate
    mean /= n
    for i in range(n):
        square += ((values[i] - low) * rate - mean) ** 2
    return reach * math.sqrt(square / n)


@kernel
def move_frame(state: State) -> None:
    """Derive everything that depends on the frame."""
    for i in range(state.counters[STORED]):
        block, b = i // BLOCK, i % BLOCK
        _, state.sample_gaps[block, b] = to_coordinates(
            state.rows[i], state, state.sample[block, b], state.sample_t[block], b
        )
    for k in range(state.metric.shape[0]):
        place_partition(k, state)


@kernel
def to_coordinates(row: F64, state: State, x: F32, xt: F32, b: int) -> tuple[int, int]:
    """A row's frame units and warped units, into its row of a block and its column b of the transposed block."""
    d, dp = state.centre.shape[0], state.placed.shape[2]
    present, gaps = to_frame(row, state.centre, state.rate, x)
    to_warped(row, state.centre, state.warp_rate, x[dp:])
    transpose(x, 0, xt, 0, b, d)
    transpose(x, dp, xt, d, b, d)
    return present, gaps


@kernel
def place_partition(k: int, state: State) -> None:
    place(
        k,
        state.anchors,
        state.weight,
        state.centre,
        state.rate,
        state.warp_rate,
        state.metric,
        state.product,
        state.bias,
        state.placed,
        state.scale,
    )


@kernel
def weigh(k: int, state: State, scaling: int) -> None:
    """Give partition k a random half or more of the features, each scaled by its spread or warped."""
    if scaling == MIXED:
        scaling = k % MIXED
    state.metric[k, WARPED] = scaling == LOG
    if scaling == LOG:
        scaling = NONE  # warped units are comparable as they are
    known, n = state.order, 0
    for f in range(state.rate.shape[0]):
        if state.rate[f] > 0:
            known[n] = f
            n += 1
    least = (n + 1) // 2
    taken = least + int(draw(state.rng) * (n - least + 1))
    choose(state.rng, known, n, taken)
    state.weight[k] = 0.0
    used = 0
    for f in known[:taken]:
        if state.spread[scaling, f] > 0:
            state.weight[k, f] = 1.0 / state.spread[scaling, f]
            used += 1
    if used == 0:  # a scaling that sees no spread anywhere, as the IQR of sparse features
        for f in known[:taken]:
            state.weight[k, f] = 1.0 / state.spread[STD, f]


@kernel
def build(k: int, state: State, plan: Plan) -> None:
    """Draw new anchors for partition k from the sample and pass the sample through their cells."""
    stored, d = state.counters[STORED], state.centre.shape[0]
    kept, n = state.order, list_kept(state)
    m = min(state.anchors.shape[1], max(1, n // POINTS_PER_ANCHOR))
    choose(state.rng, kept, n, m)
    state.metric[k, ANCHORS] = m
    for j in range(m):
        for f in range(d):
            v = state.rows[kept[j], f]
            state.anchors[k, j, f] = v if v == v else state.centre[f]
    weigh(k, state, plan.scaling)
    place_partition(k, state)

    state.cells[k] = 0.0
    found, apart, ratio = state.cell_of, state.far, state.ratio
    for block in range((stored + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        locate_block(
            k,
            min(BLOCK, stored - first),
            state.sample[block],
            state.sample_t[block],
            state.sample_gaps[block],
            state.product,
            state.bias,
            state.placed,
            state.scale,
            state.metric,
            found[first:],
            apart[first:],
        )
    for i in range(stored):
        if found[i] >= 0 and state.suspicion[i] <= state.cutoff[0]:
            learn_in_cell(state.cells[k, found[i]], apart[i])
    for j in range(m):
        cell = state.cells[k, j]
        ratio[j] = cell[SUM] / cell[COUNT] / cell[MAX] if cell[MAX] > 0 else 1.0
    unit = 0.0
    for i in range(stored):
        if found[i] >= 0 and state.suspicion[i] <= state.cutoff[0]:
            unit += apart[i] * ratio[found[i]] / n
    if unit == 0.0:
        unit = 1.0
    state.metric[k, INVERSE_UNIT] = 1.0 / unit
    for j in range(m):
        state.cells[k, j, LIMIT] = MOST_USUAL * unit / ratio[j]


@kernel
def refresh(state: State, plan: Plan) -> None:
    """Refresh what is due after the last event: all partitions of a young model, else the next ones in turn."""
    n, t = state.counters[SEEN], state.metric.shape[0]
    first, last = (n - BLOCK) * t // plan.refresh, n * t // plan.refresh
    if n <= state.rows.shape[0]:
        first, last = 0, t
    if first < last:
        take_cutoff(state)
    for i in range(max(first, last - t), last):
        if i % t == 0:
            survey(state)
        build(i % t, state, plan)
    state.counters[BUILT] = 1


@kernel
def stream(X: F64, state: State, plan: Plan, learn: bool, out: F64) -> None:
    """Score the rows of X in order, learning each after it was scored if asked."""
    t, d = state.metric.shape[0], state.centre.shape[0]
    x, xt, gaps, source = state.block, state.block_t, state.block_gaps, state.source
    found, apart = state.cell_of, state.far
    summed, factor, scored = state.summed, state.factor, state.scored
    relative = plan.scaling == MIXED
    at = 0
    while at < X.shape[0]:
        wanted = BLOCK
        if learn:
            wanted = min(BLOCK, until_refresh(state.counters[SEEN], state.rows.shape[0]))
        n = 0
        while n < wanted and at < X.shape[0]:
            out[at] = 0.0
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
                k, n, x, xt, gaps, state.product, state.bias, state.placed, state.scale, state.metric, found, apart
            )
            inverse = state.metric[k, INVERSE_UNIT]
            for b in range(n):
                if found[b] >= 0:
                    cell = state.cells[k, found[b]]
                    s = score_in_cell(cell, apart[b])
                    scored[b] += 1
                    if relative:
                        factor[b] *= min(1.0 + s * inverse, LARGEST_FACTOR)
                    else:
                        summed[b] += s
                    if learn and apart[b] <= cell[LIMIT]:
                        learn_in_cell(cell, apart[b])
            if k % LOGS_TOGETHER == LOGS_TOGETHER - 1:
                for b in range(n):
                    summed[b] += math.log(factor[b])
                    factor[b] = 1.0
        for b in range(n):
            out[source[b]] = combined(summed[b], factor[b], scored[b], relative)
            if learn:
                offer(
                    X[source[b]],
                    x[b],
                    gaps[b],
                    out[source[b]],
                    plan.fade,
                    state.counters,
                    state.rng,
                    state.rows,
                    state.suspicion,
                    state.sample,
                    state.sample_t,
                    state.sample_gaps,
                )
        if learn and n == wanted and until_refresh(state.counters[SEEN] - 1, state.rows.shape[0]) == 1:
            refresh(state, plan)
