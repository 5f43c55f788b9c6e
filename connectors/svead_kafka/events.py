"""From the bytes of a message to the numbers of an event; what is no event leaves by the other door.

A tombstone, a message without a value, is neither: in a compacted topic it says that what was known under its key is
gone, so there is nothing to score, and nothing wrong with it.

Whether a message is good, which numbers it has and when it happened depends on the message and the options alone,
never on its neighbours: a replay after a crash must come to the same rows, however the stream is cut into batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from svead_kafka import times
from svead_kafka.options import Options
from svead_stream.record import Incident, Verdict

Names = tuple[str, ...]

_NUMBERS = frozenset({int, float, bool})
_NO_NUMBERS = frozenset({str, list})
_LONGEST_REASON = 1000  # characters
_KNOWN_SHAPES = 256  # shapes of events remembered; a stream with more decodes them the slow way
_LONGEST_KEY = 1000  # bytes of a message key that are told with an incident


class Event(NamedTuple):
    """A good record: the consumer's record, its features, and when it happened in seconds; NaN if that is not known.

    Where its value is not JSON, `translated` is what it is as JSON.
    """

    record: Any
    names: Names
    values: Sequence[float]
    time: float = math.nan
    translated: bytes | None = None

    @property
    def json(self) -> bytes:
        """The event as JSON: as it came, if that is what it was."""
        return bytes(self.record.value) if self.translated is None else self.translated


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


def decoder(options: Options) -> Decoder:
    """The decoder of a worker with these options."""
    to_json = None
    if options.schemas is not None:
        from svead_kafka.avro import translator  # needs a library that others can do without

        to_json = translator(options.schemas)
    return Decoder(options.features, options.ignore, options.max_event_bytes, options.time, to_json)


class Decoder:
    """Decodes messages into events.

    Parameters
    ----------
    features, ignore
        Dotted names to use and not to use; a name stands for everything below it.
    max_bytes
        The largest message taken for an event: key, value and headers together.
    time
        Dotted name of the field that says when an event happened; it is no feature. Without one, Kafka's own time stamp
        does.
    to_json
        Translates a value to JSON, or raises the `Reason`; without it, values are JSON.
    """

    def __init__(
        self,
        features: Sequence[str] = (),
        ignore: Sequence[str] = (),
        max_bytes: int = 900_000,
        time: str | None = None,
        to_json: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.features = tuple(dict.fromkeys(features))
        self.ignore = frozenset(ignore if time is None else (*ignore, time))
        self.max_bytes = max_bytes
        self.time = time
        self._to_json = to_json
        self._wanted = frozenset(self.features)
        self._shapes: dict[Names, _Shape] = {}

    def decode(self, records: Iterable[Any]) -> tuple[list[Event], list[Bad]]:
        """Sort records into events and others, each in the order they came; tombstones are in neither."""
        good: list[Event] = []
        bad: list[Bad] = []
        for record in records:
            try:
                good.append(self._read(record))
            except Reason as reason:
                if record.value is not None:
                    bad.append(Bad(record, str(reason)))
        return good, bad

    def _read(self, record: Any) -> Event:
        value = record.value
        if record.headers and any(type(name) is not str for name, _ in record.headers):
            raise Reason("the name of a header is not UTF-8")
        if not value:
            raise Reason("empty")
        size = len(value) + len(record.key or b"")
        if record.headers:
            size += sum(len(name) + len(content or b"") for name, content in record.headers)
        if size > self.max_bytes:
            raise Reason(f"too large: {size} bytes, {self.max_bytes} are allowed")
        translated = None
        if self._to_json is not None:
            value = translated = self._to_json(value)
            size += len(translated) - len(record.value)
            if size > self.max_bytes:
                raise Reason(f"too large as JSON: {size} bytes, {self.max_bytes} are allowed")
        try:
            event = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise Reason(f"not JSON: {error}") from None
        if type(event) is not dict:
            raise Reason(f"not an object but {_kind(event)}")

        time = times.of_record(record) if self.time is None else times.of_field(event, self.time)
        return Event(record, *self.features_of(event), time, translated)

    def features_of(self, event: dict[str, Any]) -> tuple[Names, Sequence[float]]:
        """The names and values that a model gets of the body of an event; raises the `Reason` if there are none."""
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
    value = verdict.record(top_features)
    value["source"] = _place(event.record)
    if include_event:
        value["event"] = orjson.Fragment(event.json)  # not encoded again
    return orjson.dumps(value)


def all_scored(results: Sequence[tuple[Event, Verdict]], top_features: int, include_event: bool) -> list[bytes]:
    """The values of scored events of one partition, byte for byte those of `scored`.

    Most are no alerts and differ in numbers only. All of these are encoded at once, and what is between them is always
    the same.
    """
    if not results:
        return []
    numbers = [(verdict.score, verdict.p_value, event.record.offset) for event, verdict in results]
    texts = iter(orjson.dumps([number for three in numbers for number in three])[1:-1].split(b","))
    first = results[0][0].record
    source = orjson.dumps({"topic": first.topic, "partition": first.partition})[:-1]
    before, between = b'{"score":', b',"p_value":'
    behind = b',"alert":false,"source":' + source + b',"offset":'
    values: list[bytes] = []
    for (event, verdict), score, p_value, offset in zip(results, texts, texts, texts, strict=True):
        if verdict.alert or verdict.reasons is not None or verdict.incident is not None:
            values.append(scored(event, verdict, top_features, include_event))
        elif include_event:
            parts = (before, score, between, p_value, behind, offset, b'},"event":', event.json, b"}")
            values.append(b"".join(parts))
        else:
            values.append(b"".join((before, score, between, p_value, behind, offset, b"}}")))
    return values


def incident(event: Event, change: Incident, top_features: int, keyed: bool) -> dict[str, Any]:
    """What is told of an incident that changed at an event, as `svead_stream.record.schema` describes it.

    With a model for each key (`keyed`) it also tells the key, as text.
    """
    value = change.record(top_features)
    value["source"] = _place(event.record)
    if keyed:
        value["key"] = _text(event.record.key)
    return value


def incident_key(event: Event, change: Incident, keyed: bool) -> bytes:
    """The name of an incident, a JSON array: topic, partition, the message key if each has a model, its number."""
    record = event.record
    key = record.key
    # Two keys must not have one name, so a backslash of the key's own differs from one that stands for bytes.
    of = [_text(None if key is None else key.replace(b"\\", b"\\\\"))] if keyed else []
    return orjson.dumps([record.topic, record.partition, *of, change.number])


def _text(key: bytes | None) -> str | None:
    """A message key as text; of a long one the beginning, and a hash that tells it from others."""
    if key is None:
        return None
    if len(key) > _LONGEST_KEY:
        key = key[:100] + b"... sha256 " + sha256(key).hexdigest().encode()
    return key.decode(errors="backslashreplace")


def _place(record: Any) -> dict[str, Any]:
    return {"topic": record.topic, "partition": record.partition, "offset": record.offset}


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
