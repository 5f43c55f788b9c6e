"""What every experiment of the paper's benchmark stands on: data sets, the paper's figures, and results on disk.

A finished fit is one line of a file, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Row = dict[str, Any]
Figures = dict[str, dict[str, dict[str, float]]]  # metric, data set, method

_OTHER_NAMES = {"cardiotocography": "cardio2"}  # the data set's own name against the paper's


class Unusable(ValueError):
    """A file or folder that is not what the benchmark needs."""


@dataclass(frozen=True)
class Dataset:
    """A labelled data set, shuffled and cut to the cap; `total` is its size before that."""

    name: str
    X: Floats
    y: Labels
    total: int
    path: Path | None = None

    @property
    def capped(self) -> bool:
        """Whether points were left out."""
        return len(self.y) < self.total

    def whole(self) -> Dataset:
        """The data set without the cap."""
        if self.path is None:
            return self
        X, y = _read(self.path)
        return Dataset(self.name, X.astype(np.float64), y, self.total, self.path)


def load_all(folder: Path, cap: int, known: Iterable[str]) -> list[Dataset]:
    """Every ``.npz`` file (keys X, y) of a folder, under the paper's name where it has one, small ones first.

    A data set above the cap (0: none) is cut by a shuffle that is the same on every run; no look at labels.
    """
    names = {name.lower(): name for name in known}
    found = []
    for path in sorted(folder.glob("*.npz")):
        X, y = _read(path)
        number, _, rest = path.stem.partition("_")
        stem = rest if number.isdigit() and rest else path.stem
        name = names.get(_OTHER_NAMES.get(stem.lower(), stem.lower()), stem)
        total = len(y)
        if cap and total > cap:
            order = np.random.default_rng(0).permutation(total)[:cap]
            X, y = X[order], y[order]
        if 0 < y.mean() < 1:
            found.append(Dataset(name, X.astype(np.float64), y, total, path))
        else:
            print(f"{path.name}: left out, all labels are {y[0]} after the cap", file=sys.stderr)
    if not found:
        raise Unusable(f"no usable .npz files in {folder}; each data set is one, with the keys X and y")
    return sorted(found, key=lambda dataset: (dataset.X.size, dataset.name))


def _read(path: Path) -> tuple[NDArray[Any], Labels]:
    with np.load(path, allow_pickle=False) as data:
        if "X" not in data or "y" not in data:
            raise Unusable(f"{path} has the keys {sorted(data)}; X (points) and y (0/1 labels) are needed")
        return data["X"], data["y"].astype(np.int64).ravel()


def load_figures(path: Path) -> Figures:
    """The paper's tables: auc_roc, auc_roc_std, auc_pr and auc_pr_std, each by data set and method."""
    figures: Figures = json.loads(path.read_text())
    missing = {"auc_roc", "auc_roc_std", "auc_pr", "auc_pr_std"} - figures.keys()
    if missing:
        raise Unusable(f"{path} has no {', '.join(sorted(missing))}; it must hold the paper's four tables")
    return {metric: {k: v for k, v in table.items() if k != "Average"} for metric, table in figures.items()}


class Store:
    """Results on disk: JSON lines, each with its key and what was measured."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    row = json.loads(line)
                    self.rows[row["key"]] = row["result"]
                except (ValueError, KeyError, TypeError):  # a line cut short when the run was killed
                    continue

    @staticmethod
    def key(experiment: str, data: str, method: str, seed: int, parameters: Row) -> str:
        """What a result depends on, in one line."""
        settings = " ".join(f"{name}={value}" for name, value in sorted(parameters.items()))
        return f"{experiment} | {data} | {method} | {seed} | {settings}"

    def get(self, key: str, measure: Callable[[], Row]) -> Row:
        """The known result of a key, or a new measurement, kept."""
        if key not in self.rows:
            self.rows[key] = measure()
            with self.path.open("a") as file:
                # The line break first: what an interruption cut short harms itself only.
                file.write("\n" + json.dumps({"key": key, "result": self.rows[key]}))
        return self.rows[key]

    def forget(self, method: str) -> None:
        """Drop the results of a method, to measure it again."""
        self.rows = {key: row for key, row in self.rows.items() if key.split(" | ")[2] != method}
        lines = [json.dumps({"key": key, "result": row}) for key, row in self.rows.items()]
        spare = self.path.with_suffix(".tmp")
        spare.write_text("\n".join(lines))
        spare.replace(self.path)


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def shown(value: Any, digits: int = 3) -> str:
    """A cell of a table."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:.{digits}f}" if isinstance(value, float | np.floating) else str(value)


def write_table(folder: Path, name: str, title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Write rows as NAME.csv in full precision and as Markdown text, which is returned."""
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)
    lines = [title, "", "| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    lines += ["| " + " | ".join(shown(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
