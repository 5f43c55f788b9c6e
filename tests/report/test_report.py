"""The report in a real browser: it renders, sorts, reacts to a click, and runs nothing that came with the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages import HOSTILE, page, recorded, text, texts, wait
from selenium.webdriver.common.action_chains import ActionChains
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
    assert text(browser, "#summary") == (
        "0 incidents and 20 alerts in 3,000 rows."  # there is no clock, and no incident was told of
    )
    assert texts(browser, ".chart h3") == ["Score", "heat", "load", "speed"]
    told = browser.find_element(By.CSS_SELECTOR, "#score-chart .plot").get_attribute("aria-label")
    assert told.startswith("Scores of 3,000 rows. The highest is ")
    assert "20 alerts are marked" in told
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
    row = browser.find_element(By.CSS_SELECTOR, "#alerts tr.open a").get_attribute("href").partition("#alert-")[2]
    assert browser.execute_script("return marked.alert") == int(row)
    browser.find_element(By.CSS_SELECTOR, "#alerts tr.row").click()
    assert not browser.find_elements(By.CSS_SELECTOR, "#alerts tr.detail")


def test_text_of_a_row_can_be_selected_without_opening_it(show: Any) -> None:
    browser = show(page(recorded()))
    select = (
        "const cell = document.querySelector('#alerts tr.row td:nth-child(2)'); getSelection().selectAllChildren(cell);"
    )
    click = "cell.dispatchEvent(new MouseEvent('click', { bubbles: true, detail: 1 }));"
    browser.execute_script(select + click)
    assert not browser.find_elements(By.CSS_SELECTOR, "tr.detail")
    browser.find_element(By.CSS_SELECTOR, "#alerts tr.row").click()
    assert browser.find_elements(By.CSS_SELECTOR, "tr.detail")


def test_a_click_on_a_mark_of_a_chart_opens_its_alert(show: Any) -> None:
    browser = show(page(recorded()))
    for chart in (0, 1):
        left = browser.execute_script(f"return charts[{chart}].plot.valToPos(placeOf(750), 'x')")
        over = browser.find_elements(By.CSS_SELECTOR, ".u-over")[chart + 1]  # the first is that of the strip
        actions = ActionChains(browser).move_to_element_with_offset(over, left - over.size["width"] / 2, 0)
        actions.click_and_hold().move_by_offset(1, 1).release().perform()  # no hand is steady
        wait(browser, lambda: texts(browser, "#alerts tr.open td:first-child") == ["750"])
        browser.execute_script("tables.alerts.reveal(300); window.scrollTo(0, 0)")


def test_a_hostile_name_or_value_is_text_and_nothing_else(show: Any) -> None:
    browser = show(page(recorded(names=HOSTILE[:3]), title=HOSTILE[0], settings=dict.fromkeys(HOSTILE, HOSTILE[1])))
    for place in range(3):
        browser.find_elements(By.CSS_SELECTOR, "#alerts tr.row")[place].click()
    assert browser.execute_script("return window.hacked") is None
    assert texts(browser, ".share .name") == HOSTILE[:3]
    assert texts(browser, ".chart h3") == ["Score", *HOSTILE[:3]]
    assert set(texts(browser, "#drift tbody th")) == set(HOSTILE[:3])
    assert HOSTILE[0] in texts(browser, "#alerts-filters option")
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


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_have_enough_contrast(show: Any, dark: bool) -> None:
    browser = show(page(recorded()), dark=dark)
    script = "return Object.fromEntries(arguments[0].map((n) => [n, style.getPropertyValue('--' + n).trim()]))"
    names = ["page", "card", "text", "dim", "blue", "alert", "threshold", "alert-soft", "usual"]
    colors = browser.execute_script("const style = getComputedStyle(document.documentElement);" + script, names)
    assert (luminance(colors["page"]) < 0.1) == dark
    for written in ("text", "dim", "blue", "alert", "threshold"):
        for below in ("page", "card"):
            assert contrast(colors[written], colors[below]) >= 4.5, (written, below)
    for written in ("text", "dim", "blue"):  # a row that is opened
        assert contrast(colors[written], colors["alert-soft"]) >= 4.5, written
    assert contrast(colors["blue"], colors["usual"]) >= 3  # a line on what is usual


def test_it_renders_without_any_row_or_alert(show: Any) -> None:
    browser = show(page(Recorder(), measured=None))
    assert "0\nrows" in texts(browser, ".figure")
    assert "0\nincidents" in texts(browser, ".figure")
    assert text(browser, "#summary") == text(browser, "#course-note") == "There were no rows."
    assert not browser.find_element(By.ID, "charts").is_displayed()
    assert not browser.find_element(By.ID, "charts-legend").is_displayed()
    assert text(browser, "#incidents-note") == "There were no incidents."
    assert text(browser, "#alerts-note") == text(browser, "#shares-note") == "There were no alerts."
    assert not any(
        head.is_displayed() for head in browser.find_elements(By.TAG_NAME, "th")
    )  # a table of nothing needs no head
