"""A worker on a real broker: what it writes, what it survives, what it says."""

from __future__ import annotations

import logging
import pickle
import threading
import urllib.request
from typing import Any

import jsonschema
import orjson
import pytest
from broker import Cluster, free_ports
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaTimeoutError
from river import anomaly, compose, preprocessing
from streams import PATIENCE, Stream, events, sum_of, until, work, working
from svead_kafka import ConfigurationError, GaveUp, Options, Worker
from svead_kafka.topics import wait_for_topics

from svead_stream.record import schema


def test_every_event_comes_out_once_with_key_timestamp_and_headers(stream: Stream) -> None:
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap)
    for i, value in enumerate(events(400)):
        headers = [("n", b"%d" % i)] if i % 2 else None
        producer.send(
            stream.input, value, key=b"k%d" % i, partition=i % 4, timestamp_ms=1_600_000_000_000 + i, headers=headers
        )
    producer.flush()
    producer.close()
    options = stream.options()
    work(stream, options, 400)

    sent = {(record.partition, record.offset): record for record in stream.read(stream.input)}
    out = stream.read(options.output)
    assert len(out) == len(sent) == 400
    for record in out:
        value = orjson.loads(record.value)
        source = sent[record.partition, value["source"]["offset"]]
        assert (record.key, record.timestamp, record.headers) == (source.key, source.timestamp, source.headers)
        assert value["event"] == orjson.loads(source.value)
    # Within a partition the order is kept.
    for partition in range(4):
        offsets = [orjson.loads(r.value)["source"]["offset"] for r in out if r.partition == partition]
        assert offsets == list(range(100))


def test_scored_events_are_as_the_schema_in_the_package_says(stream: Stream) -> None:
    validator = jsonschema.Draft202012Validator(schema())
    stream.send(events(4000, fault=20))
    options = stream.options(top_features=4)
    work(stream, options, 4000)
    values = list(stream.scored(options).values())
    for value in values:
        validator.validate(value)
        assert value.keys() - {"top_features", "incident"} == {"score", "p_value", "alert", "source", "event"}
        assert value["alert"] == ("top_features" in value)
        assert value["alert"] or "incident" not in value
        assert value["alert"] or value["p_value"] > 0.01 or value["source"]["offset"] < 256
    alerts = [value for value in values if value["alert"]]
    assert alerts
    assert any("incident" in alert for alert in alerts)
    for alert in alerts:
        shares = [one["share"] for one in alert["top_features"]]
        assert shares == sorted(shares, reverse=True)
        assert {one["feature"] for one in alert["top_features"]} == {"x0", "x1", "x2", "x3"}


def test_bad_messages_arrive_in_the_dead_letters_byte_for_byte_and_are_not_learned(stream: Stream) -> None:
    good = events(600)
    bad: list[bytes] = [b"\x00\xff", b"", b"[1]", b'{"x0": "a"}', b"nul", b'{"a":1}' + b"," * 950_000]
    mixed = [*good[:300], *bad, *good[300:]]
    one = Stream(stream.bootstrap, "mixed", partitions=1)
    one.send(mixed)
    options = one.options(features=["x0", "x1", "x2", "x3"])
    work(one, options, len(mixed))

    letters = one.read(options.dead_letters or "")
    assert [letter.value for letter in letters] == bad
    for i, letter in enumerate(letters):
        about = dict(letter.headers)
        assert about["svead-topic"] == one.input.encode()
        assert (about["svead-partition"], about["svead-offset"]) == (b"0", b"%d" % (300 + i))
        assert about["svead-reason"]
        assert about["svead-timestamp"] == b"%d" % letter.timestamp

    clean = Stream(stream.bootstrap, "clean", partitions=1)
    clean.send(good)
    without = clean.options(features=["x0", "x1", "x2", "x3"])
    work(clean, without, len(good))
    assert [v["score"] for v in one.scored(options).values()] == [v["score"] for v in clean.scored(without).values()]


