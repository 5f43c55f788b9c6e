"""The features' own course, thinned for drawing, with the range that was usual at each time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from svead_stream.report.bins import Bins, Numbers, digits

N_BINS = 4096  # of a feature, if there are not too many of them
N_CELLS = 12 * N_BINS  # of all features, but for the fewest bins that make a picture
_FEWEST_BINS = 64
N_NAMES = 8192  # features of which there is a course: the first ones
_WINDOW, _SHORT_WINDOW = 1024, 256  # recent rows that tell what is usual, and if there are very many features
_FIRST_WINDOW = 32  # rows from which on that is told
_QUANTILES = (0.05, 0.5, 0.95)  # nine of ten values lie between the outer ones

_JOINS = {
    "low": np.fmin,
    "high": np.fmax,
    "total": np.add,
    "there": np.add,
    "usual_low": np.fmin,
    "usual_high": np.fmax,
}


class Series:
    """Lowest, mean and highest value, missing values and the usual range of each feature, in bins of rows.

    What is usual of a row was told by up to 1,024 rows before it: worked out anew every so many rows, counted from the
    first one on, so that it does not depend on how the rows come.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._bins = Bins(_JOINS, N_BINS, 0)
        self._window = 0
        self._recent = np.zeros((0, 0))  # the latest rows, the next one in the place of the oldest
        self._usual = np.full((3, 0), np.nan)
        self._told: list[tuple[int, Numbers]] = []  # what was usual from which row on, for the rows added last
        self._firsts: list[tuple[int, Numbers]] = []  # what was usual after few rows, by their number

    def add(self, values: Mapping[str, npt.NDArray[np.float64]], n: int) -> None:
        """Append so many rows; a feature that is not among the values is missing."""
        self._meet(values)
        self._told = [(self._bins.n, self._usual)]
        given = [(self.names[name], column) for name, column in values.items() if name in self.names]
        places = np.array([place for place, _ in given], dtype=np.intp)
        for part in self._parts(n):
            block = np.full((len(self.names), part.stop - part.start), np.nan)
            if given:
                block[places] = [column[part] for _, column in given]
            self._append(block)

    def _parts(self, n: int) -> Iterator[slice]:
        """Cut rows where what is usual is worked out anew: often at first, later once a window."""
        for fit in self._bins.parts(n):
            start = fit.start
            while start < fit.stop:
                step = min(_FIRST_WINDOW * self._bins.width, self._window)
                end = min(fit.stop, start + step - self._bins.n % step)
                yield slice(start, end)
                start = end
                if self._bins.n % step == 0:
                    self._learn()

    def _append(self, block: Numbers) -> None:
        block[~np.isfinite(block)] = np.nan
        there = ~np.isnan(block)
        n = block.shape[1]
        place = self._bins.n % self._window
        self._recent[:, place : place + n] = block
        usual_low, _, usual_high = (np.broadcast_to(row[:, None], block.shape) for row in self._usual)
        self._bins.add(
            n,
            low=block,
            high=block,
            total=np.where(there, block, 0.0),
            there=there.astype(float),
            usual_low=usual_low,
            usual_high=usual_high,
        )

    def _learn(self) -> None:
        n = self._bins.n
        self._usual = _ranges(self._recent[:, :n])
        self._told.append((n, self._usual))
        if n <= self._window and n & (n - 1) == 0:
            self._firsts.append((n, self._usual))

    def _meet(self, names: Iterable[str]) -> None:
        """Make room for names that were not there before."""
        for name in names:
            if name not in self.names and len(self.names) < N_NAMES:
                self.names[name] = len(self.names)
        if not self._window:
            self._window = _WINDOW if len(self.names) <= _WINDOW else _SHORT_WINDOW
            self._recent = np.zeros((0, self._window))
        new = len(self.names) - len(self._recent)
        if not new:
            return
        size = max(_FEWEST_BINS, min(N_BINS, 2 ** int(math.log2(N_CELLS / len(self.names)))))
        self._bins.shrink(size)
        self._bins.extend(len(self.names))
        self._recent = np.pad(self._recent, ((0, new), (0, 0)), constant_values=np.nan)
        self._usual = np.pad(self._usual, ((0, 0), (0, new)), constant_values=np.nan)

    def usual(self, row: int, name: str) -> list[float] | None:
        """What was usual just before a row, counted from 0, that was among those added last: low, middle, high."""
        ranges = next((ranges for start, ranges in reversed(self._told) if start <= row), self._usual)
        place = self.names.get(name, ranges.shape[1])
        if place >= ranges.shape[1] or math.isnan(ranges[0, place]):
            return None
        low, middle, high = ranges[:, place].tolist()
        return [low, middle, high]

    def drift(self) -> dict[str, dict[str, Any]]:
        """How each feature moved: what was usual at first and at last, and the middle's move in units of its spread.

        The first and the last 1,024 rows are compared; of a short run, up to a half each.
        """
        n = self._bins.n
        firsts = [(rows, ranges) for rows, ranges in self._firsts if 2 * rows <= n]
        if not firsts:
            rows, first, last = 0, self._usual, self._usual
        else:
            rows, first = firsts[-1]
            places = np.arange(n - rows, n) % self._window
            last = _ranges(self._recent[:, places])
            first = np.pad(first, ((0, 0), (0, len(self.names) - first.shape[1])), constant_values=np.nan)
        moved = last[1] - first[1]
        spread = np.fmax(first[2] - first[0], 0)
        spread = np.where(spread > 0, spread, last[2] - last[0])
        with np.errstate(all="ignore"):
            change = digits(np.where(moved == 0, 0.0, moved / spread))
        missing = 1 - self._bins["there"].sum(axis=1) / max(n, 1)
        return {
            name: {
                "first": digits(first[:, i]),
                "last": digits(last[:, i]),
                "rows": rows,
                "change": change[i],  # None where it cannot be told
                "missing_share": float(missing[i]),
            }
            for name, i in self.names.items()
        }

    def to_json(self, names: Iterable[str]) -> dict[str, Any]:
        """Lists for drawing of some features, one element a bin."""
        one_row = self._bins.width == 1
        counts = self._bins.counts
        features = []
        for name in names:
            bins = {kind: self._bins[kind][self.names[name]] for kind in _JOINS}
            with np.errstate(invalid="ignore"):
                mean = bins["total"] / np.where(bins["there"] > 0, bins["there"], np.nan)
            missing = (counts - bins["there"]).astype(int)
            features.append(
                {
                    "name": name,
                    "mean": digits(mean, 6),
                    "low": None if one_row else digits(bins["low"], 6),
                    "high": None if one_row else digits(bins["high"], 6),
                    "missing": missing.tolist() if missing.any() else None,
                    "usual": _changes(bins["usual_low"], bins["usual_high"]),
                }
            )
        return {"width": self._bins.width, "features": features}


def _ranges(rows: Numbers) -> Numbers:
    """The range in which nine of ten values of each feature lie, and the middle: of shape (3, features)."""
    ordered = np.sort(rows, axis=1)  # NaN is last
    n = np.count_nonzero(~np.isnan(ordered), axis=1)
    if not ordered.shape[1]:
        return np.full((3, len(rows)), np.nan)
    places = np.multiply.outer(_QUANTILES, np.maximum(n - 1, 0))
    below, above = np.floor(places).astype(np.intp), np.ceil(places).astype(np.intp)
    features = np.arange(len(rows))
    low, high = ordered[features, below], ordered[features, above]
    with np.errstate(all="ignore"):
        ranges: Numbers = low + (places - below) * (high - low)
    return ranges


def _changes(low: Numbers, high: Numbers) -> dict[str, Any]:
    """A range that is mostly the same from bin to bin: the bins at which it changes, and what it is from there on."""
    same = (low[1:] == low[:-1]) & (high[1:] == high[:-1]) | np.isnan(low[1:]) & np.isnan(low[:-1])
    at = np.concatenate([np.zeros(min(len(low), 1), np.intp), np.flatnonzero(~same) + 1])
    return {"at": at.tolist(), "low": digits(low[at]), "high": digits(high[at])}
