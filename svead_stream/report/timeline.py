"""The course of a run, thinned for drawing: counts, extremes and times of consecutive rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from svead_stream.clock import shown
from svead_stream.report.bins import Bins, Numbers, digits

_MOST_WRONG = 0.1  # part of the bins whose times may be from the future
N_BINS = 4096  # about four times the pixels of a wide screen, so that there is something to zoom to

_JOINS = {
    "low": np.fmin,
    "high": np.fmax,
    "total": np.add,
    "alerts": np.add,
    "threshold": np.fmax,
    "start": np.fmin,
    "end": np.fmax,
    "pause": np.fmax,
}


class Timeline:
    """Scores, alerts, thresholds and times of consecutive rows.

    Bins are bins of rows, not of time: each knows the first and the last of its times, and the longest pause before one
    of its rows, so that a stretch without rows is seen as one.
    """

    def __init__(self) -> None:
        self._bins = Bins(_JOINS, N_BINS)
        self._latest = math.nan
        self._goes_back = False

    def add(
        self,
        scores: npt.NDArray[np.float64],
        alerts: npt.NDArray[np.bool_],
        thresholds: npt.NDArray[np.float64],
        times: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Append rows; times are seconds that do not go back, NaN where one is not known."""
        thresholds = np.where(np.isfinite(thresholds), thresholds, np.nan)
        given = {
            "low": scores,
            "high": scores,
            "total": scores,
            "alerts": alerts.astype(float),
            "threshold": thresholds,
        }
        if times is not None:
            given |= {"start": times, "end": times, "pause": self._pauses(times)}
        for part in self._bins.parts(len(scores)):
            self._bins.add(part.stop - part.start, **{name: values[part] for name, values in given.items()})

    def _pauses(self, times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The time between each row and the one before it."""
        latest = np.fmax.accumulate(np.concatenate([[self._latest], times]))
        self._goes_back |= bool((times < latest[:-1]).any())
        known = times[~np.isnan(times)]
        self._latest = float(known[-1]) if len(known) else self._latest
        return times - latest[:-1]

    def to_json(self) -> dict[str, Any]:
        """Lists for drawing, one element a bin."""
        bins, clock = {name: self._bins[name][0] for name in _JOINS}, self._clock()
        goes_back = self._goes_back
        if goes_back:
            bins, goes_back = _set_right(bins)
        return {
            "width": self._bins.width,
            "low": digits(bins["low"]),
            "high": digits(bins["high"]),
            "mean": digits(bins["total"] / self._bins.counts),
            "alerts": bins["alerts"].astype(int).tolist(),
            "threshold": digits(bins["threshold"]),
            "clock": clock,
            "goes_back": goes_back,
            "start": clock and _milliseconds(bins["start"]),
            "end": clock and _milliseconds(bins["end"]),
            "pause": clock and _milliseconds(bins["pause"]),
        }

    def _clock(self) -> str | None:
        """How times are shown: as "dates", as they are written elsewhere, or as "seconds" from no known moment on."""
        start = self._bins["start"]
        if np.isnan(start).all():
            return None
        ends = (shown(float(np.nanmin(start))), shown(float(np.nanmax(start))))
        return "dates" if all(isinstance(end, str) for end in ends) else "seconds"


def _set_right(bins: dict[str, Numbers]) -> tuple[dict[str, Numbers], bool]:
    """Bins with times from the future in a few of them brought back; and whether times go back all the same.

    A clock that once told the wrong time, until it was set right, must not spoil the axis of the whole run.
    """
    later = np.fmin.accumulate(np.append(bins["start"][1:], np.nan)[::-1])[::-1]  # the first of all later times
    wrong = bins["end"] > later
    if np.mean(wrong) > _MOST_WRONG:
        return bins, True
    start, end = np.fmin(bins["start"], later), np.fmin(bins["end"], later)
    pause = np.where(wrong | np.append(False, wrong[:-1]), np.nan, bins["pause"])
    return bins | {"start": start, "end": end, "pause": pause}, False


def _milliseconds(times: npt.NDArray[np.float64]) -> list[float | None]:
    return [round(t, 3) if math.isfinite(t) else None for t in times.tolist()]
