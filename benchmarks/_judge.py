"""What the scores of real streams are worth: NAB's score, SKAB's F1, faults found on the demo's machine.

Pure functions of scores and labels, the same for every detector. ``scores`` is always one array a series, in the
order of the series.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np
from _real import Machine, NabSeries, Series
from _streams import Floats
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from svead_stream.cli.machine import MINUTES

Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]
Figures = dict[str, float]

FALSE_ALARM = 0.11  # weight of a false alarm in NAB's standard profile
RANKED_IN = 5_000  # recent scores that a score of NAB is ranked among
HOLD_OFF = 120  # events without alarms after an alarm
P_THRESHOLDS = np.geomspace(1.0 / RANKED_IN, 0.1, 200)  # fine enough: 3 % from one to the next
QUIET = slice(150, 400)  # rows of a run of SKAB that its threshold is taken from
QUANTILE = 0.99
SMOOTHED = 20  # scores in the mean that SKAB is judged on a second time
ALERT_RATE = 10 / MINUTES  # ten a day
ALERTS_RANKED_IN = 1_007  # recent scores that a score of the demo's machine is ranked among: seven alerts' worth


def p_values(scores: Floats, window: int) -> Floats:
    """The rank of each score among the last ones before it: (1 + how many are as high) / (1 + how many there are).

    Every score counts, also the zeros of a detector that cannot score yet: leaving them out would help some detectors
    and harm others.
    """
    values, ranked = scores.tolist(), np.empty(len(scores))
    known: list[float] = []  # in order
    for i, value in enumerate(values):
        ranked[i] = (1 + len(known) - bisect_left(known, value)) / (1 + len(known))
        insort(known, value)
        if len(known) > window:
            del known[bisect_left(known, values[i - window])]
    return ranked


def alert_p_values(scores: Floats, window: int) -> Floats:
    """The same for alerts from the start on: zeros before the first other score are left out as a warm-up."""
    first = int(np.argmax(scores != 0.0))
    return np.concatenate([np.ones(first), p_values(scores[first:], window)])


def smoothed(scores: Floats, span: int = SMOOTHED) -> Floats:
    """The mean of the last scores up to each row, fewer at the start."""
    sums = np.convolve(scores, np.ones(span))[: len(scores)]
    return sums / np.minimum(np.arange(1, len(scores) + 1), span)


def _ranking(series: Sequence[Series], scores: Sequence[Floats]) -> Figures:
    """Mean ROC AUC and average precision over the series that have both labels after their start."""
    pairs = [(one.y[one.start :], s[one.start :]) for one, s in zip(series, scores, strict=True)]
    pairs = [(y, s) for y, s in pairs if 0 < y.mean() < 1]
    if not pairs:
        return {"auc": float("nan"), "ap": float("nan")}
    return {
        "auc": float(np.mean([roc_auc_score(y, s) for y, s in pairs])),
        "ap": float(np.mean([average_precision_score(y, s) for y, s in pairs])),
    }


# NAB


def nab_sum(one: NabSeries, alarms: Rows) -> float:
    """NAB's sum for the alarms in a series: the best alarm of each window, -1 for a window without, false alarms."""
    window, weight = one.window[alarms], one.weight[alarms]
    found = np.unique(window[window >= 0])
    best = sum(float(weight[window == number].max()) for number in found)
    return best - (one.n_windows - len(found)) + FALSE_ALARM * float(weight[window < 0].sum())


def nab_normalised(total: float, n_windows: int) -> float:
    """0 is what no alarm at all gets, 100 an alarm at the start of every window and no other."""
    return 100.0 * (total + n_windows) / (2.0 * n_windows) if n_windows else float("nan")


def nab_raw(series: Sequence[NabSeries], scores: Sequence[Floats]) -> float:
    """NAB's score with an alarm at every judged row that reaches the threshold, the best one for all series together.

    Going down through the scores, each row adds something to the sum: all thresholds are tried in one pass.
    """
    added, judged = [], []
    for one, all_scores in zip(series, scores, strict=True):
        s, window, weight = all_scores[one.start :], one.window[one.start :], one.weight[one.start :]
        adds = np.where(window < 0, FALSE_ALARM * weight, 0.0)
        for number in np.unique(window[window >= 0]):
            rows = np.flatnonzero(window == number)
            rows = rows[np.argsort(-s[rows], kind="stable")]
            adds[rows] = np.diff(np.maximum.accumulate(np.concatenate([[-1.0], weight[rows]])))
        added.append(adds)
        judged.append(s)
    s = np.concatenate(judged)
    order = np.argsort(-s, kind="stable")
    n_windows = sum(one.n_windows for one in series)
    sums = np.cumsum(np.concatenate(added)[order]) - n_windows
    whole = np.append(np.diff(s[order]) != 0, True)  # rows of equal score are alarms together
    return nab_normalised(max(float(sums[whole].max()), -float(n_windows)), n_windows)


