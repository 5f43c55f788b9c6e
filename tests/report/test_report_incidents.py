"""Incidents and the burn-in on the page: in figures, in the timeline and in a table of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pages import HOSTILE, MARCH, page, recorded, text, texts
from selenium.webdriver.common.by import By

from svead_stream.record import Incident
from svead_stream.report import Recorder
from svead_stream.report.record import N_INCIDENTS

MINUTES = MARCH + 60.0 * np.arange(3_000)


def titles(browser: Any, kind: str) -> list[str]:
    found = browser.find_elements(By.CSS_SELECTOR, f"#timeline .{kind} title")
    return [title.get_attribute("textContent") for title in found]


def shape(browser: Any, selector: str) -> dict[str, float]:
    element = browser.find_element(By.CSS_SELECTOR, selector)
    return {name: float(element.get_attribute(name)) for name in ("x", "width")}


def column(browser: Any, table: str, name: str) -> list[str]:
    return texts(browser, f"#{table} tr.row td[data-name='{name}']")


def test_incidents_come_first_and_one_that_is_open_is_said_to_be(show: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    figures = texts(browser, ".figure")
    assert [figure.split("\n")[1] for figure in figures[:3]] == ["incidents, 1 still open", "alerts (0.7 %)", "rows"]
    assert figures[0].startswith("20\n")
    assert texts(browser, "h2")[3:5] == ["Incidents", "Alerts"]
    assert "1 still open at the end. 10 of 20 with a labelled anomaly." in text(browser, "#incidents-note")


def test_the_table_tells_when_how_long_how_strong_and_what_of(show: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    assert column(browser, "incidents", "Incident") == [str(k) for k in range(1, 21)]  # by their start
    assert column(browser, "incidents", "Start")[:2] == ["2024-03-01 02:29", "2024-03-01 04:59"]
    assert column(browser, "incidents", "End")[0] == "03:08"  # of the same day
    assert column(browser, "incidents", "End")[-1] == "open"
    assert column(browser, "incidents", "Duration")[0] == "39 min"
    assert column(browser, "incidents", "Alerts")[0] == "1"
    assert column(browser, "incidents", "Truth")[:2] == ["normal", "anomaly"]
    assert column(browser, "incidents", "Due to")[0].replace("\n", " ") == "heat 60 % load 30 % speed 10 %"


def test_without_a_clock_incidents_are_told_in_rows(show: Any) -> None:
    browser = show(page(recorded(long=40)))
    assert column(browser, "incidents", "Start")[0] == "row 150"
    assert column(browser, "incidents", "End")[0] == "row 189"
    assert column(browser, "incidents", "Rows")[0] == "40"
    assert column(browser, "incidents", "Rows")[-1] == "1 so far"
    assert not column(browser, "alerts", "Time")


def test_the_timeline_has_a_band_with_a_title_for_each(show: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    assert len(titles(browser, "incident")) == 20
    assert titles(browser, "incident")[0].startswith(
        "Incident 1: from 2024-03-01 02:29 to 2024-03-01 03:08, 1 alert, peak "
    )
    assert "still open" in titles(browser, "incident")[-1]
    band = shape(browser, "#timeline .incident rect")
    assert band["x"] == pytest.approx(42 + 950 * 149 / 3_000)
    assert band["width"] == pytest.approx(950 * 40 / 3_000)
    assert browser.find_element(By.ID, "key-incidents").is_displayed()
    names = [part.aria_role for part in browser.find_elements(By.CSS_SELECTOR, "#timeline .incident")]
    assert set(names) <= {"img", "image"}


def test_a_click_leads_from_an_incident_to_its_alert_and_back(show: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    browser.find_elements(By.CSS_SELECTOR, "#incidents tr.row")[3].click()
    detail = text(browser, "#incidents .detail")
    assert "x.csv, line 601 · rows 600 – 639 · smallest p-value 0.001" in detail
    assert len(browser.find_elements(By.CSS_SELECTOR, "#timeline .incident.here")) == 1
    browser.find_element(By.CSS_SELECTOR, "#incidents .link").click()
    opened = browser.find_element(By.CSS_SELECTOR, "#alerts tr.open")
    assert opened.text.startswith("600")
    assert opened.find_element(By.CSS_SELECTOR, "td[data-name='Incident']").text == "4"
    assert opened.find_element(By.CSS_SELECTOR, "td[data-name='Time']").text == "2024-03-01 09:59"
    back = browser.find_element(By.CSS_SELECTOR, "#alerts .link")
    assert back.text == "Show incident 4"
    back.click()
    assert text(browser, "#incidents tr.open td") == "4"


def test_a_click_on_a_band_opens_its_incident(show: Any) -> None:
    browser = show(page(recorded(long=140)))
    script = """
        const svg = document.querySelector("#timeline svg"), box = svg.getBoundingClientRect();
        const x = box.left + box.width * (42 + 950 * 840 / 3000) / 1000;
        svg.dispatchEvent(new MouseEvent("click", { clientX: x, clientY: box.top + 50, bubbles: true }));
    """
    browser.execute_script(script)
    assert text(browser, "#incidents tr.open td") == "5"


def test_the_burn_in_is_shaded_and_said(show: Any) -> None:
    browser = show(page(recorded(burn_in=1_440, long=10)))
    assert "Learning: the first 1,440 rows, no alerts." in text(browser, "#timeline-note")
    assert titles(browser, "learning") == ["learning: the first 1,440 rows, no alerts"]
    shade = shape(browser, "#timeline .learning rect")
    assert shade["x"] == 42
    assert shade["width"] == pytest.approx(950 * 1_440 / 3_000)
    figures = texts(browser, ".figure")
    assert "3,000\nrows, 1,440 for learning" in figures
    assert "11\nalerts (0.7 % after learning)" in figures
    assert "11 of 11\nanomalies found after learning" in figures


def test_nothing_is_said_of_a_burn_in_or_of_incidents_that_were_not(show: Any) -> None:
    browser = show(page(recorded()))
    assert "earning" not in text(browser, "body")
    assert not browser.find_element(By.ID, "key-incidents").is_displayed()
    assert text(browser, "#incidents-note") == "There were none. None of the alerts was rare enough to open one."
    assert "Incident" not in texts(browser, "#alerts th")


def test_a_run_that_is_shorter_than_the_burn_in_says_why_there_is_nothing(show: Any) -> None:
    browser = show(page(recorded(n=200, burn_in=200), measured=None))
    said = "All 200 rows went into learning, which gives no alerts."
    assert said in text(browser, "#timeline-note")
    assert text(browser, "#incidents-note") == text(browser, "#alerts-note") == f"There were none. {said}"
    assert texts(browser, ".figure")[:2] == ["0\nincidents", "0\nalerts"]


def test_an_incident_from_before_the_run_is_told_but_drawn_only_as_far_as_it_reaches(show: Any) -> None:
    recorder = recorded()
    for k, (row, events) in enumerate([(-50, 20), (-10, 110)], start=7):
        recorder.add_incident(
            Incident(k, "closed", 100, 99 + events, None, None, 2, 3.0, 0.001, None), row, "x.csv, line 2"
        )
    browser = show(page(recorder))
    assert column(browser, "incidents", "Start") == ["before this run", "before this run"]
    band = shape(browser, "#timeline .incident rect")
    assert len(titles(browser, "incident")) == 1  # the other one was over
    assert band == pytest.approx({"x": 42, "width": 950 * 99 / 3_000})
    browser.find_element(By.CSS_SELECTOR, "#incidents tr.row").click()
    assert "began before this run" in text(browser, "#incidents .detail")


def test_of_very_many_incidents_the_strongest_are_shown_and_that_is_said(show: Any) -> None:
    recorder = Recorder()
    n = 30_000
    recorder.add_rows(np.ones(n), np.zeros(n, dtype=bool), np.full(n, 2.0), None, MARCH + 60.0 * np.arange(n))
    for k in range(1, 3_001):
        reasons = dict.fromkeys(map(str, range(50)), 0.02)
        told = Incident(k, "closed", 10 * k, 10 * k, MARCH + 600 * k, MARCH + 600 * k, 1, float(k), 0.001, reasons)
        recorder.add_incident(told, 10 * k, f"x.csv, line {10 * k + 1}")
    html = page(recorder)
    assert len(html) < 2e6
    browser = show(html)
    assert texts(browser, ".figure")[0] == "3,000\nincidents"
    assert text(browser, "#incidents-note").startswith("The 1,000 strongest of 3,000.")
    assert "the 1,000 strongest are marked" in text(browser, "#timeline-note")
    assert len(titles(browser, "incident")) == N_INCIDENTS
    assert len(column(browser, "incidents", "Start")) == 100
    browser.find_element(By.ID, "incidents-more").click()
    assert len(column(browser, "incidents", "Start")) == 600


def test_hostile_names_in_incidents_are_text_and_nothing_else(show: Any) -> None:
    recorder = recorded(names=HOSTILE[:3], long=40, times=MINUTES)
    told = Incident(99, "open", 9, 9, None, None, 1, 9.0, 0.0001, dict.fromkeys(HOSTILE, 0.1))
    recorder.add_incident(told, 1, HOSTILE[1])
    browser = show(page(recorder, title=HOSTILE[3]))
    browser.find_element(By.CSS_SELECTOR, "#incidents tr.row").click()
    assert browser.execute_script("return window.hacked") is None
    assert HOSTILE[1] in text(browser, "#incidents .detail .facts")
    assert texts(browser, "#incidents .detail .name")[:5] == HOSTILE[:5]
    assert not browser.find_elements(By.TAG_NAME, "img")
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 2
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("dark", [False, True])
def test_incidents_fit_a_phone(show: Any, dark: bool) -> None:
    names = ["a_rather_long_name_of_a_feature_" * 3, "b", "c"]
    browser = show(page(recorded(names=names, long=40, times=MINUTES, burn_in=300)), width=390, dark=dark)
    browser.find_element(By.CSS_SELECTOR, "#incidents tr.row").click()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
