"""How a memory renews itself: when, from which points of the sample, in which frame, with which anchors."""

from __future__ import annotations

import math

from svead_stream.kernels.model import (
    CONSTANT_RATE,
    FIRST_BUILD,
    IQR,
    LOG,
    MIXED,
    NO_UNIT,
    NONE,
    POINTS_PER_ANCHOR,
    RANGE,
    SEEN,
    SMALLEST_SCALE,
    STD,
    STORED,
    SURPRISING,
    SURVEYED,
    TRIM,
    TRIMMED,
    WAIT,
    YOUNG,
    Plan,
    State,
    choose,
    draw,
)
from svead_stream.kernels.search import (
    ANCHORS,
    BLOCK,
    COUNT,
    F32,
    F64,
    INVERSE_UNIT,
    SATURATED,
    SUM,
    TOTAL,
    WARPED,
    add_to_cell,
    locate_block,
    place,
    score_in_cell,
    to_frame,
    to_warped,
    transpose,
    warp,
)
from svead_stream.kernels.simd import LANES, exchange, kernel


@kernel
def until_refresh(n: int) -> int:
    """How many events from the n-th on until something is refreshed: as a young stream doubles, then regularly."""
    if n >= YOUNG:
        return BLOCK - n % BLOCK
    at = FIRST_BUILD
    while at <= n:
        at *= 2
    return at - n


@kernel
def survey(state: State, plan: Plan) -> None:
    """Look at the kept sample: where each feature lies and how it spreads; then move to the new frame."""
    kept, n, d = state.order, list_kept(state, plan), state.centre.shape[0]
    values, counts = state.values, state.source
    for first in range(0, d, LANES):  # as many columns at once as a line of the cache holds
        together = min(LANES, d - first)
        counts[:LANES] = 0
        for i in range(n):
            for g in range(together):
                v = state.rows[kept[i], first + g]
                counts[g] += v == v
                values[i, g] = v if v == v else math.inf
        sort_columns(values, n)
        for g in range(together):
            survey_feature(first + g, values[:, g], counts[g], state)
    move_frame(state)


@kernel
def survey_feature(f: int, values: F64, n: int, state: State) -> None:
    """Centre, spreads and rates of one feature from its sorted values; rates of 0 where there are none."""
    state.rate[f] = 0.0
    state.warp_rate[f] = 0.0
    if n == 0:
        return
    state.centre[f] = quantile(values, n, 0.5)
    reach, between, apart = values[n - 1] - values[0], 0.0, 0.0
    if reach > SMALLEST_SCALE:
        between = quantile(values, n, 0.75) - quantile(values, n, 0.25)
        apart = deviation(values, n)
        if 0.0 < state.spread[RANGE, f] <= SMALLEST_SCALE:  # the first time that it varies
            for k in range(state.weight.shape[0]):
                if state.weight[k, f] > 0:
                    state.weight[k, f] = 1.0 if state.metric[k, WARPED] > 0 else 1.0 / reach
    elif state.spread[RANGE, f] > SMALLEST_SCALE:  # constant now, but it was not always
        reach = apart = state.spread[RANGE, f]
    else:
        state.rate[f] = state.warp_rate[f] = CONSTANT_RATE
        state.spread[:, f] = float(SATURATED) / CONSTANT_RATE
        state.spread[IQR, f] = 0.0
        state.spread[LOG, f] = warp(float(SATURATED))
        return
    state.spread[NONE, f] = 1.0
    state.spread[STD, f] = apart
    state.spread[IQR, f] = between if between > SMALLEST_SCALE else 0.0
    state.spread[RANGE, f] = reach
    state.spread[LOG, f] = 1.0  # warped units are comparable as they are
    state.rate[f] = 1.0 / apart
    state.warp_rate[f] = 1.0 / (between if between > SMALLEST_SCALE else reach)


