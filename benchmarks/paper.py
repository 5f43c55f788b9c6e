"""The paper's experiments, run again with `SVEAD`: each becomes a table (Markdown and CSV) and a picture.

    python benchmarks/paper.py --data DIR [--results results/paper] [--only tables,synthetic,...]

DIR holds data sets as ``.npz`` files (keys X and y, 1 marks an anomaly), named as in ADBench. Every finished fit is a
line in a file of the results folder: the run can be stopped with Ctrl-C, and the same command goes on. Progress goes
to stderr, the tables to stdout and files. Needs `pip install 'svead-stream[bench]'`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

try:
    import matplotlib  # noqa: F401  (looked for here, so that its absence is one line)
except ImportError:
    sys.exit("matplotlib is not installed; `pip install 'svead-stream[bench]'` brings what this benchmark needs")

from _paper_methods import BY_NAME
from _paper_ranks import ranks
from _paper_store import Store, Unusable, load_all, load_figures, say
from _paper_studies import ablation, contamination, kinds, run_time, sensitivity
from _paper_tables import tables

FIGURES = Path(__file__).with_name("paper_results.json")
EXPERIMENTS = ("tables", "ranks", "synthetic", "ablation", "sensitivity", "contamination", "runtime")
WITH_DATA = {"tables", "ranks", "sensitivity", "contamination"}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .npz data sets (X, y)")
    parser.add_argument("--results", type=Path, default=Path("results/paper"), help="folder for tables and pictures")
    parser.add_argument("--paper", type=Path, default=FIGURES, help="the paper's tables as JSON (default: ours)")
    parser.add_argument("--only", default=",".join(EXPERIMENTS), help=f"of {','.join(EXPERIMENTS)}")
    parser.add_argument("--methods", default=",".join(BY_NAME), help=f"of {','.join(BY_NAME)}; SVEAD always runs")
    parser.add_argument("--cap", type=int, default=10_000, help="points of a data set at most; 0: all (default: 10000)")
    parser.add_argument("--seeds", type=int, default=5, help="runs of what is random (default: 5)")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds of a baseline on a data set (60)")
    parser.add_argument("--largest", type=int, default=500_000, help="most points of the run-time experiment")
    parser.add_argument("--again", default="", help="methods whose known results are dropped, separated by commas")
    options = parser.parse_args(arguments)
    for name, known in (("only", EXPERIMENTS), ("methods", tuple(BY_NAME)), ("again", tuple(BY_NAME))):
        chosen = [part for part in getattr(options, name).split(",") if part]
        unknown = [part for part in chosen if part not in known]
        if unknown:
            parser.error(f"--{name} {','.join(unknown)}: known are {', '.join(known)}")
        setattr(options, name, chosen)
    if options.data is None and WITH_DATA & set(options.only):
        parser.error(f"--data is needed for {', '.join(e for e in options.only if e in WITH_DATA)}")
    if options.seeds < 1 or options.cap < 0:
        parser.error("--seeds must be 1 or more, --cap 0 or more")
    options.methods = ["SVEAD", *[name for name in options.methods if name != "SVEAD"]]
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen experiments; returns the exit code."""
    options = _options(arguments)
    try:
        _run(options)
    except Unusable as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("\nstopped; what was finished is kept, and the same command goes on from here")
        return 130
    say(f"tables and pictures are in {options.results}")
    return 0


def _run(o: argparse.Namespace) -> None:
    store = Store(o.results / "results.jsonl")
    for method in o.again:
        store.forget(method)
    paper = load_figures(o.paper) if o.paper.exists() else {}
    datasets = load_all(o.data, o.cap, paper.get("auc_roc", {})) if WITH_DATA & set(o.only) else []
    experiments: dict[str, Callable[[], str]] = {
        "tables": lambda: tables(datasets, paper, o.methods, o.seeds, o.limit, store, o.results),
        "ranks": lambda: ranks(datasets, paper, o.methods, o.seeds, o.limit, store, o.results),
        "synthetic": lambda: kinds(o.seeds, store, o.results),
        "ablation": lambda: ablation(o.seeds, store, o.results),
        "sensitivity": lambda: sensitivity(datasets, o.seeds, store, o.results),
        "contamination": lambda: contamination(datasets, o.seeds, store, o.results, runs=2 * o.seeds),
        "runtime": lambda: run_time(o.limit, store, o.results, o.largest),
    }
    for name in EXPERIMENTS:
        if name in o.only:
            say(f"{name} ...")
            text = experiments[name]()
            (o.results / f"{name}.md").write_text(text)
            print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