def test_tombstones_are_passed_over_counted_and_told_of_once_for_each_partition(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    good = events(120)
    stream.send([*good[:60], *[None] * 8, *good[60:]], keys=[b"k%d" % (i % 4) for i in range(128)])
    plain, keyed = stream.options(), stream.options("keyed", model_per="key")
    with caplog.at_level(logging.INFO), working(plain) as worker:
        until(lambda: sum_of(worker.metrics.events) == 120)
        assert sum_of(worker.metrics.tombstones) == 8
        assert sum_of(worker.metrics.dead_letters) == 0
    told = [line for line in caplog.messages if "is a tombstone" in line]
    assert sorted(line.split(" is ")[0] for line in told) == [f"{stream.input}/{i} offset 15" for i in range(4)]
    # A tombstone says nothing of the model of its key, which goes on: here both models have the same events.
    work(stream, keyed, 128)
    assert stream.scored(keyed) == stream.scored(plain)
    assert stream.read(plain.dead_letters or "") == stream.read(keyed.dead_letters or "") == []

    clean = Stream(stream.bootstrap, "clean", partitions=4)
    clean.send(good)
    without = clean.options()
    work(clean, without, len(good))
    assert [v["score"] for v in stream.scored(plain).values()] == [v["score"] for v in clean.scored(without).values()]


def test_without_a_dead_letter_topic_bad_messages_are_counted_and_logged(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    stream.send([b"oops"] * 30)
    options = stream.options(dead_letters=None)
    with caplog.at_level(logging.WARNING), working(options) as worker:
        until(lambda: sum_of(worker.metrics.dead_letters) == 30)
    assert "no event at" in caplog.text
    assert "not JSON" in caplog.text


def test_any_river_detector_can_take_the_place_of_the_default(stream: Stream) -> None:
    def detector(seed: int) -> Any:
        return preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=seed, n_trees=3)

    stream.send(events(400))
    how: dict[str, Any] = {"detector": detector, "dumps": pickle.dumps, "loads": pickle.loads}
    straight, broken = stream.options("straight"), stream.options("broken", max_batch=50, snapshot_every=30)
    work(stream, straight, 400, **how)
    with working(broken, **how):
        stream.wait_committed(broken, 150)
    work(stream, broken, 400, **how)
    assert stream.scored(broken) == stream.scored(straight)


def test_a_detector_that_wants_features_of_its_own_is_not_troubled_before_the_first_event() -> None:
    def ratio(x: dict[str, Any]) -> dict[str, Any]:
        return {"each": x["amount"] / x["count"]}

    def detector(seed: int) -> Any:
        return compose.FuncTransformer(ratio) | anomaly.HalfSpaceTrees(seed=seed)

    Worker(Options(input=["in"], output="out"), detector, pickle.dumps, pickle.loads).warm_up()


def test_a_new_group_may_begin_at_the_end(stream: Stream) -> None:
    stream.send(events(40))
    options = stream.options(start="latest")
    with working(options):
        stream.wait_committed(options, 40)  # where it begins is committed before anything is scored
        stream.send(events(20, seed=1))
        stream.wait_committed(options, 60)
    assert sorted(place[2] for place in stream.scored(options)) == sorted([10, 11, 12, 13, 14] * 4)


def test_missing_topics_are_named(stream: Stream) -> None:
    with pytest.raises(ConfigurationError, match="add --create-topics"):
        Worker(stream.options(create_topics=False)).run()
    with pytest.raises(ConfigurationError, match="input topic 'nowhere' does not exist"):
        Worker(stream.options(input=["nowhere"])).run()


def test_topics_that_the_brokers_show_late_are_waited_for(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    late = f"{stream.name}-late"
    creating = threading.Timer(1.0, stream.create, args=[{late: {"num_partitions": 3}}])
    creating.start()
    try:
        monkeypatch.setattr("svead_kafka.topics._NEWS_S", PATIENCE)
        assert wait_for_topics(admin, [stream.input, late]) == {stream.input: 4, late: 3}
        monkeypatch.setattr("svead_kafka.topics._NEWS_S", 0.2)
        with pytest.raises(KafkaTimeoutError, match="never-made"):  # a worker tries again after this one
            wait_for_topics(admin, [stream.input, "never-made"])
    finally:
        creating.join()
        admin.close()


def test_an_output_topic_too_small_for_the_events_is_refused(stream: Stream) -> None:
    options = stream.options()
    stream.create({options.output: {"num_partitions": 4, "configs": {"max.message.bytes": "100000"}}})
    with pytest.raises(ConfigurationError, match="--max-event-bytes 83616 or less"):
        Worker(options).run()


def test_metrics_count_what_was_committed_and_listen_on_the_loopback_only(stream: Stream) -> None:
    [port] = free_ports(1)
    stream.send([*events(500), b"bad"])
    options = stream.options(metrics_port=port, snapshot_every=50)
    with working(options) as worker:
        until(lambda: sum_of(worker.metrics.events) + sum_of(worker.metrics.dead_letters) == 501)
        until(lambda: [lag.value for one in worker.metrics.lag.collect() for lag in one.samples] == [0.0] * 4)
        assert worker.health.server.server_address == ("127.0.0.1", port)
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE).read().decode()
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    totals: dict[str, float] = {}
    for line in lines:
        name, value = line.rsplit(" ", 1)
        totals[name.split("{")[0]] = totals.get(name.split("{")[0], 0.0) + float(value)
    assert totals["svead_events_total"] == 500
    assert totals["svead_dead_letters_total"] == 1
    assert totals["svead_lag"] == 0
    assert totals["svead_snapshot_bytes"] > 0
    for name in ("svead_alerts_total", "svead_incidents_total", "svead_incidents_closed_total",
                 "svead_batch_seconds_count", "svead_commit_seconds_count", "svead_snapshot_age_seconds",
                 "svead_missing_values_total", "svead_missing_times_total", "svead_backward_times_total"):  # fmt: skip
        assert name in totals


def test_a_worker_gives_up_after_its_retries_when_no_broker_answers() -> None:
    [port] = free_ports(1)
    options = Options(bootstrap=f"127.0.0.1:{port}", input=["in"], output="out", max_retries=2)
    threads = threading.active_count()
    with pytest.raises(GaveUp, match=r"3 failures in a row, .*no broker answers"):
        Worker(options).run()
    until(lambda: threading.active_count() <= threads)


def test_kafkas_own_console_consumer_sees_the_same_scored_events(stream: Stream, cluster: Cluster) -> None:
    stream.send(events(200))
    options = stream.options()
    work(stream, options, 200)
    seen = [orjson.loads(line) for line in cluster.console_consumer(options.output, 200)]
    assert sorted(value["event"]["id"] for value in seen) == sorted(f"e{i}" for i in range(200))
    assert {v["event"]["id"]: v["score"] for v in seen} == {
        v["event"]["id"]: v["score"] for v in stream.scored(options).values()
    }


def test_the_state_topic_is_compacted(stream: Stream) -> None:
    stream.send(events(8))
    options = stream.options()
    work(stream, options, 8)
    from kafka.admin import ConfigResource, ConfigResourceType

    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    try:
        answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, options.state)])
    finally:
        admin.close()
    assert answer["topic"][options.state]["cleanup.policy"]["value"] == "compact"
