"""What users are told beside the data: rows in the wrong order, no alert possible, sums at the end; that it is true."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import svead_stream
from svead_stream.cli import summary
from svead_stream.cli.measures import LabelMeasures
from svead_stream.cli.order import Order
from svead_stream.cli.progress import Progress
from svead_stream.cli.words import counted, listed
from svead_stream.clock import Clock
from svead_stream.judging import ConformalFilter
from svead_stream.record import Verdicts
from svead_stream.streaming import StreamingSVEAD

Write = Callable[..., Path]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stderr is a terminal."""
    monkeypatch.setattr("svead_stream.cli.run.Progress", partial(Progress, True))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write rows a minute apart, with a fault of 20 rows near the end, oldest first or not."""

    def of(n: int, name: str = "rows.csv", newest_first: bool = False, day: int = 1) -> Path:
        X = np.round(np.random.default_rng(8).normal([50.0, 7.0], [1.0, 0.2], (n, 2)), 3)
        X[n - 60 : n - 40, 0] += 12
        times = [datetime(2026, 3, day) + timedelta(minutes=i) for i in range(n)][:: -1 if newest_first else 1]
        lines = [f"{t.isoformat()},{a},{b}" for t, (a, b) in zip(times, X.tolist(), strict=True)]
        path = tmp_path / name
        path.write_text("\n".join(["time,heat,load", *lines]) + "\n")
        return path

    return of


def model(**settings: Any) -> ConformalFilter:
    return ConformalFilter(StreamingSVEAD(seed=0), **settings)


# the order of rows


def test_a_file_from_the_newest_row_to_the_oldest_is_told_even_where_nobody_looks(run: Any, write: Write) -> None:
    backward, forward = write(600, newest_first=True), write(600, "forward.csv")
    result = run("score", backward, "-o", "/dev/null")
    assert result.code == 0
    assert result.said == (
        f"{backward}: times go back, the newest row comes first: sort the rows, since they are learned as they come\n"
    )
    assert run("score", forward, "-o", "/dev/null").said == ""


def test_files_in_the_wrong_order_of_time_are_told(run: Any, write: Write) -> None:
    monday, tuesday = write(300, "1.csv"), write(300, "2.csv", day=2)
    assert run("score", monday, tuesday, "-o", "/dev/null").said == ""
    result = run("score", tuesday, monday, "-o", "/dev/null")
    assert result.said == (
        f"{monday} begins before the time at which {tuesday} ends: give files in the order of time\n"
    )


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_order_is_told_once_however_the_rows_come(size: int) -> None:
    back = np.arange(100.0, 0.0, -1.0)
    back[::11] = np.nan
    order = Order()
    told = [order.look("a", back[i : i + size]) for i in range(0, 100, size)]
    assert len([one for one in told if one is not None]) == 1
    assert (order.first, order.latest) == (2.0, 99.0)
    for times in (np.sort(back), np.zeros(100), np.random.default_rng(0).permutation(back), np.full(100, np.nan)):
        order = Order()
        assert [order.look("a", times[i : i + size]) for i in range(0, 100, size)] == [None] * -(-100 // size)


# the end of a run


def test_that_no_row_could_be_an_alert_is_told_even_where_nobody_looks(run: Any, write: Write) -> None:
    path = write(600)
    options = ["score", path, "-o", "/dev/null"]
    said = "no row could be an alert: the burn-in (--burn-in {}) was not over at the end\n"
    assert run(*options, "--burn-in", "1d").said == said.format("1d")
    assert run(*options, "--burn-in", "601").said == said.format("601")
    assert run(*options, "--burn-in", "9h").said == ""


def test_the_sums_at_the_end_are_true_and_in_plain_words(run: Any, write: Write, terminal: None) -> None:
    result = run("score", write(600), "-o", "/dev/null", "--hold-off", "2d", "--incident-rate", "12/day")
    assert "\nthe first 256 rows were learned without alerts (--burn-in)\n" in result.err
    assert "1 incident, incident 1 still open, " in result.err
    result = run("score", write(120), "-o", "/dev/null", "--burn-in", "0")
    assert "rows were learned without alerts: there were too few to rank among" in result.err
    one = run("score", write(120), "-o", "/dev/null", "--burn-in", "119")
    assert "the first 119 rows were learned without alerts (--burn-in)" in one.err
    result = run("score", write(90), "-o", "/dev/null", "--burn-in", "0")
    assert "no row could be an alert: there are too few of them, or too few that differ" in result.err
    result = run("score", "-", stdin=b"a\n1\n")
    assert "\n1 row in" in result.err
    assert "incident" not in result.err


def test_a_rate_that_leaves_no_room_for_an_incident_is_told(run: Any, write: Write, terminal: None) -> None:
    result = run("score", write(600), "-o", "/dev/null", "--incident-rate", "0.000001/week")
    assert "0 incidents, " in result.err
    assert "an incident is due every 7000000 d, and the rows span 9 h 59 min" in result.err
    assert summary.too_short(model(incident_rate="5/day"), 86_400.0) == []
    assert summary.too_short(model(incident_rate=0.001), 60.0) == []
    assert summary.too_short(model(), 60.0) == []


def test_without_learning_nothing_is_said_of_incidents(run: Any, write: Write, tmp_path: Path, terminal: None) -> None:
    path, saved = write(560), tmp_path / "m"  # ends within the fault, so that an incident is open
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{lines[0]},fault", *(f"{line},{i % 50 == 0:d}" for i, line in enumerate(lines[1:]))]))
    options = ["--label", "fault", "-o", "/dev/null"]
    first = run("score", path, *options, "--save", saved, "--hold-off", "1000")
    assert "still open" in first.err
    assert "labelled stretches in" in first.err
    report = tmp_path / "r.html"
    result = run("score", path, *options, "--load", saved, "--no-learn", "--report", report)
    assert "; without learning no incidents are told" in result.err
    assert "labelled stretches" not in result.err
    assert "ROC AUC" in result.err
    assert "go on as long as it lasts" not in result.err
    assert '"incidents":{"total":0,' in report.read_text()
    refused = run("score", path, "--load", saved, "--no-learn", "--incidents", tmp_path / "i")
    assert refused.code == 2
    assert "--no-learn tells of no incidents: leave out --incidents" in refused.err


def test_the_share_of_alerts_is_explained_by_what_made_it() -> None:
    assert summary.alert_share(model(), 0.011, True) == []
    assert summary.alert_share(model(), 0.02, True)[0].endswith("those of an incident go on as long as it lasts")
    assert summary.alert_share(model(), 0.02, False)[0].endswith("without learning the rate is not held")


def test_what_was_odd_about_time_is_that_of_this_run(run: Any, write: Write, tmp_path: Path) -> None:
    assert summary.odd_times(Clock(n_missing=3, n_backward=1), Clock(n_missing=4, n_backward=1)) == "1 missing"
    back, saved = write(400, newest_first=True), tmp_path / "m"
    assert run("score", back, "-o", "/dev/null", "--save", saved).code == 0
    result = run("watch", write(400, "forward.csv", day=9), "--load", saved, "--idle", "0.1")
    assert "times in" not in result.err
    assert "0 new incidents" in result.err or "new incident" in result.err


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0, 0, 0, 0], "no row that could be an alert is labelled as an anomaly: 1 incident, all false"),
        ([1, 0, 0, 0], "no row that could be an alert is labelled as an anomaly: 1 incident, all false"),
        ([0, 1, 1, 1], "all rows that could be alerts are labelled as anomalies: nothing to measure"),
        ([1] + [np.nan] * 3, "no row that could be an alert has a label: nothing to measure"),
        ([0, 0, 1, 0], "found 1 of 1 labelled stretch in 1 incident, 0 of them false"),
        ([0, 1, 0, 1], "found 0 of 2 labelled stretches in 1 incident, 1 of them false"),
    ],
)
def test_why_nothing_could_be_measured_is_said(labels: list[float], said: str) -> None:
    measures = LabelMeasures()
    zeros = np.zeros(4)
    verdicts = Verdicts(zeros, zeros, np.array([False, False, True, False]), zeros, {}, {2: 1})
    measures.add(np.array(labels, dtype=float), verdicts, burn_in=1)
    assert measures.summary()[0] == said


def test_of_many_columns_the_first_are_named_and_the_others_counted(run: Any, terminal: None) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 12))
    header = ",".join([f"c{i}" for i in range(12)] + [f"kind{i}" for i in range(9)])
    body = "\n".join(",".join([*map(str, row), *["x"] * 9]) for row in rows.tolist())
    result = run("score", "-", "-o", "/dev/null", stdin=f"{header}\n{body}\n".encode())
    assert "c6, c7 and 4 more; not using kind0 (text)" in result.err
    assert "kind7 (text) and 1 more\n" in result.err


def test_words_are_counted_and_listed() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 12_345)] == ["0 rows", "1 row", "2 rows", "12,345 rows"]
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"


# inspect


def test_inspect_tells_of_incidents_and_time(run: Any, write: Write, tmp_path: Path) -> None:
    path, saved = write(560), tmp_path / "m"
    lines = path.read_text().splitlines()
    lines[300] = lines[200]
    path.write_text("\n".join(lines[:520]))  # in the middle of the fault
    options = ["-o", "/dev/null", "--save", saved, "--incident-rate", "20/day", "--burn-in", "300"]
    assert run("score", path, *options).code == 0
    facts = json.loads(run("inspect", saved, "--json").out)
    assert (facts["incident_rate"], facts["hold_off"], facts["burn_in"], facts["burns_in"]) == (
        "20/day",
        None,
        "300",
        False,
    )
    judge = svead_stream.load(saved)
    assert judge.open_incident is not None
    assert facts["incidents"] == judge.n_incidents_ == facts["open_incident"]["incident"]
    assert facts["clock"] == {
        "latest": "2026-03-01T08:38:00Z",
        "missing": 0,
        "going_back": 1,
        "same_as_before": 0,
    }
    text = run("inspect", saved).out.decode()
    assert "incident rate   20/day\n" in text
    assert "hold off        by default\n" in text
    assert "burns in        no\n" in text
    assert f"open incident   {judge.n_incidents_}, since 2026-03-01T08:20:00Z, " in text
    assert "clock           at 2026-03-01T08:38:00Z, 1 going back\n" in text


def test_inspect_of_a_model_without_time_and_incidents(run: Any, tmp_path: Path) -> None:
    saved = tmp_path / "m"
    svead_stream.save(model(), saved)
    facts = json.loads(run("inspect", saved, "--json").out)
    assert (facts["clock"], facts["open_incident"], facts["threshold"]) == (None, None, None)
    text = run("inspect", saved).out.decode()
    assert "open incident   none\n" in text
    assert "clock           none: no event had a time\n" in text
    assert "burns in        yes\n" in text
