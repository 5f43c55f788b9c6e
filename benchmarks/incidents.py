"""What incidents are worth on real streams: NAB, SKAB and the demo's machine, beside the alerts of AWS's own forest.

    python benchmarks/incidents.py --data DIR [--results results] [--seeds 5]

DIR is the folder that ``real.py`` takes, and scores are kept where it keeps them. Ours is StreamingSVEAD in
ConformalFilter with all defaults and the times of the events, unless a line says otherwise. The forest alerts where its
grade, AWS's own thresholding of its scores, is above 0; its alerts are grouped by the hold-off of ours. It sees one row
at a time, as ours does, or a shingle of 8 rows. Nothing is tuned for a series. *At random* is what incidents at random
rows would find. Figures are means over seeds, with their standard deviation.

Not measured: whether an operator would call a false incident false. NAB's and SKAB's labels are not complete.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from _incidents import (
    alert_rates,
    at_random,
    faults_of,
    grouped,
    judge_demo,
    judge_skab,
    kept,
    opened,
    overlapped,
    told,
)
from _judge import Figures, always_alarm
from _peers import Detector
from _rcf import random_cut_forest_grades
from _real import Machine, NabSeries, Series, suites
from _replay import Replay, alerts_of
from _scores import OURS_AT_ONCE, Scores, run
from _streams import Floats
from _tables import Column, Line, table
from river import anomaly

FORESTS = (
    Detector("AWS RandomCutForest grades", "raw", random_cut_forest_grades()),
    Detector("AWS RandomCutForest grades of 8 rows", "raw", random_cut_forest_grades(shingle=8)),
)
OURS = OURS_AT_ONCE
ALERT_RATE = 0.01
INCIDENT_RATES = (0.002, 0.005, 0.01, "0.5/day", "1/day")
DEFAULT_RATE = 0.005
DEMO_RATE = "4/day"  # what the demo asks for; it also learns its first day without alerts

FOUND: tuple[Column, ...] = (("found", "found", ".1f"), ("false", "false", ".1f"))
NAB: tuple[Column, ...] = (
    ("windows found", "found", ".1f"),
    ("false incidents", "false", ".1f"),
    ("incidents", "incidents", ".1f"),
    *((f"half {half}, {name}", f"{key}_{half}", form) for half in "AB" for name, key, form in FOUND),
)
RATES: tuple[Column, ...] = (
    ("series within 20 %, %", "held", ".0f"),
    ("or within one incident, %", "held_or_one", ".0f"),
    *((f"had ÷ asked, {name}", name, ".2f") for name in ("median", "min", "max")),
    ("windows found", "found", ".1f"),
    ("false incidents", "false", ".1f"),
)
ROWS: tuple[Column, ...] = (
    ("series within 20 %, %", "held", ".0f"),
    *((f"alerts %, {name}", name, ".2f") for name in ("median", "max")),
    *((f"in incidents, {name}", f"{name}_in", ".2f") for name in ("median", "max")),
    *((f"outside, {name}", f"{name}_out", ".2f") for name in ("median", "max")),
)
SKAB: tuple[Column, ...] = (
    ("faults found", "found", ".1f"),
    ("of these with a start within 30 s, %", "soon", ".0f"),
    ("false incidents", "false", ".1f"),
    ("FAR %", "far", ".1f"),
    ("MAR %", "mar", ".1f"),
    ("F1", "f1", ".3f"),
)
DEMO: tuple[Column, ...] = (
    ("faults found", "found", ".1f"),
    ("false incidents", "false", ".1f"),
    ("on the first day", "early", ".1f"),
    ("incidents", "incidents", ".1f"),
)

Told = Callable[[Any, Floats], list[tuple[int, int]]]
Judge = Callable[[Any, Any], Figures]


def ours(**settings: Any) -> Told:
    """Our incidents, with these settings."""
    return lambda one, scores: told(one, scores, **settings).incidents


def of_forest(one: Series, grades: Floats) -> list[tuple[int, int]]:
    """The incidents of the forest."""
    return grouped(grades > 0)


class Suite:
    """The streams of a suite and what is known of them."""

    def __init__(self, series: Sequence[Any], seeds: int, known: Scores) -> None:
        self.series, self.seeds, self.known = series, seeds, known

    def scores(self, detector: Detector) -> list[list[Floats]]:
        """The scores of every stream, for each seed."""
        return self.known.complete(detector.name, self.series, self.seeds)

    def line(self, detector: Detector, tell: Told, judge: Judge, name: str = "") -> Line:
        """A line of a table: what the incidents in a detector's scores are worth, for each seed."""
        figures = []
        for scores in self.scores(detector):
            incidents = [tell(one, s) for one, s in zip(self.series, scores, strict=True)]
            figures.append(judge(self.series, incidents))
        return name or detector.name, figures


def with_halves(judge: Judge) -> Judge:
    """The same figures for every second series, and for the others."""

    def judged(series: Sequence[Any], incidents: Sequence[Any]) -> Figures:
        figures = judge(series, incidents)
        for half, places in (("A", slice(0, None, 2)), ("B", slice(1, None, 2))):
            its = judge(series[places], incidents[places])
            figures |= {f"{name}_{half}": value for name, value in its.items()}
        return figures

    return judged