def held_off(p: Floats, threshold: float, start: int, silence: int = HOLD_OFF) -> Rows:
    """The rows of alarms: p-values up to the threshold, from ``start`` on, none in the events after an alarm."""
    rows = start + np.flatnonzero(p[start:] <= threshold)
    alarms, k = [], 0
    while k < len(rows):
        alarms.append(rows[k])
        k = int(np.searchsorted(rows, rows[k] + silence, side="right"))
    return np.array(alarms, dtype=np.intp)


def nab_held_off(series: Sequence[NabSeries], scores: Sequence[Floats]) -> float:
    """NAB's score of ranked scores with a hold-off after each alarm, at the best p-value for all series together."""
    ranks = [p_values(s, RANKED_IN) for s in scores]
    n_windows = sum(one.n_windows for one in series)
    sums = [
        sum(nab_sum(one, held_off(p, threshold, one.start)) for one, p in zip(series, ranks, strict=True))
        for threshold in P_THRESHOLDS
    ]
    return nab_normalised(max(*sums, -float(n_windows)), n_windows)


def judge_nab(series: Sequence[NabSeries], scores: Sequence[Floats]) -> Figures:
    """Everything about NAB."""
    return {"raw": nab_raw(series, scores), "held": nab_held_off(series, scores)} | _ranking(series, scores)


# SKAB


def skab_alarms(scores: Floats) -> Flags:
    """The rows whose score is above nearly all of the run's own quiet rows."""
    return scores > np.quantile(scores[QUIET], QUANTILE)


def pooled(series: Sequence[Series], alarms: Sequence[Flags]) -> tuple[float, float, float]:
    """F1, false alarms in % of normal rows, and missed ones in % of anomalous rows, all runs counted together."""
    y = np.concatenate([one.y[one.start :] for one in series]) == 1
    alarm = np.concatenate([a[one.start :] for one, a in zip(series, alarms, strict=True)])
    hits, false, missed = (int(np.count_nonzero(rows)) for rows in (alarm & y, alarm & ~y, ~alarm & y))
    f1 = 2.0 * hits / max(2 * hits + false + missed, 1)
    return f1, 100.0 * false / max(int(np.count_nonzero(~y)), 1), 100.0 * missed / max(int(np.count_nonzero(y)), 1)


def judge_skab(series: Sequence[Series], scores: Sequence[Floats]) -> Figures:
    """Everything about SKAB."""
    figures: Figures = {}
    for suffix, judged in (("", scores), ("_mean", [smoothed(s) for s in scores])):
        found = pooled(series, [skab_alarms(s) for s in judged])
        figures |= {name + suffix: value for name, value in zip(("f1", "far", "mar"), found, strict=True)}
    return figures | _ranking(series, scores)


def always_alarm(series: Sequence[Series]) -> Figures:
    """What SKAB gives to an alarm at every row."""
    f1, far, mar = pooled(series, [np.ones(len(one.y), dtype=bool) for one in series])
    return {"f1": f1, "far": far, "mar": mar, "f1_mean": f1, "far_mean": far, "mar_mean": mar}


# The demo's machine


def found_and_false(one: Machine, alerts: Flags) -> tuple[int, int]:
    """How many faults have an alert, and how many alerts lie outside of all faults, from the judged rows on."""
    found = sum(bool(alerts[begin:end].any()) for begin, end in one.faults)
    return found, int(np.count_nonzero(alerts[one.start :] & (one.y[one.start :] == 0)))


def judge_demo(series: Sequence[Machine], scores: Sequence[Floats]) -> Figures:
    """Everything about the demo's machines."""
    alerts = [alert_p_values(s, ALERTS_RANKED_IN) <= ALERT_RATE for s in scores]
    counts = [found_and_false(one, flags) for one, flags in zip(series, alerts, strict=True)]
    found, false = np.mean(counts, axis=0).tolist()
    return _ranking(series, scores) | {"found": found, "false": false}
