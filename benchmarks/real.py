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
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _judge import Figures, always_alarm, judge_demo, judge_nab, judge_skab
from _peers import DETECTORS, OURS, Detector, Setting, Step, dsalmon, scaled
from _rcf import NoForest, random_cut_forest
from _real import Series, demo, nab, skab
from _streams import WARM_UP, Floats


def _ours(setting: Setting) -> Step:
    from svead_stream import StreamingSVEAD

    return StreamingSVEAD(seed=setting.seed).score_learn_many


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
    Detector(OURS.name, "raw", _ours),
    Detector("AWS RandomCutForest", "raw", random_cut_forest),
    Detector("dSalmon SWKNN", "minmax", dsalmon("SWKNN", window=1_000, k=5)),
    Detector("dSalmon SDOstream", "minmax", dsalmon("SDOstream", k=200, T=4_000)),
    _AS_ELSEWHERE["dSalmon RSHash"],
    _AS_ELSEWHERE["river HalfSpaceTrees"],
    Detector("trivial z-score", "raw", _deviations),
)
WITHOUT_CHANCE = ("dSalmon SWKNN", "trivial z-score")  # one seed tells all

Judge = Callable[[Any, Sequence[Floats]], Figures]
Column = tuple[str, str, str]  # heading, figure, format

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


class Scores:
    """Scores on disk, a file per detector, stream and seed; written beside and renamed, so that none is cut short."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _of(self, detector: str) -> Path:
        return self.folder / "".join(c if c.isalnum() else "-" for c in detector)

    def _path(self, detector: str, one: Series, seed: int) -> Path:
        return self._of(detector) / one.suite / f"{one.name}.{seed}.npy"

    def get(self, detector: str, one: Series, seed: int) -> Floats | None:
        """What is known, unless it is of a file that has changed its length since."""
        path = self._path(detector, one, seed)
        scores: Floats | None = np.load(path) if path.exists() else None
        return scores if scores is not None and len(scores) == len(one.y) else None

    def add(self, detector: str, one: Series, seed: int, scores: Floats) -> None:
        """Keep the scores of a whole stream."""
        path = self._path(detector, one, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part.npy")
        np.save(beside, scores)
        beside.replace(path)

    def forget(self, detector: str) -> None:
        """Drop what is known of a detector, to run it again."""
        shutil.rmtree(self._of(detector), ignore_errors=True)


def score(detector: Detector, one: Series, seed: int) -> Floats:
    """Scores of a fresh detector over the stream; 0 where it says that it cannot tell yet (NaN, infinite)."""
    X = scaled(one.X, detector.scaling)
    scores = detector.start(Setting(X.shape[1], seed, X[:WARM_UP]))(X)
    return np.where(np.isfinite(scores), scores, 0.0)


def run(detectors: Sequence[Detector], series: Sequence[Series], seeds: int, known: Scores) -> dict[str, str]:
    """Score what is not known yet; returns the detectors that could not be run, and why."""
    missing: dict[str, str] = {}
    for seed in range(seeds):
        for detector in detectors:
            for one in series:
                if detector.name in missing or (seed and detector.name in WITHOUT_CHANCE):
                    break
                if known.get(detector.name, one, seed) is not None:
                    continue
                try:
                    known.add(detector.name, one, seed, score(detector, one, seed))
                    print(f"{detector.name} on {one.suite}/{one.name}, seed {seed}", file=sys.stderr)
                except ImportError as error:
                    missing[detector.name] = f"not installed: {str(error).splitlines()[0]}"
                except NoForest as error:
                    missing[detector.name] = str(error)
                except Exception as error:  # a peer's own failure must not end the comparison
                    missing[detector.name] = f"{type(error).__name__} on {one.suite}/{one.name}: {error}"[:200]
    for name, why in missing.items():
        print(f"{name}: {why}", file=sys.stderr)
    return missing


def _cell(values: Sequence[float], form: str) -> str:
    if np.isnan(values).any():
        return ""
    spread = f" ± {np.std(values, ddof=1):{form}}" if len(values) > 1 else ""
    return f"{np.mean(values):{form}}{spread}"


def table(suite: str, detectors: Sequence[Detector], series: Sequence[Series], seeds: int, known: Scores) -> str:
    """One line a detector, over the seeds for which it has scored every stream of the suite."""
    title, judge, columns = SUITES[suite]
    lines: list[tuple[str, int, list[Figures]]] = []
    if suite == "skab":
        lines.append(("*always alarm*", 0, [always_alarm(series)]))
    for detector in detectors:
        figures = []
        for seed in range(seeds):
            scores = [known.get(detector.name, one, seed) for one in series]
            complete = [s for s in scores if s is not None]
            if len(complete) == len(series):
                figures.append(judge(series, complete))
        if figures:
            lines.append((detector.name, len(figures), figures))
    printed = [title.format(n=len(series)), "", "| detector | seeds | " + " | ".join(c[0] for c in columns) + " |"]
    printed.append("|---|---:|" + "---:|" * len(columns))
    for name, n, figures in lines:
        cells = [_cell([f.get(key, float("nan")) for f in figures], form) for _, key, form in columns]
        printed.append(f"| {name} | {n or ''} | " + " | ".join(cells) + " |")
    return "\n".join(printed)


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
        suites: dict[str, Sequence[Series]] = {"nab": nab(options.data / "nab"), "skab": skab(options.data / "skab")}
    except ValueError as error:
        parser.error(str(error))
    if not any(suites.values()):
        parser.error(f"no .npz files in {options.data / 'nab'} or {options.data / 'skab'}: one of them is needed")
    suites["demo"] = demo()
    wanted = [part for part in options.detectors.split(",") if part]
    detectors = [d for d in REAL_DETECTORS if not wanted or any(part in d.name for part in wanted)]
    known = Scores(options.results / "real")
    for part in filter(None, options.again.split(",")):
        for detector in REAL_DETECTORS:
            if part in detector.name:
                known.forget(detector.name)
    everything = [one for series in suites.values() for one in series]
    missing = {} if options.table_only else run(detectors, everything, options.seeds, known)
    for suite, series in suites.items():
        if series:
            print(table(suite, detectors, series, options.seeds, known) + "\n")
        else:
            print(f"no .npz files in {options.data / suite}: left out", file=sys.stderr)
    for name, why in missing.items():
        print(f"Left out: {name} ({why}).")


if __name__ == "__main__":
    main()
