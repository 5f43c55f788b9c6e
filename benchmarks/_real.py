"""Real streams, and the demo's made-up machine, in the order in which they happened.

Kept apart from the benchmark because what is fed and where judging starts decides what the figures mean. The folder
``nab`` holds series of the Numenta Anomaly Benchmark as ``.npz`` files: ``time`` in seconds; ``value``; ``window``, the
number of the labelled window that a row lies in, or -1; ``weight``, what NAB's sigmoid gives a detection at that row;
``probation``, whether it comes too early to be judged; ``n_windows``. The folder ``skab`` holds runs of the Skoltech
test rig: ``time`` in seconds, X of 8 sensors, y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _streams import Floats, Labels
from numpy.typing import NDArray

from svead_stream.cli.machine import MINUTES, SENSORS, machine

SKAB_START = 400  # rows of a run that nobody is judged on
MACHINES = (7, 8, 9, 10, 11)  # seeds of the demo's machine; 7 is the one that the demo shows


@dataclass(frozen=True)
class Series:
    """Rows as they arrived, their times in seconds and labels (1 is an anomaly), and from where on they are judged."""

    suite: str
    name: str
    time: Floats
    X: Floats
    y: Labels
    start: int


@dataclass(frozen=True)
class NabSeries(Series):
    """A series with what NAB's score needs."""

    window: NDArray[np.int64]
    weight: Floats
    n_windows: int


@dataclass(frozen=True)
class Machine(Series):
    """A demo machine with its faults, each from its first row to the row after its last."""

    faults: tuple[tuple[int, int], ...]


def _read(path: Path, *needed: str) -> list[NDArray[Any]]:
    with np.load(path, allow_pickle=False) as data:
        if not set(needed) <= set(data):
            raise ValueError(f"{path} has the keys {sorted(data)}; {', '.join(needed)} are needed")
        return [data[key] for key in needed]


def nab(folder: Path) -> list[NabSeries]:
    """All series of a folder; none where there is no folder."""
    return [_nab_series(path) for path in sorted(folder.glob("*.npz"))]


def _nab_series(path: Path) -> NabSeries:
    needed = ("time", "value", "window", "weight", "probation", "n_windows")
    time, value, window, weight, probation, n_windows = _read(path, *needed)
    start = int(np.count_nonzero(probation))
    if not probation[:start].all():
        raise ValueError(f"{path}: the rows of probation must be the first ones")
    time, X = time.astype(np.float64), value.astype(np.float64)[:, None]
    y = (window >= 0).astype(np.int64)
    return NabSeries("nab", path.stem, time, X, y, start, window.astype(np.int64), weight, int(n_windows))


def skab(folder: Path) -> list[Series]:
    """All runs of a folder; none where there is no folder."""
    return [_skab_run(path) for path in sorted(folder.glob("*.npz"))]


def _skab_run(path: Path) -> Series:
    time, X, y = _read(path, "time", "X", "y")
    if len(y) <= SKAB_START:
        raise ValueError(f"{path} has {len(y)} rows; judging starts after the first {SKAB_START}")
    return Series("skab", path.stem, *(a.astype(np.float64) for a in (time, X)), y.astype(np.int64), SKAB_START)


def demo() -> list[Machine]:
    """The demo's machine, several times with other faults; judged after its first day, which has none."""
    machines = []
    for seed in MACHINES:
        table, faults = machine(seed=seed)
        X = np.column_stack([table[sensor].to_numpy() for sensor in SENSORS]).astype(np.float64)
        y = table["fault"].to_numpy().astype(np.int64)
        time = 60.0 * np.arange(len(y))
        spans = tuple((fault.start, fault.end) for fault in faults)
        machines.append(Machine("demo", f"machine-{seed}", time, X, y, MINUTES, spans))
    return machines


def suites(folder: Path) -> dict[str, Sequence[Any]]:
    """The streams of all suites; a ValueError if the folder has neither of the two that are files."""
    found: dict[str, Sequence[Any]] = {"nab": nab(folder / "nab"), "skab": skab(folder / "skab")}
    if not any(found.values()):
        raise ValueError(f"no .npz files in {folder / 'nab'} or {folder / 'skab'}: one of them is needed")
    return found | {"demo": demo()}
