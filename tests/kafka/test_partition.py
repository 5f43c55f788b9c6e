"""A restore is exact: the argument at the top of partition.py, tried out on random histories without a broker.

What Kafka keeps is a few lists here: the messages of one input partition, the committed offset with the output, and
the records of the state topic. The code that is tried is the real one: `Partition`, the records of the state topic and
the reader that finds them again.
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from svead_kafka import Options, state_topic
from svead_kafka.events import Event, Verdict
from svead_kafka.models import Maker
from svead_kafka.partition import Partition, new_checkpoint
from svead_kafka.state_topic import Found, Record, StateReader, checkpoint_record, model_records

SOURCE = TopicPartition("in", 0)
GAP, REFUSED, KEYLESS = "-", "!", "."  # in a log: no event at this offset; an event that the model refuses; no key


@pytest.fixture(autouse=True, scope="module")
def clock() -> Iterator[None]:
    """Time passes with each look at the clock, so a reader waits for a thousand polls on any machine."""
    ticks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_topic, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
        yield


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


STEPS = st.builds(
    Step,
    size=st.integers(0, 8),
    end=st.sampled_from(["commit", "commit", "abort", "crash"]),
    unseen=st.integers(0, 12),
    compact=st.booleans(),
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


@dataclass
class World:
    """What outlives a crash."""

    log: list[Event | None]
    first: int  # the offset at which the group begins
    committed: int | None = None
    output: list[tuple[Any, ...]] = field(default_factory=list)  # scored events
    refused: list[tuple[Any, ...]] = field(default_factory=list)  # dead letters
    state: StateTopic = field(default_factory=StateTopic)

    def events(self, begin: int, end: int) -> list[Event]:
        return [event for event in self.log[begin:end] if event is not None]


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
        if found.checkpoint is None and world.committed is not None:
            found = reader.scan([SOURCE])[SOURCE]
        begin = world.first if world.committed is None else world.committed
        is_new = found.checkpoint is None
        if is_new:
            found.checkpoint = new_checkpoint(begin, self._options.fingerprint)
        self._partition = Partition(SOURCE, maker, found, reader.load)
        chunk = step.size + 1
        for at in range(self._partition.position, begin, chunk):
            self._partition.take(world.events(at, min(at + chunk, begin)), min(at + chunk, begin))
        self._partition.position = begin
        if is_new:
            self._transact([], step.end, [([], self._partition.first_checkpoint_record())])

    def work(self, step: Step) -> None:
        if step.size == 0:
            if self._partition.unsaved:
                self._transact([], step.end, everything=True)
            assert not (self.alive and self._partition.unsaved), "the next owner would have something to replay"
            self.alive = False
            return
        begin = self._partition.position
        end = min(begin + step.size, len(self._world.log))
        if begin < end:
            try:
                scored, bad = self._partition.take(self._world.events(begin, end), end)
            except KafkaError:  # a snapshot was compacted: a newer one was not visible at the restore, but is now
                self.alive = False
                return
            self._transact(
                [(event.record.offset, *verdict) for event, verdict in scored], step.end,
                refused=[(one.record.offset, one.reason) for one in bad],
            )  # fmt: skip

    def _transact(
        self, scored: list[Any], end: str, more: Any = (), everything: bool = False, refused: Any = ()
    ) -> None:
        options, world = self._options, self._world
        saved = [*self._partition.save(options.snapshot_every, options.max_models, everything), *more]
        offsets = world.state.write([record for _, record in saved], commit=end != "abort")
        self.alive = end == "commit"
        if end == "abort":
            return
        for (futures, _), offset in zip(saved, offsets, strict=True):
            futures.append(SimpleNamespace(get=lambda timeout, at=offset: SimpleNamespace(offset=at)))
        world.committed = self._partition.position
        world.output += scored
        world.refused += refused
        self._partition.committed()


def uninterrupted(world: World, maker: Maker) -> World:
    """After a run that nothing interrupts: the events one by one, each to the model of its key."""
    models: dict[bytes | None, Any] = {}
    quiet = World(world.log, world.first)
    for event in world.events(world.first, len(world.log)):
        key = event.record.key if maker.options.model_per == "key" else None
        model = models.setdefault(key, maker.new(*SOURCE, key))
        [verdict] = model.take([event])
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
        record = SimpleNamespace(offset=offset, key=key)
        time = math.nan if offset % 7 == 3 else offset - 3.0 * (offset % 5 == 4)
        values = (offset, letter == REFUSED)
        events.append(None if letter == GAP else Event(record, ("offset", "refused"), values, time))
    return events


# Small models that are busy at once: logs are short, and models in many pieces take long to read.
BUSY: dict[str, Any] = {
    "input": ["in"], "output": "out", "alert_rate": 0.2, "alert_window": 25, "incident_rate": 0.15, "burn_in": 0,
}  # fmt: skip


@settings(max_examples=1000)
@given(
    log=st.text("abcd" + KEYLESS + GAP + REFUSED, min_size=8, max_size=60),
    first=st.integers(0, 3),
    steps=st.lists(STEPS, min_size=3, max_size=30),
    model_per=st.sampled_from(["key", "partition"]),
    snapshot_every=st.integers(1, 12),
    max_models=st.integers(1, 5),
    piece=st.sampled_from([100, 10_000]),
    hold_off=st.sampled_from([4, 6, "5s"]),
)
def test_the_committed_output_is_that_of_a_run_that_was_never_interrupted(
    log: str,
    first: int,
    steps: list[Step],
    model_per: str,
    snapshot_every: int,
    max_models: int,
    piece: int,
    hold_off: int | str,
) -> None:
    """With all that is said: scores, alerts, incidents. It fails when the checkpoint is one offset too high, when a
    replay gives a model what its snapshot covers, when a snapshot claims to cover one offset more, when a model leaves
    memory unsaved, when models that have learned what is not committed are kept, and when a snapshot lacks the open
    incident or the clock."""
    options = Options(
        **BUSY, model_per=model_per, snapshot_every=snapshot_every, max_models=max_models, hold_off=hold_off
    )
    maker = Maker(options, Checksum, pickle.dumps, pickle.loads)
    world = World(read(log), first)
    # Records that are none of ours are there too: of another group, of another partition, of models given up before.
    for group, source in [("other", SOURCE), (options.group, TopicPartition("in", 1)), (options.group, SOURCE)]:
        world.state.write([*model_records(group, source, b"a", "old", 7, b"a model")], commit=True)
        if (group, source) != (options.group, SOURCE):
            checkpoint = new_checkpoint(7, options.fingerprint)
            world.state.write([checkpoint_record(group, source, checkpoint)], commit=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_topic, "PIECE", piece)
        owner: Owner | None = None
        for step in [*steps, *[Step(len(log), "commit", 0, False)] * 2]:
            if step.compact:
                world.state.compact()
            if owner is None or not owner.alive:
                owner = Owner(world, maker, step)
            if owner.alive:
                owner.work(step)
    assert world.committed == max(first, len(log))
    quiet = uninterrupted(world, maker)
    assert world.output == quiet.output
    assert sorted(world.refused) == quiet.refused


TIMES = {2: math.nan, 11: math.nan, 12: 3.0, 15: 2.0, 20: math.nan}


@pytest.mark.parametrize("hold_off", [4, 6, "5s"])
def test_the_histories_above_have_incidents_that_open_go_on_and_close(hold_off: int | str) -> None:
    maker = Maker(Options(**BUSY, hold_off=hold_off), Checksum, pickle.dumps, pickle.loads)
    quiet = uninterrupted(World(read("ab" * 30), 0), maker)
    changes = [change for *_, changed in quiet.output for change in changed]
    assert {change.state for change in changes} == {"open", "update", "closed"}
    assert all(change.reasons for change in changes)


def test_missing_values_and_times_are_told_once() -> None:
    options = Options(input=["in"], output="out", detector={"n_partitions": 2, "n_anchors": 1})
    found = Found(new_checkpoint(0, options.fingerprint))
    partition = Partition(SOURCE, Maker(options), found, lambda source, saved: b"")

    def take(begin: int, end: int, *names: str) -> None:
        events = [
            Event(SimpleNamespace(offset=i, key=None), names, [float(i)] * len(names), TIMES.get(i, float(i)))
            for i in range(begin, end)
        ]
        partition.take(events, end)

    take(0, 10, "a", "b")
    take(10, 13, "a")
    take(13, 21, "b")
    odd = {"missing_values": 11, "missing_times": 3, "backward_times": 2}
    assert [partition.odd_since_last(), partition.odd_since_last()] == [odd, {}]
    take(21, 23, "a")
    assert partition.odd_since_last() == {"missing_values": 2}


def test_pieces_of_two_snapshots_are_never_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even of two that cover the same: how a model is written need not be the same twice."""
    monkeypatch.setattr(state_topic, "PIECE", 4)
    state, checkpoint = StateTopic(), new_checkpoint(0, {})
    state.write([checkpoint_record("svead", SOURCE, checkpoint)], commit=True)
    for data in (b"old pieces", b"new pieces"):
        state.write([*model_records("svead", SOURCE, b"a", checkpoint["life"], 7, data)], commit=True)
    reader = StateReader(state, "out-state", "svead", timeout=1000)
    saved = reader.scan([SOURCE])[SOURCE].models[b"a"]
    assert (saved.covers, reader.load(SOURCE, saved)) == (7, b"new pieces")
    state.show(unseen=2)  # the last piece, and the marker after it
    with pytest.raises(KafkaTimeoutError, match="piece 2 of 3"):
        reader.scan([SOURCE])
