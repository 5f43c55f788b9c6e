"""Where an operator acts: moved offsets, topics that are deleted, grow or are made again, lost state, bad settings.

An input event is scored, or in the dead letters, or the log and a metric tell that it was passed over.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import orjson
import pytest
from broker import Cluster
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from streams import QUICK, Stream, events, sum_of, until, work, working
from svead_kafka import ConfigurationError, Options, StateError, Worker

BRISK = {"metadata_max_age_ms": 500}


@pytest.fixture
def one(bootstrap: str, request: pytest.FixtureRequest) -> Stream:
    """An input of one partition."""
    return Stream(bootstrap, request.node.name, partitions=1)


def admin_of(stream: Stream, act: str, *what: Any, **more: Any) -> Any:
    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    try:
        return getattr(admin, act)(*what, **more)
    finally:
        admin.close()


def create_again(stream: Stream) -> None:
    """Delete the input topic and create another of its name."""
    admin_of(stream, "delete_topics", [stream.input])
    until(lambda: stream.input not in admin_of(stream, "list_topics"))
    stream.create({stream.input: {"num_partitions": stream.partitions}})


def move(stream: Stream, options: Options, offset: int) -> None:
    """Offsets that somebody commits by hand."""
    member = KafkaConsumer(bootstrap_servers=stream.bootstrap, group_id=options.group, enable_auto_commit=False)
    member.assign([TopicPartition(stream.input, 0)])
    member.commit({TopicPartition(stream.input, 0): OffsetAndMetadata(offset, "", -1)})
    member.close()


def offsets(stream: Stream, options: Options) -> list[int]:
    """The source offsets of the scored events, in the order of the output."""
    return [orjson.loads(record.value)["source"]["offset"] for record in stream.read(options.output)]


# topics


@pytest.mark.parametrize("count", [300, 60], ids=["longer", "shorter"])
@pytest.mark.parametrize("model_per", ["partition", "key"])
def test_a_topic_that_was_made_again_is_read_from_its_beginning(
    one: Stream, count: int, model_per: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = one.options(model_per=model_per, snapshot_every=50)
    one.send(events(200), keys=[b"a", b"b"] * 100)
    work(one, options, 200)
    create_again(one)
    one.send(events(count, seed=1), keys=[b"a", b"b"] * (count // 2))
    with working(options):
        until(lambda: len(one.read(options.output)) >= 200 + count)
    assert offsets(one, options) == [*range(200), *range(count)]
    assert (
        f"{one.input}/0: the topic was deleted and created again: beginning with new models at offset 0" in caplog.text
    )


def test_a_topic_that_is_made_again_under_a_running_worker_is_read_from_its_beginning(
    one: Stream, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("svead_kafka.assignment._LONGEST_REBALANCE", 5.0)  # the client may lose track without the topic
    options = one.options(client=BRISK)
    one.send(events(100))
    with working(options):
        one.wait_committed(options, 100)
        create_again(one)
        one.send(events(150, seed=1))
        until(lambda: set(offsets(one, options)[100:]) == set(range(150)))
    assert "was deleted and created again" in caplog.text


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_partitions_that_a_topic_gets_later_are_scored_from_their_beginning(stream: Stream, start: str) -> None:
    grown = Stream(stream.bootstrap, f"grown-{start}", partitions=4)
    options = grown.options(start=start, client=BRISK)
    grown.send(events(40))
    with working(options):
        grown.wait_committed(options, 40)
        before = len(grown.scored(options))
        assert before == (40 if start == "earliest" else 0)
        admin_of(grown, "create_partitions", {grown.input: 8})
        grown.partitions = 8
        grown.send(events(400, seed=1))
        grown.wait_committed(options, 440)
    assert len(grown.scored(options)) == before + 400


def test_topics_that_match_a_pattern_are_picked_up_and_own_topics_never(one: Stream) -> None:
    options = one.options(input=[f"{one.name}.*"], client=BRISK)
    one.send(events(50))
    later = Stream(one.bootstrap, "unused", partitions=2)
    with working(options):
        one.wait_committed(options, 50)
        later.input = f"{one.name}-later"
        one.create({later.input: {"num_partitions": 2}})
        later.send(events(40, seed=1))
        one.wait_committed(options, 90)
        one.send(events(10, seed=2))
        one.wait_committed(options, 100)
    assert {place[0] for place in one.scored(options)} == {one.input, later.input}
    assert len(one.scored(options)) == 100
    with pytest.raises(ConfigurationError, match=r"input topics that match .* do not exist"):
        Worker(one.options(input=[r"nothing-\d+"])).run()


# what is deleted, and offsets that somebody moves


def test_messages_deleted_under_a_running_worker_are_told_and_counted(
    one: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    may_go_on = threading.Event()
    may_go_on.set()

    class Halted(Worker):
        def _pace(self) -> None:
            may_go_on.wait()
            super()._pace()

    options = one.options(client={"max_partition_fetch_bytes": 2000, "fetch_max_bytes": 2000})
    one.send(events(100))
    with working(options, kind=Halted) as worker:
        one.wait_committed(options, 100)
        may_go_on.clear()
        one.send(events(900, seed=1))
        admin_of(one, "delete_records", {TopicPartition(one.input, 0): 900})
        may_go_on.set()
        one.wait_committed(options, 1000)
        lost = int(sum_of(worker.metrics.skipped))
    seen = offsets(one, options)
    assert len(seen) == len(set(seen)) == 1000 - lost
    assert lost > 500
    assert set(range(1000)) - set(seen) == set(range(900 - lost, 900))
    assert f"{one.input}/0: offsets {900 - lost} to 899 were deleted before they were scored" in caplog.text


def test_messages_deleted_while_no_worker_runs_are_told_and_counted(
    one: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    options = one.options()
    one.send(events(50))
    work(one, options, 50)
    one.send(events(100, seed=1))
    admin_of(one, "delete_records", {TopicPartition(one.input, 0): 80})
    with working(options) as worker:
        one.wait_committed(options, 150)
        assert sum_of(worker.metrics.skipped) == 30
    assert offsets(one, options) == [*range(50), *range(80, 150)]
    assert f"{one.input}/0: offsets 50 to 79 were deleted before they were scored" in caplog.text


def test_offsets_that_were_moved_on_are_told_and_counted(one: Stream, caplog: pytest.LogCaptureFixture) -> None:
    options = one.options()
    one.send(events(100))
    work(one, options, 100)
    one.send(events(100, seed=1))
    move(one, options, 160)
    with working(options) as worker:
        one.wait_committed(options, 200)
        until(lambda: len(offsets(one, options)) == 140)
        assert sum_of(worker.metrics.skipped) == 60
    assert f"{one.input}/0: offsets 100 to 159 were passed over by moved offsets" in caplog.text
    caplog.clear()
    work(one, options, 200)
    assert "passed over" not in caplog.text


# state


def test_a_lost_state_topic_is_refused_unless_new_models_are_allowed(
    one: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    options = one.options()
    one.send(events(100))
    work(one, options, 100)
    admin_of(one, "delete_topics", [options.state])
    until(lambda: options.state not in admin_of(one, "list_topics"))
    one.send(events(50, seed=1))
    with pytest.raises(StateError, match=r"has no models of .*/0, though the group has committed offset 100"):
        Worker(options).run()
    work(one, one.options(if_changed="restart"), 150)
    assert offsets(one, options) == [*range(150)]
    assert "has committed offset 100" in caplog.text


def test_offsets_of_others_are_where_new_models_begin(one: Stream, caplog: pytest.LogCaptureFixture) -> None:
    options = one.options()
    one.send(events(50))
    move(one, options, 20)
    work(one, options, 50)
    assert offsets(one, options) == [*range(20, 50)]
    assert f"{one.input}/0: the group has offsets but no models: beginning with new ones" in caplog.text


def test_foreign_records_in_the_state_topic_are_passed_over_and_broken_ones_named(
    one: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    options = one.options()
    one.send(events(50))
    work(one, options, 50)
    producer = KafkaProducer(bootstrap_servers=one.bootstrap)
    foreign = [b"not ours", b"[1]", b'{"a": 1}', b'["other", "topic", 0]']
    places = [producer.send(options.state, key=key, value=b"x", partition=0).get(60).offset for key in foreign]
    one.send(events(50, seed=1))
    work(one, options, 100)
    for place in places[:3]:
        assert f"{options.state}/0 offset {place} is no record of ours" in caplog.text
    assert f"offset {places[3]} is" not in caplog.text  # it may be that of another group
    key = orjson.dumps([options.group, one.input, 0])
    broken = producer.send(options.state, key=key, value=b"{not json", partition=0).get(60)
    producer.close()
    with pytest.raises(StateError, match=rf"{options.state}/0 offset {broken.offset} cannot be read"):
        Worker(options).run()


# transactional producers, and the end of the input


def test_the_lag_behind_transactional_producers_comes_to_nothing(one: Stream) -> None:
    options = one.options()
    producer = KafkaProducer(bootstrap_servers=one.bootstrap, transactional_id=f"{one.name}-producer")
    producer.init_transactions()
    with working(options) as worker:
        for commit in (True, True, False):
            producer.begin_transaction()
            for value in events(20):
                producer.send(one.input, value, partition=0)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
        one.wait_committed(options, 63)  # with the markers at the ends of the transactions
        until(lambda: [lag.value for gauge in worker.metrics.lag.collect() for lag in gauge.samples] == [0.0])
    producer.close()
    assert offsets(one, options) == [*range(20), *range(21, 41)]


@pytest.mark.parametrize("model_per", ["partition", "key"])
def test_until_end_scores_what_is_there_and_leaves(stream: Stream, model_per: str) -> None:
    options = stream.options(until_end=True, model_per=model_per)
    Worker(options).run()  # an empty input
    stream.send(events(200))
    Worker(options).run()
    assert len(stream.scored(options)) == 200
    stream.send(events(100, seed=1))
    Worker(options).run()
    assert len(stream.scored(options)) == 300


def test_who_has_no_partitions_waits_for_the_end_with_the_others(one: Stream) -> None:
    one.send(events(300))
    options = one.options(until_end=True, max_batch=20, client=QUICK)
    with working(options) as first, working(options) as second:
        until(lambda: first._stopping.is_set() and second._stopping.is_set())
        assert one.committed(options) == 300
    assert offsets(one, options) == [*range(300)]


# faults that do not pass


@pytest.mark.parametrize(
    ("client", "told"),
    [
        ({"transaction_timeout_ms": 2**31 - 1}, "transaction.max.timeout.ms"),
        ({"session_timeout_ms": 500, "heartbeat_interval_ms": 100}, "group.min.session.timeout.ms"),
        ({"compression_type": "rar"}, "compression.type must be one of none, gzip"),
        ({"security_protocol": "SSL", "ssl_cafile": "/nowhere/ca.pem"}, "names a file that is not there"),
        ({"heartbeat_interval_ms": 10**9}, "--client-config"),
    ],
    ids=["transaction", "session", "codec", "file", "heartbeat"],
)
def test_settings_that_cannot_work_end_the_worker_at_once(
    one: Stream, client: dict[str, Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Worker(one.options(client=client)).run()
    assert told in str(caught.value)
    assert "trying again" not in caplog.text


def test_of_two_workers_with_one_transactional_id_one_ends_and_says_why(stream: Stream) -> None:
    options = stream.options(transactional_id=f"{stream.name}-same", client=QUICK)
    workers = [Worker(options), Worker(options)]
    ends: list[BaseException] = []

    def run(worker: Worker) -> None:
        try:
            worker.run()
        except BaseException as error:
            ends.append(error)

    threads = [threading.Thread(target=run, args=[worker], daemon=True) for worker in workers]
    sent = 0

    def one_has_ended() -> bool:
        nonlocal sent
        stream.send(events(20, seed=sent))
        sent += 20
        return bool(ends)

    for thread in threads:
        thread.start()
    until(one_has_ended)
    stream.wait_committed(options, sent)  # the other goes on
    for worker, thread in zip(workers, threads, strict=True):
        worker.stop()
        thread.join()
    [error] = ends
    assert isinstance(error, ConfigurationError)
    assert f"another worker uses the transactional id '{stream.name}-same'" in str(error)
    assert len(stream.scored(options)) == sent


def test_a_worker_that_stops_while_the_broker_is_down_does_not_claim_to_have_saved(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(cluster.bootstrap, "down", partitions=1)
    stream.send(events(100))
    options = stream.options(client=QUICK)
    caplog.set_level(logging.INFO)
    try:
        with working(options) as worker:
            stream.wait_committed(options, 100)
            until(lambda: sum_of(worker.metrics.events) == 100)
            cluster.nodes[0].stop(kill=True)
    finally:
        cluster.nodes[0].start()
        cluster.nodes[0].wait()
    assert "the models are saved" not in caplog.text
    assert f"the models of {stream.input}/0 could not be saved" in caplog.text
