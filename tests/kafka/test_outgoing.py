"""What leaves a worker on a real broker: the same bytes in either way, dead letters in order, time stamps."""

from __future__ import annotations

import logging
import pickle
import time
from operator import itemgetter
from typing import Any

import orjson
import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from streams import PATIENCE, Stream, events, sum_of, until, work, working
from svead_kafka import ConfigurationError, Worker

HOUR = 3_600_000
DAY = 24 * HOUR


class Picky:
    """Refuses events whose first feature is large."""

    def learn_one(self, x: dict[str, float]) -> None:
        pass

    def score_one(self, x: dict[str, float]) -> float:
        if x["x0"] > 0.5:
            raise ValueError("x0 is too large")
        return x["x0"]


PICKY: dict[str, Any] = {"detector": lambda seed: Picky(), "dumps": pickle.dumps, "loads": pickle.loads}


def sent(stream: Stream, messages: list[tuple[bytes, int]]) -> None:
    """Messages with time stamps, dealt to the partitions in turn."""
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap, linger_ms=5)
    for i, (value, timestamp) in enumerate(messages):
        producer.send(stream.input, value, partition=i % stream.partitions, timestamp_ms=timestamp)
    producer.flush()
    producer.close()


def by_hand(stream: Stream, options: Any, **configs: str) -> None:
    """The topics that the worker writes, as an operator makes them."""
    stream.create({topic: {"num_partitions": 4, "configs": configs} for topic in options.written})


