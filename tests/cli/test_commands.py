"""The commands around `score`, and how the program as a whole behaves: pipes, signals, completion, help."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import svead_stream
from svead_stream.cli import machine
from svead_stream.cli.interrupts import unbroken
from svead_stream.cli.progress import Progress, clock
from svead_stream.cli.sources import GrowingSource
from svead_stream.incidents import Incidents

PROGRAM = [sys.executable, "-c", "from svead_stream.cli import main; main()"]


def start(*args: Any, **more: Any) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*PROGRAM, *map(str, args)], **pipes | more)


HELP = [["--help"], ["--version"], ["score", "--help"], ["demo", "--help"], ["kafka", "--help"], ["no-such"]]


@pytest.mark.parametrize("args", HELP)
def test_nothing_heavy_is_imported_to_answer_for_help(args: list[str]) -> None:
    code = (
        "import sys\nfrom svead_stream.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'river', 'pyarrow', 'sklearn', 'pandas', 'kafka'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, check=True, text=True).stdout
    assert out.splitlines()[-1] == "HEAVY []"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_the_shell(shell: str) -> None:
    env = os.environ | {"_SVEAD_STREAM_COMPLETE": f"{shell}_source"}
    out = subprocess.run(PROGRAM, env=env, capture_output=True, check=True, text=True).stdout
    assert "svead-stream" in out
    env |= {"_SVEAD_STREAM_COMPLETE": "bash_complete", "COMP_WORDS": "svead-stream s", "COMP_CWORD": "1"}
    out = subprocess.run(PROGRAM, env=env, capture_output=True, check=True, text=True).stdout
    assert out.split() == ["plain,score", "plain,spark"]


@pytest.mark.parametrize(
    ("missing", "args"), [("svead_kafka.cli", ["--help"]), ("kafka", ["--input", "in", "--output", "out"])]
)
def test_a_missing_extra_is_a_line_that_names_it(
    missing: str, args: list[str], run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("svead_kafka")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    result = run("kafka", *args)
    assert result.code == 1
    assert "pip install 'svead-stream[kafka]'" in result.err
    assert len(result.err.splitlines()) == 1


def test_a_traceback_is_shown_only_on_request(sensors: Path, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"no model, but long enough to be looked at")
    for args, shown in (([], False), (["--debug"], True)):
        done = subprocess.run([*PROGRAM, "inspect", tmp_path / "model", *args], capture_output=True, text=True)
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) == shown


def test_a_reader_that_has_seen_enough_is_no_error(sensors: Path) -> None:
    process = start("score", "-", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    header, *lines = sensors.read_bytes().splitlines(keepends=True)

    def feed() -> None:
        for step in (lambda pipe: pipe.write(header + b"".join(lines) * 200), lambda pipe: pipe.close()):
            with contextlib.suppress(BrokenPipeError):
                step(process.stdin)

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert process.stdout.readline().startswith(b"time,heat")
    process.stdout.close()
    assert process.wait(60) == 0
    feeder.join()
    assert process.stderr.read() == b"using heat, load, speed, fault; not using time (clock), mode (text)\n"
    process.stderr.close()


def test_rows_leave_a_pipe_before_it_is_closed(sensors: Path) -> None:
    process = start("score", "-")
    assert process.stdin is not None
    assert process.stdout is not None
    lines = sensors.read_bytes().splitlines(keepends=True)
    for part, n in ((lines[:40], 0), (lines[40:140], 140), (lines[140:141], 1)):  # columns are known after 100 rows
        process.stdin.write(b"".join(part))
        process.stdin.flush()
        assert [process.stdout.readline().count(b",") for _ in range(n)] == [10] * n
    process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_complete_files_and_no_model(
    sensors: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out, model = tmp_path / "out.parquet", tmp_path / "model"
    process = start("score", "-", "-o", out, "--save", model, "--report", tmp_path / "report.html")
    assert process.stdin
    process.stdin.write(sensors.read_bytes())
    process.stdin.flush()
    while not list(tmp_path.glob("out.parquet.*")):  # it has its name at the end
        assert not out.exists()
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 130
    told = re.search(
        rb"interrupted after ([\d,]+) rows, kept in \S+/out.parquet: \S+/model and \S+/report.html not written", err
    )
    assert told is not None, err
    assert b"Traceback" not in err
    assert pq.read_table(out).num_rows == int(told[1].replace(b",", b""))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "sensors.csv"]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """As Python begins, whatever other tests of this process have left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("command", ["score", "watch"])
