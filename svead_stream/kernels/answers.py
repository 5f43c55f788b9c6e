"""What people said of events, at work: how near an event is to those, and what that changes.

Answered events are the anchors of two more partitions, one of confirmed anomalies and one of false alarms; anchors of
the long memory are a third one, of what is usual. All three lie in the long memory's warped units. What is nearer to a
confirmed anomaly than to anything else becomes stranger, what is nearer to a false alarm less strange, both by a
bounded amount: far from all answers nothing changes, and none can silence the detector.
"""

from __future__ import annotations

import math

from svead_stream.kernels.compiled import kernel, short_kernel
from svead_stream.kernels.lasting import repeats, to_score
from svead_stream.kernels.layout import (
    ANCHORS,
    BLOCK,
    CENTRE,
    F32,
    F64,
    I64,
    LOG,
    RATE,
    SEEN,
    TRUST,
    U8,
    USED,
    WARPED,
    Answers,
    Partitions,
    Points,
    State,
)
from svead_stream.kernels.ranks import lower
from svead_stream.kernels.refresh import to_coordinates
from svead_stream.kernels.search import distance, locate_block, nearest, nearest_with_gaps, place

ANOMALY, FALSE_ALARM, USUAL = 0, 1, 2  # the three partitions; the first two are also the kinds of answers
KEPT = 64  # answers of each kind, the newest
USUAL_ANCHORS = 192  # of both memories, at most
OF_LONG = 128  # of the long memory, at most
RAISED, LOWERED = 1.0, 0.5  # by how much, at most: in mean logarithms, so about e times as far, or 0.6 times
MOST_REPEATED = 3.0  # strength of a false alarm that came again and again; each time it counts for one more
CLEARLY = 0.99  # of the distance from anything else, at most, is a false alarm away that an event is like
FAINT = 0.05  # strength below which a faded answer counts no more
SETTLED = 1e-3  # trust that differs less from 1 is 1


@kernel
def place_answers(answers: Answers, short: State, long: State) -> None:
    """Derive the three partitions from the answers, and from anchors of the memories."""
    p, d = answers.partitions, long.frame.shape[1]
    for kind in (ANOMALY, FALSE_ALARM):
        n = 0
        for i in range(answers.strength.shape[1]):
            if answers.strength[kind, i] >= FAINT:
                copy_anchor(answers.rows[kind, i], long.frame, answers.anchors[kind, n])
                answers.force[kind, n] = answers.strength[kind, i]
                n += 1
        p.shape[kind, ANCHORS] = n
    p.shape[USUAL, ANCHORS] = 0
    copy_usual(long, long.frame, answers, OF_LONG)
    copy_usual(short, long.frame, answers, USUAL_ANCHORS)
    for kind in range(3):
        p.shape[kind, WARPED] = 1
        for f in range(d):
            answers.weight[kind, f] = 1.0 / long.spread[LOG, f] if long.frame[RATE, f] > 0 else 0.0
        place(kind, answers.anchors, answers.weight, long.frame, p, answers.halves)
        if p.shape[kind, USED] == 0:  # nothing is known yet that could be compared
            p.shape[kind, ANCHORS] = 0


@kernel
def copy_usual(memory: State, frame: F64, answers: Answers, most: int) -> None:
    """Add anchors of a memory to what is usual, until there are so many; none that is an answered event."""
    n = answers.partitions.shape[USUAL, ANCHORS]
    for k in range(memory.anchors.shape[0]):
        for j in range(memory.partitions.shape[k, ANCHORS]):
            if n < most and not is_answered(memory.anchors[k, j], answers):
                copy_anchor(memory.anchors[k, j], frame, answers.anchors[USUAL, n])
                n += 1
    answers.partitions.shape[USUAL, ANCHORS] = n


@kernel
def is_answered(row: F64, answers: Answers) -> bool:
    """Whether somebody answered an event with these values."""
    for kind in (ANOMALY, FALSE_ALARM):
        for i in range(answers.strength.shape[1]):
            if answers.strength[kind, i] >= FAINT and is_same(row, answers.rows[kind, i]):
                return True
    return False


@kernel
def is_same(row: F64, event: F64) -> bool:
    """Whether a row has all numbers of an event; anchors have some where it has none."""
    f = 0
    while f < row.shape[0] and (row[f] == event[f] or event[f] != event[f]):
        f += 1
    return f == row.shape[0]


@kernel
def find_unanswered(rows: F64, answers: Answers, found: U8) -> None:
    """Mark the rows that nobody answered."""
    for i in range(rows.shape[0]):
        found[i] = not is_answered(rows[i], answers)


@kernel
def copy_anchor(row: F64, frame: F64, anchor: F64) -> None:
    for f in range(row.shape[0]):
        anchor[f] = row[f] if row[f] == row[f] else frame[CENTRE, f]


@kernel
def renew(answers: Answers, short: State, long: State) -> None:
    """Follow a refresh of the memories; where answers are to fade, they have by now lost some of their strength."""
    keep = answers.keep[0]
    if keep < 1.0:
        for kind in (ANOMALY, FALSE_ALARM):
            for i in range(answers.strength.shape[1]):
                answers.strength[kind, i] *= keep
        fade_trust(keep, short.partitions.metric)
        fade_trust(keep, long.partitions.metric)
    place_answers(answers, short, long)


@kernel
def fade_trust(keep: float, metric: F64) -> None:
    for k in range(metric.shape[0]):
        metric[k, TRUST] = 1.0 + (metric[k, TRUST] - 1.0) * keep
        if abs(metric[k, TRUST] - 1.0) < SETTLED:
            metric[k, TRUST] = 1.0


@kernel
def nearness(near: float, far: float) -> float:
    """From 0, if the far one is much nearer, to 1; infinite where there is none."""
    if near == math.inf:
        return 0.0
    if near == 0.0 and far == 0.0:
        return 0.5
    return 1.0 / (1.0 + (near / far) ** 2) if far > 0.0 else 0.0


@kernel
def shift(anomaly: float, false_alarm: float, usual: float, raising: float, lowering: float) -> float:
    """What answers add to the strangeness of an event at these distances from the nearest of each kind.

    Far from everything both kinds are equally near, and anomalies weigh more. As long as none is confirmed, false
    alarms would lower all that is far away: then they count only as far as they are nearer than what is usual.
    """
    down = nearness(false_alarm, min(usual, anomaly))
    if anomaly == math.inf:
        down = max(2.0 * down - 1.0, 0.0)
    return RAISED * raising * nearness(anomaly, min(usual, false_alarm)) - LOWERED * lowering * down


@kernel
def shifted(strangeness: float, by: float, relative: bool) -> float:
    """Strangeness with what answers add; never below 0, NaN stays what it is."""
    if math.isnan(strangeness):
        return strangeness
    return max(0.0, strangeness + by) if relative else strangeness * math.exp(by)


@kernel
def shift_block(n: int, points: Points, answers: Answers, shifts: F64) -> None:
    """What answers add to the strangeness of the n points of a block."""
    p, cell, apart = answers.partitions, answers.cell, answers.apart
    for kind in range(3):
        if p.shape[kind, ANCHORS] > 0:
            locate_block(kind, n, points, p, cell[kind], apart[kind])
        for b in range(n):
            if p.shape[kind, ANCHORS] == 0 or cell[kind, b] < 0:
                cell[kind, b], apart[kind, b] = 0, math.inf
    for b in range(n):
        raising, lowering = answers.force[ANOMALY, cell[ANOMALY, b]], answers.force[FALSE_ALARM, cell[FALSE_ALARM, b]]
        shifts[b] = shift(apart[ANOMALY, b], apart[FALSE_ALARM, b], apart[USUAL, b], raising, lowering)


@kernel
def shift_rows(X: F64, long: State, answers: Answers, shifts: F64) -> None:
    """What answers add to the strangeness of rows."""
    for first in range(0, X.shape[0], BLOCK):
        n = min(BLOCK, X.shape[0] - first)
        for b in range(n):
            to_coordinates(X[first + b], long, long.block, b)
        shift_block(n, long.block, answers, shifts[first:])


@kernel
def rank(usual: F64, answered: F64, ranks: F64) -> None:
    """The share of usual scores that are below each answered one, row by row, equal ones half; NaN is in the middle.

    Those of usual events are in order, NaN last.
    """
    for k in range(answered.shape[0]):
        row, known = usual[k], 0
        while known < row.shape[0] and row[known] == row[known]:
            known += 1
        for i in range(answered.shape[1]):
            first = lower(row, known, answered[k, i])
            end = first
            while end < known and row[end] == answered[k, i]:
                end += 1
            ranks[k, i] = 0.5 * (first + end) / known if known > 0 and answered[k, i] == answered[k, i] else 0.5


@kernel
def find(kind: int, x: F32, gaps: bool, p: Partitions) -> tuple[int, float]:
    """The nearest answer of a kind to one point, and how far it is; infinitely far if there is none."""
    d, dp = p.feature.shape[1], p.placed.shape[2]
    if p.shape[kind, ANCHORS] == 0:
        return 0, math.inf
    if not gaps:
        j = nearest(kind, x, dp, p)
        return j, distance(kind, j, x, dp, p)
    j, far = nearest_with_gaps(kind, x[dp : dp + d], p)
    return (j, far) if j >= 0 else (0, math.inf)


@short_kernel
def score_answered(
    row: F64,
    relative: bool,
    counters: I64,
    levels: F64,
    last: F64,
    strangeness: F64,
    x: F32,
    force: F64,
    metric: F64,
    shape: I64,
    product: F32,
    placed: F32,
    scale: F32,
    feature: I64,
) -> float:
    """The score of the row that was scored last, whose long memory's coordinates are x, with what answers add to it."""
    p = Partitions(metric, shape, product, placed, scale, feature)
    gaps = False
    for f in range(row.shape[0]):
        gaps |= x[f] != x[f]
    i, anomaly = find(ANOMALY, x, gaps, p)
    j, false_alarm = find(FALSE_ALARM, x, gaps, p)
    _, usual = find(USUAL, x, gaps, p)
    by = shift(anomaly, false_alarm, usual, force[ANOMALY, i], force[FALSE_ALARM, j])
    strangeness[2] = shifted(strangeness[2], by, relative)
    return to_score(strangeness[2], repeats(row, last), counters[SEEN], relative, levels)
