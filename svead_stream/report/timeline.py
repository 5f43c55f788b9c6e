"""The course of a run, thinned for drawing: counts, extremes and times of consecutive rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from svead_stream.clock import shown

N_BINS = 1024  # about the pixels of a wide screen


class Timeline:
    """Counts and extremes of consecutive rows, in bins that double in width when there are too many of them.

    Bins are bins of rows, not of time: a gap in time takes no room, and a burst is as wide as it has rows. Where rows
    have times, each bin knows the first and the last of its own.
    """

    def __init__(self) -> None:
        self.width = 1
        self.n = 0
        shape = 2 * N_BINS
        self.low = np.full(shape, np.inf)
        self.high = np.full(shape, -np.inf)
        self.total = np.zeros(shape)
        self.count = np.zeros(shape, dtype=np.int64)
        self.alerts = np.zeros(shape, dtype=np.int64)
        self.threshold = np.full(shape, np.nan)
        self.start = np.full(shape, np.nan)
        self.end = np.full(shape, np.nan)

    def add(
        self,
        scores: npt.NDArray[np.float64],
        alerts: npt.NDArray[np.bool_],
        thresholds: npt.NDArray[np.float64],
        times: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Append rows; times are seconds that do not go back, NaN where one is not known."""
        start = 0
        while start < len(scores):
            if self.n == 2 * N_BINS * self.width:
                self._halve()
            part = slice(start, start + 2 * N_BINS * self.width - self.n)
            s, a, threshold = scores[part], alerts[part], thresholds[part]
            at = (self.n + np.arange(len(s))) // self.width
            np.minimum.at(self.low, at, s)
            np.maximum.at(self.high, at, s)
            np.add.at(self.total, at, s)
            np.add.at(self.count, at, 1)
            np.add.at(self.alerts, at, a)
            known = np.isfinite(threshold)
            self.threshold[at[known]] = threshold[known]
            if times is not None:
                np.fmin.at(self.start, at, times[part])
                np.fmax.at(self.end, at, times[part])
            self.n += len(s)
            start += len(s)

    def _halve(self) -> None:
        for name, join, empty in (
            ("low", np.minimum, np.inf),
            ("high", np.maximum, -np.inf),
            ("total", np.add, 0),
            ("count", np.add, 0),
            ("alerts", np.add, 0),
            ("threshold", np.fmax, np.nan),
            ("start", np.fmin, np.nan),
            ("end", np.fmax, np.nan),
        ):
            bins = getattr(self, name)
            bins[:N_BINS] = join(bins[::2], bins[1::2])
            bins[N_BINS:] = empty
        self.width *= 2

    def to_json(self) -> dict[str, Any]:
        """Lists for drawing, one element a bin."""
        filled = slice(0, -(-self.n // self.width))
        clock = self._clock()
        return {
            "width": self.width,
            "low": digits(self.low[filled]),
            "high": digits(self.high[filled]),
            "mean": digits(self.total[filled] / np.maximum(self.count[filled], 1)),
            "alerts": self.alerts[filled].tolist(),
            "threshold": digits(self.threshold[filled]),
            "clock": clock,
            "start": clock and _milliseconds(self.start[filled]),
            "end": clock and _milliseconds(self.end[filled]),
        }

    def _clock(self) -> str | None:
        """How times are shown: as "dates", as they are written elsewhere, or as "seconds" from no known moment on."""
        known = self.start[np.isfinite(self.start)]
        if not len(known):
            return None
        ends = (shown(float(known.min())), shown(float(np.nanmax(self.end))))
        return "dates" if all(isinstance(end, str) for end in ends) else "seconds"


def digits(values: npt.NDArray[np.float64]) -> list[float | None]:
    """Five digits are more than a screen shows; NaN and infinity are not JSON."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values.tolist()]


def _milliseconds(times: npt.NDArray[np.float64]) -> list[float | None]:
    return [round(t, 3) if math.isfinite(t) else None for t in times.tolist()]