def nab_table(suite: Suite) -> str:
    """Windows found and false incidents, by two counts."""
    series: Sequence[NabSeries] = suite.series
    windows = [sum(one.n_windows for one in some) for some in (series, series[::2], series[1::2])]
    title = "NAB, {} series with {} windows; the halves are every second series, with {} and {}".format(
        len(series), *windows
    )
    rounds = range(suite.seeds)
    chance = [with_halves(opened)(series, at_random(series, DEFAULT_RATE, seed)) for seed in rounds]
    lines: list[Line] = [(f"*at random, {DEFAULT_RATE} an event*", chance)]
    for counted, judge in ((", opens in the window", opened), (", any overlap", overlapped)):
        lines.append(suite.line(OURS, ours(), with_halves(judge), OURS.name + counted))
        lines += [suite.line(forest, of_forest, with_halves(judge), forest.name + counted) for forest in FORESTS]
    return table(title, "detector, what counts", NAB, lines)


def rate_table(suite: Suite) -> str:
    """Whether the rate of incidents is what was asked for, and what it brings."""

    def judged(series: Sequence[NabSeries], incidents: Any, incident_rate: float | str) -> Figures:
        return kept(series, incidents, incident_rate) | opened(series, incidents)

    lines = []
    for rate in INCIDENT_RATES:
        name = rate if isinstance(rate, str) else f"{rate} an event" + (" (default)" if rate == DEFAULT_RATE else "")
        lines.append(suite.line(OURS, ours(incident_rate=rate), partial(judged, incident_rate=rate), name))
    return table("Incidents that were asked for, NAB after probation", "asked", RATES, lines)


def alert_table(suite: Suite) -> str:
    """Whether the rate of alerts is what was asked for; those of lasting incidents are exempt."""
    filtered, quantiles = [], []
    for scores in suite.scores(OURS):
        all_told = [told(one, s, alert_rate=ALERT_RATE) for one, s in zip(suite.series, scores, strict=True)]
        filtered.append(
            alert_rates(suite.series, [one.alerts for one in all_told], ALERT_RATE)
            | alert_rates(suite.series, [one.members for one in all_told], ALERT_RATE, "_in")
            | alert_rates(suite.series, [one.alerts & ~one.members for one in all_told], ALERT_RATE, "_out")
        )
        models = [anomaly.QuantileFilter(Replay(), q=1 - ALERT_RATE, protect_anomaly_detector=False) for _ in scores]
        alerts = [alerts_of(model, s.tolist()) for model, s in zip(models, scores, strict=True)]
        quantiles.append(alert_rates(suite.series, alerts, ALERT_RATE))
    lines: list[Line] = [("ConformalFilter", filtered), ("river QuantileFilter", quantiles)]
    return table(f"Alerts in % of the events, {ALERT_RATE:.0%} asked, NAB after probation", "filter", ROWS, lines)


def skab_table(suite: Suite) -> str:
    """Faults found at their start, and the rows within incidents."""
    series: Sequence[Series] = suite.series
    lines: list[Line] = [("*always alarm*", [always_alarm(series)])]
    lines.append(suite.line(OURS, ours(), judge_skab))
    lines += [suite.line(forest, of_forest, judge_skab) for forest in FORESTS]
    faults = sum(len(faults_of(one.y)) for one in series)
    return table(f"SKAB, {len(series)} runs with {faults} faults", "detector", SKAB, lines)


def demo_table(suite: Suite) -> str:
    """Faults found as incidents."""
    machines: Sequence[Machine] = suite.series
    faults = sum(len(one.faults) for one in machines) / len(machines)
    asked, as_demo = ours(incident_rate=DEMO_RATE), ours(incident_rate=DEMO_RATE, burn_in="1d")
    lines = [
        suite.line(OURS, as_demo, judge_demo, f"{OURS.name} as in the demo: {DEMO_RATE}, a day of burn-in"),
        suite.line(OURS, asked, judge_demo, f"{OURS.name}, {DEMO_RATE}"),
    ]
    lines += [suite.line(forest, of_forest, judge_demo) for forest in FORESTS]
    return table(f"Demo, means of {len(machines)} machines of {faults:.0f} faults each", "detector", DEMO, lines)


TABLES = {"nab": (nab_table, rate_table, alert_table), "skab": (skab_table,), "demo": (demo_table,)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sub-folders nab and skab, or one")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder for results (default: results)")
    parser.add_argument("--again", action="store_true", help="forget our scores that are known, to run them again")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of every detector (default: 5)")
    options = parser.parse_args(arguments)
    try:
        streams = suites(options.data)
    except ValueError as error:
        parser.error(str(error))
    known = Scores(options.results / "real")
    if options.again:
        known.forget(OURS.name)
    missing = run([OURS, *FORESTS], [one for series in streams.values() for one in series], options.seeds, known)
    for name, series in streams.items():
        if not series:
            print(f"no .npz files in {options.data / name}: left out", file=sys.stderr)
            continue
        for tabled in TABLES[name]:
            print(tabled(Suite(series, options.seeds, known)))
    for name, why in missing.items():
        print(f"Left out: {name} ({why}).")


if __name__ == "__main__":
    main()
