"""Accuracy on real streams in their own order: NAB, SKAB and the demo's machine, our default beside peers.

    python benchmarks/real.py --data DIR [--results results] [--detectors river,svead] [--seeds 5]

DIR has the sub-folders ``nab`` and ``skab``, or one of them; ``_real.py`` says what is in their files. Every detector
scores each event before it learns it, and gives one array of scores a stream; everything after that is the same for
all. Scores are kept in the results folder, a file per detector, stream and seed, so the run can be stopped at any
time and goes on where it was. Progress goes to stderr. Figures are means over seeds, with their standard deviation.

Ours and AWS's Random Cut Forest get raw values. The other peers are fed the stream min-max scaled over its *whole*
length, which no live system could do; it is in their favour.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _judge import Figures, always_alarm, judge_demo, judge_nab, judge_skab
from _peers import DETECTORS, Detector, Setting, Step, dsalmon
from _rcf import random_cut_forest
from _real import Series, suites
from _scores import OURS_AT_ONCE, Scores, run
from _streams import Floats
from _tables import Column, Line
from _tables import table as printed


def _deviations(setting: Setting) -> Step:
    """The floor: how many standard deviations from the mean of all that was seen, averaged over the features."""

    def step(X: Floats) -> Floats:
        scores = np.zeros(len(X))
        mean, squares = np.zeros(setting.n_features), np.zeros(setting.n_features)
        for n, x in enumerate(X, start=1):
            off = x - mean
            deviation = np.sqrt(squares / max(n - 1, 1))
            scores[n - 1] = np.mean(np.abs(off) / np.where(deviation > 0, deviation, np.inf))
            mean = mean + off / n
            squares = squares + off * (x - mean)
        return scores

    return step


_AS_ELSEWHERE = {detector.name: detector for detector in DETECTORS}

# Two memories are longer than in the benchmark of shuffled tables, where there is nothing to remember. SDOstream is
# much the same from T = 3,000 to 5,000 and weaker with 500.
REAL_DETECTORS = (
    OURS_AT_ONCE,
    Detector("AWS RandomCutForest", "raw", random_cut_forest),
    Detector("dSalmon SWKNN", "minmax", dsalmon("SWKNN", window=1_000, k=5)),
    Detector("dSalmon SDOstream", "minmax", dsalmon("SDOstream", k=200, T=4_000)),
    _AS_ELSEWHERE["dSalmon RSHash"],
    _AS_ELSEWHERE["river HalfSpaceTrees"],
    Detector("trivial z-score", "raw", _deviations),
)

Judge = Callable[[Any, Sequence[Floats]], Figures]

RANKING: tuple[Column, ...] = (("ROC AUC", "auc", ".3f"), ("AP", "ap", ".3f"))
SUITES: dict[str, tuple[str, Judge, tuple[Column, ...]]] = {
    "nab": (
        "NAB, {n} series",
        judge_nab,
        (("score, raw", "raw", ".1f"), ("score, rank in 5,000 + hold-off 120", "held", ".1f"), *RANKING),
    ),
    "skab": (
        "SKAB, {n} runs",
        judge_skab,
        (
            *(("F1", "f1", ".3f"), ("FAR %", "far", ".1f"), ("MAR %", "mar", ".1f")),
            *(("F1, mean of 20", "f1_mean", ".3f"), ("FAR %", "far_mean", ".1f"), ("MAR %", "mar_mean", ".1f")),
            *RANKING,
        ),
    ),
    "demo": (
        "Demo, {n} machines of 28 faults each",
        judge_demo,
        (*RANKING, ("faults found", "found", ".1f"), ("false alarms", "false", ".1f")),
    ),
}


def table(suite: str, detectors: Sequence[Detector], series: Sequence[Series], seeds: int, known: Scores) -> str:
    """One line a detector, over the seeds for which it has scored every stream of the suite."""
    title, judge, columns = SUITES[suite]
    lines: list[Line] = [("*always alarm*", [always_alarm(series)])] if suite == "skab" else []
    for detector in detectors:
        found = known.complete(detector.name, series, seeds)
        lines.append((detector.name, [judge(series, scores) for scores in found]))
    return printed(title.format(n=len(series)), "detector", columns, lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sub-folders nab and skab, or one")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder for results (default: results)")
    parser.add_argument(
        "--detectors", default="", help="only those whose name contains one of these, separated by commas"
    )
    parser.add_argument("--again", default="", help="forget what is known of these detectors (parts of names)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of every detector (default: 5)")
    parser.add_argument("--table-only", action="store_true", help="print the tables of what is known, run nothing")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # the peers' own, about their internals
    try:
        streams = suites(options.data)
    except ValueError as error:
        parser.error(str(error))
    wanted = [part for part in options.detectors.split(",") if part]
    detectors = [d for d in REAL_DETECTORS if not wanted or any(part in d.name for part in wanted)]
    known = Scores(options.results / "real")
    for part in filter(None, options.again.split(",")):
        for detector in REAL_DETECTORS:
            if part in detector.name:
                known.forget(detector.name)
    everything = [one for series in streams.values() for one in series]
    missing = {} if options.table_only else run(detectors, everything, options.seeds, known)
    for suite, series in streams.items():
        if series:
            print(table(suite, detectors, series, options.seeds, known))
        else:
            print(f"no .npz files in {options.data / suite}: left out", file=sys.stderr)
    for name, why in missing.items():
        print(f"Left out: {name} ({why}).")


if __name__ == "__main__":
    main()
