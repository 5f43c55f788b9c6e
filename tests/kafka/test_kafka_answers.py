"""Answers without a broker: what they say, whom they concern, and from where on a worker reads them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from kafka import TopicPartition
from simulation import Log
from svead_kafka import Options
from svead_kafka.events import Decoder, Event
from svead_kafka.feedback import Feedback, read_answer
from svead_kafka.journal import Journal, Mark
from svead_kafka.models import Maker
from svead_kafka.partition import Partition, new_checkpoint
from svead_kafka.state_topic import Found

COUNTS = {"orders": 3, "machines": 2}
PLACE = TopicPartition("answers", 0)


def said(value: Any, offset: int = 0) -> SimpleNamespace:
    data = value if value is None or isinstance(value, bytes) else orjson.dumps(value)
    return SimpleNamespace(topic="answers", partition=0, offset=offset, key=None, value=data)


@pytest.mark.parametrize(
    "source",
    [None, 3, [], {}, {"topic": "orders"}, {"topic": "orders", "partition": 3}, {"topic": "orders", "partition": True},
     {"topic": "elsewhere", "partition": 0}, {"topic": ["orders"], "partition": 0},
     {"topic": "orders", "partition": 1.0}],
)  # fmt: skip
def test_what_names_no_partition_of_the_input_is_for_the_first_partition_of_the_first_topic(source: Any) -> None:
    answer = read_answer(said({"is_anomaly": True, "source": source, "event": {"x": 1}}), COUNTS)
    assert answer.source == TopicPartition("machines", 0)
    assert answer.reason


@pytest.mark.parametrize("value", [None, b"", b"{", b"3", b"null", b"\xff"])
def test_so_is_what_is_no_answer_at_all(value: bytes | None) -> None:
    answer = read_answer(said(value), COUNTS)
    assert answer.source == TopicPartition("machines", 0)
    assert answer.reason


def test_a_scored_event_with_a_verdict_is_an_answer() -> None:
    source = {"topic": "orders", "partition": 2, "offset": 7}
    scored = {"score": 0.9, "p_value": 0.01, "alert": True, "source": source, "event": {"x": 1}}
    answer = read_answer(said(scored | {"is_anomaly": False}), COUNTS)
    assert answer[1:] == (TopicPartition("orders", 2), 7, False, {"x": 1}, None)
    assert read_answer(said(scored), COUNTS)[1:] == (TopicPartition("orders", 2), 7, None, {"x": 1}, None)


OPTIONS = Options(input=["in"], output="out", feedback="answers", detector={"n_partitions": 2, "n_anchors": 1})


def partitions_that_heard(*heard: int) -> dict[TopicPartition, Partition]:
    """Partitions of the input that have dealt with the first answers of the topic, each with so many."""
    partitions = {}
    for number, offset in enumerate(heard):
        checkpoint = new_checkpoint(0, OPTIONS.fingerprint)
        found = Found(checkpoint, journal=Journal(checkpoint["life"], 5, 3, 0, {"answers": {0: offset}}))
        source = TopicPartition("in", number)
        partitions[source] = Partition(source, Maker(OPTIONS), found, lambda source, saved: b"")
        partitions[source].take([Event(SimpleNamespace(offset=0, key=None), ("x",), (0.0,))], 1)
    return partitions


def test_reading_begins_where_the_partition_that_has_heard_least_is() -> None:
    partitions = partitions_that_heard(4, 1)
    sources = [{"topic": "in", "partition": i % 2} for i in range(7)]
    log = [said({"is_anomaly": True, "source": source, "event": {"x": i}}, i) for i, source in enumerate(sources)]
    feedback = Feedback(Log({PLACE: log}), None, lambda source: 0, OPTIONS, Decoder(), {"in": 2})
    feedback.begin(partitions)
    while feedback.take(partitions):
        pass
    taken = [[answer.values[0] for answer in partition.journal.answers] for partition in partitions.values()]
    assert taken == [[4, 6], [1, 3, 5]]
    assert {partition.journal.heard("answers", 0) for partition in partitions.values()} == {7}


def test_when_time_is_up_each_partition_has_one_answer_however_many_partitions_the_topic_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("svead_kafka.feedback._SECONDS", -1.0)
    answer = orjson.dumps({"is_anomaly": True, "source": {"topic": "in", "partition": 0}, "event": {"x": 1}})
    other = answer.replace(b'"partition":0', b'"partition":1')
    topic: dict[TopicPartition, list[Any]] = {}
    for number in range(5):
        place = TopicPartition("answers", number)
        both = [SimpleNamespace(topic="answers", partition=number, offset=i, key=None) for i in range(2)]
        both[0].value, both[1].value = answer, other
        topic[place] = both
    partitions = partitions_that_heard(0, 0)
    feedback = Feedback(Log(topic), None, lambda source: 0, OPTIONS, Decoder(), {"in": 2})
    feedback.begin(partitions)
    rounds = []
    while outcomes := feedback.take(partitions):
        rounds.append([outcome.answers["anomaly"] for outcome in outcomes.values()])
        for partition in partitions.values():
            partition.journal.write()  # as the transaction does that follows
    assert rounds == [[1, 1]] * 5


def test_partitions_that_are_added_to_the_topic_are_heard_from_their_beginning() -> None:
    def answer(number: int, x: int) -> SimpleNamespace:
        value = orjson.dumps({"is_anomaly": True, "source": {"topic": "in", "partition": 0}, "event": {"x": x}})
        return SimpleNamespace(topic="answers", partition=number, offset=0, key=None, value=value)

    topic = {PLACE: [answer(0, 1)]}
    partitions = partitions_that_heard(0)
    feedback = Feedback(Log(topic), None, lambda source: 0, OPTIONS, Decoder(), {"in": 1})
    feedback.begin(partitions)
    assert feedback.take(partitions)
    topic[TopicPartition("answers", 1)] = [answer(1, 2)]
    assert feedback.take(partitions)
    assert not feedback.take(partitions)
    [partition] = partitions.values()
    assert [one.values[0] for one in partition.journal.answers] == [1, 2]


def test_a_journal_comes_back_as_it_was_written() -> None:
    journal = Journal("life", heard={"old": {3: 4}})
    journal.take(17, b"\x00k", True, ("a", "b.c"), (1, 0.1 + 0.2), (2, 99))
    journal.take(18, None, False, ("a",), (True,), (0, 7))
    journal.has_heard("answers", 2, 100)
    back = Journal.read(journal.write())
    assert (back.life, back.version) == ("life", 1)
    assert (back.count, back.position, back.heard("old", 3), back.heard("answers", 2)) == (2, 18, 4, 100)
    [first, second] = back.answers
    assert (first.number, first.position, first.key, first.is_anomaly, first.names) == (
        0,
        17,
        b"\x00k",
        True,
        ("a", "b.c"),
    )
    assert (list(first.values), list(second.values)) == ([1, 0.1 + 0.2], [True])
    assert back.write() == journal.write()


def test_a_mark_comes_back_as_it_was_written() -> None:
    assert Mark.read(Mark("life", 1, 4).write()) == Mark("life", 1, 4)
    assert Mark.read('{"life": "life", "version": 2}') == Mark("life", 2)


@pytest.mark.parametrize("text", [None, "", "words", "[1]", "3", '{"life": 3, "version": 3}', '{"life": "a"}'])
def test_metadata_of_others_claims_nothing(text: str | None) -> None:
    assert Mark.read(text) is None
