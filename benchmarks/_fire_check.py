"""What workers should have written, by filters in a plain loop, and how what they wrote differs from it.

It needs no Kafka: records are handed over as other clients have read them. Which messages are events is known from
whoever made them (the header `kind`), so the worker's decoder is not asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from svead_stream import ConformalFilter, StreamingSVEAD

FEATURES = ("x0", "x1", "x2", "x3", "x4", "x5", "more")  # `more` stands for what is below it
GOOD = "good"
REFUSED = "too many features"  # decodes well; only the detector can say that it is no event
TOMBSTONE = "null"  # no value: passed over
OWN = "svead-"  # how headers begin that the worker adds

Place = tuple[Any, ...]  # where in the input something comes from: partition, offset, and what more it takes


class Record(NamedTuple):
    """A record as a client has read it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def kind(self) -> str:
        """What its maker said of it."""
        return (dict(self.headers).get("kind") or b"").decode()

    @property
    def number(self) -> int:
        """Its number among all that were sent, aborted ones too."""
        return int(dict(self.headers).get("number") or b"-1")


class Found(NamedTuple):
    """Something that was written: in which partition, what it is about, and all that it says."""

    partition: int
    place: Place
    content: Any


@dataclass
class Written:
    """What should stand in the three topics that others read, by place and in the order of the input."""

    scored: dict[Place, Any] = field(default_factory=dict)
    dead: dict[Place, Any] = field(default_factory=dict)
    incidents: dict[Place, Any] = field(default_factory=dict)


@dataclass
class Tally:
    """How one topic differs from what it should be."""

    expected: int = 0
    found: int = 0
    lost: int = 0
    twice: int = 0
    strange: int = 0  # about something that should not be there at all
    different: int = 0
    disordered: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether it is all there, once, the same and in order."""
        return not (self.lost or self.twice or self.strange or self.different or self.disordered)

    def note(self, what: str, *about: Any) -> None:
        """Keep a few examples to show."""
        if len(self.examples) < 5:
            self.examples.append(f"{what}: {'; '.join(map(str, about))}"[:1000])


def compare(expected: Mapping[Place, Any], found: Iterable[Found]) -> Tally:
    """Every expected thing once, as expected, and in the order of the input wherever two share both partitions."""
    tally = Tally(expected=len(expected))
    order = {place: i for i, place in enumerate(expected)}
    seen: set[Place] = set()
    latest: dict[tuple[int, int], int] = {}
    for one in found:
        tally.found += 1
        if one.place not in order:
            tally.strange += 1
            tally.note("not expected", one)
        elif one.place in seen:
            tally.twice += 1
            tally.note("twice", one.place)
        else:
            seen.add(one.place)
            if one.content != expected[one.place]:
                tally.different += 1
                tally.note("different", one.place, one.content, "expected", expected[one.place])
            lane = (one.partition, one.place[0])
            if order[one.place] < latest.get(lane, -1):
                tally.disordered += 1
                tally.note("out of order", one.place)
            latest[lane] = max(order[one.place], latest.get(lane, -1))
    tally.lost = len(expected) - len(seen)
    for place in list(order.keys() - seen)[:5]:
        tally.note("lost", place)
    return tally


class Reference:
    """A run that nothing interrupts: one filter for each partition or key, fed event by event.

    Parameters
    ----------
    topic
        Of the input.
    keyed
        Whether each key has a model.
    detector, filters
        Parameters of the detector and of the filter around it.
    top
        How many features are named.
    """

    def __init__(
        self, topic: str, keyed: bool, detector: Mapping[str, Any], filters: Mapping[str, Any], top: int
    ) -> None:
        self._topic, self._keyed, self._top = topic, keyed, top
        self._detector, self._filters = detector, filters
        self._models: dict[tuple[int, bytes | None], ConformalFilter] = {}

    def run(self, records: Iterable[Record]) -> Written:
        """What these messages should lead to; they come partition by partition, in order."""
        written = Written()
        for record in records:
            if record.kind == TOMBSTONE:
                continue
            if record.kind != GOOD and record.kind != REFUSED:
                self._bury(written, record)
                continue
            event = json.loads(record.value or b"")
            try:
                verdict = self._model(record).judge_one(features_of(event), record.timestamp / 1000)
            except ValueError:
                assert record.kind == REFUSED, f"the detector refuses what should be good: {record}"
                self._bury(written, record)
                continue
            assert record.kind == GOOD, f"the detector takes what it should refuse: {record}"
            place = (record.partition, record.offset)
            source = {"topic": self._topic, "partition": record.partition, "offset": record.offset}
            value = verdict.record(self._top) | {"source": source, "event": event}
            written.scored[place] = (exact(value), record.key, record.timestamp, record.headers)
            for change in verdict.changes:
                told = change.record(self._top) | {"source": source}
                name: list[Any] = [self._topic, record.partition, change.number]
                if self._keyed:
                    key = None if record.key is None else record.key.decode()
                    told["key"] = key
                    name.insert(2, key)
                about = (*place, exact(name), change.state)
                written.incidents[about] = (exact(told), record.timestamp)
        return written

    def _bury(self, written: Written, record: Record) -> None:
        written.dead[record.partition, record.offset] = (record.value, record.key, record.timestamp, record.headers)

    def _model(self, record: Record) -> ConformalFilter:
        name = (record.partition, record.key if self._keyed else None)
        if name not in self._models:
            self._models[name] = ConformalFilter(StreamingSVEAD(**self._detector), **self._filters)
        return self._models[name]


def features_of(event: dict[str, Any]) -> dict[str, float]:
    """The numbers of an event under the names that a worker is told to use."""
    plain = {name: event[name] for name in FEATURES[:-1] if event.get(name) is not None}
    return plain | {f"more.{name}": value for name, value in event.get("more", {}).items()}


def exact(value: Any) -> str:
    """A text that is the same only for the same value, to the last bit of its numbers."""
    return json.dumps(value, sort_keys=True)


def scored(records: Iterable[Record]) -> Iterable[Found]:
    """Scored events by their source."""
    for record in records:
        value = json.loads(record.value or b"")
        source = value["source"]
        content = (exact(value), record.key, record.timestamp, record.headers)
        yield Found(record.partition, (source["partition"], source["offset"]), content)


def incidents(records: Iterable[Record]) -> Iterable[Found]:
    """What was told of incidents, by the event at which they changed."""
    for record in records:
        value = json.loads(record.value or b"")
        source = value["source"]
        place = (source["partition"], source["offset"], exact(json.loads(record.key or b"")), value["state"])
        yield Found(record.partition, place, (exact(value), record.timestamp))


def dead(records: Iterable[Record]) -> Iterable[Found]:
    """Dead letters by their source, without the headers that the worker has added."""
    for record in records:
        about = dict(record.headers)
        place = (int(about[f"{OWN}partition"] or b""), int(about[f"{OWN}offset"] or b""))
        own = tuple(one for one in record.headers if not one[0].startswith(OWN))
        yield Found(record.partition, place, (record.value, record.key, record.timestamp, own))
