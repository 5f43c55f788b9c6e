"""Avro events through a worker on a real broker: judged as in JSON, with a registry that fails, and answered to."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from reference import about, dealt_with
from registry import Registry, registry, wire, written
from streams import Stream, events, sum_of, until, work, working
from svead_kafka import ConfigurationError, Options, Worker, schemas

SCHEMA = {
    "type": "record", "name": "Event", "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "x0", "type": "double"},
        {"name": "x1", "type": ["null", "double"]},
        {"name": "more", "type": {"type": "record", "name": "More", "fields": [
            {"name": "x2", "type": "double"}, {"name": "x3", "type": "double"}]}},
    ],
}  # fmt: skip
SECRET = "correct-horse-battery"


def bodies(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Events with a time, a nested record, and a value that is missing now and then."""
    made = []
    for i, text in enumerate(events(count, seed=seed, fault=20)):
        event = orjson.loads(text)
        rest = {"x2": event["x2"], "x3": event["x3"]}
        x1 = None if i % 50 == 7 else event["x1"]
        at = 1_700_000_000_000 + 1000 * i
        made.append({"id": event["id"], "at": at, "x0": event["x0"], "x1": x1, "more": rest})
    return made


def avro(event: dict[str, Any], schema_id: int = 7) -> bytes:
    return wire(schema_id, written(SCHEMA, event))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(schemas, "_PAUSES", (0.01, 0.01))
    with registry() as made:
        made.add(7, SCHEMA)
        yield made


def reading(stream: Stream, place: object, run: str = "a", **changes: Any) -> Options:
    return stream.options(run, value_format="avro", schema=str(place), time="at", burn_in=50, **changes)


def verdicts(stream: Stream, options: Options) -> list[dict[str, Any]]:
    """All that was said of the events of a stream, without where they came from and how they were written."""
    found = stream.scored(options).items()
    return [
        {name: said for name, said in value.items() if name not in ("event", "source")}
        for _, value in sorted(found, key=lambda one: one[0][1:])
    ]


def test_avro_events_are_judged_as_the_same_events_in_json_and_after_a_crash_too(
    stream: Stream, served: Registry
) -> None:
    made = bodies(1200)
    stream.send([avro(event) for event in made])
    place = served.address.replace("//", f"//me:{SECRET}@")
    quiet, crashed = reading(stream, place), reading(stream, place, "crashed", max_batch=50, snapshot_every=100)
    work(stream, quiet, 1200)
    with working(crashed) as worker:
        worker._leave = lambda: None  # type: ignore[method-assign]  # nothing is saved on leaving, as after a crash
        stream.wait_committed(crashed, 500)
    work(stream, crashed, 1200)

    plain = Stream(stream.bootstrap, "json")
    plain.send([orjson.dumps(event) for event in made])
    as_json = plain.options(time="at", burn_in=50)
    work(plain, as_json, 1200)

    expected = verdicts(plain, as_json)
    assert verdicts(stream, quiet) == expected  # to the bit
    assert any(one["alert"] for one in expected)
    assert stream.scored(crashed) == stream.scored(quiet)
    assert stream.told(crashed) == stream.told(quiet) != []
    [first] = [value for value in stream.scored(quiet).values() if value["event"]["id"] == "e0"]
    assert first["event"] == made[0] | {"at": "2023-11-14T22:13:20.000Z"}


def test_bad_avro_is_in_the_dead_letters_and_a_registry_that_fails_loses_nothing(
    stream: Stream, served: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    good = [avro(event) for event in bodies(80)]
    bad = [b"\x00\x00", b'{"x0": 1}', good[0][:-1], good[0] + b"\x00", avro(bodies(1)[0], schema_id=8), b""]
    stream.send([*good[:40], None, *bad, *good[40:]])
    served.failures = [503] * 4  # three attempts, and one more of the worker that has begun anew
    options = reading(stream, served.address)
    with caplog.at_level(logging.WARNING), working(options) as worker:
        until(lambda: sum_of(worker.metrics.events) == 80)
        assert sum_of(worker.metrics.retries) >= 1
        assert (sum_of(worker.metrics.dead_letters), sum_of(worker.metrics.tombstones)) == (len(bad), 1)
    assert any("answered 503" in line and "trying again" in line for line in caplog.messages)
    letters = stream.read(options.dead_letters or "")
    assert sorted(letter.value for letter in letters) == sorted(bad)
    reasons = {letter.value: dict(letter.headers)["svead-reason"].decode() for letter in letters}
    assert [reasons[value].split(":")[0] for value in bad] == [
        "not Avro with a schema id", "not Avro with a schema id", "does not fit schema 7", "does not fit schema 7",
        "schema 8 is not in the registry", "empty",
    ]  # fmt: skip


def test_a_registry_that_refuses_the_worker_ends_it(stream: Stream, served: Registry) -> None:
    stream.send([avro(event) for event in bodies(4)])
    served.failures = [401]
    with pytest.raises(ConfigurationError, match=r"refuses the worker \(401\): check user and password in --schema"):
        Worker(reading(stream, served.address)).run()


def test_answers_to_avro_events_mean_the_same_with_the_event_and_without(stream: Stream, tmp_path: Path) -> None:
    file = tmp_path / "event.avsc"
    file.write_text(json.dumps(SCHEMA))
    one = Stream(stream.bootstrap, "answers", partitions=1)
    options = reading(one, file, feedback=f"{one.name}-answers")
    made = bodies(100)
    one.send([written(SCHEMA, event) for event in made])
    with working(options) as worker:
        one.wait_committed(options, 100)
        sent = [one.scored(options)[one.input, 0, offset] for offset in (5, 7)]
        one.answer(options, [value | {"is_anomaly": True} for value in sent])
        one.answer(options, [about(one, offset, is_anomaly=True) for offset in (5, 7)])
        until(lambda: dealt_with(worker) == 4)
        assert sum_of(worker.metrics.answers_refused) == 0
    journals = [orjson.loads(record.value) for record in one.read(options.state) if b'"answers"]' in record.key]
    taken = {answer[0]: answer[4:] for journal in journals for answer in journal["answers"]}
    assert len(taken) == 4
    five = [["x0", "x1", "more.x2", "more.x3"], [made[5]["x0"], made[5]["x1"], *made[5]["more"].values()]]
    seven = [["x0", "more.x2", "more.x3"], [made[7]["x0"], *made[7]["more"].values()]]
    assert sorted(taken.values()) == sorted([five, five, seven, seven])