def open_input(stream: Stream) -> Stream:
    """Let the input take any time stamp."""
    configure(stream, stream.input, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    return stream


def configure(stream: Stream, topic: str, configs: dict[str, str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    try:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
    finally:
        admin.close()


def whole(stream: Stream, topic: str) -> list[tuple[Any, ...]]:
    records = stream.read(topic)
    return [(one.partition, one.timestamp, one.key, one.value, one.headers) for one in records]


def warnings_of(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    messages = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    return [message for message in messages if text in message]


@pytest.mark.parametrize("partitions", [4, 3])
def test_records_are_the_same_written_together_or_one_by_one(
    stream: Stream, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap, linger_ms=5)
    now = int(time.time() * 1000)
    for i, value in enumerate(events(1200, fault=20)):
        how: dict[str, Any] = {"key": b"k%d" % i if i % 3 else None, "headers": [("n", b"%d" % i)] if i % 2 else None}
        producer.send(stream.input, value, partition=i % 4, timestamp_ms=now - i, **how)
    producer.flush()
    # Small batches, so that most of them are filled to the brim.
    how = {"client": {"batch_size": 4_000}, "burn_in": 100}
    together, single = (stream.options(run, **how) for run in ("together", "single"))
    for options in (together, single):
        stream.create({options.output: {"num_partitions": partitions}})
    work(stream, together, 1200)
    monkeypatch.setattr("svead_kafka.outgoing.fits", lambda producer: False)
    work(stream, single, 1200)
    written = whole(stream, together.output)
    assert len(written) == 1200
    assert any(b'"alert":true' in value for _, _, _, value, _ in written)
    assert sorted(written, key=itemgetter(3)) == sorted(whole(stream, single.output), key=itemgetter(3))
    offsets: dict[tuple[int, int], list[int]] = {}
    for partition, _, _, value, _ in written:
        source = orjson.loads(value)["source"]
        offsets.setdefault((partition, source["partition"]), []).append(source["offset"])
    assert all(of_one == sorted(of_one) for of_one in offsets.values())
    if partitions != 4:  # the key decides as it does for any producer
        sample = [one for one in written if one[2] is not None][:50]
        places = [producer.send(together.output, b"", key=one[2]).get(timeout=PATIENCE).partition for one in sample]
        assert places == [one[0] for one in sample]
    producer.close()


def test_a_topic_that_takes_less_than_a_batch_gets_smaller_ones(stream: Stream) -> None:
    stream.send(events(3000))
    options = stream.options(max_event_bytes=20_000)
    by_hand(stream, options, **{"max.message.bytes": "40000"})
    with working(options) as worker:
        stream.wait_committed(options, 3000)
    assert worker.metrics.retries._value.get() == 0
    assert len(stream.scored(options)) == 3000


def test_nothing_is_committed_that_the_broker_has_not_taken(stream: Stream) -> None:
    options = stream.options()
    by_hand(stream, options)
    with working(options) as worker:
        stream.send(events(400))
        stream.wait_committed(options, 400)
        configure(stream, options.output, {"max.message.bytes": "1000"})  # a batch no longer fits, though an event does
        stream.send(events(2000, seed=1))
        until(lambda: worker.metrics.retries._value.get() > 0)
        assert stream.committed(options) < 2400
        configure(stream, options.output, {"max.message.bytes": "1000000"})
        stream.wait_committed(options, 2400)
    assert len(stream.scored(options)) == 2400


@pytest.mark.parametrize("model_per", ["partition", "key"])
def test_dead_letters_are_in_the_order_of_the_input_however_batches_are_cut(stream: Stream, model_per: str) -> None:
    values: list[bytes | None] = [b"oops" if i % 5 == 0 else value for i, value in enumerate(events(200))]
    stream.send(values, keys=(b"k%d" % (i % 7) for i in range(200)))
    letters = []
    for max_batch in (1000, 13):
        options = stream.options(f"batch{max_batch}", max_batch=max_batch, model_per=model_per)
        work(stream, options, 200, **PICKY)
        records = stream.read(options.dead_letters or "")
        letters.append([(one.partition, int(dict(one.headers)["svead-offset"]), one.value) for one in records])
    refused = sum(value != b"oops" for _, _, value in letters[0])
    assert 20 < refused < 160
    assert letters[0] == sorted(letters[0])
    assert letters[1] == letters[0]


def test_a_time_stamp_that_a_topic_refuses_goes_into_a_header(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    now = int(time.time() * 1000)
    values = [*events(399, fault=30), b"no event"]
    ahead = {i: now + 2 * HOUR + i for i in (*range(370, 400, 2), 399)}
    sent(open_input(stream), [(value, ahead.get(i, now - i)) for i, value in enumerate(values)])
    options = stream.options(burn_in=0, alert_rate=0.2, incident_rate=0.2)
    by_hand(stream, options)  # which take one hour ahead
    with caplog.at_level(logging.WARNING), working(options) as worker:
        until(lambda: sum_of(worker.metrics.events) + sum_of(worker.metrics.dead_letters) == 400)
    came = {(one.partition, one.offset): one.timestamp for one in stream.read(stream.input)}
    out = stream.read(options.output)
    restamped = 0
    for one in [*out, *stream.read(options.incidents or "")]:
        source = orjson.loads(one.value)["source"]
        timestamp = came[source["partition"], source["offset"]]
        if timestamp > now + HOUR:
            assert one.headers == [("svead-timestamp", b"%d" % timestamp)]
            assert now <= one.timestamp <= time.time() * 1000
            restamped += 1
        else:
            assert (one.timestamp, one.headers) == (timestamp, [])
    [letter] = stream.read(options.dead_letters or "")
    assert dict(letter.headers)["svead-timestamp"] == b"%d" % ahead[399]
    assert letter.timestamp < now + HOUR
    assert len(out) == 399
    assert sum_of(worker.metrics.restamped) == restamped + 1
    assert worker.metrics.retries._value.get() == 0
    for topic in options.written:
        [warning] = warnings_of(caplog, f"topic {topic} refuses time stamps more than 1 h after now")
        assert f"{stream.input}/" in warning
        assert "message.timestamp.after.max.ms" in warning


def test_a_topic_that_stamps_records_itself_takes_any_time(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    now = int(time.time() * 1000)
    sent(open_input(stream), [(value, now + 2 * HOUR - i * DAY) for i, value in enumerate(events(40))])
    options = stream.options()
    by_hand(stream, options, **{"message.timestamp.type": "LogAppendTime"})
    with caplog.at_level(logging.WARNING):
        work(stream, options, 40)
    assert all(one.headers == [] for one in stream.read(options.output))
    assert not warnings_of(caplog, "time stamp")


def test_a_refused_time_stamp_ends_the_worker_where_the_limits_are_not_known(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = int(time.time() * 1000)
    sent(open_input(stream), [(value, now + 2 * HOUR * (i == 30)) for i, value in enumerate(events(40))])
    options = stream.options()
    by_hand(stream, options)
    monkeypatch.setattr("svead_kafka.worker.topic_settings", lambda clients, topics: {})
    worker = Worker(options)
    with pytest.raises(ConfigurationError, match=rf"{stream.input}/2 offset 7, .*message\.timestamp\.after\.max\.ms"):
        worker.run()
    assert worker.metrics.retries._value.get() == 0


def test_events_older_than_a_topic_keeps_are_warned_about(stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    now = int(time.time() * 1000)
    values = [*events(39), b"no event"]
    sent(stream, [(value, now - (DAY if i < 20 else 8 * DAY)) for i, value in enumerate(values)])
    options = stream.options(incidents=None)
    with caplog.at_level(logging.INFO):
        work(stream, options, 40)
    [line] = [one.getMessage() for one in caplog.records if "forget by these" in one.getMessage()]
    assert f"{options.output} after 7 d, {options.dead_letters} after 7 d" in line
    for topic in options.written:
        [warning] = warnings_of(caplog, f"topic {topic} forgets records 7 d after their time stamp")
        assert "retention.ms" in warning
        assert "LogAppendTime" in warning
    came = {(one.partition, one.offset): one.timestamp for one in stream.read(stream.input)}
    for one in stream.read(options.output):
        source = orjson.loads(one.value)["source"]
        assert one.timestamp == came[source["partition"], source["offset"]]
