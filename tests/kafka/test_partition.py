"""A restore is exact: the argument at the top of partition.py, tried out on random histories without a broker.

simulation.py has the world that they happen in.
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError
from simulation import (
    GAP,
    KEYLESS,
    REFUSED,
    REPLIES,
    SOURCE,
    STEPS,
    Checksum,
    Owner,
    Reply,
    StateTopic,
    Step,
    World,
    read,
    uninterrupted,
)
from svead_kafka import Options, feedback, journal, state_topic
from svead_kafka.events import Event
from svead_kafka.models import Maker
from svead_kafka.partition import Partition, new_checkpoint
from svead_kafka.state_topic import Found, StateReader, checkpoint_record, model_records


@pytest.fixture(autouse=True, scope="module")
def clock() -> Iterator[None]:
    """Time passes with each look at the clock, so a reader waits for a thousand polls on any machine.

    And a transaction has time for one or two answers.
    """
    ticks = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        for module in (state_topic, feedback):
            patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
        yield


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
    replies=st.lists(REPLIES, max_size=25),
    most_answers=st.sampled_from([2, 200]),
    most_waiting=st.sampled_from([1, 200]),
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
    replies: list[Reply],
    most_answers: int,
    most_waiting: int,
) -> None:
    """With all that is said: scores, alerts, incidents. It fails when the checkpoint is one offset too high, when a
    replay gives a model what its snapshot covers, when a snapshot claims to cover one offset more, when a model leaves
    memory unsaved, when models that have learned what is not committed are kept, and when a snapshot lacks the open
    incident or the clock. With answers it also fails when a replay leaves one out, or takes one that a snapshot covers,
    or takes it an event too late, and when a journal that is not visible yet is not waited for."""
    options = Options(
        **BUSY, model_per=model_per, snapshot_every=snapshot_every, max_models=max_models, hold_off=hold_off,
        feedback="answers",
    )  # fmt: skip
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
        patch.setattr(journal, "_MOST_ANSWERS", most_answers)
        patch.setattr(feedback, "_MOST_WAITING", most_waiting)
        patch.setattr(feedback, "_POLLED", 2)
        owner: Owner | None = None
        left = iter(replies)
        at_last = Step(len(log), "commit", 0, False, len(replies))
        for step in [*steps, *[at_last] * (len(replies) + 2)]:
            for reply in itertools.islice(left, step.answers):
                world.send(reply)
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
    _check_answers(world, replies)


def _check_answers(world: World, replies: list[Reply]) -> None:
    """Each answer was dealt with once: taken by a model, refused, or counted as unknown."""
    assert [number for number, *_ in world.taken] == list(range(len(world.taken)))
    places = [(partition, offset) for _, _, partition, offset in world.taken] + world.no_answers
    assert len(set(places)) == len(places)
    assert len(places) + world.unknown == len(replies)
    for _, position, partition, offset in world.taken:
        said = world.feedback[TopicPartition("answers", partition)][offset].value
        assert b'"offset":' in said
        assert position > int(said.split(b'"offset":')[1].split(b"}")[0]), "it was taken before its event was scored"


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


def test_an_answer_that_is_in_the_snapshot_is_not_taken_again_though_the_journal_lists_it() -> None:
    """A model that leaves memory is saved, but the journal is only written again when there is something to tell."""
    options = Options(**BUSY, model_per="key", max_models=1, snapshot_every=100, feedback="answers")
    maker = Maker(options, Checksum, pickle.dumps, pickle.loads)
    world = World(read("aaaabbbbaaaa"), 0)
    some = Step(2, "commit", 0, False)
    owner = Owner(world, maker, some)
    owner.work(some)
    world.send(Reply(0, 0, True, body=True))
    for _ in range(2):  # the answer is taken, then a is saved because b is used
        owner.work(some)
    [lists] = [record for record in world.state.records if record is not None and b'"answers"]' in record.key][-1:]
    assert len(journal.Journal.read(lists.value).answers) == 1
    owner = Owner(world, maker, some)
    for _ in range(4):
        owner.work(some)
    assert world.output == uninterrupted(world, maker).output
    _check_answers(world, [Reply(0, 0, True, body=True)])


def test_while_many_answers_wait_for_their_events_no_more_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feedback, "_MOST_WAITING", 3)
    monkeypatch.setattr(feedback, "_POLLED", 2)
    maker = Maker(Options(**BUSY, feedback="answers"), Checksum, pickle.dumps, pickle.loads)
    world = World(read("a" * 20), 0)
    replies = [Reply(0, -15, is_anomaly=True, body=False)] * 12
    for reply in replies:
        world.send(reply)
    owner = Owner(world, maker, some := Step(2, "commit", 0, False))
    for _ in range(5):
        owner.work(some)
        assert owner._feedback._count <= 4
    assert world.taken == []
    for _ in range(15):
        owner.work(some)
    _check_answers(world, replies)
    assert owner._feedback._count == owner._feedback._bytes == 0
