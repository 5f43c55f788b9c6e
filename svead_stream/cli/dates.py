"""Dates in text, in the forms that logs and tables have, as seconds since 1970 in UTC."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_YEAR, _MONTH, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_MONTH_NAME = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_WEEKDAY = r"(?:[a-z]{3,9},?\s+)?"
_ZONE = r"\s*(?P<zone>z|utc|gmt|[+-]\d{2}(?::?\d{2})?)?"
_CLOCK = (
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?)?"
    r"\s*(?P<half>[ap]\.?m\.?)?" + _ZONE
)
_THEN_CLOCK = rf"(?:(?:\s*[t,:_]\s*|\s+){_CLOCK})?"  # a colon in the logs of Apache
_DENSE_CLOCK = (
    r"(?P<hour>\d{2})(?:(?P<minute>\d{2})(?:(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?)?(?P<half>)" + _ZONE
)

YEAR_FIRST, MONTH_FIRST, DAY_FIRST, DENSE = "year first", "month first", "day first", "without separators"
FORMS = {
    YEAR_FIRST: rf"{_YEAR}[-/.]{_MONTH}[-/.]{_DAY}{_THEN_CLOCK}",
    MONTH_FIRST: rf"{_MONTH}[-/.]{_DAY}[-/.]{_YEAR}{_THEN_CLOCK}",
    DAY_FIRST: rf"{_DAY}[-/.]{_MONTH}[-/.]{_YEAR}{_THEN_CLOCK}",
    "day, name of the month": rf"\[?{_WEEKDAY}{_DAY}[-/\s]\s*{_MONTH_NAME}[-/,\s]\s*{_YEAR}{_THEN_CLOCK}\]?",
    "name of the month, day": rf"{_WEEKDAY}{_MONTH_NAME}\s+{_DAY},?\s+{_YEAR}{_THEN_CLOCK}",
    "year last": rf"{_WEEKDAY}{_MONTH_NAME}\s+{_DAY}\s+{_CLOCK}\s+{_YEAR}",
    DENSE: rf"(?P<year>\d{{4}})(?P<month>\d{{2}})(?P<day>\d{{2}})(?:t?{_DENSE_CLOCK})?",
}

_PATTERNS = {form: re.compile(rf"(?i)\s*{pattern}\s*") for form, pattern in FORMS.items()}

Parts = dict[str, pa.Array]


def possible(texts: Sequence[str]) -> list[str]:
    """The forms that any of some texts has. Of most columns none has any, and Arrow needs long to make this pattern.

    Parameters
    ----------
    texts
        Some cells of a column.

    """
    return [form for form, pattern in _PATTERNS.items() if any(map(pattern.fullmatch, texts))]


def read(texts: pa.ChunkedArray, form: str) -> npt.NDArray[np.float64]:
    """Seconds since 1970 in UTC; NaN where a text is missing or has another form. Without a zone it is UTC.

    Parameters
    ----------
    texts
        The cells of a column.
    form
        One of `FORMS`.

    """
    matches = pc.extract_regex(pc.cast(texts, pa.string()), rf"(?i)^\s*{FORMS[form]}\s*$").combine_chunks()
    fits = matches.is_valid().to_numpy(zero_copy_only=False)
    matches = matches.drop_null()
    parts = {matches.type.field(i).name: part for i, part in enumerate(matches.flatten())}
    if _MONTH_NAME in FORMS[form]:
        parts["month"] = pc.add(pc.index_in(pc.utf8_lower(parts["month"]), pa.array(_MONTHS)), 1)
    rest = pc.cast(pc.binary_join_element_wise("0.", parts["fraction"], "0", ""), pa.float64()).to_numpy()
    seconds = np.full(len(texts), np.nan)
    seconds[fits] = 86_400 * _day(parts) + _second_of_day(parts) - _offset(parts) + rest
    return seconds


def _day(parts: Parts) -> npt.NDArray[np.float64]:
    """Days since 1970; NaN for dates that no calendar has."""
    year, month, day = (_count(parts[name]) for name in ("year", "month", "day"))
    right = (year >= 1) & (month >= 1) & (month <= 12)
    months = np.where(right, 12 * (year - 1970) + month - 1, 0).astype("M8[M]")
    start, end = (each.astype("M8[D]").astype(np.int64) for each in (months, months + 1))
    return np.where(right & (day >= 1) & (day <= end - start), start + day - 1, np.nan)


def _second_of_day(parts: Parts) -> npt.NDArray[np.float64]:
    hour, minute, second = (_count(parts[name]) for name in ("hour", "minute", "second"))
    right = (hour <= 23) & (minute <= 59) & (second <= 60)  # 60 is a leap second
    half = pc.utf8_slice_codeunits(pc.utf8_lower(parts["half"]), 0, 1)
    if pc.any(pc.not_equal(half, "")).as_py():
        am, pm = (pc.equal(half, letter).to_numpy(zero_copy_only=False) for letter in "ap")
        right &= ~(am | pm) | ((hour >= 1) & (hour <= 12))
        hour = np.where(am | pm, hour % 12 + 12 * pm, hour)
    return np.where(right, 3_600 * hour + 60 * minute + second, np.nan)


def _count(part: pa.Array) -> npt.NDArray[np.int64]:
    """Digits as numbers; what is left out of a time, such as its seconds, is 0."""
    if pa.types.is_string(part.type):
        part = pc.if_else(pc.equal(part, ""), "0", part)
    return np.asarray(pc.cast(part, pa.int64()).to_numpy())


def _offset(parts: Parts) -> npt.NDArray[np.float64]:
    """Seconds by which clocks are ahead of UTC."""
    zones = parts["zone"].dictionary_encode()  # there are few
    offsets = np.array([_offset_of(zone) for zone in zones.dictionary.to_pylist()], dtype=np.float64)
    return np.asarray(offsets[zones.indices.to_numpy()])


def _offset_of(zone: str) -> float:
    if zone[:1] not in ("+", "-"):
        return 0.0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 23 or minutes > 59:
        return np.nan
    return (3_600.0 * hours + 60.0 * minutes) * (-1 if zone[0] == "-" else 1)
