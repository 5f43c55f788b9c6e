"""How a memory renews itself: when, from which points of the sample, in which frame, with which anchors."""

from __future__ import annotations

import math

from svead_stream.kernels.compiled import kernel
from svead_stream.kernels.layout import (
    ANCHORS,
    BLOCK,
    CENTRE,
    COUNT,
    F64,
    INVERSE_UNIT,
    IQR,
    LOG,
    MIXED,
    NONE,
    RANGE,
    RATE,
    SEEN,
    STD,
    STORED,
    SUM,
    TOTAL,
    TRIM,
    WAIT,
    WARP_RATE,
    WARPED,
    Plan,
    Points,
    State,
)
from svead_stream.kernels.rng import choose, fixed
from svead_stream.kernels.search import (
    SATURATED,
    add_to_cell,
    locate_block,
    place,
    score_in_cell,
    to_frame,
    to_warped,
    transpose,
    warp,
)
from svead_stream.kernels.simd import LANES, exchange

FIRST_BUILD = 8  # events learned when the first partitions are built
YOUNG = 256  # events up to which all partitions are rebuilt whenever the stream has doubled
POINTS_PER_ANCHOR = 4  # at least, in the sample; a young model has fewer anchors
SMALLEST_SCALE = 1e-150  # a feature that spreads less is constant
CONSTANT_RATE = 1e300  # of a feature that never varied: whatever differs lies at the end of the frame, one spread away
NO_UNIT = 0.25  # the unit of a partition whose points all lie on anchors
TRIMMED = 0.1  # share of the sample, the most suspicious, that is left out of anchors and scales
SURPRISING = 0.5  # share of settled points that an event has to be stranger than, to wait before it is settled itself
SURVEYED = 512  # events at least between two looks at centres and spreads


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
    kept, n, d = state.scratch.order, list_kept(state, plan), state.frame.shape[1]
    values, counts = state.scratch.values, state.scratch.counts
    for first in range(0, d, LANES):  # as many columns at once as a line of the cache holds
        together = min(LANES, d - first)
        counts[:] = 0
        for i in range(n):
            for g in range(together):
                v = state.sample.rows[kept[i], first + g]
                counts[g] += v == v
                values[i, g] = v if v == v else math.inf
        sort_columns(values, n)
        for g in range(together):
            survey_feature(first + g, values[:, g], counts[g], state)
    move_frame(state)


@kernel
def survey_feature(f: int, values: F64, n: int, state: State) -> None:
    """Centre, spreads and rates of one feature from its sorted values; rates of 0 where there are none."""
    state.frame[RATE, f] = 0.0
    state.frame[WARP_RATE, f] = 0.0
    if n == 0:
        return
    state.frame[CENTRE, f] = quantile(values, n, 0.5)
    if state.spread[NONE, f] == 0.0:  # the first time that it is known: older anchors lack it
        state.anchors[:, :, f] = state.frame[CENTRE, f]
    reach, between, apart = values[n - 1] - values[0], 0.0, 0.0
    if reach > SMALLEST_SCALE:
        between = quantile(values, n, 0.75) - quantile(values, n, 0.25)
        apart = deviation(values, n)
        if 0.0 < state.spread[RANGE, f] <= SMALLEST_SCALE:  # the first time that it varies
            for k in range(state.weight.shape[0]):
                if state.weight[k, f] > 0:
                    state.weight[k, f] = 1.0 if state.partitions.shape[k, WARPED] > 0 else 1.0 / reach
    elif state.spread[RANGE, f] > SMALLEST_SCALE:  # constant now, but it was not always
        reach = apart = state.spread[RANGE, f]
    else:
        state.frame[RATE, f] = state.frame[WARP_RATE, f] = CONSTANT_RATE
        state.spread[:, f] = float(SATURATED) / CONSTANT_RATE
        state.spread[IQR, f] = 0.0
        state.spread[LOG, f] = warp(float(SATURATED))
        return
    state.spread[NONE, f] = 1.0
    state.spread[STD, f] = apart
    state.spread[IQR, f] = between if between > SMALLEST_SCALE else 0.0
    state.spread[RANGE, f] = reach
    state.spread[LOG, f] = 1.0  # warped units are comparable as they are
    state.frame[RATE, f] = 1.0 / apart
    state.frame[WARP_RATE, f] = 1.0 / (between if between > SMALLEST_SCALE else reach)


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
    return state.sample.arrived[i] <= state.counters[SEEN] - plan.normal_after


@kernel
def is_settled(i: int, state: State, plan: Plan) -> bool:
    """Whether a point of the sample may count as normal: it did not surprise, or it came long enough ago."""
    return state.sample.suspicion[i] <= state.cutoff[WAIT] or is_old(i, state, plan)


@kernel
def list_kept(state: State, plan: Plan) -> int:
    """Put the points of the sample that are not left out into the order, and return how many they are."""
    n = 0
    for i in range(state.counters[STORED]):
        if state.sample.suspicion[i] <= state.cutoff[TRIM] and is_settled(i, state, plan):
            state.scratch.order[n] = i
            n += 1
    return n


@kernel
def take_cutoffs(state: State, plan: Plan) -> None:
    """The suspicion above which points of the sample are trimmed, and above which they wait until they are settled.

    Where most score alike, as points of few distinct values do, the others are not strange but rare: none is trimmed.
    A young model cannot tell what is new: nothing waits.
    """
    values, n = state.scratch.far, state.counters[STORED]
    for i in range(n):
        values[i] = state.sample.suspicion[i]
    usual = select_quantile(values, n, 0.5)
    trim = select_quantile(values, n, 1.0 - TRIMMED)
    largest = 0.0
    for i in range(n):
        largest = max(largest, values[i])
    state.cutoff[TRIM] = trim if trim > usual else largest
    old = 0
    for i in range(n):
        if is_old(i, state, plan):
            values[old] = state.sample.suspicion[i]
            old += 1
    young = state.counters[SEEN] < 2 * plan.normal_after or old == 0
    state.cutoff[WAIT] = largest if young else select_quantile(values, old, SURPRISING)


