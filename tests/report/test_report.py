"""The report in a real browser: it renders, sorts, reacts to a click, and runs nothing that came with the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver.common.by import By

from svead_stream.report import Alert, Recorder, render
from svead_stream.report.record import N_ALERTS, N_BINS, Timeline

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "{{script}}",
    "'\"><svg onload=alert(1)>",
    "{{data}}",
    "\u2028 \U0001f4a5 \x00 ]]> <!--",
]


def recorded(n: int = 3_000, names: list[str] | None = None, every: int = 150) -> Recorder:
    names = names or ["heat", "load", "speed"]
    rng = np.random.default_rng(1)
    recorder = Recorder()
    scores = rng.gamma(9, 0.1, n)
    alerts = np.arange(n) % every == every - 1
    scores[alerts] += 2.5
    for start in range(0, n, 500):
        part = slice(start, start + 500)
        recorder.add_rows(scores[part], alerts[part], np.full(len(scores[part]), 2.0), alerts[part].astype(float))
    for k, row in enumerate(np.flatnonzero(alerts).tolist()):
        shares = dict(zip(names, [0.6, 0.3, 0.1], strict=False))
        recorder.add_shares(shares)
        features = [{"name": n, "value": 9.0 + k, "share": s, "usual": [1.0, 2.0, 3.0]} for n, s in shares.items()]
        features[-1] |= {"value": None, "usual": None}
        context = {"machine": names[k % len(names)], "time": f"day {k}"}
        recorder.add_alert(Alert(row + 1, f"x.csv, line {row + 2}", scores[row], 0.001, 2.0, k % 2, context, features))
    return recorder


def page(recorder: Recorder, **change: Any) -> str:
    data = recorder.to_json() | {
        "title": "machine.csv",
        "seconds": 1.5,
        "written": "2026-03-01 12:00",
        "measured": {"roc_auc": 0.97, "average_precision": 0.4},
        "settings": {"alert_rate": 0.01, "half_life": None},
    }
    return render(data | change)


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Any:
    def open_page(html: str, width: int = 1100, dark: bool = False) -> Any:
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(path.as_uri())
        assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
        assert browser.get_log("browser") == []
        return browser

    return open_page


def texts(browser: Any, selector: str) -> list[str]:
    return [element.text for element in browser.find_elements(By.CSS_SELECTOR, selector)]


def test_it_shows_what_was_counted(show: Any) -> None:
    browser = show(page(recorded()))
    assert browser.title == "machine.csv – svead-stream"
    figures = texts(browser, ".figure")
    assert "3,000\nrows" in figures
    assert any(text.startswith("20\nalerts") for text in figures)
    assert "10 of 20" not in figures  # the truth of the rows counts, not that of the table
    assert any("20 of 20" in text for text in figures)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#timeline circle")) == 20
    assert browser.find_elements(By.CSS_SELECTOR, "#timeline path.threshold")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#distribution .bar-rows")) > 10
    assert texts(browser, ".share .name") == ["heat", "load", "speed"]
    assert texts(browser, ".share .number") == ["60 %", "30 %", "10 %"]
    assert "half life\nnone" in texts(browser, "#settings div")


def test_the_table_sorts_by_any_column_both_ways(show: Any) -> None:
    browser = show(page(recorded()))

    def rows() -> list[int]:
        return [int(text.replace(",", "")) for text in texts(browser, "#table tr.row td:first-child")]

    scores = {a["row"]: a["strength"] for a in recorded().to_json()["table"]}
    assert rows() == sorted(scores, key=lambda row: -scores[row])
    button = browser.find_element(By.CSS_SELECTOR, "#table th button")
    button.click()
    assert rows() == sorted(scores, reverse=True)
    button.click()
    assert rows() == sorted(scores)
    assert browser.find_element(By.CSS_SELECTOR, "th").get_attribute("aria-sort") == "ascending"


def test_a_click_on_an_alert_shows_its_values_beside_the_usual_range(show: Any) -> None:
    browser = show(page(recorded()))
    browser.find_element(By.CSS_SELECTOR, "#table tr.row").click()
    detail = browser.find_element(By.CSS_SELECTOR, "#table tr.detail")
    assert "x.csv, line" in detail.text
    assert "usually 1 – 3; share 60 %" in detail.text
    assert "missing" in detail.text
    assert len(detail.find_elements(By.CSS_SELECTOR, ".dot.outside")) == 2
    assert len(browser.find_elements(By.CSS_SELECTOR, "circle.here")) == 1
    browser.find_element(By.CSS_SELECTOR, "#table tr.row").click()
    assert not browser.find_elements(By.CSS_SELECTOR, "#table tr.detail")


def test_a_click_on_a_mark_of_the_timeline_opens_its_alert(show: Any) -> None:
    browser = show(page(recorded()))
    mark = browser.find_elements(By.CSS_SELECTOR, "#timeline circle")[4]
    mark.click()
    opened = browser.find_element(By.CSS_SELECTOR, "#table tr.open td")
    assert opened.text == "750"


def test_a_hostile_name_or_value_is_text_and_nothing_else(show: Any) -> None:
    browser = show(page(recorded(names=HOSTILE[:3]), title=HOSTILE[0], settings=dict.fromkeys(HOSTILE, HOSTILE[1])))
    for row in browser.find_elements(By.CSS_SELECTOR, "#table tr.row")[:3]:
        row.click()
    assert browser.execute_script("return window.hacked") is None
    assert texts(browser, ".share .name") == HOSTILE[:3]
    assert browser.find_element(By.ID, "title").text == HOSTILE[0]
    assert not browser.find_elements(By.TAG_NAME, "img")
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 2
    assert browser.get_log("browser") == []


def test_the_policy_of_the_page_stops_scripts_that_get_in_all_the_same(show: Any, tmp_path: Path) -> None:
    browser = show(page(recorded()))
    browser.execute_script(
        "document.body.insertAdjacentHTML('beforeend', '<img src=nowhere onerror=\"window.hacked = 1\">');"
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);"
    )
    assert browser.execute_script("return window.hacked") is None
    assert all("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_nothing_is_wider_than_the_screen(show: Any, dark: bool) -> None:
    browser = show(page(recorded(names=["a_rather_long_name_of_a_feature_" * 3, "b", "c"])), width=390, dark=dark)
    browser.find_element(By.CSS_SELECTOR, "#table tr.row").click()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_dark_mode_is_dark_and_readable(show: Any) -> None:
    script = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"

    def brightness(color: str) -> float:
        return sum(int(part) for part in color.split("(")[1].rstrip(")").split(",")[:3]) / 765

    background, text = map(brightness, show(page(recorded()), dark=True).execute_script(script))
    assert background < 0.2
    assert text > 0.8
    background, text = map(brightness, show(page(recorded())).execute_script(script))
    assert background > 0.8
    assert text < 0.2


def test_it_renders_without_any_row_or_alert(show: Any) -> None:
    browser = show(page(Recorder(), measured=None))
    assert "0\nrows" in texts(browser, ".figure")
    assert "There were none." in browser.find_element(By.ID, "table-note").text


def test_a_million_rows_are_thinned_for_drawing_but_not_for_counting() -> None:
    timeline = Timeline()
    rng = np.random.default_rng(2)
    scores = rng.random(1_000_000)
    alerts = rng.random(1_000_000) < 0.01
    for part in np.array_split(np.arange(1_000_000), 37):
        timeline.add(scores[part], alerts[part], np.full(len(part), 0.9))
    drawn = timeline.to_json()
    assert N_BINS / 2 <= len(drawn["high"]) <= 2 * N_BINS
    assert sum(drawn["alerts"]) == alerts.sum()
    width = drawn["width"]
    by_hand = [scores[i : i + width].max() for i in range(0, len(scores), width)]
    assert drawn["high"] == pytest.approx(by_hand, rel=1e-4)
    assert drawn["low"] == pytest.approx([scores[i : i + width].min() for i in range(0, len(scores), width)], rel=1e-4)


def test_only_the_strongest_alerts_are_kept_and_all_are_counted() -> None:
    recorder = recorded(n=6_000, every=2)
    data = recorder.to_json()
    assert data["alerts"] == 3_000
    assert len(data["table"]) == N_ALERTS
    assert sum(one["first"] for one in data["shares"]) == 3_000
    weakest = min(alert["score"] for alert in data["table"])
    assert sum(data["timeline"]["alerts"]) == 3_000
    assert len(render(data | {"title": "", "seconds": 1.0, "written": "", "measured": None, "settings": {}})) < 2e6
    assert weakest > 3.0


def test_every_score_but_the_zeros_of_a_cold_start_is_in_the_distribution() -> None:
    recorder = Recorder()
    scores = np.concatenate([np.zeros(50), np.random.default_rng(3).lognormal(0, 2, 5_000)])
    recorder.add_rows(scores, np.zeros(len(scores), dtype=bool), np.full(len(scores), np.inf))
    assert sum(recorder.to_json()["distribution"]["rows"]) == 5_000
