"""An event has the same verdict on every path: loop, mini-batch, `score` in all formats, `watch`, the report, Kafka."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from streams import Stream, work

from svead_stream import ConformalFilter, StreamingSVEAD, Verdict
from svead_stream.cli import cli
from svead_stream.record import FIELDS, schema

SEED, RATE, TOP = 7, 0.2, 2
VALIDATOR = jsonschema.Draft202012Validator(schema())


def made_up(n: int) -> list[dict[str, float]]:
    """Events that drift and repeat themselves, have gaps, and get another feature on the way."""
    rng = random.Random(1)
    events = []
    for i in range(n):
        event = {name: rng.gauss(i / n * 3, 1 + 4 * (rng.random() < 0.1)) for name in ("heat", "load", "speed")}
        if i % 11 == 0:
            del event["load"]
        if i > n // 2:
            event["shake"] = rng.random()
        events.append(events[-1] if i % 50 == 49 else event)
    return events


EVENTS = made_up(5_400)


def record_of(fields: Any) -> dict[str, Any]:
    VALIDATOR.validate(fields)
    return {name: fields[name] for name in FIELDS if fields.get(name) is not None}


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    """What the loop says."""
    model = ConformalFilter(StreamingSVEAD(seed=SEED), alert_rate=RATE)
    return [model.judge_one(event) for event in EVENTS]


@pytest.fixture(scope="module")
def expected(verdicts: list[Verdict]) -> list[dict[str, Any]]:
    """What is written of it; more than a thousand events are alerts."""
    records = [record_of(verdict.record(TOP)) for verdict in verdicts]
    assert sum(record["alert"] for record in records) >= 1_000
    assert all(len(record["top_features"]) == TOP for record in records if record["alert"])
    return records


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    return path


OPTIONS = ["--seed", str(SEED), "--alert-rate", str(RATE), "--top-features", str(TOP)]


def run(*words: Any) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_mini_batches_say_what_the_loop_says(expected: list[dict[str, Any]]) -> None:
    model = ConformalFilter(StreamingSVEAD(seed=SEED), alert_rate=RATE)
    names = ["heat", "load", "shake", "speed"]
    X = [[event.get(name) for name in names] for event in EVENTS]
    records = []
    for start, end in ((0, 1), (1, 700), (700, 703), (703, len(X))):
        records += [verdict.record(TOP) for verdict in model.judge_many(X[start:end], names)]
    assert records == expected


def test_the_report_shows_the_alerts_of_the_loop(file: Path, tmp_path: Path, expected: list[dict[str, Any]]) -> None:
    report = tmp_path / "report.html"
    run("score", file, "-o", tmp_path / "scored.jsonl", "--report", report, *OPTIONS)
    start = report.read_text().index('{"rows"')
    shown, _ = json.JSONDecoder().raw_decode(report.read_text()[start:].replace("\\u003c", "<"))
    assert shown["alerts"] == sum(record["alert"] for record in expected)
    for alert in shown["table"]:
        record = expected[alert["row"] - 1]
        assert (alert["score"], alert["p_value"]) == (record["score"], record["p_value"])
        tops = [{"feature": one["name"], "share": one["share"]} for one in alert["features"][:TOP]]
        assert [top | {"share": pytest.approx(top["share"], abs=1e-4)} for top in tops] == record["top_features"]


def test_score_says_what_the_loop_says_in_every_format(
    file: Path, tmp_path: Path, expected: list[dict[str, Any]]
) -> None:
    for suffix in ("jsonl", "csv", "parquet"):
        run("score", file, "-o", tmp_path / f"scored.{suffix}", *OPTIONS)
    lines = (tmp_path / "scored.jsonl").read_text().splitlines()
    assert [record_of(json.loads(line)) for line in lines] == expected

    rows = pq.read_table(tmp_path / "scored.parquet", columns=list(FIELDS)).to_pylist()
    assert [record_of(row) for row in rows] == expected

    records = []
    for row in csv.DictReader(io.StringIO((tmp_path / "scored.csv").read_text())):
        fields = {name: json.loads(row[name]) for name in FIELDS if row[name]}
        records.append(record_of(fields))
    assert records == expected


def test_watch_says_what_the_loop_says(file: Path, expected: list[dict[str, Any]]) -> None:
    printed = run("watch", file, "--all", "--alerts", "--json", "--idle", "0.1", *OPTIONS)
    printed_records = [json.loads(line) for line in printed.splitlines()]
    alerts = [one for one in printed_records if "state" not in one]  # the others are of incidents
    assert [record_of(alert) for alert in alerts] == [record for record in expected if record["alert"]]
    assert [EVENTS[alert["source"]["line"] - 1] for alert in alerts] == [
        {name: value for name, value in alert["event"].items() if value is not None} for alert in alerts
    ]


def test_kafka_says_what_the_loop_says(bootstrap: str, expected: list[dict[str, Any]], verdicts: list[Verdict]) -> None:
    stream = Stream(bootstrap, "same", partitions=1)
    stream.send([json.dumps(event).encode() for event in EVENTS])
    options = stream.options(alert_rate=RATE, top_features=TOP, detector={"seed": SEED}, max_batch=1_500)
    work(stream, options, len(EVENTS))
    scored = sorted(stream.scored(options).values(), key=lambda value: value["source"]["offset"])
    assert [record_of(value) for value in scored] == expected
    assert [value["event"] for value in scored] == EVENTS
    changes = [(i, change) for i, verdict in enumerate(verdicts) for change in verdict.changes]
    told = [json.loads(value) for _, _, value, _ in stream.told(options)]
    when = {"start": None, "end": None}  # the loop had no times, and nothing that it said hangs on them
    assert [(value.pop("source")["offset"], value | when) for value in told] == [
        (i, change.record(TOP)) for i, change in changes
    ]
    assert len(told) > 10
