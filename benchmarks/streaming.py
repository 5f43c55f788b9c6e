"""Accuracy on streams: our default against every streaming detector that is installed, stationary and drifting.

    python benchmarks/streaming.py --data DIR [--results results] [--detectors river,svead] [--seeds 1]

DIR holds data sets as ``.npz`` files (keys X and y, 1 marks an anomaly). Every detector scores each point before it
learns it; AUC and AP are over what follows the first 256 points. Each finished (detector, stream) is a line in a
file of the results folder, so the run can be stopped at any time and goes on where it was. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _peers import DETECTORS, Detector, Setting, scaled
from _streams import DRIFTS, Floats, Stream, streams
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score

Result = dict[str, Any]

BLOCK = 50  # rows between two looks at the clock
SPAN = 2_000  # points before and after an abrupt change that recovery compares
ALERTS = 0.01  # share of points above the fixed threshold before the change
STEP = 250  # points over which the rate of alerts is counted after it


def recovery(stream: Stream, scores: Floats, settled: Floats) -> Result:
    """AUC around an abrupt change, and the points until alerts at a fixed threshold are back to normal.

    ``settled`` are the scores of a model that saw the new behaviour from the start: what can be reached after the
    change. The AUC before it is another problem, which may be easier or harder.
    """
    change = stream.change or 0
    before = slice(max(stream.warm_up, change - SPAN), change)
    after = slice(change, min(change + SPAN, len(scores)))
    if len({*stream.y[before].tolist()}) < 2 or len({*stream.y[after].tolist()}) < 2:
        return {}
    threshold = np.quantile(scores[before], 1.0 - ALERTS)
    alerts = scores[change:] > threshold
    back = len(alerts)
    for start in range(0, len(alerts) - STEP + 1, STEP // 5):
        if alerts[start : start + STEP].mean() <= 2.0 * ALERTS:
            back = start
            break
    return {
        "auc_before": float(roc_auc_score(stream.y[before], scores[before])),
        "auc_after": float(roc_auc_score(stream.y[after], scores[after])),
        "auc_settled": float(roc_auc_score(stream.y[after], settled[after])),
        "alerts_back_after": back,
    }


def feed(detector: Detector, stream: Stream, X: Floats, limit: float) -> tuple[Floats, int, float]:
    """Scores of a fresh detector, how many points it reached within the limit, and its processor time."""
    X = scaled(X, detector.scaling)
    step = detector.start(Setting(X.shape[1], stream.seed, X[: stream.warm_up]))
    scores = np.zeros(len(X))
    done, began, seconds = 0, time.process_time(), 0.0
    while done < len(X) and seconds < limit:
        scores[done : done + BLOCK] = step(X[done : done + BLOCK])
        done = min(done + BLOCK, len(X))
        seconds = time.process_time() - began
    return np.nan_to_num(scores, posinf=1e300), done, seconds


def measure(detector: Detector, stream: Stream, limit: float) -> Result:
    """Feed the stream, stop at the limit of processor time, judge the points that were reached."""
    scores, done, seconds = feed(detector, stream, stream.X, limit)
    result: Result = {"points": done, "seconds": seconds, "slow": done < len(scores)}
    y, s = stream.y[stream.warm_up : done], scores[stream.warm_up : done]
    if len(y) and 0 < y.mean() < 1:
        result |= {"auc": float(roc_auc_score(y, s)), "ap": float(average_precision_score(y, s))}
        if stream.settled is not None and done == len(scores):
            settled, reached, _ = feed(detector, stream, stream.settled, limit)
            result |= recovery(stream, scores, settled) if reached == done else {}
    return result


class Store:
    """Results on disk, a file of JSON lines per detector; a line that was cut short by an interruption is dropped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.results: dict[tuple[str, str], Result] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                try:
                    row = json.loads(line)
                    self.results[row["detector"], row["stream"]] = row
                except (ValueError, KeyError):
                    continue

    def add(self, row: Result) -> None:
        """Keep a result, in memory and on disk."""
        self.results[row["detector"], row["stream"]] = row
        name = "".join(c if c.isalnum() else "-" for c in row["detector"])
        with (self.folder / f"{name}.jsonl").open("a") as file:
            file.write("\n" + json.dumps(row))  # the line break first: a line cut short harms itself only

    def forget(self, detector: str) -> None:
        """Drop what is known of a detector, on disk too, to measure it again."""
        name = "".join(c if c.isalnum() else "-" for c in detector)
        (self.folder / f"{name}.jsonl").unlink(missing_ok=True)
        self.results = {key: row for key, row in self.results.items() if key[0] != detector}


