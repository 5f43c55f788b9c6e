"""Incidents on a real broker: their topic, their clock, and those who are told of them."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from broker import free_ports
from kafka import KafkaProducer
from streams import Stream, events, sum_of, until, work, working
from svead_kafka import ConfigurationError, Worker

from svead_stream.record import schema

VALIDATOR = jsonschema.Draft202012Validator(schema("incident"))
START = 1_700_000_000_000  # of the streams here, in milliseconds
SECRET = "correct-horse-battery"


def send(stream: Stream, values: list[bytes], keys: Any = lambda i: None, first: int = 0) -> None:
    """Messages to the one partition of a stream, ten seconds apart."""
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap, linger_ms=5)
    for i, value in enumerate(values, first):
        producer.send(stream.input, value, key=keys(i), partition=0, timestamp_ms=START + 10_000 * i)
    producer.flush()
    producer.close()


@pytest.fixture
def one(bootstrap: str, request: pytest.FixtureRequest) -> Stream:
    """A stream of one partition."""
    return Stream(bootstrap, request.node.name, partitions=1)


def told(stream: Stream, options: Any) -> list[dict[str, Any]]:
    """What is told of incidents, as far as the schema knows it."""
    values = [orjson.loads(record.value) for record in stream.read(options.incidents)]
    for value in values:
        VALIDATOR.validate(value)
    return values


def check_against_the_scored_events(values: list[dict[str, Any]], scored: list[dict[str, Any]]) -> None:
    """See that what is told of each incident is what the scored events of one model say of it."""
    members: dict[int, list[int]] = {}
    for place, event in enumerate(scored):
        if "incident" in event:
            members.setdefault(event["incident"], []).append(place)
    offsets = [event["source"]["offset"] for event in scored]
    assert [value["source"]["offset"] for value in values] == sorted(value["source"]["offset"] for value in values)
    assert list(members) == [value["incident"] for value in values if value["state"] == "open"]
    for number, places in members.items():
        own = [value for value in values if value["incident"] == number]
        states = [value["state"] for value in own]
        assert states[0] == "open"
        assert set(states[1:-1]) <= {"update"}
        assert [value["alerts"] for value in own if value["state"] != "closed"] == [2**k for k in range(len(own))][
            : len(own) - (states[-1] == "closed")
        ]
        for value in own:
            first, last = places[0], places[value["alerts"] - 1]
            assert (value["first"], value["last"], value["events"]) == (first + 1, last + 1, last - first + 1)
            assert value["peak"] == max(scored[place]["score"] for place in places[: value["alerts"]])
            at = value["source"]["offset"]
            assert at > offsets[last] if value["state"] == "closed" else at == offsets[last]
        assert states[-1] != "closed" or own[-1]["alerts"] == len(places)


def test_the_incidents_topic_tells_what_the_scored_events_say(one: Stream) -> None:
    send(one, events(2500, fault=30))
    options = one.options(top_features=2)
    with working(options) as worker:
        until(lambda: sum_of(worker.metrics.events) == 2500)
        values = told(one, options)
        counts = Counter(value["state"] for value in values)
        counters = (worker.metrics.incidents, worker.metrics.closed)
        until(lambda: tuple(map(sum_of, counters)) == (counts["open"], counts["closed"]))
    assert min(counts["open"], counts["update"], counts["closed"]) > 1
    scored = [orjson.loads(record.value) for record in one.read(options.output)]
    check_against_the_scored_events(values, scored)
    for record, value in zip(one.read(options.incidents or ""), values, strict=True):
        assert orjson.loads(record.key) == [one.input, 0, value["incident"]]
        assert record.timestamp == START + 10_000 * value["source"]["offset"]
        assert value["source"].keys() == {"topic", "partition", "offset"}
        assert len(value["top_features"]) == 2
        assert value["start"].startswith("2023-11-1")  # from Kafka's time stamps


def test_with_a_model_for_each_key_incidents_are_named_by_their_key(one: Stream) -> None:
    names: dict[bytes | None, str | None] = {b"a": "a", b"\xff": "\\xff", None: None}
    keys = list(names)
    send(one, events(1500, fault=60), keys=lambda i: keys[i % 3])
    options = one.options(model_per="key", burn_in=50)
    work(one, options, 1500)
    values = told(one, options)
    assert {value["key"] for value in values} == set(names.values())
    records = one.read(options.output)
    for key, name in names.items():
        own = [value for value in values if value["key"] == name]
        check_against_the_scored_events(own, [orjson.loads(one.value) for one in records if one.key == key])
    for record, value in zip(one.read(options.incidents or ""), values, strict=True):
        assert orjson.loads(record.key) == [one.input, 0, value["key"], value["incident"]]


def test_a_field_of_the_events_can_be_their_clock_and_hold_off_a_time(
    one: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """With an hour between events and a hold-off of two, an incident is over at the third event without an alert."""
    values = []
    for i, raw in enumerate(events(1500, fault=20)):
        clock = None if i % 100 == 7 else 1_700_000_000 + 3_600 * (i - 50 * (i % 100 == 8))
        values.append(orjson.dumps({**orjson.loads(raw), "meta": {"ts": clock}}))
    send(one, values)
    options = one.options(time="meta.ts", hold_off="2h", burn_in=300, incident_rate="2/day")
    with caplog.at_level(logging.WARNING), working(options) as worker:
        until(lambda: sum_of(worker.metrics.events) == 1500)
        odd = (sum_of(worker.metrics.missing_times), sum_of(worker.metrics.backward_times))
    assert odd == (15, 15)
    assert caplog.text.count("(no ISO 8601 and no epoch in 'meta.ts')") == 1
    scored = [orjson.loads(record.value) for record in one.read(options.output)]
    found = told(one, options)
    check_against_the_scored_events(found, scored)
    closed = [value for value in found if value["state"] == "closed"]
    assert len(closed) > 3
    assert all(value["source"]["offset"] - (value["last"] - 1) <= 5 for value in closed)
    assert {one["feature"] for value in found for one in value["top_features"]} <= {"x0", "x1", "x2", "x3"}


def test_an_incidents_topic_too_small_for_incidents_is_refused(one: Stream) -> None:
    options = one.options()
    assert options.incidents is not None
    one.create({options.incidents: {"num_partitions": 1, "configs": {"max.message.bytes": "10000"}}})
    with pytest.raises(ConfigurationError, match=r"too few for incidents: raise its max\.message\.bytes to 16384"):
        Worker(options).run()


@contextmanager
def receiver(status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A web server on the loopback: its address, and the JSON that was posted to it."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(json.loads(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook/{SECRET}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_webhook_and_a_command_are_told_once_when_an_incident_opens_and_closes(
    one: Stream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a crash, too: the replay that follows tells nothing again."""
    values = events(2000, fault=20)
    file = tmp_path / "told.jsonl"
    file.touch()

    def all_told(committed: int) -> list[dict[str, Any]]:
        """What is to be told, once it was."""
        one.wait_committed(options, committed)
        expected = [value for value in told(one, options) if value["state"] != "update"]
        until(lambda: len(seen) >= len(expected))
        until(lambda: len(file.read_bytes().splitlines()) >= len(expected))
        return expected

    with receiver() as (address, seen), caplog.at_level(logging.INFO):
        options = one.options(webhook=address, on_incident=f"cat >> '{file}'", max_batch=100, snapshot_every=10_000)
        send(one, values[:1200])
        with working(options) as worker:
            before = all_told(1200)
            worker._leave = lambda: None  # type: ignore[method-assign]  # as after a crash: nothing is saved
        send(one, values[1200:], first=1200)
        with working(options):
            expected = all_told(2000)
    assert 0 < len(before) < len(expected)
    assert seen == expected
    assert [json.loads(line) for line in file.read_text().splitlines()] == expected
    assert SECRET not in caplog.text


def test_a_webhook_that_fails_does_not_hold_up_the_stream_and_its_address_is_not_told(
    one: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    send(one, events(1500))
    [port] = free_ports(1)
    options = one.options(webhook=f"http://127.0.0.1:{port}/{SECRET}")
    with caplog.at_level(logging.DEBUG, logger="svead_kafka"), working(options) as worker:
        until(lambda: sum_of(worker.metrics.events) == 1500)
        until(lambda: sum_of(worker.metrics.incidents) > 0)
    assert "not delivered" in caplog.text
    assert SECRET not in caplog.text
