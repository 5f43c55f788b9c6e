"""Incidents and clocks on the command line: one line, one record and one entry an incident; durations beside events."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow.parquet
import pytest

import svead_stream
from svead_stream import ConformalFilter, StreamingSVEAD
from svead_stream.cli import sources
from svead_stream.cli.machine import machine
from svead_stream.cli.measures import LabelMeasures
from svead_stream.cli.sources import Source
from svead_stream.record import Verdicts, schema


@pytest.fixture(scope="module")
def minutes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """Two days of two sensors, a row a minute, with three faults of half an hour on the second day."""
    rng = np.random.default_rng(3)
    X = np.round(rng.normal([50.0, 7.0], [1.0, 0.2], (2_880, 2)), 3)
    truth = np.zeros(2_880, dtype=int)
    for start in (1_600, 2_000, 2_400):
        X[start : start + 30, 0] += 12
        truth[start : start + 30] = 1
    times = np.datetime64("2026-03-01T00:00") + np.arange(2_880) * np.timedelta64(1, "m")
    lines = ["when,n,heat,load,fault"]
    lines += [f"{t},{i},{a},{b},{y}" for i, (t, (a, b), y) in enumerate(zip(times, X.tolist(), truth, strict=True))]
    path = tmp_path_factory.mktemp("minutes") / "minutes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, X, times


def test_incidents_are_those_of_the_loop_with_the_clock_that_was_found_out(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    path, X, times = minutes
    out, incidents = tmp_path / "out.jsonl", tmp_path / "incidents.jsonl"
    settings = ["--incident-rate", "4/day", "--hold-off", "20m", "--burn-in", "6h", "--label", "fault"]
    result = run("score", path, *settings, "-o", out, "--incidents", incidents)
    assert result.code == 0, result.err
    model = ConformalFilter(StreamingSVEAD(seed=0), incident_rate="4/day", hold_off="20m", burn_in="6h")
    verdicts = model.judge_many(X, ["heat", "load"], t=times)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["score"] for row in rows] == verdicts.scores.tolist()
    assert [row.get("incident") for row in rows] == [verdicts.incidents.get(i) for i in range(len(rows))]
    told = [json.loads(line) for line in incidents.read_text().splitlines()]
    closed = [c for changes in verdicts.changes.values() for c in changes if c.state == "closed"]
    closed += [model.open_incident] if model.open_incident is not None else []
    assert [{k: v for k, v in one.items() if k != "source"} for one in told] == [c.record(3) for c in closed]
    fault = next(one for one in told if one["first"] == 1_601)
    assert (fault["start"], fault["source"]) == ("2026-03-02T02:40:00Z", {"file": str(path), "line": 1_602})
    assert fault["top_features"][0]["feature"] == "heat"
    for one in told:
        jsonschema.Draft202012Validator(schema("incident")).validate(one)
    assert "found 3 of 3 labelled stretches" in result.err


def test_incidents_go_into_a_csv_by_its_name(run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path) -> None:
    path, jsonl = tmp_path / "incidents.csv", tmp_path / "incidents.jsonl"
    for where in (path, jsonl):
        assert run("score", minutes[0], "-x", "fault", "-o", tmp_path / "o", "--incidents", where).code == 0
    rows = list(csv.DictReader(path.read_text().splitlines()))
    for row, line in zip(rows, jsonl.read_text().splitlines(), strict=True):
        record = json.loads(line)
        assert int(row["incident"]) == record["incident"]
        assert json.loads(row["top_features"]) == record["top_features"]
        assert (row["start"], int(row["line"])) == (record["start"], record["source"]["line"])


def test_incidents_may_go_to_stdout(run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path) -> None:
    jsonl = tmp_path / "incidents.jsonl"
    options = ["score", minutes[0], "-x", "fault", "-o", tmp_path / "o", "--incidents"]
    assert run(*options, jsonl).code == 0
    assert run(*options, "-").out == jsonl.read_bytes()


@pytest.mark.parametrize(
    "given",
    [
        ["-o", "a", "--incidents", "a"],
        ["-o", "a", "--incidents", "./a"],
        ["--incidents", "-"],
        ["-o", "a", "--report", "b", "--incidents", "b"],
        ["-o", "a", "--save", "b", "--rejects", "b"],
    ],
)
def test_two_outputs_never_share_a_file(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("score", minutes[0], *given)
    assert result.code == 2
    assert "both write to" in result.err
    assert list(tmp_path.iterdir()) == []
    assert run("score", minutes[0], "-o", "/dev/null", "--incidents", "/dev/null").code == 0


@pytest.mark.parametrize("option", ["--report", "--rejects", "--save"])
def test_only_rows_and_incidents_go_to_stdout(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("score", minutes[0], "-o", "a", option, "-")
    assert result.code == 2
    assert f"{option} cannot go to stdout: give the name of a file" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_parquet_file_has_the_number_of_the_incident(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    assert run("score", minutes[0], "-x", "fault", "-o", tmp_path / "o.parquet").code == 0
    table = pyarrow.parquet.read_table(tmp_path / "o.parquet")
    numbers = table["incident"].to_pylist()
    assert table.schema.field("incident").type == "int64"
    assert {number for number in numbers if number is not None} == set(range(1, max(filter(None, numbers)) + 1))
    assert all(alert for number, alert in zip(numbers, table["alert"].to_pylist(), strict=True) if number is not None)


def test_memory_in_time_is_so_many_events_as_the_clock_says(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    saved = tmp_path / "m"
    options = ["--memory", "10d", "--normal-after", "2h", "-x", "fault", "-o", tmp_path / "o", "--save", saved]
    assert run("score", minutes[0], *options).code == 0
    detector = svead_stream.load(saved).detector
    assert (detector.memory, detector.normal_after) == (14_400, 120)


@pytest.mark.parametrize("option", ["--memory", "--hold-off", "--incident-rate", "--burn-in"])
def test_what_is_given_in_time_needs_a_clock(run: Any, option: str) -> None:
    data = b"a,b\n" + b"".join(b"%d.5,%d.25\n" % (i % 7, i % 5) for i in range(300))
    result = run("score", "-", option, "5/day" if option == "--incident-rate" else "2h", stdin=data)
    assert result.code == 2
    given = f"{option} {'5/day' if option == '--incident-rate' else '2h'} is given in time: no column of time was found"
    assert f"{given}; --time NAME says which it is" in result.err
    assert result.out == b""


def test_what_is_given_in_time_is_the_same_however_slowly_rows_come(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = minutes[0].read_text().splitlines(keepends=True)
    lines[130:] = [line.replace("2026-03", "2027-03") for line in lines[130:]]  # a year later
    data = "".join(lines).encode()
    options = ["score", "-", "-x", "fault", "--memory", "10d", "--hold-off", "20m", "-o"]
    assert run(*options, tmp_path / "whole.csv", stdin=data).code == 0
    read = Source.read
    monkeypatch.setattr(Source, "read", lambda source, n=40: read(source, min(n, 40)))
    assert run(*options, tmp_path / "slow.csv", stdin=data).code == 0
    assert (tmp_path / "slow.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_several_events_at_a_time_are_that_much_closer(run: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"2026-03-01T{i // 300:02}:{i // 5 % 60:02},{x}" for i, x in enumerate(rng.normal(size=600))]
    rows[50] = rows[50].replace("03-01", "02-01")  # and a gap on the way back
    data = "\n".join(["time,x", *rows]).encode()
    assert run("score", "-", "--memory", "1d", "-o", "/dev/null", "--save", tmp_path / "m", stdin=data).code == 0
    assert svead_stream.load(tmp_path / "m").detector.memory == pytest.approx(5 * 1_440, rel=0.1)


def test_time_that_stands_still_is_a_sentence(run: Any) -> None:
    data = "time,x\n" + "".join(f"2026-03-01,{i % 7}.5\n" for i in range(200))
    result = run("score", "-", "--memory", "1d", stdin=data.encode())
    assert result.code == 2
    assert "--memory 1d is given in time, which does not go forward in the 100 first rows" in result.err


def test_a_file_without_rows_says_nothing_of_its_clock(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text(minutes[0].read_text().splitlines(keepends=True)[0])
    result = run("score", empty, minutes[0], "-o", tmp_path / "o.csv", "--incident-rate", "5/day", "--memory", "2d")
    assert (result.code, result.said) == (0, "")
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 2_881


def test_a_time_from_the_future_does_not_hold_the_axis_of_the_report(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    lines = minutes[0].read_text().splitlines()
    lines[100] = lines[100].replace("2026", "2056")
    path, report = tmp_path / "odd.csv", tmp_path / "r.html"
    path.write_text("\n".join(lines))
    assert run("score", path, "-x", "fault", "-o", tmp_path / "o", "--report", report).code == 0
    ends = re.search(r'"end":\[([^]]*)\]', report.read_text())
    assert ends is not None
    assert float(ends[1].split(",")[-1]) == np.datetime64("2026-03-02T23:59").astype("M8[s]").astype(int)


def test_the_clock_that_is_named_is_taken_and_odd_times_are_told(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    lines = minutes[0].read_text().splitlines()
    lines[600] = lines[500]  # back in time
    lines[700] = lines[699]  # twice
    lines[800] = "later" + lines[800][16:]
    (tmp_path / "odd.csv").write_text("\n".join(lines))
    result = run("watch", tmp_path / "odd.csv", "--time", "when", "--idle", "0.1", "-x", "fault", "--all")
    assert "times in when: 1 missing, 1 going back, 1 the same as before" in result.err
    assert run("score", minutes[0], "--time", "heat", "-o", tmp_path / "o").code == 2


def test_alerts_beyond_the_rate_are_told_with_the_reason(run: Any, minutes: tuple[Path, Any, Any]) -> None:
    result = run("watch", minutes[0], "--idle", "0.1", "-x", "fault", "--all")
    assert "the first 256 rows were learned without alerts" in result.err
    assert "where 1.0% were asked for: those of an incident go on as long as it lasts" in result.err


def test_a_model_goes_on_with_its_incidents_in_the_next_file(
    run: Any, minutes: tuple[Path, Any, Any], tmp_path: Path
) -> None:
    lines = minutes[0].read_text().splitlines(keepends=True)
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("".join(lines[:1_621]))  # in the middle of a fault
    second.write_text(lines[0] + "".join(lines[1_621:]))
    whole, parts = tmp_path / "whole.jsonl", [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    model = ["-x", "fault", "-o", tmp_path / "o"]
    assert run("score", minutes[0], *model, "--incidents", whole).code == 0
    assert run("score", first, *model, "--incidents", parts[0], "--save", tmp_path / "m").code == 0
    assert run("score", second, *model, "--incidents", parts[1], "--load", tmp_path / "m").code == 0
    expected, (a, b) = read(whole), map(read, parts)
    assert a[-1]["state"] == "open"
    assert a[:-1] + b == expected


def read(path: Path) -> list[dict[str, Any]]:
    """Incidents without the place, which differs."""
    return [{k: v for k, v in json.loads(line).items() if k != "source"} for line in path.read_text().splitlines()]


def test_labelled_stretches_are_counted_however_the_rows_are_cut() -> None:
    labels = np.array([0, 1, 1, 0, 1, np.nan, 1, 0, 1, 1])
    incidents = {1: 1, 3: 1, 7: 2, 8: 3, 9: 3}
    zeros, alerts = np.zeros(10), np.isin(np.arange(10), list(incidents))
    for cuts in ([], [2], [1, 5, 9], [9], list(range(10))):
        measures = LabelMeasures()
        for part in np.split(np.arange(10), cuts):
            own = {i - int(part[0]): n for i, n in incidents.items() if i in part}
            n = len(part)
            measures.add(labels[part], Verdicts(zeros[:n], zeros[:n], alerts[part], zeros[:n], {}, own))
        found = measures.result()
        assert found is not None
        assert (found["faults"], found["faults_found"]) == (4, 2)
        assert (found["incidents"], found["false_incidents"]) == (3, 1)


def test_every_incident_with_a_labelled_alert_is_told_so_where_several_end_in_a_batch(
    run: Any, sensors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    for block in (sources.BLOCK, 500):
        monkeypatch.setattr(sources, "BLOCK", block)
        report = tmp_path / "r.html"
        run("score", sensors, "--label", "fault", "--incident-rate", 0.01, "-o", tmp_path / "o", "--report", report)
        data = json.loads(report.read_text().split('id="data">')[1].split("</script>")[0])
        kept.append([(one["row"], one["truth"]) for one in data["incidents"]["kept"]])
    assert kept[0] == kept[1]
    assert sum(truth for _, truth in kept[0]) > 1


def test_the_demos_machine_has_a_clock(run: Any, tmp_path: Path) -> None:
    import pyarrow.csv

    table, _ = machine(days=2, n_faults=4)
    pyarrow.csv.write_csv(table, tmp_path / "m.csv")
    report = tmp_path / "r.html"
    result = run(
        "score", tmp_path / "m.csv", "-x", "kind,fault", "--hold-off", "15m", "-o", tmp_path / "o", "--report", report
    )
    assert result.code == 0, result.err
    assert "2026" in report.read_text()
