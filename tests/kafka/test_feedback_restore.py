"""Answers and the state topic: hidden journals, missing ones, models that begin anew, other feedback topics."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from reference import about, check, dealt_with, taken, with_answers
from streams import Stream, events, until, work, working
from svead_kafka import Options, StateError, Worker


@pytest.fixture
def one(stream: Stream) -> Stream:
    """Fresh topics with one partition of the input."""
    return Stream(stream.bootstrap, stream.name[:40], partitions=1)


def answer(one: Stream, options: Options, count: int = 10, begin: int = 100, leave: bool = True) -> None:
    """Send so many answers, and run a worker until it has dealt with them."""
    with working(options) as worker:
        one.answer(options, [about(one, begin + i, is_anomaly=i % 2 == 0) for i in range(count)])
        until(lambda: dealt_with(worker) == count)
        if not leave:
            worker._leave = lambda: None  # type: ignore[method-assign]  # as after a crash


def commit(one: Stream, options: Options, offset: int, metadata: str = "") -> None:
    """Move the offset of the group, as an operator would."""
    member = KafkaConsumer(bootstrap_servers=one.bootstrap, group_id=options.group, enable_auto_commit=False)
    source = TopicPartition(one.input, 0)
    member.assign([source])
    member.commit({source: OffsetAndMetadata(offset, metadata, -1)})
    member.close()


def journals(one: Stream, options: Options) -> list[dict[str, Any]]:
    return [orjson.loads(record.value) for record in one.read(options.state) if b'"answers"]' in record.key]


def test_a_journal_behind_the_open_transaction_of_another_is_waited_for(
    one: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """The answers in it are nowhere else: their events were scored long before, and no offset has moved."""
    options = with_answers(one)
    one.send(events(300))
    work(one, options, 300)
    other = KafkaProducer(bootstrap_servers=one.bootstrap, transactional_id=one.name, transaction_timeout_ms=800_000)
    other.init_transactions()
    other.begin_transaction()
    other.send(options.state, key=b'["other", "in", 0]', value=b"{}", partition=0)
    other.flush()
    try:
        answer(one, options, leave=False)
        one.send(events(100, seed=1))
        with caplog.at_level(logging.INFO), working(options):
            until(lambda: "offsets without state that fits" in caplog.text)
            assert one.committed(options) == 300
            other.abort_transaction()
            one.wait_committed(options, 400)
    finally:
        other.close()
    check(one, options)
    assert len(taken(one, options)[0]) == 10


def test_a_journal_that_is_lost_is_an_error_and_not_another_model(one: Stream) -> None:
    options = with_answers(one)
    one.send(events(200))
    work(one, options, 200)
    answer(one, options)
    mark = {"life": journals(one, options)[-1]["life"], "version": 99}
    commit(one, options, 200, orjson.dumps(mark).decode())
    with pytest.raises(StateError, match="lacks answers or models that were committed with offset 200"):
        Worker(options).run()
    commit(one, options, 200, orjson.dumps({"life": "another", "version": 0}).decode())
    with pytest.raises(StateError, match="--if-changed restart"):
        Worker(options).run()
    one.send(events(100, seed=1))
    work(one, with_same_topics(options, if_changed="restart"), 300)
    assert len({journal["life"] for journal in journals(one, options)}) == 2


@pytest.mark.parametrize("metadata", ["", "by hand", '{"life": 3}'])
def test_offsets_with_the_words_of_others_claim_nothing(one: Stream, metadata: str) -> None:
    options = with_answers(one)
    one.send(events(200))
    work(one, options, 200)
    answer(one, options, leave=False)
    commit(one, options, 200, metadata)
    one.send(events(100, seed=1))
    work(one, options, 300)
    check(one, options)


def with_same_topics(options: Options, **changes: Any) -> Options:
    return Options(**({name: getattr(options, name) for name in Options.names()} | changes))


def test_new_models_do_not_get_old_answers_again(one: Stream) -> None:
    options = with_answers(one)
    one.send(events(300))
    work(one, options, 300)
    answer(one, options)
    changed = with_same_topics(options, ignore=["x0"], if_changed="restart")
    one.send(events(20, seed=1))
    work(one, changed, 320)
    answer(one, changed, count=4, leave=False)
    commit(one, options, 100)  # before the first of the new models' answers
    work(one, changed, 320)
    answer(one, changed, count=3, begin=0, leave=False)
    found = journals(one, options)
    lives = list(dict.fromkeys(journal["life"] for journal in found))
    latest = [[len(journal["latest"]) for journal in found if journal["life"] == life] for life in lives]
    assert [sum(counts) for counts in latest] == [10, 4, 3]
    numbers = [number for journal in found for number, *_ in journal["latest"]]
    assert numbers == [*range(10), *range(4), *range(3)]
    places = [tuple(place) for journal in found for _, _, *place in journal["latest"]]
    assert len(set(places)) == len(places) == 17


def test_offsets_moved_back_before_an_answer_lead_to_new_models(one: Stream) -> None:
    """Even if no snapshot has seen what lies between: the answer has."""
    options = with_answers(one, max_batch=20)
    one.send(events(300))
    with working(options) as worker:
        one.wait_committed(options, 300)
        one.answer(options, [about(one, 250, is_anomaly=True)])
        until(lambda: dealt_with(worker) == 1)
        worker._leave = lambda: None  # type: ignore[method-assign]
    commit(one, options, 200)
    work(one, options, 300)
    assert len({journal["life"] for journal in journals(one, options)}) == 2
    seen = [orjson.loads(record.value)["source"]["offset"] for record in one.read(options.output)]
    assert seen == [*range(300), *range(200, 300)]


def test_when_the_offsets_are_gone_the_models_go_on_where_the_last_answer_was_taken(one: Stream) -> None:
    options = with_answers(one)
    one.send(events(300))
    work(one, options, 300)
    answer(one, options, leave=False)
    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    admin.delete_groups([options.group])
    admin.close()
    one.send(events(100, seed=1))
    work(one, options, 400)
    check(one, options)


def test_without_the_option_answers_that_were_taken_stay_and_no_more_come(one: Stream) -> None:
    options = with_answers(one)
    one.send(events(300))
    work(one, options, 300)
    answer(one, options, leave=False)
    one.answer(options, [about(one, 200, is_anomaly=True)])
    one.send(events(100, seed=1))
    work(one, with_same_topics(options, feedback=None), 400)
    assert len(taken(one, options)[0]) == 10
    with working(options) as worker:
        until(lambda: dealt_with(worker) == 1)
    one.send(events(100, seed=2))
    work(one, options, 500)
    check(one, options)


def test_another_feedback_topic_is_read_from_its_beginning_and_the_first_one_is_not_forgotten(one: Stream) -> None:
    options = with_answers(one)
    one.send(events(300))
    work(one, options, 300)
    answer(one, options)
    other = with_same_topics(options, feedback=f"{one.name}-other")
    one.create({other.feedback: {"num_partitions": 1}})
    answer(one, other, count=5)
    answer(one, options, count=2)
    heard = journals(one, options)[-1]["heard"]
    assert {topic: sum(offsets.values()) for topic, offsets in heard.items()} == {
        options.feedback: 12,
        other.feedback: 5,
    }
    assert journals(one, options)[-1]["count"] == 17


def test_answers_to_models_that_have_learned_nothing_are_dead_letters_and_not_spent(one: Stream) -> None:
    options = with_answers(one, start="latest")
    one.send(events(50))
    one.answer(options, [about(one, i, is_anomaly=True) for i in range(5)])
    with working(options) as worker:
        until(lambda: dealt_with(worker) == 5)
        one.send(events(50, seed=1))
        one.wait_committed(options, 100)
        one.answer(options, [about(one, 7, is_anomaly=True)])
        until(lambda: dealt_with(worker) == 6)
    reasons = [dict(letter.headers)["svead-reason"] for letter in one.read(options.dead_letters or "")]
    assert reasons == [b"there is no model of its partition"] * 5
    assert [answer.position for answer in taken(one, options)[0]] == [100]


def test_an_offset_that_another_owner_moves_on_meanwhile_is_not_taken_for_one_that_was_moved_back(
    one: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    options = with_answers(one)
    one.send(events(300))
    work(one, options, 300)
    answer(one, options)
    now = KafkaConsumer.committed
    early: list[OffsetAndMetadata] = []

    def committed(self: Any, source: TopicPartition, **more: Any) -> Any:
        """What was committed a moment ago, the first time; since then the other owner has taken answers."""
        found = now(self, source, **more)
        if early:
            return found
        early.append(OffsetAndMetadata(200, found.metadata, -1))
        return early[0]

    monkeypatch.setattr(KafkaConsumer, "committed", committed)
    one.send(events(100, seed=1))
    with caplog.at_level(logging.WARNING):
        work(one, options, 400)
    assert early
    assert "moved back" not in caplog.text
    check(one, options)
