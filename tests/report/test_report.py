"""The report in a real browser: it renders, sorts, reacts to a click, and runs nothing that came with the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages import HOSTILE, page, recorded, text, texts
from selenium.webdriver.common.by import By

from svead_stream.report import Recorder


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
        return [int(text.replace(",", "")) for text in texts(browser, "#alerts tr.row td:first-child")]

    scores = {a["row"]: a["strength"] for a in recorded().to_json()["table"]}
    assert rows() == sorted(scores, key=lambda row: -scores[row])
    button = browser.find_element(By.CSS_SELECTOR, "#alerts th button")
    button.click()
    assert rows() == sorted(scores, reverse=True)
    button.click()
    assert rows() == sorted(scores)
    assert browser.find_element(By.CSS_SELECTOR, "#alerts th").get_attribute("aria-sort") == "ascending"


def test_a_click_on_an_alert_shows_its_values_beside_the_usual_range(show: Any) -> None:
    browser = show(page(recorded()))
    browser.find_element(By.CSS_SELECTOR, "#alerts tr.row").click()
    detail = browser.find_element(By.CSS_SELECTOR, "#alerts tr.detail")
    assert "x.csv, line" in detail.text
    assert "usually 1 – 3; share 60 %" in detail.text
    assert "missing" in detail.text
    assert len(detail.find_elements(By.CSS_SELECTOR, ".dot.outside")) == 2
    assert len(browser.find_elements(By.CSS_SELECTOR, "circle.here")) == 1
    browser.find_element(By.CSS_SELECTOR, "#alerts tr.row").click()
    assert not browser.find_elements(By.CSS_SELECTOR, "#alerts tr.detail")


def test_a_click_on_a_mark_of_the_timeline_opens_its_alert(show: Any) -> None:
    browser = show(page(recorded()))
    mark = browser.find_elements(By.CSS_SELECTOR, "#timeline circle")[4]
    mark.click()
    opened = browser.find_element(By.CSS_SELECTOR, "#alerts tr.open td")
    assert opened.text == "750"


def test_a_hostile_name_or_value_is_text_and_nothing_else(show: Any) -> None:
    browser = show(page(recorded(names=HOSTILE[:3]), title=HOSTILE[0], settings=dict.fromkeys(HOSTILE, HOSTILE[1])))
    for row in browser.find_elements(By.CSS_SELECTOR, "#alerts tr.row")[:3]:
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
    browser.find_element(By.CSS_SELECTOR, "#alerts tr.row").click()
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
    assert "0\nincidents" in texts(browser, ".figure")
    assert text(browser, "#timeline-note") == "There were no rows."
    assert text(browser, "#incidents-note") == text(browser, "#alerts-note") == "There were none."
    assert not any(
        head.is_displayed() for head in browser.find_elements(By.TAG_NAME, "th")
    )  # a table of nothing needs no head