@kernel
def sort_columns(values: F64, n: int) -> None:
    """Sort the first n of every column: Batcher's merge exchange, the same steps whatever the values are."""
    top = 1
    while 2 * top < n:
        top *= 2
    p = top
    while p > 0:
        q, r, apart = top, 0, p
        while True:
            room = n - apart - r
            for c in range(room // (2 * p) * p + min(room % (2 * p), p)):
                i = r + c + (c & -p)  # p in a row, p left out, and so on
                exchange(values, i * LANES, (i + apart) * LANES)
            if q == p:
                break
            apart = q - p
            q //= 2
            r = p
        p //= 2


@kernel
def quantile(values: F64, n: int, q: float) -> float:
    """The quantile of n sorted values, interpolated."""
    k = int(q * (n - 1))
    if k == n - 1:
        return values[k]
    return values[k] + (q * (n - 1) - k) * (values[k + 1] - values[k])


@kernel
def deviation(values: F64, n: int) -> float:
    """Standard deviation of n sorted values, in units of their range so that nothing overflows.

    One pass will do: the mean is never further from the middle value than the deviation.
    """
    reach, middle = values[n - 1] - values[0], values[(n - 1) // 2]
    rate, total, square = 1.0 / reach, 0.0, 0.0
    for i in range(n):
        z = (values[i] - middle) * rate
        total += z
        square += z * z
    return reach * math.sqrt(square / n - (total / n) ** 2)


@kernel
def is_old(i: int, state: State, plan: Plan) -> bool:
    return state.arrived[i] <= state.counters[SEEN] - plan.normal_after


@kernel
def is_settled(i: int, state: State, plan: Plan) -> bool:
    """Whether a point of the sample may count as normal: it did not surprise, or it came long enough ago."""
    return state.suspicion[i] <= state.cutoff[WAIT] or is_old(i, state, plan)


@kernel
def list_kept(state: State, plan: Plan) -> int:
    """Put the points of the sample that are not left out into the order, and return how many they are."""
    n = 0
    for i in range(state.counters[STORED]):
        if state.suspicion[i] <= state.cutoff[TRIM] and is_settled(i, state, plan):
            state.order[n] = i
            n += 1
    return n


@kernel
def take_cutoffs(state: State, plan: Plan) -> None:
    """The suspicion above which points of the sample are trimmed, and above which they wait until they are settled.

    Where most score alike, as points of few distinct values do, the others are not strange but rare: none is trimmed.
    A young model cannot tell what is new: nothing waits.
    """
    values, n = state.far, state.counters[STORED]
    for i in range(n):
        values[i] = state.suspicion[i]
    usual = select_quantile(values, n, 0.5)
    trim = select_quantile(values, n, 1.0 - TRIMMED)
    largest = 0.0
    for i in range(n):
        largest = max(largest, values[i])
    state.cutoff[TRIM] = trim if trim > usual else largest
    old = 0
    for i in range(n):
        if is_old(i, state, plan):
            values[old] = state.suspicion[i]
            old += 1
    young = state.counters[SEEN] < 2 * plan.normal_after or old == 0
    state.cutoff[WAIT] = largest if young else select_quantile(values, old, SURPRISING)


@kernel
def select_quantile(values: F64, n: int, q: float) -> float:
    """The quantile of n values in any order, which are moved around."""
    k = int(q * (n - 1))
    divide(values, n, k)
    for i in range(k + 2, n):
        if values[i] < values[k + 1]:
            values[i], values[k + 1] = values[k + 1], values[i]
    return quantile(values, n, q)


@kernel
def divide(values: F64, n: int, k: int) -> None:
    """Hoare's selection: move values around so that none before the k-th is larger and none after it is smaller."""
    low, high = 0, n - 1
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


@kernel
def move_frame(state: State) -> None:
    """Derive everything that depends on the frame."""
    place_sample(state, -1)
    for k in range(state.metric.shape[0]):
        place_partition(k, state)


@kernel
def place_sample(state: State, since: int) -> None:
    """Coordinates of the points of the sample that arrived after as many events as given."""
    for i in range(state.counters[STORED]):
        if state.arrived[i] > since:
            block, b = i // BLOCK, i % BLOCK
            _, state.sample_gaps[block, b] = to_coordinates(
                state.rows[i], state, state.sample[block, b], state.sample_t[block], b
            )


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
        state.feature,
        state.halves,
    )


@kernel
def weigh(k: int, state: State, scaling: int) -> None:
    """Give partition k a random half or more of the features, each scaled by its spread or warped."""
    if scaling == MIXED:
        scaling = k % MIXED
    state.metric[k, WARPED] = scaling == LOG
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
    """Draw new anchors for partition k from the kept points, and pass all settled ones through their cells."""
    stored, d = state.counters[STORED], state.centre.shape[0]
    kept, n = state.order, list_kept(state, plan)
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
    found, apart = state.cell_of, state.far
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
            state.feature,
            state.metric,
            found[first:],
            apart[first:],
        )
    total = 0.0
    for i in range(stored):
        if not is_settled(i, state, plan):
            found[i] = -1
        if found[i] >= 0:
            add_to_cell(state.cells[k, found[i]], apart[i])
            total += 1.0
    summed = 0.0  # over all points, cell by cell: their distances add up to the cell's sum
    for j in range(m):
        count, distances = state.cells[k, j, COUNT], state.cells[k, j, SUM]
        summed += score_in_cell(distances, count, distances * count, total)
    state.metric[k, TOTAL] = total
    state.metric[k, INVERSE_UNIT] = total / summed if summed > 0.0 else 1.0 / NO_UNIT


@kernel
def refresh(state: State, plan: Plan) -> None:
    """Refresh what is due after the last event: all partitions of a young model, else the next ones in turn."""
    n, t = state.counters[SEEN], state.metric.shape[0]
    first, last = (n - BLOCK) * t // plan.refresh, n * t // plan.refresh
    every = max(plan.refresh, SURVEYED)
    surveyed = (n - BLOCK) // every < n // every
    if n <= YOUNG:
        first, last = 0, t
        surveyed = True
    if first < last:
        take_cutoffs(state, plan)
    if surveyed:
        survey(state, plan)
    else:
        place_sample(state, n - BLOCK)
    for i in range(max(first, last - t), last):
        build(i % t, state, plan)
