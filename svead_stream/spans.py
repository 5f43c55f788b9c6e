"""Spans that are given in events or in time: `30`, `15m`, `5/day`.

Nothing heavy is imported here: options are checked with it before anything is loaded.
"""

from __future__ import annotations

import re
from numbers import Real
from typing import Any, NamedTuple

_UNITS = {
    "ms": 0.001,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "w": 604800.0,
    "week": 604800.0,
}
_PART = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)")
_RATE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:/|an?\s|per\s|every\s)\s*(.+)", re.IGNORECASE)


class Span(NamedTuple):
    """So many events, or so many seconds."""

    amount: float
    in_time: bool


def seconds(text: str) -> float:
    """The seconds of a duration such as `90s`, `15m`, `2d` or `1h30m`."""
    at, total, given = 0, 0.0, text.strip().lower()
    while part := _PART.match(given, at):
        unit = part[2] if part[2] in _UNITS else part[2].removesuffix("s")
        if unit not in _UNITS:
            break
        total += float(part[1]) * _UNITS[unit]
        at = part.end()
    if not at or given[at:].strip():
        raise ValueError(f"{text!r} is no duration: write 90s, 15m, 2h, 2d or 1w")
    return total


def span(value: Any) -> Span:
    """A number of events, or a duration."""
    number = _number(value)
    return Span(seconds(value), True) if number is None else Span(number, False)


def rate(value: Any) -> Span:
    """How many an event, or a second: 0.005, or `5/day`, `5 a day`, `1 per 2h`."""
    number = _number(value)
    if number is not None:
        return Span(number, False)
    parts = _RATE.fullmatch(value)
    if parts is None:
        raise ValueError(f"{value!r} is no rate: write a share of the events such as 0.005, or 5/day, 1/h, 2 per week")
    period = parts[2].strip()
    length = seconds(period if period[:1].isdigit() or period[:1] == "." else f"1{period}")
    if length == 0:
        raise ValueError(f"{value!r} is no rate: its time is 0")
    return Span(float(parts[1]) / length, True)


def _number(value: Any) -> float | None:
    """The value as a number, if it is one or the text of one; to NumPy a timedelta64 is one, too."""
    if isinstance(value, Real) and not isinstance(value, bool) and type(value).__name__ != "timedelta64":
        return float(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is neither a number of events nor a text such as '15m'")
    try:
        return float(value)
    except ValueError:
        return None


def lasting(time: float) -> str:
    """A duration for people: `45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    for unit, smaller in (("d", "h"), ("h", "min"), ("min", "s")):
        size, part = _UNITS[unit], _UNITS[smaller]
        if time >= size:
            whole, rest = divmod(round(time / part) * part, size)
            return f"{whole:.0f} {unit}" + (f" {rest / part:.0f} {smaller}" if rest else "")
    return f"{time:.3g} s"
