"""From the bytes of a message to the numbers of an event; what is no event leaves by the other door.

Whether a message is good, and which numbers it has, depends on the message and the options alone, never on its
neighbours: a replay after a crash must come to the same rows, however the stream is cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from svead_stream.record import Verdict

Names = tuple[str, ...]

_NUMBERS = frozenset({int, float, bool})
_NO_NUMBERS = frozenset({str, list})
_LONGEST_REASON = 1000  # characters
_KNOWN_SHAPES = 256  # shapes of events remembered; a stream with more decodes them the slow way


class Event(NamedTuple):
    """A good record: the consumer's record, and its features."""

    record: Any
    names: Names
    values: Sequence[float]


class Bad(NamedTuple):
    """A record that is no event, and why."""

    record: Any
    reason: str


class _Shape(NamedTuple):
    """How to read events that have the same names in the same order, none of them nested."""

    names: Names
    numbers: Callable[[dict[str, Any]], tuple[Any, ...]]
    others: Callable[[dict[str, Any]], tuple[Any, ...]]


class Reason(Exception):
    """Why a message is no event."""


class Decoder:
    """Decodes messages into events.

    Parameters
    ----------
    features, ignore
        Dotted names to use and not to use; a name stands for everything below it.
    max_bytes
        The largest message taken for an event: key, value and headers together.
    """

    def __init__(self, features: Sequence[str] = (), ignore: Sequence[str] = (), max_bytes: int = 900_000) -> None:
        self.features = tuple(dict.fromkeys(features))
        self.ignore = frozenset(ignore)
        self.max_bytes = max_bytes
        self._wanted = frozenset(self.features)
        self._shapes: dict[Names, _Shape] = {}

    def decode(self, records: Iterable[Any]) -> tuple[list[Event], list[Bad]]:
        """Sort records into events and others, each in the order they came."""
        good: list[Event] = []
        bad: list[Bad] = []
        for record in records:
            try:
                names, values = self._read(record)
            except Reason as reason:
                bad.append(Bad(record, str(reason)))
            else:
                good.append(Event(record, names, values))
        return good, bad

    def _read(self, record: Any) -> tuple[Names, Sequence[float]]:
        value = record.value
        if value is None:
            raise Reason("null value")
        if not value:
            raise Reason("empty")
        size = len(value) + len(record.key or b"")
        if record.headers:
            size += sum(len(name) + len(content or b"") for name, content in record.headers)
        if size > self.max_bytes:
            raise Reason(f"too large: {size} bytes, {self.max_bytes} are allowed")
        try:
            event = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise Reason(f"not JSON: {error}") from None
        if type(event) is not dict:
            raise Reason(f"not an object but {_kind(event)}")

        shape = self._shapes.get(tuple(event))
        if shape is not None:
            numbers = shape.numbers(event)
            # The same names may come with other types: then they are read the slow way.
            if _NUMBERS.issuperset(map(type, numbers)) and _NO_NUMBERS.issuperset(map(type, shape.others(event))):
                return shape.names, numbers
        return self._read_slowly(event)

    def _read_slowly(self, event: dict[str, Any]) -> tuple[Names, Sequence[float]]:
        found = self._flatten(event)
        if not found:
            raise Reason(f"none of the features {', '.join(self.features)}" if self.features else "no numbers")
        if len(self._shapes) < _KNOWN_SHAPES and not any(map(_nested, event.values())):
            self._shapes[tuple(event)] = self._shape(event, found)
        return tuple(found), tuple(found.values())

    def _shape(self, event: dict[str, Any], found: dict[str, float]) -> _Shape:
        # Names that were not numbers may be next time, or objects with features in them; others need no second look.
        rest = (name for name in event if name not in found and not _below(name, self.ignore))
        others = [name for name in rest if not self.features or self._is_above_a_feature(name)]
        return _Shape(tuple(found), _getter(list(found)), _getter(others))

    def _is_above_a_feature(self, name: str) -> bool:
        return any(wanted.startswith(f"{name}.") for wanted in self.features)

    def _flatten(self, event: dict[str, Any]) -> dict[str, float]:
        """Numbers and booleans by dotted name, in the order of the message."""
        found: dict[str, float] = {}
        stack: list[tuple[str, Any]] = [(name, value) for name, value in reversed(event.items())]
        while stack:
            name, value = stack.pop()
            if self.ignore and _below(name, self.ignore):
                continue
            kind = type(value)
            if kind is dict:
                stack.extend((f"{name}.{inner}", deeper) for inner, deeper in reversed(value.items()))
            elif value is None or (self.features and not _below(name, self._wanted)):
                continue
            elif kind in _NUMBERS:
                found[name] = value
            elif self.features:
                raise Reason(f"feature {name!r} is {_kind(value)}, not a number")
        return found


def _below(name: str, names: frozenset[str]) -> bool:
    """Whether a dotted name, or something above it, is among the names."""
    if name in names:
        return True
    end = name.rfind(".")
    while end > 0:
        if name[:end] in names:
            return True
        end = name.rfind(".", 0, end)
    return False


def _nested(value: Any) -> bool:
    return value is None or type(value) is dict


def _getter(names: list[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    if not names:
        return lambda event: ()
    if len(names) == 1:
        only = names[0]
        return lambda event: (event[only],)
    return itemgetter(*names)


def _kind(value: Any) -> str:
    names = {str: "a string", list: "a list", dict: "an object", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def scored(event: Event, verdict: Verdict, top_features: int, include_event: bool) -> bytes:
    """The value of a scored event, as `svead_stream.record.schema` describes it."""
    record = event.record
    value = verdict.record(top_features)
    value["source"] = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    if include_event:
        value["event"] = orjson.Fragment(record.value)  # as it came, not encoded again
    return orjson.dumps(value)


def dead_letter_headers(bad: Bad) -> list[tuple[str, bytes]]:
    """The message's own headers, then where it came from and why it is here."""
    record = bad.record
    about = {
        "reason": bad.reason[:_LONGEST_REASON],  # it may name a feature, and that is as long as it likes
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
    }
    kept = copied_headers(record)
    return kept + [(f"svead-{name}", text.encode()) for name, text in about.items()]


def copied_headers(record: Any) -> list[tuple[str, bytes]]:
    """The headers of a record, as the producer takes them: a header without a value becomes an empty one."""
    return [(name, content if content is not None else b"") for name, content in record.headers or ()]
