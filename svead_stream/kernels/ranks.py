"""Where a score stands among the recent ones, and what of it becomes an alert."""

from __future__ import annotations

import math

from svead_stream.kernels.layout import F64, I64, U8, Window
from svead_stream.kernels.simd import kernel, short_kernel

# positions in the counters of a window
OLDEST, KNOWN, WITHHELD, JUDGED, ALERTS = 0, 1, 2, 3, 4
N_COUNTERS = 5


@kernel
def lower(ordered: F64, n: int, score: float) -> int:
    """How many of the first n, which are in order, are lower than the score; without a branch to guess wrong."""
    base = 0
    while n > 0:
        half = (n + 1) // 2
        base += half if ordered[base + half - 1] < score else 0
        n -= half
    return base


@kernel
def p_value(score: float, ordered: F64, counters: I64) -> float:
    """The rank of a score among the known ones, itself included; 1 for NaN."""
    known = counters[KNOWN]
    return 1.0 if math.isnan(score) else (known - lower(ordered, known, score) + 1) / (known + 1)


@kernel
def allowed(alert_rate: float, known: int) -> int:
    """How many of the known scores may be as high as that of an alert, plus one; 0 while too few are known."""
    most = int(alert_rate * (known + 1)) + 1  # or less, by one or, where the product was rounded up, by two
    while most / (known + 1) > alert_rate:
        most -= 1
    return most


@kernel
def threshold(ordered: F64, known: int, most: int) -> float:
    """The score that an event has to exceed to be an alert, if so many are allowed; infinite if none is."""
    return ordered[known - most] if most > 0 else math.inf


@kernel
def enter(score: float, at: int, withhold: bool, window: Window) -> None:
    """Add a score that is higher than so many others, in the place of the oldest where there is no room."""
    recent, ordered, counters = window.recent, window.ordered, window.counters
    capacity, known, slot = recent.shape[0], counters[KNOWN], counters[OLDEST]
    hole = known
    if known < capacity:
        slot = known
        counters[KNOWN] += 1
    else:
        hole = lower(ordered, known, recent[slot])
        counters[WITHHELD] -= window.withheld[slot]
        counters[OLDEST] = slot + 1 if slot + 1 < capacity else 0
    if hole < at:
        at -= 1
        for j in range(hole, at):
            ordered[j] = ordered[j + 1]
    else:
        for j in range(hole, at, -1):
            ordered[j] = ordered[j - 1]
    ordered[at] = score
    recent[slot] = score
    window.withheld[slot] = withhold
    counters[WITHHELD] += withhold


@kernel
def judge(score: float, alert_rate: float, withhold: bool, window: Window) -> float:
    """The p-value of a score, which is then counted and entered.

    Not entered are NaN, and zeros before the first other score: those of a detector that is warming up.
    """
    counters = window.counters
    counters[JUDGED] += 1
    if math.isnan(score):
        return 1.0
    known = counters[KNOWN]
    at = lower(window.ordered, known, score)
    p = (known - at + 1) / (known + 1)
    counters[ALERTS] += p <= alert_rate
    if score != 0.0 or known > 0:
        enter(score, at, withhold, window)
    return p


@short_kernel
def judge_event(
    score: float, withhold: bool, alert_rate: float, recent: F64, ordered: F64, withheld: U8, counters: I64
) -> tuple[float, float]:
    """The p-value of a score, which is then entered, and the threshold for the next one; flat arguments cost less."""
    p = judge(score, alert_rate, withhold, Window(recent, ordered, withheld, counters))
    known = counters[KNOWN]
    return p, threshold(ordered, known, allowed(alert_rate, known))


@kernel
def judge_scores(scores: F64, alert_rate: float, learn: bool, window: Window, p_values: F64, thresholds: F64) -> None:
    """P-values of scores one after the other, each of which is then entered if asked."""
    ordered, counters = window.ordered, window.counters
    known, most = -1, 0
    for i in range(scores.shape[0]):
        if known != counters[KNOWN]:
            known = counters[KNOWN]
            most = allowed(alert_rate, known)
        thresholds[i] = threshold(ordered, known, most)
        if learn:
            p_values[i] = judge(scores[i], alert_rate, False, window)
        else:
            p_values[i] = p_value(scores[i], ordered, counters)
