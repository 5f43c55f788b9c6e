"""Incidents and the burn-in on the page: in figures, in the timeline and in a table of their own."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE, MARCH, page, recorded, text, texts, wait
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from svead_stream.record import Incident
from svead_stream.report import Recorder
from svead_stream.report.record import N_INCIDENTS

MINUTES = MARCH + 60.0 * np.arange(3_000)


def drawn(browser: Any, caps: bool = False) -> list[list[float]]:
    """Where the charts have bands of incidents, or caps above them: from where to where on the axis."""
    return list(
        browser.execute_script(
            "const found = [], fill = fillStretch;"
            "fillStretch = (u, from, to, color, alpha) => (alpha === 1) === arguments[0] && found.push([from, to]);"
            "try { drawIncidents(charts[0].plot, charts[0]); } finally { fillStretch = fill; } return found",
            caps,
        )
    )


def column(browser: Any, table: str, name: str) -> list[str]:
    return texts(browser, f"#{table} tr.row td[data-name='{name}']")


def test_incidents_come_first_and_one_that_is_open_is_said_to_be(show: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    figures = texts(browser, ".figure")
    assert [figure.split("\n")[1] for figure in figures[:3]] == ["incidents, 1 still open", "alerts (0.7 %)", "rows"]
    assert figures[0].startswith("20\n")
    assert texts(browser, "h2")[1:3] == ["Incidents", "Alerts"]
    assert text(browser, "#summary").startswith(
        "20 incidents and 20 alerts in 3,000 rows from 2024-03-01 00:00 to 2024-03-03 01:59 UTC. The strongest was "
    )
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


def test_the_charts_have_a_band_for_each(show: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    bands = drawn(browser)
    assert len(bands) == 20
    assert bands[0] == [MINUTES[149], MINUTES[188]]
    assert browser.find_element(By.ID, "key-incidents").is_displayed()
    told = browser.find_element(By.CSS_SELECTOR, "#score-chart .plot")
    assert told.aria_role in {"img", "image"}
    assert "20 incidents and 20 alerts are marked" in told.get_attribute("aria-label")


def test_a_click_leads_from_an_incident_to_its_alert_and_back(show: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    browser.find_elements(By.CSS_SELECTOR, "#incidents tr.row")[3].click()
    detail = text(browser, "#incidents .detail")
    assert "x.csv, line 601 · rows 600 – 639 · smallest p-value 0.001" in detail
    assert browser.execute_script("return marked.incident") == 4
    close = texts(browser, "#incidents .close-up figcaption")
    assert [re.fullmatch(r"(\w+): .+ – .+, usually .+ – .+", one)[1] for one in close] == ["heat", "load", "speed"]  # type: ignore[index]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#incidents .close-up .during")) == 3
    browser.find_elements(By.CSS_SELECTOR, "#incidents .link")[1].click()
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
    left = browser.execute_script("return charts[0].plot.valToPos(840, 'x')")
    over = browser.find_element(By.CSS_SELECTOR, "#score-chart .u-over")
    ActionChains(browser).move_to_element_with_offset(over, left - over.size["width"] / 2, 0).click().perform()
    wait(browser, lambda: texts(browser, "#incidents tr.open td:first-child") == ["5"])
    assert browser.current_url.endswith("#incident-5")


def test_the_burn_in_is_shaded_and_said(show: Any) -> None:
    browser = show(page(recorded(burn_in=1_440, long=10)))
    assert "Learning: the first 1,440 rows, no alerts." in text(browser, "#course-note")
    assert browser.find_element(By.ID, "key-learning").is_displayed()
    # A pixel of the background, to the left and to the right of where learning ends.
    shades = browser.execute_script(
        "const u = charts[0].plot, y = u.bbox.top + u.bbox.height - 8;"
        "const [left, right] = [1300, 1600].map((row) => Math.round(u.valToPos(row, 'x', true)));"
        "const { data } = u.ctx.getImageData(left, y, right - left, 1);"
        "return [[...data.slice(0, 4)], [...data.slice(-4)]]"
    )
    assert shades[0] != shades[1]
    figures = texts(browser, ".figure")
    assert "3,000\nrows, 1,440 for learning" in figures
    assert "11\nalerts (0.7 % after learning)" in figures
    assert "11 of 11\nanomalies found after learning" in figures


def test_nothing_is_said_of_a_burn_in_or_of_incidents_that_were_not(show: Any) -> None:
    browser = show(page(recorded()))
    assert "earning" not in text(browser, "body")
    assert not browser.find_element(By.ID, "key-incidents").is_displayed()
    assert (
        text(browser, "#incidents-note") == "There were no incidents. None of the alerts was rare enough to open one."
    )
    assert "Incident" not in texts(browser, "#alerts th")


def test_a_run_that_is_shorter_than_the_burn_in_says_why_there_is_nothing(show: Any) -> None:
    browser = show(page(recorded(n=200, burn_in=200), measured=None))
    said = "All 200 rows went into learning, which gives no alerts."
    assert said in text(browser, "#course-note")
    assert text(browser, "#incidents-note") == f"There were no incidents. {said}"
    assert text(browser, "#alerts-note") == f"There were no alerts. {said}"
    assert texts(browser, ".figure")[:2] == ["0\nincidents", "0\nalerts"]
    assert not browser.find_element(By.ID, "key-alerts").is_displayed()


def test_an_incident_from_before_the_run_is_told_but_drawn_only_as_far_as_it_reaches(show: Any) -> None:
    recorder = recorded()
    for k, (row, events) in enumerate([(-50, 20), (-10, 110)], start=7):
        recorder.add_incident(
            Incident(k, "closed", 100, 99 + events, None, None, 2, 3.0, 0.001, None), row, "x.csv, line 2"
        )
    browser = show(page(recorder))
    assert column(browser, "incidents", "Start") == ["before this run", "before this run"]
    assert drawn(browser) == [[-10, 99]]  # the other one was over; what is left of the axis is cut off
    browser.find_element(By.CSS_SELECTOR, "#incidents tr.row").click()
    assert "began before this run" in text(browser, "#incidents .detail")


def test_of_very_many_incidents_the_strongest_are_shown_and_that_is_said(show: Any) -> None:
    recorder = Recorder()
    n = 30_000
    recorder.add_rows(np.ones(n), np.zeros(n, dtype=bool), np.full(n, 2.0), None, MARCH + 60.0 * np.arange(n))
    for k in range(1, 3_001):
        reasons = dict.fromkeys(map(str, range(50)), 0.02)
        time = MARCH + 600 * k - 60
        told = Incident(k, "closed", 10 * k, 10 * k, time, time, 1, float(k), 0.001, reasons)
        recorder.add_incident(told, 10 * k, f"x.csv, line {10 * k + 1}")
    html = page(recorder)
    assert len(html) < 2e6
    browser = show(html)
    assert texts(browser, ".figure")[0] == "3,000\nincidents"
    assert text(browser, "#incidents-note").startswith("The 1,000 strongest of 3,000.")
    assert "the 1,000 strongest are marked" in text(browser, "#course-note")
    assert len(drawn(browser, caps=True)) == N_INCIDENTS
    assert not drawn(browser)  # bands as thin as they can be, one beside the other, would hide all else
    browser.execute_script("setView(...placeOfIncident(data.incidents.kept[500]).map((t, k) => t + 60000 * (k - 0.5)))")
    assert len(drawn(browser)) == 101
    browser.execute_script("showIncident(data.incidents.kept[500])")  # of one row, where points stand for eight
    assert 50 <= browser.execute_script("return (view.max - view.min) / 60 / data.timeline.width") <= 100
    assert len(browser.find_elements(By.CSS_SELECTOR, "#incidents tr.row")) == 25
    browser.find_element(By.ID, "incidents-more").click()
    assert len(browser.find_elements(By.CSS_SELECTOR, "#incidents tr.row")) == 225


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
