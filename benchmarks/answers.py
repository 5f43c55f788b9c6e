"""What answers of people are worth: the same streams without and with answers to alerts and reported misses.

    python benchmarks/answers.py --data DIR [--seeds 5] [--suites tables,drift,real] [--curve FILE.png]

DIR holds the sub-folders ``adbench`` (data sets as ``.npz`` files with the keys X and y), ``nab`` and ``skab``
(see ``_real.py``); those that are missing are left out, and five machines of the demo are always there. The detector
is the default one. A simulated person answers alerts as they come in the first half of a stream, in real streams the
event that opens an incident, and reports some missed anomalies at its end; judged is the second half alone, with all
its events scored before they are learned. *Worse* are the streams whose AUC falls by more than 0.02, and 0.03.
*All labels* is a random forest that has seen every label of the first half: what there was to learn.

Not measured: people who only answer what they like to answer, or late.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from _answering import Case, Figures, Person, after_answers, supervised
from _real import Series, demo, nab, skab
from _streams import DRIFTS, streams
from _tables import Column, Line, table

PEOPLE = (
    *(Person(n) for n in (0, 10, 20, 50, 100)),
    Person(50, wrong=0.1),
    *(Person(*both) for both in ((20, 20), (50, 10), (100, 50))),
    Person(20, 20, wrong=0.1),
)
COLUMNS: tuple[Column, ...] = (
    *(("AUC", "auc", ".3f"), ("AP", "ap", ".3f"), ("precision of the top 1 %", "precision", ".3f")),
    *(("+ AUC", "more_auc", "+.3f"), ("+ AP", "more_ap", "+.3f"), ("+ precision", "more_precision", "+.3f")),
    *(("+ AUC / AP, half A", "half_A", "s"), ("half B", "half_B", "s"), ("worse", "worse", "s")),
    *(("answers", "answers", ".0f"), ("alerts, 1 % asked", "alerts", ".2%")),
)
SUITES = {"tables": "{n} data sets in random order", "drift": "{n} drifting streams", "real": "{n} real streams"}


def cases(data: Path, seed: int, suites: Sequence[str]) -> dict[str, list[Case]]:
    """The streams of each suite for one seed."""
    made: dict[str, list[Case]] = {}
    if (data / "adbench").exists() and {"tables", "drift"} & set(suites):
        for one in streams(data / "adbench", seed, 5_000, 4_600):
            suite = "drift" if one.kind in DRIFTS else "tables"
            made.setdefault(suite, []).append(Case(f"{one.dataset} {one.kind}", one.X, one.y, one.warm_up))
    if "real" in suites:
        real: list[Series] = [*nab(data / "nab"), *demo()]
        made["real"] = [Case(one.name, one.X, one.y, max(one.start, 256), by_incident=True) for one in real]
        runs = skab(data / "skab")
        if runs:  # one rig, run after run: each alone has one fault, at its end
            X, y = np.concatenate([run.X for run in runs]), np.concatenate([run.y for run in runs])
            made["real"].append(Case("all runs of skab", X, y, 400, by_incident=True))
    return {suite: [case for case in made.get(suite, []) if case.judged] for suite in suites if made.get(suite)}


def compared(ours: Sequence[Figures], before: Sequence[Figures]) -> Figures:
    """Means over the streams, and how they differ from those without answers."""
    mean = {name: float(np.mean([one[name] for one in ours])) for name in ours[0]}
    for name in ("auc", "ap", "precision"):
        mean[f"more_{name}"] = mean[name] - float(np.mean([one[name] for one in before]))
    return mean


def changes(seeds: Sequence[Sequence[Figures]], before: Sequence[Sequence[Figures]]) -> dict[str, str]:
    """What is told of streams as means over the seeds: gains in both halves of the suite, and which got worse."""
    by_stream = {
        name: np.mean([[one[name] for one in ours] for ours in seeds], axis=0)
        - np.mean([[one[name] for one in ours] for ours in before], axis=0)
        for name in ("auc", "ap")
    }
    worse = [int((by_stream["auc"] < -limit).sum()) for limit in (0.02, 0.03)]
    told = {"worse": "{}, {}".format(*worse)}
    for name, first in (("half_A", 0), ("half_B", 1)):
        halves = [by_stream[key][first::2] for key in ("auc", "ap")]
        told[name] = " / ".join(f"{half.mean():+.3f}" for half in halves if len(half))
    return told


def lines(
    suite: str, by_seed: Sequence[Sequence[Case]], people: Sequence[Person]
) -> tuple[list[Line], dict[str, dict[str, str]]]:
    """One line a person, and one for all labels; beside it what is told as text."""
    who: dict[str, Callable[[Case, int], Figures]] = {
        str(person): partial(after_answers, person=person) for person in people
    }
    who["all labels"] = supervised
    found: list[Line] = []
    texts: dict[str, dict[str, str]] = {}
    before: list[list[Figures]] = []
    for name, judge in who.items():
        figures = []
        for seed, of_seed in enumerate(by_seed):
            print(f"{suite}: {name}, seed {seed}   ", end="\r", file=sys.stderr, flush=True)
            figures.append([judge(case, seed=seed) for case in of_seed])
        before = before or figures
        found.append((name, [compared(ours, then) for ours, then in zip(figures, before, strict=True)]))
        texts[name] = changes(figures, before)
    print(" " * 60, end="\r", file=sys.stderr)
    return found, texts


def printed(title: str, found: Sequence[Line], texts: dict[str, dict[str, str]]) -> str:
    """The table of a suite: means and deviations over seeds, then what is told as text."""
    numbers = [column for column in COLUMNS if column[2] != "s"]
    words = [column for column in COLUMNS if column[2] == "s"]
    rows = table(title, "answers", numbers, found).splitlines()
    head = next(i for i, row in enumerate(rows) if row.startswith("| answers"))
    rows[head] += "".join(f" {heading} |" for heading, _, _ in words)
    rows[head + 1] += "---:|" * len(words)
    for i, (name, _) in enumerate(found, start=head + 2):
        rows[i] += "".join(f" {texts[name][key]} |" for _, key, _ in words)
    return "\n".join(rows) + "\n"


def draw(found: Sequence[Line], path: Path) -> None:
    """AUC, AP and precision over the number of answers, with and without reported misses."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    means = {name: {key: float(np.mean([one[key] for one in seeds])) for key in seeds[0]} for name, seeds in found}
    kinds = {
        "answered alerts": ("o-", "#3567c7", [one for one in PEOPLE if not one.misses and not one.wrong]),
        "and so many misses reported": ("D", "#8a6d00", [one for one in PEOPLE if one.misses and not one.wrong]),
        "10 % of them wrong": ("X", "#d1410c", [one for one in PEOPLE if one.wrong]),
    }
    figure, plots = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    for plot, (key, title) in zip(
        plots, (("auc", "AUC"), ("ap", "AP"), ("precision", "precision of the top 1 %")), strict=True
    ):
        for label, (style, colour, people) in kinds.items():
            values = [means[str(person)][key] for person in people]
            plot.plot([person.answers for person in people], values, style, color=colour, label=label)
            for person, value in zip(people, values, strict=True):
                if person.misses:
                    at = (person.answers, value)
                    plot.annotate(f"+ {person.misses}", at, (6, 2), textcoords="offset points", size=8, color=colour)
        plot.set(title=title, xlabel="answered alerts", xlim=(-4, 115))
        plot.margins(y=0.1)
        plot.spines[["top", "right"]].set_visible(False)
    figure.legend(*plots[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sub-folders adbench, nab and skab")
    parser.add_argument("--seeds", type=int, default=5, help="shuffles of every data set, and seeds (default: 5)")
    parser.add_argument("--suites", default=",".join(SUITES), help="tables, drift, real; separated by commas")
    parser.add_argument("--curve", type=Path, help="draw what the data sets gain to this file")
    options = parser.parse_args(arguments)
    suites = options.suites.split(",")
    if unknown := set(suites) - set(SUITES):
        parser.error(f"--suites {min(unknown)}: there are {', '.join(SUITES)}")
    made = [cases(options.data, seed, suites) for seed in range(options.seeds)]
    for suite in made[0]:
        by_seed = [one[suite] for one in made]
        names = set.intersection(*({case.name for case in streams} for streams in by_seed))
        by_seed = [[case for case in streams if case.name in names] for streams in by_seed]
        found, texts = lines(suite, by_seed, PEOPLE)
        print(printed(SUITES[suite].format(n=len(names)), found, texts))
        if options.curve is not None and suite == "tables":
            draw(found, options.curve)


if __name__ == "__main__":
    main()