def _too_slow(name: str, store: Store) -> bool:
    """Whether a detector hit the time limit on more than half of the stationary streams."""
    slow = [r.get("slow", False) for (d, _), r in store.results.items() if d == name and r["kind"] == "stationary"]
    return bool(sum(slow) > len(slow) / 2)


def run(detectors: Sequence[Detector], made: Sequence[Stream], store: Store, limit: float) -> dict[str, str]:
    """Measure what is not in the store yet; returns the detectors that could not be started, and why.

    A detector that is too slow for most stationary streams is not run on the drifting ones: there, what it reaches
    within the limit ends before anything drifts.
    """
    missing: dict[str, str] = {}
    for stream in sorted(made, key=lambda stream: stream.kind != "stationary"):
        for detector in detectors:
            if detector.name in missing or (detector.name, stream.name) in store.results:
                continue
            if stream.kind != "stationary" and _too_slow(detector.name, store):
                continue
            row: Result = {"detector": detector.name, "stream": stream.name}
            row |= {"dataset": stream.dataset, "kind": stream.kind, "seed": stream.seed}
            row["share"] = float(stream.y[stream.warm_up :].mean())
            try:
                row |= measure(detector, stream, limit)
            except ImportError as error:
                missing[detector.name] = f"not installed: {str(error).splitlines()[0]}"
                print(f"{detector.name}: {missing[detector.name]}", file=sys.stderr)
                continue
            except Exception as error:  # a peer's own failure on one stream must not end the comparison
                row["error"] = f"{type(error).__name__}: {error}"[:200]
            store.add(row)
            shown = f"AUC {row['auc']:.3f}" if "auc" in row else row.get("error", "too slow to be judged")
            mark = " (time limit)" if row.get("slow") else ""
            print(f"{detector.name} on {stream.name}: {shown}{mark}", file=sys.stderr)
    return missing


def _mean(values: Sequence[float] | Floats) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _common(store: Store, names: set[str], drifting: bool) -> tuple[list[str], list[dict[str, Result]]]:
    """The detectors to compare on stationary (or drifting) streams, and the rows of the streams they all did.

    A detector that was not judged on most of the streams is left out, so that it does not narrow the comparison.
    """
    by_stream: dict[str, dict[str, Result]] = defaultdict(dict)
    for (detector, stream), row in store.results.items():
        if stream in names and (row["kind"] != "stationary") == drifting:
            by_stream[stream][detector] = row
    judged: dict[str, int] = defaultdict(int)
    for rows in by_stream.values():
        for name, row in rows.items():
            judged[name] += "auc" in row
    present = sorted(name for name, count in judged.items() if count > 0.6 * max(judged.values()))
    return present, [rows for rows in by_stream.values() if all(name in rows for name in present)]


def _left_out(name: str, rows: Sequence[Result], width: int) -> str:
    """The line of a detector that is not compared: how far it came."""
    slow = sum(row.get("slow", False) for row in rows)
    errors = {row["error"].split(":")[0] for row in rows if "error" in row}
    judged = sum("auc" in row for row in rows)
    why = f"not compared: judged on {judged} of {len(rows)} streams, {slow} at the time limit"
    return f"| {name} | " + " | ".join(
        [why + (f", {', '.join(sorted(errors))}" if errors else ""), *[""] * (width - 4)]
    )


def _speed(rows: Sequence[Result]) -> str:
    points, seconds = sum(row.get("points", 0) for row in rows), sum(row.get("seconds", 0.0) for row in rows)
    return f"{points / max(seconds, 1e-9):,.0f}"