def test_an_interruption_waits_until_all_files_tell_of_the_same_rows(
    run: Any, sensors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    follow = Incidents.follow

    def interrupted(*args: Any) -> Any:  # the ranks know of an incident already, nobody else does
        os.kill(os.getpid(), signal.SIGINT)
        monkeypatch.setattr(Incidents, "follow", follow)
        return follow(*args)

    monkeypatch.setattr(Incidents, "follow", interrupted)
    out, model = tmp_path / "out.csv", tmp_path / "model"
    if command == "watch":
        assert run("watch", sensors, "-x", "fault", "--save", model).code == 0
        assert svead_stream.load(model).n_seen_ == 1_200
        return
    result = run("score", sensors, sensors, "-x", "fault", "-o", out, "--incidents", tmp_path / "incidents.jsonl")
    assert result.code == 130
    assert "interrupted after 1,200 rows" in result.err
    assert len(out.read_text().splitlines()) == 1_201
    told = [json.loads(line) for line in (tmp_path / "incidents.jsonl").read_text().splitlines()]
    assert {str(one["incident"]) for one in told} == {row["incident"] for row in read_csv(out)} - {""}


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_interruption_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), unbroken():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_watch_prints_alerts_of_new_rows_and_follows_a_rotated_file(
    run: Any, sensors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = sensors.read_text().splitlines(keepends=True)
    growing, model = tmp_path / "growing.csv", tmp_path / "model"
    growing.write_text("".join(lines[:600]))

    def append(text: str) -> None:
        with growing.open("a") as file:
            file.write(text)

    def rotate() -> None:
        rotated = tmp_path / "rotated.csv"
        rotated.write_text(lines[0] + "x,-99,99,99,fast,1\n")
        rotated.rename(growing)

    steps = iter(
        [lambda: append("x,99,-99,99,fast,1\n"), lambda: append("x,1,"), lambda: append("1,1,fast,0\n"), rotate]
    )

    def wait(source: GrowingSource) -> bool:
        """Whenever all is read, something is written; at last Ctrl-C."""
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()
        return source.was_rotated()

    monkeypatch.setattr(GrowingSource, "wait", wait)
    result = run("watch", growing, "--label", "fault", "--json", "--alerts", "--save", model)
    assert result.code == 0, result.err
    told = [json.loads(line) for line in result.lines]
    incident, *alerts = told
    assert [one.get("state") for one in told] == ["open", None, None]
    assert (incident["source"]["line"], incident["alerts"]) == (601, 1)
    assert [(alert["source"]["line"], alert["event"]["heat"]) for alert in alerts] == [(601, 99.0), (2, -99.0)]
    assert {top["feature"] for top in alerts[0]["top_features"]} <= {"heat", "load", "speed"}
    assert "602 rows" in result.err
    assert "ROC AUC" in result.err
    assert svead_stream.load(model).detector.n_seen_ == 602


def test_watch_tells_of_old_rows_on_request(run: Any, sensors: Path) -> None:
    assert run("watch", sensors, "-x", "fault", "--idle", "0.1").lines == []
    lines = run("watch", sensors, "-x", "fault", "--idle", "0.1", "--all").lines
    assert re.match(r"2026-01-01 \d\d:\d\d:00  incident 1  line \d+  score 0.\d+  \w+ = -?\d", lines[0])
    assert re.match(r"2026-01-01 \d\d:\d\d:00  incident 1 is over  .* alerts?, peak 0.\d+  \w+ \(\d+%\)", lines[1])
    with_alerts = run("watch", sensors, "-x", "fault", "--idle", "0.1", "--all", "--alerts").lines
    assert [line for line in with_alerts if "incident" in line] == lines
    assert len(with_alerts) > len(lines) > 3


def test_watch_ends_well_when_told_to(sensors: Path, tmp_path: Path) -> None:
    process = start("watch", sensors, "--all", "--save", tmp_path / "m")
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 0
    assert b"1,200 rows" in err
    assert (tmp_path / "m").exists()


def test_inspect_tells_what_a_model_is(run: Any, sensors: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.svead"
    run("score", sensors, "-x", "fault", "--save", model, "-o", tmp_path / "o.csv", "--alert-rate", "0.02")
    facts = json.loads(run("inspect", model, "--json").out)
    assert facts["bytes"] == model.stat().st_size
    assert facts["alert_rate"] == 0.02
    assert facts["events_seen"] == 1_200
    assert facts["features"] == ["heat", "load", "speed"]
    assert facts["parameters"]["n_partitions"] == 24
    text = run("inspect", model).out.decode()
    assert "events seen     1,200" in text
    assert "3: heat, load, speed" in text


def test_the_demo_finds_most_faults_and_leaves_a_report(run: Any, tmp_path: Path) -> None:
    result = run("demo", "--out", tmp_path / "demo")
    assert (result.code, result.err) == (0, "")
    text = result.out.decode()
    assert "\x1b" not in text
    assert "\r" not in text
    summary = next(line for line in result.lines if "found" in line)
    found = int(summary.split("found ")[1].split()[0])
    false = int(summary.split("and ")[1].split()[0])
    assert found >= 22
    assert false <= 5
    assert max(len(line) for line in result.lines if "Report: " not in line and " score " not in line) < 80
    incidents = [line for line in result.lines if "INCIDENT" in line]
    assert found <= len(incidents) <= found + 5
    assert not any(line.startswith("day 1") for line in incidents)
    assert "truth: worn bearing" in text
    assert " score FILE -o scored.csv --report report.html" in text
    assert (tmp_path / "demo" / "report.html").stat().st_size > 50_000
    again = run(
        "score", tmp_path / "demo" / "machine.csv", "--ignore", "kind", "--label", "fault", "-o", tmp_path / "o"
    )
    assert "ROC AUC" in again.err


def test_the_machine_is_the_same_for_the_same_seed() -> None:
    table, faults = machine.machine(seed=3)
    again, _ = machine.machine(seed=3)
    assert table.equals(again)
    assert not table.equals(machine.machine(seed=4)[0])
    assert len(faults) == 28
    assert sum(table["fault"].to_pylist()) == sum(fault.end - fault.start for fault in faults)
    assert {fault.sensor for fault in faults} <= set(table.column_names)


def test_progress_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    silent = Progress()
    silent.update(10, 0.5)
    silent.clear()
    assert capsys.readouterr().err == ""
    shown = Progress(enabled=True)
    shown.started -= 10
    shown.update(1_000, 0.25)
    text = capsys.readouterr().err
    assert " 25% ━━━━━━╌╌╌╌" in text
    assert "1,000 rows" in text
    assert "100 rows/s  0:30 left" in text
    assert clock(3_725) == "1:02:05"
