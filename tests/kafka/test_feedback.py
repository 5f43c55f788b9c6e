"""Answers of people on a real broker: what they change, in which order, and what becomes of bad ones."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import orjson
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions
from reference import about, check, dealt_with, owned, sent_back, taken, with_answers
from river import anomaly, compose, preprocessing
from streams import Stream, events, sum_of, until, work, working
from svead_kafka import ConfigurationError, Options, Worker


def letters(stream: Stream, options: Options) -> list[tuple[bytes, bytes]]:
    """Value and reason of the dead letters, which all come from the feedback topic; fails if one is there twice."""
    found = stream.read(options.dead_letters or "")
    headers = [dict(one.headers) for one in found]
    assert {about["svead-topic"].decode() for about in headers} <= {options.feedback}
    places = [(about["svead-partition"], about["svead-offset"]) for about in headers]
    assert len(set(places)) == len(places)
    return sorted((one.value, about["svead-reason"]) for one, about in zip(found, headers, strict=True))


@pytest.mark.parametrize("teach", [False, True], ids=["", "taught"])
def test_answers_change_later_scores_as_the_same_calls_in_a_loop_do(stream: Stream, teach: bool) -> None:
    one = Stream(stream.bootstrap, "loop", partitions=1)
    options, deaf = with_answers(one, teach_false_alarms=teach), one.options("deaf")
    one.send(events(800))
    with working(options) as worker:
        one.wait_committed(options, 800)
        answers = sent_back(one, options, False) + sent_back(one, options, True, alerts=False)[:20]
        one.answer(options, answers)
        until(lambda: dealt_with(worker) == len(answers))
        one.send(events(800, seed=1))
        one.wait_committed(options, 1600)
    check(one, options)
    order = taken(one, options)[0]
    assert {answer.position for answer in order} == {800}
    work(one, deaf, 1600)
    before, after = ({place: value["score"] for place, value in one.scored(run).items()} for run in (options, deaf))
    places = [(one.input, 0, offset) for offset in range(1600)]
    assert [place for place in places[:800] if before[place] != after[place]] == []
    assert any(before[place] != after[place] for place in places[800:])


def test_answers_arrive_while_events_flow_and_the_order_is_kept_across_restarts(stream: Stream) -> None:
    options = with_answers(stream, max_batch=40, snapshot_every=130)
    for seed in range(3):
        with working(options) as worker:
            stream.send(events(800, seed=seed))
            stream.wait_committed(options, 800 * seed + 400)
            answers = sent_back(stream, options, bool(seed % 2), alerts=False)[seed::7]
            stream.answer(options, answers)
            until(lambda: dealt_with(worker) == len(answers))  # noqa: B023
            stream.wait_committed(options, 800 * seed + 800)
            if seed != 1:
                worker._leave = lambda: None  # type: ignore[method-assign]  # as after a crash
    check(stream, options)


def test_a_model_per_key_gets_the_answers_of_its_key(stream: Stream) -> None:
    short: dict[str, Any] = {"model_per": "key", "burn_in": 0, "alert_rate": 0.1, "hold_off": 5}
    options = with_answers(stream, **short, max_models=3, max_batch=60, snapshot_every=100)
    keys = [b"k%d" % (i * i % 11) for i in range(1400)]
    for half in (slice(0, 700), slice(700, 1400)):
        with working(options) as worker:
            stream.send(events(1400)[half], keys=keys[half])
            stream.wait_committed(options, half.stop)
            scored = stream.read(options.output)[-150:]
            whole = [orjson.loads(record.value) | {"is_anomaly": i % 3 == 0} for i, record in enumerate(scored)]
            lean = [{name: value[name] for name in ("source", "is_anomaly")} for value in whole[::2]]
            stream.answer(options, whole[1::2], keys=[record.key for record in scored[1::2]])
            stream.answer(options, lean)  # the key comes from the event that is looked up
            until(lambda: dealt_with(worker) == 150)
            worker._leave = lambda: None  # type: ignore[method-assign]
    stream.send(events(200, seed=5), keys=keys[:200])
    work(stream, options, 1600)
    check(stream, options)
    assert sum(map(len, taken(stream, options).values())) == 300
    stream.answer(options, [about(stream, 3, is_anomaly=True, event={"x0": 1.0})], keys=[b"nobody"])
    with working(options) as worker:
        until(lambda: dealt_with(worker) == 1)
    assert [reason for _, reason in letters(stream, options)] == [b"there is no model of its key"]


def test_bad_answers_are_dead_letters_once_and_unknown_ones_are_counted(stream: Stream) -> None:
    options = with_answers(stream, max_batch=50)
    stream.send([*events(400), b"no event", None])
    bad: list[tuple[Any, bytes]] = [
        (b"\x00\xff", b"not JSON"),
        (b"", b"not JSON"),
        (b"[1]", b"no answer"),
        ({"is_anomaly": True}, b"no answer"),
        ({"is_anomaly": True, "source": "in/0/3"}, b"no answer"),
        ({"is_anomaly": True, "source": {"topic": "other", "partition": 0, "offset": 3}}, b"no partition of the input"),
        (about(stream, 3, partition=4, is_anomaly=True), b"no partition of the input"),
        (about(stream, 3, partition=-1, is_anomaly=None), b"no partition of the input"),
        (about(stream, 3, is_anomaly="yes"), b"is_anomaly must be"),
        (about(stream, 3, is_anomaly=[]), b"is_anomaly must be"),
        (about(stream, -3, is_anomaly=True), b"no offset"),
        (about(stream, 3.5, is_anomaly=True), b"no offset"),  # type: ignore[arg-type]
        (about(stream, 3, is_anomaly=True, event=[1]), b"no object"),
        (about(stream, 3, is_anomaly=True, event={"id": "text"}), b"no numbers"),
        ({"is_anomaly": True, "source": {"topic": stream.input, "partition": 0}}, b"neither"),
        (about(stream, 100, is_anomaly=True), b"its source is no event: not JSON"),
        (about(stream, 100, partition=1, is_anomaly=True), b"its source is no event: a tombstone"),
        (about(stream, 101, is_anomaly=True, event={"x0": 1}), b"there is no offset 101"),
    ]
    unknown = [about(stream, 5, is_anomaly=None), about(stream, 7, partition=1)]
    good = [about(stream, 5, is_anomaly=True), about(stream, 7, partition=3, is_anomaly=False)]
    stream.answer(options, [one for one, _ in bad] + unknown + good)
    with working(options) as first, working(options) as second:
        stream.wait_committed(options, 402)
        until(lambda: dealt_with(first, second) == len(bad) + 4)
        counted = [metric for worker in (first, second) for metric in worker.metrics.answers.collect()]
        samples = [sample for metric in counted for sample in metric.samples if sample.name.endswith("_total")]
        labels = [sample.labels["verdict"] for sample in samples for _ in range(int(sample.value))]
        assert sorted(labels) == ["anomaly", "false_alarm", "unknown", "unknown"]
    with working(options) as worker:  # nothing is dealt with again
        stream.send(events(40, seed=1))
        stream.answer(options, [about(stream, 6, is_anomaly=True)])
        until(lambda: dealt_with(worker) == 1)
        stream.wait_committed(options, 442)
    found = stream.read(options.dead_letters or "")
    of_events = [one for one in found if dict(one.headers)["svead-topic"] == stream.input.encode()]
    assert [one.value for one in of_events] == [b"no event"]
    of_answers = {one.value: dict(one.headers) for one in found if one not in of_events}
    assert len(found) == len(bad) + 1
    for value, why in bad:
        headers = of_answers[value if isinstance(value, bytes) else orjson.dumps(value)]
        assert why in headers["svead-reason"]
        assert headers["svead-topic"].decode() == options.feedback
    assert sum(map(len, taken(stream, options).values())) == 3


def test_without_a_dead_letter_topic_bad_answers_are_counted_and_logged(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    options = with_answers(stream, dead_letters=None)
    stream.answer(options, [b"oops"] * 3)
    with caplog.at_level(logging.WARNING), working(options) as worker:
        until(lambda: sum_of(worker.metrics.answers_refused) == 3)
    assert f"no answer at {options.feedback}/0 offset 0: not JSON" in caplog.text


def test_an_event_that_is_gone_cannot_be_looked_up_but_an_answer_may_bring_it(stream: Stream) -> None:
    one = Stream(stream.bootstrap, "gone", partitions=1)
    options = with_answers(one)
    one.send(events(300))
    work(one, options, 300)
    [whole] = [value for value in one.scored(options).values() if value["source"]["offset"] == 20]
    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    admin.delete_records({TopicPartition(one.input, 0): 100})
    admin.close()
    answers = [about(one, 20, is_anomaly=True), about(one, 120, is_anomaly=True), whole | {"is_anomaly": True}]
    with working(options) as worker:
        one.answer(options, answers)
        until(lambda: dealt_with(worker) == 3)
    assert letters(one, options) == [(orjson.dumps(answers[0]), b"its source is gone: send the event with the answer")]
    assert len(taken(one, options)[0]) == 2


def test_answers_alone_are_committed_and_survive_a_crash(stream: Stream) -> None:
    one = Stream(stream.bootstrap, "alone", partitions=1)
    options = with_answers(one)
    one.send(events(600))
    work(one, options, 600)
    for i in range(3):
        with working(options) as worker:
            one.answer(options, [about(one, 300 + j, is_anomaly=i % 2 == 0) for j in range(10)])
            until(lambda: dealt_with(worker) == 10)
            worker._leave = lambda: None  # type: ignore[method-assign]
        assert one.committed(options) == 600
    one.send(events(200, seed=1))
    work(one, options, 800)
    check(one, options)
    assert [answer.position for answer in taken(one, options)[0]] == [600] * 30


def test_an_answer_waits_until_its_event_is_scored_and_later_ones_wait_with_it(stream: Stream) -> None:
    one = Stream(stream.bootstrap, "waits", partitions=1)
    options = one.options(feedback=f"{one.name}-answers", max_batch=25)
    one.create({options.feedback: {"num_partitions": 1}})
    one.send(events(400))
    one.answer(options, [about(one, offset, is_anomaly=True) for offset in (10, 300, 20, 399, 310)])
    with working(options) as worker:
        one.wait_committed(options, 400)
        until(lambda: dealt_with(worker) == 5)
    order = taken(one, options)[0]
    assert [answer.offset for answer in order] == [0, 1, 2, 3, 4]
    assert 10 < order[0].position <= 300 < order[1].position <= 399
    assert order[2].position == order[1].position
    assert {answer.position for answer in order[3:]} == {400}
    one.send(events(100, seed=1))
    work(one, options, 500)
    check(one, options)


def test_a_second_worker_takes_over_partitions_with_their_answers(stream: Stream) -> None:
    options = with_answers(stream, max_batch=60, snapshot_every=200)
    stream.send(events(1200))

    def answer(begin: int) -> list[dict[str, Any]]:
        return [about(stream, begin + i, partition=p, is_anomaly=i % 2 == 0) for i in range(12) for p in range(4)]

    with working(options) as first:
        stream.answer(options, answer(100))
        stream.wait_committed(options, 1200)
        until(lambda: dealt_with(first) == 48)
        with working(options) as second:
            until(lambda: owned(second) == 2 and owned(first) == 2)
            stream.answer(options, answer(200))
            stream.send(events(800, seed=1))
            until(lambda: dealt_with(first, second) == 96)
            stream.wait_committed(options, 2000)
            assert dealt_with(second) == 24
            second._leave = lambda: None  # type: ignore[method-assign]
        until(lambda: owned(first) == 4)
        stream.answer(options, answer(250))
        until(lambda: dealt_with(first) == 48 + 24 + 48)
        stream.send(events(400, seed=2))
        stream.wait_committed(options, 2400)
    check(stream, options)
    assert {len(answers) for answers in taken(stream, options).values()} == {36}


def test_with_many_answers_the_models_are_saved_and_the_list_begins_anew(stream: Stream) -> None:
    one = Stream(stream.bootstrap, "many", partitions=1)
    options = with_answers(one)
    one.send(events(500))
    with working(options) as worker:
        one.wait_committed(options, 500)
        one.answer(options, (about(one, i % 500, is_anomaly=i % 3 == 0) for i in range(650)))
        until(lambda: dealt_with(worker) == 650)
        worker._leave = lambda: None  # type: ignore[method-assign]
    journals = [orjson.loads(record.value) for record in one.read(options.state) if b'"answers"]' in record.key]
    assert max(len(journal["answers"]) for journal in journals) <= 200
    assert journals[-1]["count"] == 650
    one.send(events(100, seed=1))
    work(one, options, 600)
    check(one, options)


def test_the_feedback_topic_is_created_with_the_others_and_forgets_by_age(stream: Stream) -> None:
    options = stream.options(feedback=f"{stream.name}-answers")
    with pytest.raises(ConfigurationError, match=f"{options.feedback}.* do not exist; create them, or add --create-to"):
        Worker(stream.options(feedback=options.feedback, create_topics=False)).run()
    stream.send(events(8))
    work(stream, options, 8)
    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    try:
        configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, options.feedback)])["topic"]
        [topic] = admin.describe_topics([options.feedback])
    finally:
        admin.close()
    assert configs[options.feedback]["cleanup.policy"]["value"] == "delete"
    assert len(topic["partitions"]) == 4


def test_topics_may_grow_while_a_worker_runs(stream: Stream) -> None:
    one = Stream(stream.bootstrap, "grows", partitions=2)
    options = with_answers(one, client={"metadata_max_age_ms": 500})
    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    producer = KafkaProducer(bootstrap_servers=one.bootstrap, metadata_max_age_ms=500)
    one.send(events(200))
    with working(options) as worker:
        one.wait_committed(options, 200)
        admin.create_partitions({one.input: NewPartitions(total_count=3)})
        until(lambda: owned(worker) == 3)
        one.partitions = 3
        one.send(events(300, seed=1))
        one.wait_committed(options, 500)
        one.answer(options, [about(one, 5, partition=2, is_anomaly=True)])
        until(lambda: dealt_with(worker) == 1)
        admin.create_partitions({options.feedback: NewPartitions(total_count=4)})  # nobody rebalances for this one
        until(lambda: len(producer.partitions_for(options.feedback)) == 4)
        producer.send(options.feedback, value=orjson.dumps(about(one, 7, partition=2, is_anomaly=False)), partition=3)
        producer.flush()
        until(lambda: dealt_with(worker) == 2)
    producer.close()
    admin.close()
    assert letters(one, options) == []
    assert [(answer.partition, answer.offset) for answer in taken(one, options)[2]] == [(0, 0), (3, 0)]


class Deaf:
    """A detector that takes no answers."""

    def score_one(self, x: dict[str, float]) -> float:
        return x["x0"]

    def learn_one(self, x: dict[str, float]) -> None: ...


def test_a_detector_that_takes_no_answers_is_refused(stream: Stream) -> None:
    how = (pickle.dumps, pickle.loads)
    options = Options(input=["in"], output="out", feedback="answers")
    with pytest.raises(ConfigurationError, match="Deaf does not learn from answers: leave out --feedback"):
        Worker(options, lambda seed: Deaf(), *how)
    Worker(Options(input=["in"], output="out"), lambda seed: Deaf(), *how)

    def pipeline(seed: int) -> compose.Pipeline:
        return preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=seed, n_trees=2)

    one = Stream(stream.bootstrap, "deaf", partitions=1)
    heard = with_answers(one)
    one.send(events(20))
    one.answer(heard, [about(one, 3, is_anomaly=True)])
    with pytest.raises(ConfigurationError, match="--feedback needs a detector that learns from answers"):
        Worker(heard, pipeline, *how).run()  # only the filter can tell what a pipeline does
