"""When an event happened: Kafka's own time stamp, or a field of the event.

Like all that is read of a message it depends on the message and the options alone. What cannot be read is an unknown
time, NaN: a clock that is wrong must not stop a stream, and the model counts how often it had to do without.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

_EARLIEST, _LATEST = 631_152_000, 4_102_444_800  # 1990 and 2100: numbers between them are taken for an epoch
_PER_SECOND = (1, 1_000, 1_000_000, 1_000_000_000)  # s, ms, us, ns: their ranges don't meet


def of_record(record: Any) -> float:
    """Kafka's time stamp of a message, in seconds."""
    timestamp = record.timestamp
    return math.nan if timestamp is None or timestamp < 0 else timestamp / 1000


def of_field(event: dict[str, Any], name: str) -> float:
    """The time in a field of an event, by its dotted name, in seconds since 1970."""
    return seconds(_find(event, name))


def _find(event: dict[str, Any], name: str) -> Any:
    """What an event has under a dotted name, of which any part may be a name with dots; None if there is nothing."""
    if name in event:
        return event[name]
    dot = name.find(".")
    while dot >= 0:
        inner = event.get(name[:dot])
        found = _find(inner, name[dot + 1 :]) if type(inner) is dict else None
        if found is not None:
            return found
        dot = name.find(".", dot + 1)
    return None


def seconds(value: Any) -> float:
    """ISO 8601 text (UTC unless it says otherwise) or s, ms, us or ns since 1970, as seconds; NaN if it is neither."""
    kind = type(value)
    if kind is str:
        return _of_text(value.strip())
    return _of_number(value) if kind is int or kind is float else math.nan


def _of_number(number: float) -> float:
    for per_second in _PER_SECOND:
        if _EARLIEST * per_second <= number < _LATEST * per_second:
            return number / per_second
    return math.nan


def _of_text(text: str) -> float:
    if text.replace(".", "", 1).isdecimal():
        time = _of_number(float(text))
        if not math.isnan(time):  # else it may be a date without separators
            return time
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan
