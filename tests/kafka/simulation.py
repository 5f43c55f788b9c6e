"""Kafka as a few lists: what the histories of test_partition.py happen in.

There are the messages of one input partition, a feedback topic of two partitions, the committed offset with the output,
and the records of the state topic. The code that is tried is the real one: `Partition`, `Feedback`, the records of the
state topic and the reader that finds them again.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import orjson
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from svead_kafka.events import Decoder, Event, Verdict
from svead_kafka.feedback import Feedback
from svead_kafka.journal import Mark
from svead_kafka.models import Maker
from svead_kafka.outgoing import Outcome
from svead_kafka.partition import Partition, new_checkpoint
from svead_kafka.settling import has_all
from svead_kafka.state_topic import Record, StateReader

SOURCE = TopicPartition("in", 0)
GAP, REFUSED, KEYLESS = "-", "!", "."  # in a log: no event at this offset; an event that the model refuses; no key


class Checksum:
    """A detector whose scores tell all that it has learned: one event lost, doubled or moved changes them all."""

    def __init__(self, seed: int) -> None:
        self.sum = seed

    def score_one(self, x: dict[str, float]) -> float:
        if x["refused"]:
            raise ValueError("no")
        return crc32(b"%d %d" % (self.sum, x["offset"])) / 2**32

    def learn_one(self, x: dict[str, float]) -> None:
        self.sum = crc32(b"%d" % x["offset"], self.sum)

    def feedback_one(self, x: dict[str, float], is_anomaly: bool | None, teach: bool = False) -> None:
        if x["refused"]:
            raise ValueError("no")
        self.sum = crc32(b"%d %d %d" % (x["offset"], bool(is_anomaly), teach), self.sum)

    def explain_one(self, x: dict[str, float]) -> dict[Hashable, float]:
        share = self.score_one(x)
        return {"offset": share, "refused": 1 - share}


@dataclass(frozen=True)
class Step:
    """What the owner of the partition does next, and how it ends; after a crash the next step begins with a restore."""

    size: int  # of the batch; 0: save everything and leave
    end: str  # commit, abort (a crash before the commit) or crash (just after the commit)
    unseen: int  # records at the end of the state topic that a restore before this step does not see yet
    compact: bool  # the cleaner of the state topic runs before this step
    answers: int = 0  # that arrive before this step


STEPS = st.builds(
    Step,
    size=st.integers(0, 8),
    end=st.sampled_from(["commit", "commit", "abort", "crash"]),
    unseen=st.integers(0, 12),
    compact=st.booleans(),
    answers=st.sampled_from([0, 0, 0, 1, 3]),
)


@dataclass(frozen=True)
class Reply:
    """What somebody writes to the feedback topic."""

    partition: int  # of that topic
    back: int  # how far before the committed offset its event is; below 0: it is still to be scored
    is_anomaly: Any  # "what" makes it no answer
    body: bool  # with the event in it; otherwise it has to be looked up


REPLIES = st.builds(
    Reply,
    partition=st.integers(0, 1),
    back=st.integers(-1, 7) | st.integers(-20, 20),
    is_anomaly=st.sampled_from([True, True, False, False, None, "what"]),
    body=st.booleans(),
)


class StateTopic:
    """The log of the state topic, and a consumer of it. None stands where a record was aborted or compacted."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self._visible = 0  # readers see the records below this offset
        self._cleaned = 0
        self._at = 0

    def write(self, records: list[Record], commit: bool) -> list[int]:
        begin = len(self.records)
        for record in records:
            about = {"offset": len(self.records), "key": record.key, "value": record.value, "headers": record.headers}
            self.records.append(SimpleNamespace(**about) if commit else None)
        self.records.append(None)  # the marker that ends a transaction
        self.show()
        return list(range(begin, begin + len(records)))

    def compact(self) -> None:
        newest = {record.key: record for record in self.records if record is not None}
        self.records = [one if one is not None and newest[one.key] is one else None for one in self.records]
        self._cleaned = len(self.records)

    def show(self, unseen: int = 0) -> None:
        """Let readers see all but the last records; what has met the cleaner is visible."""
        self._visible = max(len(self.records) - unseen, self._cleaned)

    # what the reader asks of a consumer

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {0}

    def assign(self, places: list[TopicPartition]) -> None: ...

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._at = offset

    def seek_to_beginning(self, place: TopicPartition) -> None:
        self._at = 0

    def position(self, place: TopicPartition) -> int:
        return self._at

    def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, self._visible)

    def poll(self, timeout_ms: int, max_records: int = 3) -> dict[TopicPartition, list[Any]]:
        batch = self.records[self._at : min(self._at + max_records, self._visible)]
        self._at += len(batch)
        return {TopicPartition("out-state", 0): [record for record in batch if record is not None]}


class Log:
    """A consumer of messages in some partitions, each a list with None where no message is."""

    def __init__(self, partitions: dict[TopicPartition, list[Any]]) -> None:
        self._partitions = partitions
        self._at: dict[TopicPartition, int] = {}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {place.partition for place in self._partitions}

    def assign(self, places: list[TopicPartition]) -> None:
        self._at = dict.fromkeys(places, 0)

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._at[place] = offset

    def position(self, place: TopicPartition) -> int:
        return self._at[place]

    def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: len(self._partitions[place]) for place in places}

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        polled: dict[TopicPartition, list[Any]] = {}
        for place, at in self._at.items():
            there = [record for record in self._partitions[place][at:] if record is not None][:max_records]
            self._at[place] = there[-1].offset + 1 if there else len(self._partitions[place])
            if there:
                polled[place] = there
        return polled


@dataclass
class World:
    """What outlives a crash."""

    log: list[Event | None]
    first: int  # the offset at which the group begins
    committed: int | None = None
    mark: str = ""  # committed with it
    feedback: dict[TopicPartition, list[Any]] = field(
        default_factory=lambda: {TopicPartition("answers", 0): [], TopicPartition("answers", 1): []}
    )
    taken: list[tuple[int, int, int, int]] = field(default_factory=list)  # number, position and place of answers
    unknown: int = 0
    no_answers: list[tuple[int, int]] = field(default_factory=list)  # dead letters from the feedback topic
    output: list[tuple[Any, ...]] = field(default_factory=list)  # scored events
    refused: list[tuple[Any, ...]] = field(default_factory=list)  # dead letters
    state: StateTopic = field(default_factory=StateTopic)

    def events(self, begin: int, end: int) -> list[Event]:
        return [event for event in self.log[begin:end] if event is not None]

    def send(self, reply: Reply) -> None:
        """An answer arrives; answers to what is no event have no key and no event, either."""
        about = max(0, (self.committed or 0) - 1 - reply.back)
        event = self.log[about] if about < len(self.log) else None
        value = {"source": {"topic": "in", "partition": 0, "offset": about}, "is_anomaly": reply.is_anomaly}
        if event is not None and reply.body:
            value["event"] = orjson.loads(event.record.value)
        place = TopicPartition("answers", reply.partition)
        where = {"topic": place.topic, "partition": place.partition, "offset": len(self.feedback[place])}
        key = event.record.key if event is not None else None
        self.feedback[place].append(SimpleNamespace(**where, key=key, value=orjson.dumps(value)))

    def input(self) -> Log:
        return Log({SOURCE: [None if event is None else event.record for event in self.log]})


class Owner:
    """An owner of the partition: what a worker does with one, from its restore to its end."""

    def __init__(self, world: World, maker: Maker, step: Step) -> None:
        self._world, self._options = world, maker.options
        self.alive = True
        reader = StateReader(world.state, self._options.state, self._options.group, timeout=1000)
        world.state.show(step.unseen)
        try:
            found = reader.scan([SOURCE])[SOURCE]
        except KafkaTimeoutError:  # only a part of a snapshot is visible yet
            world.state.show()
            found = reader.scan([SOURCE])[SOURCE]
        world.state.show()
        mark = Mark.read(world.mark)
        if world.committed is not None and (found.checkpoint is None or not has_all(found, mark)):
            found = reader.scan([SOURCE])[SOURCE]
            assert has_all(found, mark), "all that was committed is there"
        begin = world.first if world.committed is None else world.committed
        is_new = found.checkpoint is None
        if is_new:
            found.checkpoint = new_checkpoint(begin, self._options.fingerprint)
        self._partition = Partition(SOURCE, maker, found, reader.load)
        chunk = step.size + 1
        for at in range(self._partition.position, begin, chunk):
            self._partition.replay(world.events(at, min(at + chunk, begin)), min(at + chunk, begin))
        self._partition.replay([], begin)
        self._feedback = Feedback(
            Log(world.feedback), world.input(), lambda source: len(world.log), self._options, Decoder(), {"in": 1}
        )
        self._feedback.begin({SOURCE: self._partition})
        if is_new:
            self._transact(Outcome(), step.end, [([], record) for record in self._partition.first_records()])

    def work(self, step: Step) -> None:
        if step.size == 0:
            if self._partition.unsaved:
                self._transact(Outcome(), step.end, everything=True)
            assert not (self.alive and self._partition.unsaved), "the next owner would have something to replay"
            self.alive = False
            return
        begin = self._partition.position
        end = min(begin + step.size, len(self._world.log))
        try:
            outcomes = self._feedback.take({SOURCE: self._partition})
            if begin < end:
                outcome = outcomes.setdefault(SOURCE, Outcome())
                outcome.scored, outcome.bad = self._partition.take(self._world.events(begin, end), end)
        except KafkaError:  # a snapshot was compacted: a newer one was not visible at the restore, but is now
            self.alive = False
            return
        if outcomes:
            self._transact(outcomes[SOURCE], step.end)

    def _transact(self, outcome: Outcome, end: str, more: Any = (), everything: bool = False) -> None:
        options, world = self._options, self._world
        saved = [*self._partition.save(options.snapshot_every, options.max_models, everything), *more]
        offsets = world.state.write([record for _, record in saved], commit=end != "abort")
        self.alive = end == "commit"
        if end == "abort":
            return
        for (futures, _), offset in zip(saved, offsets, strict=True):
            futures.append(SimpleNamespace(get=lambda timeout, at=offset: SimpleNamespace(offset=at)))
        world.committed, world.mark = self._partition.position, self._partition.mark
        world.output += [(event.record.offset, *verdict) for event, verdict in outcome.scored]
        world.refused += [(one.record.offset, one.reason) for one in outcome.bad]
        world.no_answers += [(one.record.partition, one.record.offset) for one in outcome.refused]
        world.unknown += outcome.answers["unknown"]
        for _, record in saved:
            if orjson.loads(record.key)[3:] == ["answers"]:
                world.taken += map(tuple, orjson.loads(record.value)["latest"])
        self._partition.committed()


def uninterrupted(world: World, maker: Maker) -> World:
    """After a run that nothing interrupts: events and answers one by one, in order, to the models of their keys."""
    models: dict[bytes | None, Any] = {}
    quiet = World(world.log, world.first)
    taken = sorted(world.taken)

    def model_of(event: Event) -> Any:
        key = event.record.key if maker.options.model_per == "key" else None
        return models.setdefault(key, maker.new(*SOURCE, key))

    def answer(partition: int, offset: int) -> None:
        said = orjson.loads(world.feedback[TopicPartition("answers", partition)][offset].value)
        event = world.log[said["source"]["offset"]]
        assert event is not None
        teach = maker.options.teach_false_alarms
        assert model_of(event).answer(event.names, event.values, said["is_anomaly"], teach) is None

    for event in world.events(world.first, len(world.log)):
        while taken and taken[0][1] <= event.record.offset:
            answer(*taken.pop(0)[2:])
        [verdict] = model_of(event).take([event])
        if isinstance(verdict, Verdict):
            quiet.output.append((event.record.offset, *verdict))
        else:
            quiet.refused.append((event.record.offset, verdict))
    return quiet


def read(log: str) -> list[Event | None]:
    """The messages of a log: each letter is one, with the letter as its key. Some times are missing, some go back."""
    events: list[Event | None] = []
    for offset, letter in enumerate(log):
        key = None if letter == KEYLESS else letter.encode()
        time = math.nan if offset % 7 == 3 else offset - 3.0 * (offset % 5 == 4)
        values = (offset, letter == REFUSED)
        body = orjson.dumps({"offset": offset, "refused": letter == REFUSED})
        record = SimpleNamespace(offset=offset, key=key, value=body, headers=[], timestamp=offset)
        events.append(None if letter == GAP else Event(record, ("offset", "refused"), values, time))
    return events
