"""Answers on the page: pressed, counted, kept, downloaded, and taken by the command line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE, MARCH, page, recorded, text
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from svead_stream import ConformalFilter
from svead_stream.cli import _run
from svead_stream.cli.answers import column_of
from svead_stream.cli.progress import Progress
from svead_stream.cli.recording import _values
from svead_stream.record import Incident
from svead_stream.report import Alert
from svead_stream.report.record import N_VALUES

MINUTES = MARCH + 60.0 * np.arange(3_000)


@pytest.fixture(autouse=True)
def forgotten(browser: Any) -> Iterator[None]:
    """No answer of one test is there in the next."""
    yield
    browser.execute_script("localStorage.clear()")


@pytest.fixture
def download(saved: Any) -> Callable[[], bytes]:
    """Press the button, and read the file."""
    return lambda: bytes(saved("#answers-download", "answers.csv"))


def press(browser: Any, table: str, row: int, kind: str) -> Any:
    """Press a button in a line of a table."""
    line = browser.find_elements(By.CSS_SELECTOR, f"#{table} tr.row")[row]
    button = line.find_element(By.CSS_SELECTOR, f".answer .{kind}")
    browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", button)  # not below the bar
    button.click()
    return button


def pressed(browser: Any, table: str) -> list[str]:
    """What the buttons that are pressed are called."""
    buttons = browser.find_elements(By.CSS_SELECTOR, f"#{table} .answer [aria-pressed='true']")
    return [button.accessible_name for button in buttons]


def parsed(file: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.decode(), newline="")))


# pressing


def test_a_button_is_pressed_changed_and_taken_back_and_answers_are_counted(show: Any) -> None:
    browser = show(page(recorded(long=40)))
    bar = browser.find_element(By.ID, "answers")
    assert not bar.is_displayed()
    press(browser, "incidents", 0, "real")
    press(browser, "incidents", 1, "false")
    assert pressed(browser, "incidents") == ["Incident 1: real", "Incident 2: false alarm"]
    assert text(browser, "#answers-count") == "2 answers"
    assert "svead-stream score NEW --load MODEL --feedback answers.csv" in bar.text
    press(browser, "incidents", 0, "false")
    assert pressed(browser, "incidents") == ["Incident 1: false alarm", "Incident 2: false alarm"]
    press(browser, "incidents", 0, "false")
    assert pressed(browser, "incidents") == ["Incident 2: false alarm"]
    assert text(browser, "#answers-count") == "1 answer"
    press(browser, "incidents", 1, "false")
    assert not bar.is_displayed()
    assert not browser.find_elements(By.CSS_SELECTOR, "tr.detail")  # no row was opened by that


@pytest.mark.parametrize("key", [Keys.ENTER, Keys.SPACE])
def test_the_keyboard_is_enough(show: Any, key: str) -> None:
    browser = show(page(recorded(long=40)))
    button = browser.find_element(By.CSS_SELECTOR, "#incidents .answer button")
    button.send_keys(key)
    assert button.get_attribute("aria-pressed") == "true"
    assert browser.switch_to.active_element == button
    assert not browser.find_elements(By.CSS_SELECTOR, "tr.detail")


def test_an_answer_to_an_incident_is_one_to_its_strongest_alert(show: Any) -> None:
    recorder = recorded(long=40)
    for row, score in ((455, 9.0), (460, 9.0), (465, 8.0)):
        alert = Alert(row, "x.csv", score, 0.001, 2.0, None, {}, [], incident=3, values={"heat": row / 8})
        recorder.add_alert(alert)
    browser = show(page(recorder))
    press(browser, "incidents", 2, "real")
    assert pressed(browser, "alerts") == ["Alert of row 455: real"]
    press(browser, "alerts", 0, "false")  # the strongest is first
    assert pressed(browser, "incidents") == ["Incident 3: false alarm"]
    assert text(browser, "#answers-count") == "1 answer"


def test_an_incident_of_which_no_alert_is_kept_has_no_buttons(show: Any) -> None:
    recorder = recorded(long=40)
    recorder.add_incident(Incident(99, "closed", 1, 1, None, None, 1, 9.0, 0.001, None), 1, "x.csv, line 2")
    browser = show(page(recorder))
    first = browser.find_element(By.CSS_SELECTOR, "#incidents tr.row")
    assert first.find_element(By.CSS_SELECTOR, "td[data-name='Answer']").text == "–"
    assert not first.find_elements(By.CSS_SELECTOR, ".answer")


@pytest.mark.parametrize("dark", [False, True])
def test_buttons_and_the_bar_fit_a_phone(show: Any, dark: bool) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)), width=390, dark=dark)
    press(browser, "incidents", 0, "real")
    assert browser.find_element(By.ID, "answers").is_displayed()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


# keeping


def test_answers_outlive_a_reload_and_belong_to_one_report(show: Any) -> None:
    html = page(recorded(long=40))
    browser = show(html)
    press(browser, "incidents", 4, "false")
    press(browser, "alerts", 0, "real")
    before = pressed(browser, "alerts")
    browser.refresh()
    assert "Incident 5: false alarm" in pressed(browser, "incidents")
    assert pressed(browser, "alerts") == before
    assert text(browser, "#answers-count") == "2 answers"
    assert pressed(show(page(recorded(long=41))), "alerts") == []
    assert pressed(show(html), "alerts") == before


@pytest.mark.parametrize("kept", ["{", "7", "[[1]]", '[[600, "yes"], [-1, true], ["<b>", true]]'])
def test_what_is_kept_and_makes_no_sense_is_left_alone(show: Any, kept: str) -> None:
    browser = show(page(recorded(long=40)))
    browser.execute_script("localStorage.setItem(keptUnder, arguments[0])", kept)
    browser.refresh()
    assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
    assert pressed(browser, "alerts") == []
    press(browser, "incidents", 0, "real")
    assert text(browser, "#answers-count") == "1 answer"


def test_a_browser_that_keeps_nothing_still_takes_answers(show: Any, download: Any, browser: Any) -> None:
    refuse = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused'); }, configurable: true })"
    )
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": refuse})
    try:
        show(page(recorded(long=40)))
        press(browser, "incidents", 0, "real")
        assert [row["row"] for row in parsed(download())] == ["150"]
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
        browser.refresh()


# the file


def test_the_file_has_rows_times_answers_and_values_in_order(show: Any, download: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    press(browser, "incidents", 3, "false")
    press(browser, "incidents", 0, "real")
    assert download().decode() == (
        "row,time,is_anomaly,heat,load\n150,2024-03-01T02:29:00Z,1,9,9\n600,2024-03-01T09:59:00Z,0,12,12\n"
    )
    assert browser.get_log("browser") == []


def test_without_a_clock_the_file_has_no_times(show: Any, download: Any) -> None:
    browser = show(page(recorded(long=40)))
    press(browser, "incidents", 0, "real")
    assert download().decode().splitlines()[0] == "row,is_anomaly,heat,load"


def test_hostile_names_are_columns_like_any_other(show: Any, download: Any) -> None:
    names = [*HOSTILE, "a,b", 'say "x"', "two\nlines\r", "a;b|c\td", " blank ", "=1+1", "row", "time ", "feature:x", ""]
    recorder = recorded(long=40)
    values = dict(zip(names, [i + 0.1 for i in range(len(names))], strict=True))
    recorder.add_alert(Alert(7, "x.csv", 99.0, 0.001, 2.0, None, {}, [], values=values))
    browser = show(page(recorder))
    press(browser, "alerts", 0, "real")
    (row,) = parsed(download())
    assert (row.pop("row"), row.pop("is_anomaly")) == ("7", "1")
    assert row == {column_of(name): str(value) for name, value in values.items()}
    assert browser.execute_script("return window.hacked") is None


def test_many_features_are_kept_up_to_a_bound_those_to_blame_first() -> None:
    columns = {f"f{i}": np.array([float(i) if i % 2 else np.nan]) for i in range(500)}
    values = _values(columns, 0, ["f499", "f498", "f301"])
    assert list(values)[-2:] == ["f301", "f499"]  # in the order of the columns, and what is missing is left out
    assert values["f499"] == 499.0
    assert len(values) == 2 + sum(i % 2 for i in range(N_VALUES - 3))
    recorder = recorded(every=3)
    for row in range(1, 1_001):
        named = {f"a rather long name of a feature {i}": float(row) for i in range(N_VALUES)}
        recorder.add_alert(Alert(row, "x.csv", 99.0, 0.001, 2.0, None, {}, [], values=named))
    assert len(page(recorder)) < 4e6


# there and back


@pytest.mark.parametrize("clock", ["iso", "microseconds", "elapsed", None])
def test_answers_of_a_report_are_taken_by_the_next_run(
    show: Any, download: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, clock: str | None
) -> None:
    names = ["heat", "a,b;c;d", 'say "x"\nor y', "row", "is_anomaly"]
    rng = np.random.default_rng(9)
    X = rng.normal(size=(1_500, len(names)))
    X[400::100] += 8
    seconds = MARCH + np.cumsum(rng.random(1_500) * 100).round(6)
    times = {
        "iso": np.char.add(np.datetime_as_string((seconds * 1e6).astype("M8[us]")), "Z").tolist(),
        "microseconds": (seconds * 1e6).astype(np.int64).tolist(),
        "elapsed": (seconds - MARCH).tolist(),
        None: [None] * 1_500,
    }[clock]
    events = [
        dict(zip(names, values, strict=True)) | ({} if clock is None else {"ts": at})
        for values, at in zip(X.tolist(), times, strict=True)
    ]
    data, report, model = (str(tmp_path / name) for name in ("events.jsonl", "r.html", "m.svead"))
    Path(data).write_text("".join(json.dumps(event) + "\n" for event in events))
    given = ["score", data, "-o", "/dev/null", *([] if clock is None else ["--time", "ts"])]
    assert _run([*given, "--report", report, "--save", model], debug=True) == 0

    browser = show(Path(report).read_text())
    press(browser, "incidents", 0, "real")
    press(browser, "incidents", 1, "false")
    press(browser, "alerts", 5, "false")
    answers = tmp_path / "answers.csv"
    answers.write_bytes(download())
    rows = [int(row["row"]) for row in parsed(answers.read_bytes())]
    assert len(rows) == 3

    told: list[tuple[int, dict[str, float], bool | None]] = []

    def feedback_one(self: ConformalFilter, x: dict[str, float], said: bool | None, _: bool) -> bool:
        told.append((self.n_seen_, x, said))
        return True

    monkeypatch.setattr(ConformalFilter, "feedback_one", feedback_one)
    monkeypatch.setattr("svead_stream.cli.run.Progress", partial(Progress, True))
    capsys.readouterr()
    for again in (["--load", model], []):  # by the values, and by the rows of the same file
        assert _run([*given, "--feedback", str(answers), *again], debug=True) == 0
        assert capsys.readouterr().err.splitlines()[-1] == "took 3 answers: 1 real, 2 false alarms"
    values = [dict(zip(names, X[row - 1].tolist(), strict=True)) for row in rows]
    assert [x for _, x, _ in told] == values * 2
    assert [seen for seen, _, _ in told] == [1_500] * 3 + rows
    if clock is not None:
        kept = parsed(answers.read_bytes())
        answers.write_text("time,is_anomaly\n" + "".join(f"{row['time']},{row['is_anomaly']}\n" for row in kept))
        assert _run([*given, "--feedback", str(answers)], debug=True) == 0
        assert [seen for seen, _, _ in told[6:]] == rows
