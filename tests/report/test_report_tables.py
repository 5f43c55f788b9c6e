"""The tables: filtered, searched, sorted, saved as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE, MARCH, page, recorded, text, texts
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from svead_stream.report import Alert

MINUTES = MARCH + 60.0 * np.arange(3_000)


@pytest.fixture
def rows_of(saved: Any) -> Callable[[str], list[dict[str, str]]]:
    """Press the button of a table, and read the file."""

    def of(table: str) -> list[dict[str, str]]:
        content = saved(f"#{table}-filters .save", f"{table}.csv").decode()
        return list(csv.DictReader(io.StringIO(content, newline="")))

    return of


def numbers(browser: Any, table: str) -> list[int]:
    return [int(one.replace(",", "")) for one in texts(browser, f"#{table} tr.row td:first-child")]


def choose(browser: Any, table: str, label: str, value: str) -> None:
    select = browser.find_element(By.CSS_SELECTOR, f"#{table}-filters select[aria-label='{label}']")
    Select(select).select_by_value(value)


def test_what_is_searched_chosen_and_sorted_is_what_is_saved(show: Any, rows_of: Any) -> None:
    browser = show(page(recorded(long=40, times=MINUTES)))
    assert numbers(browser, "incidents") == list(range(1, 21))
    choose(browser, "incidents", "Truth", "anomaly")
    assert numbers(browser, "incidents") == list(range(2, 21, 2))
    assert text(browser, "#incidents-filters .found") == "10 of 20"
    browser.find_element(By.CSS_SELECTOR, "#incidents th button").click()  # by number, the last first
    button = browser.find_element(By.CSS_SELECTOR, "#row-incident-4 .real")
    browser.execute_script("arguments[0].click()", button)
    rows = rows_of("incidents")
    assert [int(row["incident"]) for row in rows] == numbers(browser, "incidents")
    four = next(row for row in rows if row["incident"] == "4")
    assert four["answer"] == "real"
    assert (four["start"], four["end"]) == ("2024-03-01T09:59:00Z", "2024-03-01T10:38:00Z")
    assert four["top_features"] == "heat (60 %); load (30 %); speed (10 %)"
    choose(browser, "incidents", "Answer", "real")
    assert numbers(browser, "incidents") == [4]
    choose(browser, "incidents", "Answer", "none")
    assert 4 not in numbers(browser, "incidents")

    search = browser.find_element(By.CSS_SELECTOR, "#alerts-filters input")
    search.send_keys("NOTE 1")
    assert len(numbers(browser, "alerts")) == 11  # 1, and 10 to 19
    assert [int(row["row"]) for row in rows_of("alerts")] == numbers(browser, "alerts")
    search.send_keys("2")
    assert numbers(browser, "alerts") == [1_950]
    browser.execute_script("tables.alerts.reveal(600)")  # one that the filter hides
    assert text(browser, "#alerts tr.open td") == "600"
    assert search.get_attribute("value") == ""
    search.send_keys("nothing such")
    assert numbers(browser, "alerts") == []
    assert search.is_displayed()
    browser.execute_script("localStorage.clear()")


def test_features_are_chosen_by_name(show: Any) -> None:
    recorder = recorded()
    only = [{"name": "other", "value": 1.0, "share": 1.0, "usual": None}]
    recorder.add_alert(Alert(7, "x.csv, line 8", 99.0, 0.001, 2.0, None, {}, only))
    browser = show(page(recorder))
    choose(browser, "alerts", "Feature", "other")
    assert numbers(browser, "alerts") == [7]
    choose(browser, "alerts", "Feature", "heat")
    assert len(numbers(browser, "alerts")) == 20


def test_no_cell_of_a_file_is_a_formula(show: Any, rows_of: Any) -> None:
    recorder = recorded(times=MINUTES)
    context = {"=cmd": "=HYPERLINK(1)", "plus": "+1", "minus": "-1", "at": "@x", "tab": "\t=1", "quotes": '"a", "b"\n'}
    recorder.add_alert(Alert(7, HOSTILE[0], -1.5, 0.001, 0.0, None, context | {"h": HOSTILE[3]}, []))
    show(page(recorder))
    row = next(row for row in rows_of("alerts") if row["row"] == "7")
    assert row["'=cmd"] == "'=HYPERLINK(1)"
    assert [row[name] for name in ("plus", "minus", "at", "tab")] == ["'+1", "'-1", "'@x", "'\t=1"]
    assert row["quotes"] == context["quotes"]
    assert row["where"] == HOSTILE[0]
    assert row["h"] == HOSTILE[3]
    assert row["score"] == "-1.5"  # a number is no formula
