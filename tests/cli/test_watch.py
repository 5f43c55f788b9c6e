"""Following a growing file: how it may begin, which incidents are told, and when they happened."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import svead_stream
from svead_stream.cli.sources import GrowingSource

FAULT = range(900, 920)
HEADER = "when,heat,load\n"


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """1,000 rows, one a minute, with a fault of 20 rows; the times are epoch seconds."""
    X = np.round(np.random.default_rng(8).normal([50.0, 7.0], [1.0, 0.2], (1_000, 2)), 3)
    X[FAULT, 0] += 12
    return [f"{1_772_323_200 + 60 * i},{a},{b}\n" for i, (a, b) in enumerate(X.tolist())]


@pytest.fixture
def follow(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Watch a file to which parts are added whenever all of it is read; at last Ctrl-C."""

    def watch(start: str, parts: list[str], *args: Any) -> Any:
        path = tmp_path / "growing.csv"
        path.write_text(start)
        left = iter(parts)

        def wait(source: GrowingSource) -> bool:
            part = next(left, None)
            if part is None:
                raise KeyboardInterrupt
            with path.open("a") as file:
                file.write(part)
            return False

        monkeypatch.setattr(GrowingSource, "wait", wait)
        return run("watch", path, *args)

    return watch


def test_a_file_may_begin_with_nothing_or_half_a_header_and_come_row_by_row(
    follow: Any, lines: list[str], tmp_path: Path
) -> None:
    saved = tmp_path / "m"
    numbered = [f"{i},{line}" for i, line in enumerate(lines)]
    for start, rest in ((f"row,{HEADER}", ""), ("", f"row,{HEADER}"), ("row,whe", "n,heat,load\n")):
        options = ["--incident-rate", "20/day", "--memory", "10d", "--hold-off", "10m", "--save", saved]
        result = follow(start, [*([rest] if rest else []), *numbered[:300], "".join(numbered[300:])], *options)
        assert result.code == 0, result.err
        assert result.err.count("growing.csv has 100 rows") == 1
        model = svead_stream.load(saved)
        assert sorted(model.detector.feature_names_) == ["heat", "load"]  # neither the clock nor the row number
        assert (model.n_seen_, model.detector.memory) == (1_000, 14_400)
        assert re.search(r"2026-03-01 15:0\d:00  incident \d+  line 9\d\d  score", result.out.decode())


def test_an_incident_that_old_rows_left_open_is_told(follow: Any, lines: list[str], tmp_path: Path) -> None:
    """So that nobody hears only that it is over."""
    old, new = HEADER + "".join(lines[:910]), "".join(lines[910:])
    told = tmp_path / "told"
    command = f'{sys.executable} -c \'import sys; open("{told}", "a").write(sys.stdin.read())\''
    result = follow(old, [new], "--json", "--on-incident", command)
    records = [json.loads(line) for line in result.lines]
    assert [record["state"] for record in records[:2]] == ["open", "closed"]
    assert records[0]["incident"] == records[1]["incident"]
    assert records[0]["alerts"] == 10
    assert [json.loads(line) for line in told.read_text().splitlines()] == records
    result = follow(old, [new])
    number = records[0]["incident"]
    start = f"2026-03-01 15:00:00  incident {number}  line 902  goes on: 9 min, 10 alerts, peak 0."
    assert re.match(re.escape(start) + r"\d+  heat \(\d+%\), load \(\d+%\)", result.lines[0])
    assert f"incident {number} is over" in result.lines[1]
    result = follow(old, [new], "--all")
    assert "goes on" not in result.out.decode()


def test_an_incident_of_an_earlier_run_has_no_place_in_this_file(
    run: Any, follow: Any, lines: list[str], tmp_path: Path
) -> None:
    saved, first = tmp_path / "m", tmp_path / "first.csv"
    first.write_text(HEADER + "".join(lines[:910]))
    assert run("score", first, "-o", "/dev/null", "--save", saved).code == 0
    result = follow(HEADER, ["".join(lines[910:])], "--load", saved, "--json")
    still_open, over = (json.loads(line) for line in result.lines[:2])
    assert (still_open["state"], over["state"]) == ("open", "closed")
    assert not {"source"} & {*still_open, *over}
    second, told = tmp_path / "second.csv", tmp_path / "told.csv"
    second.write_text(HEADER + "".join(lines[910:]))
    assert run("score", second, "--load", saved, "-o", "/dev/null", "--incidents", told).code == 0
    assert told.read_text().splitlines()[1].endswith(",,")


def test_alerts_are_told_with_their_time(follow: Any, lines: list[str]) -> None:
    result = follow(HEADER + "".join(lines[:300]), ["".join(lines[300:])], "--alerts")
    alerts = [line for line in result.lines if "incident" not in line]
    for alert in alerts:
        found = re.match(r"(2026-03-0\d \d\d:\d\d):00  line (\d+)  score 0\.\d+  p 0\.\d+  \w+ = ", alert)
        assert found is not None, alert
        minutes = int(found[2]) - 2
        assert datetime.fromisoformat(found[1]) == datetime(2026, 3, 1) + timedelta(minutes=minutes)
    assert len(alerts) >= len(FAULT)


def test_a_watch_that_ends_within_the_burn_in_says_so(follow: Any, lines: list[str]) -> None:
    result = follow(HEADER + "".join(lines[:200]), [])
    assert result.said == "200 rows\nno row could be an alert: the burn-in (--burn-in 256) was not over at the end\n"


def test_where_a_live_page_cannot_be_is_a_line_that_says_why(run: Any, sensors: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("watch", sensors, "--serve", port)
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert f"--serve {port}: cannot listen there (Address already in use), give another port" in result.err
    result = run("watch", "--serve", sensors, "--serve-token", "short")  # the port may be left out before the file, too
    assert "the token of --serve has 5 characters: give 16 or more, or none" in result.err
    assert "it must be PORT or HOST:PORT" in run("watch", sensors, "--serve=here").err


def test_the_address_of_a_live_page_is_told_but_no_token_that_was_given(
    follow: Any, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SVEAD_SERVE_TOKEN", "correct-horse-battery")
    result = follow(HEADER + "".join(lines[:10]), [], "--serve", "0")
    assert result.code == 0
    told = r"live page: http://127\.0\.0\.1:\d+/\?token= and the token that was given"
    assert re.fullmatch(told, result.err.splitlines()[0])
