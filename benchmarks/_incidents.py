"""What incidents are worth: windows and faults found, false incidents, and whether the rate that was asked for is held.

Pure functions of incidents and labels, the same for every detector. An incident is the rows of its first and its last
alert. ``incidents`` is always one list a series, in the order of the series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from _judge import Figures, Flags, pooled
from _real import Machine, NabSeries, Series
from _replay import Replay
from _streams import Floats

from svead_stream import ConformalFilter
from svead_stream.spans import rate

Incident = tuple[int, int]
Incidents = Sequence[Sequence[Incident]]

HOLD_OFF = 30  # events without alerts after which an incident is over: what ours has by default
SOON = 30.0  # seconds between an incident's start and the labelled one, at most
HELD = 0.2  # how far a rate may be from what was asked


class Told(NamedTuple):
    """What our filter says of a series."""

    incidents: list[Incident]
    alerts: Flags
    members: Flags  # the alerts that belong to an incident


def told(one: Series, scores: Floats, **settings: Any) -> Told:
    """What ConformalFilter makes of scores at their times, by default and with other settings."""
    verdicts = ConformalFilter(Replay(), **settings).judge_many(scores, t=one.time)
    members = np.zeros(len(scores), dtype=bool)
    members[list(verdicts.incidents)] = True
    spans: dict[int, Incident] = {}
    for row, number in verdicts.incidents.items():
        spans[number] = (spans.get(number, (row, row))[0], row)
    return Told(list(spans.values()), verdicts.alerts, members)


def grouped(alerts: Flags, hold_off: int = HOLD_OFF) -> list[Incident]:
    """The incidents of a detector that has alerts only: more events than the hold-off without one end an incident."""
    incidents: list[Incident] = []
    for row in np.flatnonzero(alerts).tolist():
        if incidents and row - incidents[-1][1] <= hold_off:
            incidents[-1] = (incidents[-1][0], row)
        else:
            incidents.append((row, row))
    return incidents


def at_random(series: Sequence[Series], incident_rate: float, seed: int) -> list[list[Incident]]:
    """Incidents of one event at random rows after the start: what the labels give to chance at that rate."""
    rng = np.random.default_rng(seed)
    incidents = []
    for one in series:
        judged = len(one.y) - one.start
        rows = one.start + np.sort(rng.choice(judged, round(incident_rate * judged), replace=False))
        incidents.append([(row, row) for row in rows.tolist()])
    return incidents


# NAB


def opened(series: Sequence[NabSeries], incidents: Incidents) -> Figures:
    """Windows in which an incident opens, incidents that open outside of all, and all that open after probation."""
    found = false = total = 0
    for one, its in zip(series, incidents, strict=True):
        windows = one.window[[first for first, _ in its if first >= one.start]]
        found += len(np.unique(windows[windows >= 0]))
        false += int(np.count_nonzero(windows < 0))
        total += len(windows)
    return {"found": found, "false": false, "incidents": total}


def overlapped(series: Sequence[NabSeries], incidents: Incidents) -> Figures:
    """Windows that share a row with an incident, incidents that share none, and all that end after probation."""
    found = false = total = 0
    for one, its in zip(series, incidents, strict=True):
        touched = [set(one.window[max(a, one.start) : b + 1].tolist()) - {-1} for a, b in its if b >= one.start]
        found += len(set[int]().union(*touched))
        false += sum(not windows for windows in touched)
        total += len(touched)
    return {"found": found, "false": false, "incidents": total}


# Rates


def asked_for(one: Series, incident_rate: float | str) -> float:
    """How many incidents a rate makes after probation."""
    amount, in_time = rate(incident_rate)
    return amount * float(one.time.max() - one.time[one.start] if in_time else len(one.y) - one.start)


def kept(series: Sequence[Series], incidents: Incidents, incident_rate: float | str) -> Figures:
    """On how many series the number of incidents after probation is what was asked for, and their ratio."""
    asked = np.array([asked_for(one, incident_rate) for one in series])
    had = np.array([sum(a >= one.start for a, _ in its) for one, its in zip(series, incidents, strict=True)])
    near = np.abs(had - asked) <= HELD * asked
    return {
        "held": 100.0 * float(near.mean()),
        "held_or_one": 100.0 * float((near | (np.abs(had - asked) <= 1.0)).mean()),
    } | _spread(had / asked)


def alert_rates(series: Sequence[Series], alerts: Sequence[Flags], alert_rate: float, suffix: str = "") -> Figures:
    """The share of alerts in % of the events after probation, over the series."""
    shares = np.array([float(flags[one.start :].mean()) for one, flags in zip(series, alerts, strict=True)])
    held = 100.0 * float((np.abs(shares / alert_rate - 1.0) <= HELD).mean())
    return {name + suffix: value for name, value in (_spread(100.0 * shares) | {"held": held}).items()}


def _spread(values: Floats) -> Figures:
    return {"median": float(np.median(values)), "min": float(values.min()), "max": float(values.max())}


# Faults: runs of SKAB, and the demo's machines


def false_incidents(one: Series, incidents: Sequence[Incident]) -> int:
    """Incidents that open after the start and have no labelled row."""
    return sum(a >= one.start and not one.y[a : b + 1].any() for a, b in incidents)


def faults_of(y: Any) -> list[tuple[int, int]]:
    """Runs of labelled rows, each from its first row to the row after its last."""
    edges = np.flatnonzero(np.diff(y, prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def hits(fault: tuple[int, int], incidents: Sequence[Incident]) -> list[Incident]:
    """The incidents that share a row with a fault."""
    return [(a, b) for a, b in incidents if a < fault[1] and b >= fault[0]]


def covered(one: Series, incidents: Sequence[Incident]) -> Flags:
    """The rows from the first alert of an incident to its last."""
    rows = np.zeros(len(one.y), dtype=bool)
    for a, b in incidents:
        rows[a : b + 1] = True
    return rows


def judge_skab(series: Sequence[Series], incidents: Incidents) -> Figures:
    """Faults found, how many of them at their start, and the rows within incidents beside the labelled ones."""
    found = soon = 0
    for one, its in zip(series, incidents, strict=True):
        for fault in faults_of(one.y):
            hit = hits(fault, its)
            found += bool(hit)
            soon += any(abs(one.time[a] - one.time[fault[0]]) <= SOON for a, _ in hit)
    f1, far, mar = pooled(series, [covered(one, its) for one, its in zip(series, incidents, strict=True)])
    false = sum(false_incidents(one, its) for one, its in zip(series, incidents, strict=True))
    share = 100.0 * soon / found if found else float("nan")
    return {"found": found, "soon": share, "false": false, "far": far, "mar": mar, "f1": f1}


def judge_demo(series: Sequence[Machine], incidents: Incidents) -> Figures:
    """Faults found, false incidents and those on the first day, which has no faults, for each machine on average."""
    pairs = list(zip(series, incidents, strict=True))
    figures = {
        "found": [sum(bool(hits(fault, its)) for fault in one.faults) for one, its in pairs],
        "false": [false_incidents(one, its) for one, its in pairs],
        "early": [sum(a < one.start for a, _ in its) for one, its in pairs],
        "incidents": [len(its) for _, its in pairs],
    }
    return {name: float(np.mean(counts)) for name, counts in figures.items()}
