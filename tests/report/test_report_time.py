"""The axis that the charts share: round times or numbers of rows, and what a real clock does."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pages import MARCH, labels, page, recorded, seen, text, texts

from svead_stream.spans import lasting

DAY = 86_400.0


def test_from_milliseconds_to_decades_there_are_a_few_round_times(show: Any) -> None:
    browser = show(page(recorded(n=300, times=MARCH + 60.0 * np.arange(300))))
    script = "const [a, b, n] = arguments; return textsOfTicks(timeTicks(a, b, n).list, a, b, n)"
    for span, form, below in [
        (0.1, r"00:00\.\d\d\d", "00:00"),
        (3, r"00:0\d\.\d00", "00:00"),
        (300, r"00:0\d:\d\d", "Mar 1"),
        (18_000, r"0\d:[03]0", "Mar 1"),
        (DAY, r"\d\d:00", "Mar 1"),
        (8 * DAY, r"Mar \d", "2024"),
        (120 * DAY, r"(Mar|Apr|May|Jun) \d+", "2024"),
        (200 * DAY, r"[A-Z][a-z][a-z]", "2024"),
        (1_000 * DAY, r"(Jan|Apr|Jul|Oct)", "2024"),
        (3_000 * DAY, r"20\d\d", ""),
        (21_000 * DAY, r"20[2-8]0", ""),
    ]:
        found = browser.execute_script(script, MARCH, MARCH + span, 11)
        assert 3 <= len(found) <= 12, (span, found)
        assert all(re.fullmatch(form, label.split("\n")[0]) for label in found), found
        assert found[0].partition("\n")[2] == below
        said = [label.partition("\n")[2] for label in found if "\n" in label]
        assert len(set(said)) == len(said) or not below  # said only where it changes


def test_a_row_stands_where_its_time_is_and_a_gap_breaks_the_lines(show: Any) -> None:
    n = 2_000
    times = MARCH + 60.0 * np.arange(n)
    times[n // 2 :] += 20 * DAY
    browser = show(page(recorded(n=n, times=times)))
    assert seen(browser) == (times[0], times[-1])
    assert browser.execute_script("return [1, 1000, 1001, 2000].map(placeOf)") == times[[0, 999, 1_000, 1_999]].tolist()
    xs, mean = browser.execute_script("const { data } = charts[0].plot; return [data[0], data[3]]")
    (gap,) = [k for k, value in enumerate(mean) if value is None]
    assert times[999] < xs[gap] < times[1_000]
    assert all(text.split("\n")[0].startswith("Mar ") for text in labels(browser))
    assert "from 2024-03-01 00:00 to 2024-03-22 09:19 UTC" in text(browser, "#summary")


def test_of_wide_bins_a_gap_inside_one_is_seen_too(show: Any) -> None:
    n = 30_000
    times = MARCH + 60.0 * np.arange(n)
    times[10_003:] += 20 * DAY
    browser = show(page(recorded(n=n, times=times, every=3_000)))
    xs, mean = browser.execute_script("const { data } = charts[0].plot; return [data[0], data[3]]")
    (gap,) = [k for k, value in enumerate(mean) if value is None]
    assert times[10_002] < xs[gap] < times[10_003]
    assert xs[gap - 1] <= times[10_003]
    assert xs == sorted(xs)


def test_pauses_of_rows_that_come_at_random_are_no_gaps(show: Any) -> None:
    times = MARCH + np.cumsum(np.random.default_rng(2).exponential(10, 3_000))
    browser = show(page(recorded(times=times)))
    assert browser.execute_script("return pointsOf(1).bins.filter((bin) => bin < 0).length") <= 2


def test_times_that_go_back_leave_an_axis_of_rows_and_that_is_said(show: Any) -> None:
    times = MARCH + 60.0 * (np.arange(3_000) % 1_500)
    browser = show(page(recorded(times=times, long=20)))
    assert seen(browser) == (1, 3_000)
    assert "The times go back, so the axis has the numbers of rows." in text(browser, "#course-note")
    assert texts(browser, "#incidents tr.row td[data-name='Start']")[0] == "2024-03-01 02:29"


def test_rows_without_a_time_leave_the_others_theirs(show: Any) -> None:
    times = MARCH + 60.0 * np.arange(3_000)
    times[:200] = np.nan
    times[1_000:1_500] = np.nan
    browser = show(page(recorded(times=times, long=20)))
    assert seen(browser) == (times[200], times[-1])
    assert texts(browser, "#alerts tr.row td[data-name='Time']").count("–") == 5


def test_without_any_time_the_axis_has_the_numbers_of_rows(show: Any) -> None:
    for times in (None, np.full(3_000, np.nan)):
        browser = show(page(recorded(times=times)))
        assert labels(browser) == ["500", "1,000", "1,500", "2,000", "2,500", "3,000"]
        assert seen(browser) == (1, 3_000)
        assert "from" not in text(browser, "#summary")


def test_rows_of_one_moment_and_a_single_row_are_drawn_by_number(show: Any) -> None:
    browser = show(page(recorded(times=np.full(3_000, MARCH + 61.5))))
    assert seen(browser) == (1, 3_000)
    assert "All rows have the same time." in text(browser, "#course-note")
    browser = show(page(recorded(n=1, times=np.array([MARCH + 60]))))
    assert seen(browser) == (1, 2)
    assert "from 2024-03-01 00:01 to 2024-03-01 00:01" in text(browser, "#summary")


def test_seconds_from_no_known_moment_on_are_numbers(show: Any) -> None:
    browser = show(page(recorded(times=0.5 * np.arange(3_000), long=20)))
    assert labels(browser)[:3] == ["0\ns", "200", "400"]
    assert texts(browser, "#incidents tr.row td[data-name='Start']")[0] == "74.5 s"


def test_labels_do_not_overlap_on_a_phone_either(show: Any) -> None:
    n = 3_000
    for step in (1.0, DAY):
        browser = show(page(recorded(n=n, times=MARCH + step * np.arange(n))), width=390)
        places = browser.execute_script(
            "const u = charts[0].plot, list = ticksBetween(view.min, view.max, mostTicks(u));"
            "u.ctx.font = u.axes[0].font[0];"
            "return textsOfTicks(list, view.min, view.max, mostTicks(u)).map((text, k) =>"
            " [u.valToPos(list[k], 'x', true), u.ctx.measureText(text.split('\\n')[0]).width])"
        )
        assert len(places) >= 2
        for (left, one), (right, other) in pairwise(places):
            assert left + one / 2 < right - other / 2


def test_durations_read_as_they_do_elsewhere(show: Any) -> None:
    browser = show(page(recorded(n=10)))
    for time in (0.25, 45, 90, 120, 3_599, 3_600, 5_000, 12_345, DAY - 1, DAY, 1.5 * DAY, 100 * DAY + 4_000):
        assert browser.execute_script("return lasting(arguments[0])", time) == lasting(time)


@pytest.mark.parametrize(
    ("numbers", "written"),
    [
        ([0, 0.5, 1], ["0.0", "0.5", "1.0"]),
        ([101_325, 101_326], ["101,325", "101,326"]),
        ([0.25, 0.5, 0.75], ["0.25", "0.50", "0.75"]),
        ([90, 92.5, 95], ["90.0", "92.5", "95.0"]),
        ([-1e-5, 0, 1e-5], ["-1e-5", "0", "1e-5"]),
        ([0, 2e6, 4e6], ["0", "2e6", "4e6"]),
        ([1.234e-7, 1.235e-7], ["1.234e-7", "1.235e-7"]),
    ],
)
def test_numbers_beside_a_chart_differ(show: Any, numbers: list[float], written: list[str]) -> None:
    assert show(page(recorded(n=10))).execute_script("return tickTexts(arguments[0])", numbers) == written
