"""When events happened.

Inside, a time is a number of seconds; from which moment on they are counted does not matter, but epoch seconds can be
shown as dates. Real time stamps have gaps, repeat themselves, go back and are missing: `Clock` takes all of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream.errors import brief


def seconds_of(t: Any) -> float:
    """A time as seconds: a number is taken as such, dates are counted from 1970 on, None and NaN are no time."""
    if type(t).__name__ in ("NoneType", "NAType", "NaTType"):  # the last two are of pandas
        return math.nan
    if isinstance(t, datetime):
        return (t if t.tzinfo is not None else t.replace(tzinfo=UTC)).timestamp()
    if isinstance(t, np.datetime64):
        return float(seconds_of_many(np.array([t]))[0])
    if isinstance(t, Real) and not isinstance(t, (bool, np.timedelta64)):
        return float(t) if math.isfinite(t) else math.nan
    raise ValueError(f"t={brief(t)} is no time: give seconds as a number, a datetime or a NumPy datetime64")


def seconds_of_many(t: Any) -> NDArray[np.float64]:
    """Times as seconds: of an array, a column of a data frame, or a list of what `seconds_of` takes."""
    given = np.asarray(t)
    if given.ndim != 1:
        raise ValueError(f"t has {given.ndim} dimensions: give one time for each event")
    if given.dtype.kind == "M":
        since = given.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(given), np.nan, since)
    if given.dtype.kind in "iuf":
        numbers = given.astype(np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    return np.array([seconds_of(one) for one in given.tolist()], dtype=np.float64)


_MOST_BEHIND = 100
_FIRST_DATE, _LAST_DATE = 631_152_000.0, 4_102_444_800.0  # 1990 and 2100: seconds between them are shown as dates


def shown(time: float) -> str | float | None:
    """A time as it is written: ISO 8601 in UTC where it looks like epoch seconds, else the number."""
    if math.isnan(time):
        return None
    if not _FIRST_DATE <= time <= _LAST_DATE:
        return time
    moment = datetime.fromtimestamp(round(time, 3), UTC)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


@dataclass
class Clock:
    """Makes times that do not go back of those that events bring, and counts what is odd about them.

    An event without a time, or with an earlier one than before, happened at the latest time known so far. One time
    stamp from the future must not hold the clock for ever: after 100 events in a row with earlier times it is set back.
    """

    latest: float = math.nan
    n_missing: int = 0
    n_backward: int = 0
    n_duplicate: int = 0
    behind: int = 0  # events in a row with earlier times

    def advance(self, time: float) -> float:
        """The time of the next event."""
        if time < self.latest:
            self.n_backward += 1
            self.behind += 1
            if self.behind < _MOST_BEHIND:
                return self.latest
        elif math.isnan(time):
            self.n_missing += 1
            return self.latest
        self.n_duplicate += time == self.latest
        self.latest, self.behind = time, 0
        return time

    def advance_many(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """The times of the next events."""
        latest = np.fmax.accumulate(np.concatenate([[self.latest], times]))
        before, now = latest[:-1], latest[1:]
        backward = times < before
        if self.behind or backward.any():  # how many in a row decides: that is for the loop
            return np.array([self.advance(time) for time in times.tolist()], dtype=np.float64)
        self.latest = float(latest[-1])
        self.n_missing += int(np.count_nonzero(np.isnan(times)))
        self.n_duplicate += int(np.count_nonzero(times == before))
        return now

    def summary(self) -> str:
        """What was odd about the times, in a line; empty where nothing was."""
        counts = {"missing": self.n_missing, "going back": self.n_backward, "the same as before": self.n_duplicate}
        return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