def table(store: Store, names: set[str], missing: dict[str, str]) -> str:
    """One line a detector: mean AUC, AP and rank over the stationary and over the drifting streams, and speed.

    Compared on the streams that all have done. A stream that a detector failed on, or whose judged part it
    did not reach in time, counts as chance: an AUC of 0.5, the share of anomalies as AP.
    """
    heads = ["AUC", "AP", "rank", "drift AUC", "drift AP", "drift rank", *DRIFTS, "events/s", "slow", "failed"]
    rows_of: dict[str, list[Result]] = defaultdict(list)
    for (detector, stream), row in sorted(store.results.items()):
        if stream in names:
            rows_of[detector].append(row)
    cells: dict[str, list[str]] = {}
    counts = []
    for drifting in (False, True):
        present, common = _common(store, names, drifting)
        counts.append(len(common))
        auc = np.array([[rows[name].get("auc", 0.5) for name in present] for rows in common])
        ap = np.array([[rows[name].get("ap", rows[name]["share"]) for name in present] for rows in common])
        ranks = rankdata(-auc, axis=1) if len(common) else auc
        kinds = np.array([next(iter(rows.values()))["kind"] for rows in common])
        for k, name in enumerate(present if common else []):
            line = cells.setdefault(name, [""] * 3 if drifting else [])
            line += [f"{auc[:, k].mean():.3f}", f"{ap[:, k].mean():.3f}", f"{ranks[:, k].mean():.1f}"]
            line += [f"{_mean(auc[kinds == kind, k]):.3f}" for kind in DRIFTS] if drifting else []
    lines = [f"{counts[0]} stationary and {counts[1]} drifting streams. Slow: streams stopped at the time limit.", ""]
    lines += ["| detector | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for name in sorted(cells, key=lambda name: cells[name][0], reverse=True):
        rows = rows_of[name]
        line = cells[name] + [""] * (len(heads) - 3 - len(cells[name]))
        line += [_speed(rows), str(sum(row.get("slow", False) for row in rows))]
        lines.append(f"| {name} | " + " | ".join([*line, str(sum("auc" not in row for row in rows))]) + " |")
    for name in sorted(rows_of.keys() - cells.keys()):
        lines.append(_left_out(name, rows_of[name], len(heads)) + f" | {_speed(rows_of[name])} | | |")
    lines += [f"| {name} | {why} |" + " |" * (len(heads) - 1) for name, why in missing.items()]
    return "\n".join(lines)


def recovery_table(store: Store, detectors: Sequence[Detector], names: set[str]) -> str:
    """What an abrupt change does: AUC before and after it, and how soon a fixed threshold holds again."""
    lines = [
        "| detector | streams | AUC before | AUC after | AUC settled | alerts back after (median) | within 1,000 |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for detector in detectors:
        rows = [r for (d, s), r in store.results.items() if d == detector.name and s in names and "auc_settled" in r]
        if rows:
            back = np.array([row["alerts_back_after"] for row in rows])
            auc = [f"{_mean([row[key] for row in rows]):.3f}" for key in ("auc_before", "auc_after", "auc_settled")]
            cells = [str(len(rows)), *auc, f"{np.median(back):.0f}", str((back <= 1_000).sum())]
            lines.append(f"| {detector.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_details(store: Store, names: set[str], path: Path) -> None:
    """Every measurement as a line of a CSV file."""
    fields = ["detector", "stream", "dataset", "kind", "seed", "share", "points", "seconds", "slow", "auc", "ap"]
    fields += ["auc_before", "auc_after", "auc_settled", "alerts_back_after", "error"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(row for (_, stream), row in sorted(store.results.items()) if stream in names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of .npz data sets (X, y)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder for results (default: results)")
    parser.add_argument(
        "--detectors", default="", help="only those whose name contains one of these, separated by commas"
    )
    parser.add_argument("--again", default="", help="forget what is known of these detectors (parts of names)")
    parser.add_argument("--seeds", type=int, default=1, help="shuffles of every data set (default: 1)")
    parser.add_argument("--cap", type=int, default=5_000, help="points of a stationary stream at most")
    parser.add_argument("--drift-sets", type=int, default=6, help="large data sets to make drifting streams from")
    parser.add_argument("--drift-cap", type=int, default=4_600, help="points of a drifting stream at most")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds of processor time for a detector and a stream (default: 60)"
    )
    parser.add_argument("--table-only", action="store_true", help="print the tables of what is known, run nothing")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # the peers' own, about their internals
    wanted = [part for part in options.detectors.split(",") if part]
    detectors = [d for d in DETECTORS if not wanted or any(part in d.name for part in wanted)]
    store = Store(options.results / "streaming")
    for part in filter(None, options.again.split(",")):
        for detector in DETECTORS:
            if part in detector.name:
                store.forget(detector.name)
    names: set[str] = set()
    missing: dict[str, str] = {}
    for seed in range(options.seeds):
        made = list(streams(options.data, seed, options.cap, options.drift_cap, options.drift_sets))
        names |= {stream.name for stream in made}
        if not options.table_only:
            missing |= run(detectors, made, store, options.limit)
    write_details(store, names, options.results / "streaming.csv")
    print(table(store, names, missing))
    print("\nAfter an abrupt change (AUC over 2,000 points, alerts at the 99 % quantile of the scores before it):\n")
    print(recovery_table(store, detectors, names))


if __name__ == "__main__":
    main()
