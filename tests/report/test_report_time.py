"""The axis of the timeline in time: round times where the rows are that passed them, and what a real clock does."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pages import MARCH, page, recorded, text, texts
from selenium.webdriver.common.by import By

from svead_stream.spans import lasting

LEFT, WIDE = 42, 950  # of the plot, in its own units
DAY = 86_400.0


def places(browser: Any, n: int) -> list[float]:
    """The rows below which there is a tick."""
    found = browser.find_elements(By.CSS_SELECTOR, "#timeline .tick")
    return [(float(tick.get_attribute("x")) - LEFT) / WIDE * n for tick in found]


def seconds(label: str) -> float:
    """The moment of a label with a date."""
    whole = label + "2024-01-01"[len(label) : 10]
    return datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("step", "n", "form"),
    [
        (0.01, 300, r"00:00:0\d\.\d00"),
        (1.0, 300, r"00:0\d:\d\d"),
        (60.0, 300, r"0\d:[03]0"),
        (60.0, 1_440, r"\d\d:00"),
        (3_600.0, 200, r"2024-03-\d\d"),
        (600.0, 4_320, r"2024-03-\d\d"),
        (DAY, 120, r"2024-\d\d-\d\d"),
        (DAY, 200, r"2024-\d\d"),
        (DAY, 1_000, r"20\d\d-(01|07)"),
        (DAY, 3_000, r"20\d\d"),
        (7 * DAY, 3_000, r"20\d0"),
    ],
)
def test_from_seconds_to_decades_there_are_a_few_round_times(show: Any, step: float, n: int, form: str) -> None:
    browser = show(page(recorded(n=n, times=MARCH + step * np.arange(n))))
    labels = texts(browser, "#timeline .tick")
    assert 3 <= len(labels) <= 11
    assert all(re.fullmatch(form, label) for label in labels), labels
    assert text(browser, "#timeline .unit") == "UTC"
    assert texts(browser, "#timeline .day")[:1] == (["2024-03-01"] if ":" in labels[0] else [])


def test_a_tick_stands_where_the_row_of_its_time_is(show: Any) -> None:
    n, step = 5_000, 1_000.0
    browser = show(page(recorded(n=n, times=MARCH + step * np.arange(n))))
    labels = texts(browser, "#timeline .tick")
    rows = [(seconds(label) - MARCH) / step + 0.5 for label in labels]
    assert places(browser, n) == pytest.approx(rows, abs=0.5)


def test_a_gap_takes_no_room_and_is_seen_from_the_dates(show: Any) -> None:
    n = 2_000
    times = MARCH + 60.0 * np.arange(n)
    times[n // 2 :] += 20 * 365 * DAY
    browser = show(page(recorded(n=n, times=times)))
    assert 3 <= len(texts(browser, "#timeline .tick")) <= 10
    days = texts(browser, "#timeline .day")
    assert days[0] == "2024-03-01"
    assert days[-1] == "2044-02-26"
    assert "from 2024-03-01 00:00 to 2044-02-26" in text(browser, "#subtitle")


def test_a_burst_of_rows_has_ticks_of_its_own(show: Any) -> None:
    slow, fast = MARCH + DAY * np.arange(1_000), MARCH + DAY * 1_000 + np.arange(2_000)
    browser = show(page(recorded(n=3_000, times=np.concatenate([slow, fast]))))
    assert 2 <= len(texts(browser, "#timeline .tick")) <= 10


def test_rows_without_a_time_leave_the_others_theirs(show: Any) -> None:
    n = 3_000
    times = MARCH + 60.0 * np.arange(n)
    times[:200] = np.nan
    times[1_000:1_500] = np.nan
    browser = show(page(recorded(n=n, times=times, long=20)))
    rows = places(browser, n)
    assert 3 <= len(rows) <= 10
    assert min(rows) > 200
    assert texts(browser, "#alerts tr.row td[data-name='Time']").count("–") == 5


def test_without_any_time_the_axis_has_the_numbers_of_rows(show: Any) -> None:
    for times in (None, np.full(3_000, np.nan)):
        browser = show(page(recorded(times=times)))
        assert texts(browser, "#timeline .tick") == ["0", "500", "1,000", "1,500", "2,000", "2,500", "3,000"]
        assert not texts(browser, "#timeline .unit")
        assert "from" not in text(browser, "#subtitle")


def test_rows_of_one_moment_have_one_label(show: Any) -> None:
    browser = show(page(recorded(times=np.full(3_000, MARCH + 61.5))))
    assert texts(browser, "#timeline .tick") == ["2024-03-01 00:01:01.500"]


def test_a_single_row_has_its_time(show: Any) -> None:
    browser = show(page(recorded(n=1, times=np.array([MARCH + 60]))))
    assert texts(browser, "#timeline .tick") == ["2024-03-01 00:01"]


def test_seconds_from_no_known_moment_on_are_numbers(show: Any) -> None:
    browser = show(page(recorded(times=0.5 * np.arange(3_000), long=20)))
    assert texts(browser, "#timeline .tick")[:3] == ["0", "200", "400"]
    assert text(browser, "#timeline .unit") == "s"
    assert texts(browser, "#incidents tr.row td[data-name='Start']")[0] == "74.5 s"


def test_labels_do_not_overlap_on_a_phone_either(show: Any) -> None:
    n = 3_000
    for step in (1.0, 60.0, 3_600.0, DAY):
        browser = show(page(recorded(n=n, times=MARCH + step * np.arange(n))), width=390)
        boxes = [tick.rect for tick in browser.find_elements(By.CSS_SELECTOR, "#timeline .tick, #timeline .unit")]
        boxes.sort(key=lambda box: box["x"])
        assert len(boxes) >= 3
        for before, after in pairwise(boxes):
            assert before["x"] + before["width"] < after["x"]


def test_durations_read_as_they_do_elsewhere(show: Any) -> None:
    browser = show(page(recorded(n=10)))
    for time in (0.25, 45, 90, 120, 3_599, 3_600, 5_000, 12_345, DAY - 1, DAY, 1.5 * DAY, 100 * DAY + 4_000):
        assert browser.execute_script("return lasting(arguments[0])", time) == lasting(time)
