"""Columns of time: found out by their first cells, and read as seconds, since 1970 in UTC where they are dates.

How a column is read is decided once, so that the result does not depend on how the rows are cut into batches. The type
of its cells may still change from one batch to the next: JSON gives text as soon as one cell of a batch is no time.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from svead_stream.cli import dates
from svead_stream.cli.cells import NEARLY_ALL, first_filled, floats, is_number, is_text, says_id, says_time, words

FORMS_READ = (
    "ISO 8601 (2024-05-01T12:00:00+02:00), dates like 05/13/2024 12:00, 13.05.2024 12:00, 01 May 2024 12:00:00 and "
    "20240501120000, s, ms, us or ns since 1970, and seconds that only grow"
)
ELAPSED = "elapsed"  # the unit of seconds that are counted from anywhere

_EARLIEST, _LATEST = 631_152_000, 4_102_444_800  # 1990 and 2100: numbers in between are taken for an epoch
_FIRST_DENSE = 19_900_101  # the first of these days as a number, so that few columns are read as dates
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_HALF = 0.5  # of the cells of a column that the user calls a clock
_SAMPLE = 100  # cells, of which one at least must be a date if the column is a clock
_FEW = 10  # numbers of which it cannot be said yet whether they go forward
_SUMS = {"bytes", "octets", "packets", "total", "count", "counter", "sum"}  # they go forward too


@dataclass(frozen=True)
class Kind:
    """How the cells of a column are read as times.

    Parameters
    ----------
    form
        Of text: one of `dates.FORMS`.
    unit
        Of numbers and text of digits: s, ms, us or ns since 1970, or elapsed seconds; None if they are dates.

    """

    form: str = dates.YEAR_FIRST
    unit: str | None = None

    def seconds(self, cells: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.float64]:
        """Seconds since 1970 in UTC; NaN where a cell is missing or does not fit. Without a zone it is UTC.

        Parameters
        ----------
        cells
            Of the column, of any type.

        """
        cells = _plain(cells)
        if _has_time_type(cells.type):
            return _from_time_type(cells)
        if self.unit is None:
            if self.form == dates.DENSE and pa.types.is_integer(cells.type):
                cells = pc.cast(cells, pa.string())
            return _from_dates(cells, self.form) if is_text(cells.type) else np.full(len(cells), np.nan)
        if self.unit == ELAPSED:
            seconds = floats(cells)[0]
            return np.where(np.isfinite(seconds), seconds, np.nan)
        if is_number(cells.type) or is_text(cells.type):
            return _from_epoch(_numbers(cells), cells.is_valid().to_numpy(), _PER_SECOND[self.unit])
        return np.full(len(cells), np.nan)


def find(cells: pa.ChunkedArray | pa.Array, name: str = "", asked: bool = False) -> Kind | None:
    """How a column is read, if its first cells are clearly times; else None.

    Parameters
    ----------
    cells
        The first of the column; missing ones say nothing.
    name
        Of the column: numbers that do not go forward are times only if it says so.
    asked
        Whether the user has said that it is a clock: half of the cells are enough, and numbers need not go forward.

    """
    first = first_filled(_plain(cells))
    enough = _HALF if asked else NEARLY_ALL
    if not len(first):
        return None
    if _has_time_type(first.type):
        return Kind()
    if not is_number(first.type) and not is_text(first.type):
        return None
    values, wrong = floats(first)
    if 1 - wrong.mean() < enough:
        return _find_form(first, enough)
    dense = _find_dense(first, name, asked) if (values >= _FIRST_DENSE).any() else None
    return dense or _find_unit(values, name, asked)


def goes_forward(seconds: npt.NDArray[np.float64]) -> bool:
    """Whether times go forward, but for a few of them."""
    seconds = seconds[~np.isnan(seconds)]
    return bool(len(seconds) > 1 and seconds[-1] > seconds[0] and (np.diff(seconds) >= 0).mean() >= NEARLY_ALL)


def _find_unit(values: npt.NDArray[np.float64], name: str, asked: bool) -> Kind | None:
    values = values[np.isfinite(values)]
    for unit, per_second in _PER_SECOND.items():
        if _are_times(values / per_second, name, asked):
            return Kind(unit=unit)
    # The user knows that it is a clock. One number alone cannot go back.
    return Kind(unit=ELAPSED) if asked and (len(values) == 1 or goes_forward(values)) else None


def _find_dense(cells: pa.ChunkedArray, name: str, asked: bool) -> Kind | None:
    """Numbers such as 20240501120000: hardly any number is a date by chance, not even one that is an epoch."""
    kind = Kind(dates.DENSE)
    return kind if _are_times(kind.seconds(cells), name, asked) else None


def _are_times(seconds: npt.NDArray[np.float64], name: str, asked: bool) -> bool:
    if not len(seconds):
        return False
    fits = (seconds >= _EARLIEST) & (seconds < _LATEST)
    if asked:
        return bool(fits.mean() >= _HALF)
    return bool(fits.mean() >= NEARLY_ALL) and (says_time(name) or _moves_like_time(seconds[fits], name))


def _moves_like_time(values: npt.NDArray[np.float64], name: str) -> bool:
    if says_id(name) or not _SUMS.isdisjoint(words(name)):
        return False
    return len(values) >= _FEW and goes_forward(values)


def _find_form(texts: pa.ChunkedArray, enough: float) -> Kind | None:
    forms = dates.possible(texts.take(np.linspace(0, len(texts) - 1, _SAMPLE).astype(int)).to_pylist())
    if not forms:
        return None
    found = {form: dates.read(texts, form) for form in forms}
    shares = {form: 1 - np.isnan(seconds).mean() for form, seconds in found.items()}
    best = max(shares, key=shares.__getitem__)
    if shares[best] < enough:
        return None
    month_first, day_first = dates.MONTH_FIRST, dates.DAY_FIRST
    if shares[best] == shares.get(month_first) == shares.get(day_first):  # no number above 12 settles the order
        # In a log the right order goes from day to day, the wrong one from month to month; bare dates may be monthly.
        by_month, by_day = (np.nansum(np.abs(np.diff(found[form]))) for form in (month_first, day_first))
        if by_month != by_day and pc.any(pc.match_substring(texts, ":")).as_py():
            best = month_first if by_month < by_day else day_first
        else:
            best = month_first if pc.match_substring(texts, "/")[0].as_py() else day_first
    return Kind(best)


# From cells to seconds, by the type of the cells


def _plain(cells: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    cells = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    return cells


def _has_time_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _from_time_type(cells: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    if pa.types.is_date32(cells.type):
        days = pc.cast(pc.cast(cells, pa.int32()), pa.float64()).to_numpy()
        return np.asarray(days * 86_400.0)
    unit = "ms" if pa.types.is_date64(cells.type) else cells.type.unit
    ticks = pc.cast(cells, pa.int64()).fill_null(0).to_numpy()
    return np.where(cells.is_valid().to_numpy(), _whole_and_rest(ticks, _PER_SECOND[unit]), np.nan)


def _numbers(cells: pa.ChunkedArray) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """Integers as they are, since nanoseconds have more digits than floats; missing ones may be anything."""
    if pa.types.is_integer(cells.type) and not pa.types.is_uint64(cells.type):
        return np.asarray(pc.cast(cells, pa.int64()).fill_null(0).to_numpy())
    return floats(cells)[0]


def _from_epoch(
    values: npt.NDArray[np.int64] | npt.NDArray[np.float64], valid: npt.NDArray[np.bool_], per_second: int
) -> npt.NDArray[np.float64]:
    fits = valid & (values >= _EARLIEST * per_second) & (values < _LATEST * per_second)  # 0 and -1 stand for missing
    seconds = np.full(len(values), np.nan)
    seconds[fits] = _whole_and_rest(values[fits], per_second)
    return seconds


def _whole_and_rest(ticks: npt.NDArray[np.int64] | npt.NDArray[np.float64], per_second: int) -> npt.NDArray[np.float64]:
    """Ticks as seconds; in two parts, so that the same instant is the same number in every unit and in text."""
    whole, rest = np.divmod(ticks, per_second)
    return np.asarray(whole + rest / per_second, dtype=np.float64)


def _from_dates(cells: pa.ChunkedArray, form: str) -> npt.NDArray[np.float64]:
    if form == dates.YEAR_FIRST:
        for zone in (None, "UTC"):  # Arrow is much faster where all cells are ISO 8601, all of them with a zone or none
            with contextlib.suppress(pa.ArrowInvalid):
                return _from_time_type(pc.cast(cells, pa.timestamp("ns", zone)))
    return dates.read(cells, form)