@kernel
def select_quantile(values: F64, n: int, q: float) -> float:
    """The quantile of n values in any order, which are moved around."""
    k = int(q * (n - 1))
    quickselect(values, n, k)
    for i in range(k + 2, n):
        if values[i] < values[k + 1]:
            values[i], values[k + 1] = values[k + 1], values[i]
    return quantile(values, n, q)


@kernel
def quickselect(values: F64, n: int, k: int) -> None:
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
    for k in range(state.partitions.metric.shape[0]):
        place_partition(k, state)


@kernel
def place_sample(state: State, since: int) -> None:
    """Coordinates of the points of the sample that arrived after as many events as given."""
    for i in range(state.counters[STORED]):
        if state.sample.arrived[i] > since:
            block, b = i // BLOCK, i % BLOCK
            to_coordinates(state.sample.rows[i], state, points_of(state, block), b)


@kernel
def points_of(state: State, block: int) -> Points:
    """One block of the sample."""
    points = state.points
    return Points(points.x[block], points.xt[block], points.gaps[block])


@kernel
def to_coordinates(row: F64, state: State, points: Points, b: int) -> int:
    """Make a row point b of a block; returns how many of its values are numbers."""
    d, dp, x = state.frame.shape[1], state.partitions.placed.shape[2], points.x[b]
    present, points.gaps[b] = to_frame(row, state.frame, x)
    to_warped(row, state.frame, x[dp:])
    transpose(x, 0, points.xt, 0, b, d)
    transpose(x, dp, points.xt, d, b, d)
    return present


@kernel
def place_partition(k: int, state: State) -> None:
    place(k, state.anchors, state.weight, state.frame, state.partitions, state.scratch.halves)


@kernel
def drawn(k: int, i: int, state: State) -> float:
    """The i-th random number that partition k has for life.

    Those of all partitions are a Latin hypercube: an unlucky draw would last as long as the model, and leave a feature
    to a few partitions.
    """
    own, rank, t = fixed(state.kind, k, i), 0, state.weight.shape[0]
    for other in range(t):
        rank += fixed(state.kind, other, i) < own
    return (rank + own) / t


@kernel
def list_own(k: int, state: State) -> int:
    """Put the features of partition k, a random half or more of those known, into the order; returns how many.

    They are those with the lowest of its random numbers for life, so a new feature leaves most of the others in place.
    """
    own, draws, n, d = state.scratch.order, state.scratch.draws, 0, state.frame.shape[1]
    for f in range(d):
        if state.frame[RATE, f] > 0:
            draws[n] = drawn(k, f + 1, state)
            n += 1
    if n == 0:
        return 0
    least = (n + 1) // 2
    taken = least + int(drawn(k, 0, state) * (n - least + 1))
    quickselect(draws, n, taken - 1)
    highest, taken = draws[taken - 1], 0
    for f in range(d):
        if state.frame[RATE, f] > 0 and drawn(k, f + 1, state) <= highest:
            own[taken] = f
            taken += 1
    return taken


@kernel
def anchors_of(k: int, state: State) -> int:
    """How many anchors partition k has for life: with each of the scalings all, or half of them."""
    return max(1, state.anchors.shape[1] >> ((k // MIXED) % 2))


@kernel
def weigh(k: int, state: State, scaling: int) -> None:
    """Give partition k its features, a random half or more, each scaled by its spread or warped."""
    if scaling == MIXED:
        scaling = k % MIXED
    state.partitions.shape[k, WARPED] = scaling == LOG
    own, taken = state.scratch.order, list_own(k, state)
    state.weight[k] = 0.0
    used = 0
    for f in own[:taken]:
        if state.spread[scaling, f] > 0:
            state.weight[k, f] = 1.0 / state.spread[scaling, f]
            used += 1
    if used == 0:  # a scaling that sees no spread anywhere, as the IQR of sparse features
        for f in own[:taken]:
            state.weight[k, f] = 1.0 / state.spread[STD, f]


@kernel
def build(k: int, state: State, plan: Plan) -> None:
    """Draw new anchors for partition k from the kept points, and pass all settled ones through their cells."""
    stored, d = state.counters[STORED], state.frame.shape[1]
    kept, n = state.scratch.order, list_kept(state, plan)
    m = min(anchors_of(k, state), max(1, n // POINTS_PER_ANCHOR))
    choose(state.rng, kept, n, m)
    state.partitions.shape[k, ANCHORS] = m
    for j in range(m):
        for f in range(d):
            v = state.sample.rows[kept[j], f]
            state.anchors[k, j, f] = v if v == v else state.frame[CENTRE, f]
    weigh(k, state, plan.scaling)
    place_partition(k, state)

    state.cells[k] = 0.0
    found, apart = state.scratch.cell_of, state.scratch.far
    for block in range((stored + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        n = min(BLOCK, stored - first)
        locate_block(k, n, points_of(state, block), state.partitions, found[first:], apart[first:])
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
    state.partitions.metric[k, TOTAL] = total
    state.partitions.metric[k, INVERSE_UNIT] = total / summed if summed > 0.0 else 1.0 / NO_UNIT


@kernel
def refresh(state: State, plan: Plan) -> None:
    """Refresh what is due after the last event: all partitions of a young model, else the next ones in turn."""
    n, t = state.counters[SEEN], state.partitions.metric.shape[0]
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
