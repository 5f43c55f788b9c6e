"""How a detector runs over a mini-batch, with the numbers of a loop over its rows.

It runs block by block up to the next refresh, and in a block partition by partition, which changes nothing in the
numbers: partitions do not look at each other between refreshes.
"""

from __future__ import annotations

import math

from svead_stream.kernels.answers import renew, shift_block, shifted
from svead_stream.kernels.compiled import kernel
from svead_stream.kernels.lasting import follow, remember, repeats, to_score
from svead_stream.kernels.layout import (
    BLOCK,
    COUNT,
    F64,
    INVERSE_UNIT,
    MISSING,
    MIXED,
    SEEN,
    SUM,
    TOTAL,
    TRUST,
    U8,
    Answers,
    Plan,
    Rules,
    State,
    Window,
)
from svead_stream.kernels.online import attribute, ends_product, mean_score, relative_factor, reservoir_update
from svead_stream.kernels.ranks import ALERT, judge_scores
from svead_stream.kernels.refresh import refresh, to_coordinates, until_refresh
from svead_stream.kernels.search import learn_in_cell, locate_block, score_in_cell


@kernel
def score_block(n: int, state: State, plan: Plan, learn: bool, keep: bool, strangeness: F64) -> None:
    """How strange the n events of a block are to a memory; they are counted in its cells if asked.

    What the search found of them is kept if it will be explained; else it would only take room in the cache.
    """
    p, cells, found, sums = state.partitions, state.cells, state.found, state.sums
    apart, relative = state.scratch.far, plan.scaling == MIXED
    summed, factor, trusted = sums.summed, sums.factor, sums.trusted
    summed[:] = 0.0
    factor[:] = 1.0
    trusted[:] = 0.0
    for k in range(p.metric.shape[0]):
        cell, scores = found.cell[k if keep else 0], found.score[k if keep else 0]
        locate_block(k, n, state.block, p, cell, apart)
        metric = p.metric[k]
        inverse_unit, trust = metric[INVERSE_UNIT], metric[TRUST]
        for b in range(n):
            if cell[b] >= 0:
                own = cells[k, cell[b]]
                score = score_in_cell(apart[b], own[COUNT], own[SUM], metric[TOTAL])
                scores[b] = score
                trusted[b] += trust
                if not relative:
                    summed[b] += trust * score
                elif trust == 1.0:
                    factor[b] *= relative_factor(score, inverse_unit)
                else:
                    summed[b] += trust * math.log(relative_factor(score, inverse_unit))
                if learn:
                    learn_in_cell(metric, own, plan.share)
        if ends_product(k):
            for b in range(n):
                summed[b] += math.log(factor[b])
                factor[b] = 1.0
    for b in range(n):
        strangeness[b] = mean_score(summed[b], factor[b], trusted[b])


@kernel
def run(
    X: F64,
    short: State,
    short_plan: Plan,
    long: State,
    long_plan: Plan,
    answers: Answers,
    levels: F64,
    last: F64,
    strangeness: F64,
    learn: bool,
    brand_new: bool,
    scores: F64,
    times: F64,
    rules: Rules,
    window: Window,
    p_values: F64,
    said: U8,
    thresholds: F64,
    shares: F64,
) -> int:
    """Score the rows of X in order; each is then learned if asked. A first row of features alone that are new scores 0.

    With a window, they are judged as well. With room in shares, what each feature contributed to an alert is written
    there, alert after alert, by the partitions and cells that scored it; returns how many were explained.
    """
    relative, counters, source = short_plan.scaling == MIXED, short.counters, short.scratch.source
    answered = answers.rows.shape[1] > 0
    to_judge, to_explain = window.recent.shape[0] > 0, shares.shape[0] > 0
    first, alerts = 0, 0
    while first < X.shape[0]:
        wanted = min(BLOCK, until_refresh(counters[SEEN])) if learn else BLOCK
        end, n = first, 0
        while end < X.shape[0] and n < wanted:
            present = to_coordinates(X[end], short, short.block, n)
            if present > 0:
                source[n] = end
                n += 1
                if learn:
                    counters[MISSING] += X.shape[1] - present
                    long.counters[MISSING] += X.shape[1] - present
            scores[end] = 0.0
            end += 1
        score_block(n, short, short_plan, learn, to_explain, strangeness[0])
        for b in range(n):
            to_coordinates(X[source[b]], long, long.block, b)
        score_block(n, long, long_plan, learn, to_explain, strangeness[1])
        if answered:
            shift_block(n, long.block, answers, strangeness[2])
        for b in range(n):
            row, by_short, by_long = X[source[b]], strangeness[0, b], strangeness[1, b]
            again, own = repeats(row, last), min(by_short, by_long)
            if answered:
                own = shifted(own, strangeness[2, b], relative)
            if not (brand_new and source[b] == 0):
                scores[source[b]] = to_score(own, again, counters[SEEN], relative, levels)
            if learn:
                follow(own, again, counters[SEEN], levels)
                remember(row, last)
                reservoir_update(row, by_short, short_plan.fade, counters, short.rng, short.sample)
                reservoir_update(row, by_long, long_plan.fade, long.counters, long.rng, long.sample)
        if to_judge:
            part = slice(first, end)
            judge_scores(scores[part], times[part], learn, rules, window, p_values[part], said[part], thresholds[part])
        if to_explain:
            for b in range(n):
                if said[source[b]] & ALERT:
                    blamed = short if strangeness[0, b] <= strangeness[1, b] else long
                    attribute(b, blamed.block.x[b], relative, blamed.partitions, blamed.found, shares[alerts])
                    alerts += 1
        if learn and n == wanted and until_refresh(counters[SEEN] - 1) == 1:
            refresh(short, short_plan)
            refresh(long, long_plan)
            if answered:
                renew(answers, short, long)
        first = end
    return alerts


@kernel
def score_sample(X: F64, state: State, plan: Plan, strangeness: F64) -> None:
    """How strange rows are to a memory; nothing is learned."""
    for first in range(0, X.shape[0], BLOCK):
        n = min(BLOCK, X.shape[0] - first)
        for b in range(n):
            to_coordinates(X[first + b], state, state.block, b)
        score_block(n, state, plan, False, False, strangeness[first:])


@kernel
def member_scores(X: F64, state: State, plan: Plan, scores: F64) -> None:
    """What rows score in each partition of a memory, logarithms where scores are relative; NaN where it has no cell."""
    p, cells, cell, apart = state.partitions, state.cells, state.found.cell[0], state.scratch.far
    for first in range(0, X.shape[0], BLOCK):
        n = min(BLOCK, X.shape[0] - first)
        for b in range(n):
            to_coordinates(X[first + b], state, state.block, b)
        for k in range(p.metric.shape[0]):
            locate_block(k, n, state.block, p, cell, apart)
            for b in range(n):
                score = math.nan
                if cell[b] >= 0:
                    own = cells[k, cell[b]]
                    score = score_in_cell(apart[b], own[COUNT], own[SUM], p.metric[k, TOTAL])
                    if plan.scaling == MIXED:
                        score = math.log(relative_factor(score, p.metric[k, INVERSE_UNIT]))
                scores[k, first + b] = score
