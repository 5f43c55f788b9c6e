"""Durations, rates and times as people and tables give them, and a clock that takes whatever comes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svead_stream.clock import Clock, seconds_of, seconds_of_many, shown
from svead_stream.spans import Span, lasting, rate, seconds, span

NEW_YEAR = 1_672_531_200.0  # 2023-01-01T00:00:00Z


# spans


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90),
        ("250ms", 0.25),
        ("15m", 900),
        ("2h", 7_200),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1h30m", 5_400),
        ("1d 2h 3min 4sec", 93_784),
        (" 1.5 hours ", 5_400),
        (".5h", 1_800),
        ("1 Week", 604_800),
        ("2 DAYS", 172_800),
        ("3 minutes", 180),
        ("10 secs", 10),
        ("1second", 1),
        ("0s", 0),
    ],
)
def test_a_duration_is_read_as_people_write_it(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected, rel=1e-12)
    assert span(text) == Span(seconds(text), True)


@pytest.mark.parametrize(
    "text",
    ["", " ", "h", "15", "1h30", "30 1h", "-5m", "5 parsecs", "1 month", "1h,30m", "1e3s", "1..5h", "soon", "m15"],
)
def test_a_text_that_is_no_duration_is_refused_and_shown(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration: write 90s, 15m") as refused:
        seconds(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("value", [30, 30.0, "30", " 30 ", "3e1", np.int64(30), np.float32(30), Fraction(30)])
def test_a_number_is_a_number_of_events_even_as_text(value: Any) -> None:
    for read in (span, rate):
        found = read(value)
        assert found == Span(30.0, False)
        assert type(found.amount) is float


@pytest.mark.parametrize("value", [True, False, np.True_, None, [], b"15m", timedelta(minutes=15), 1j])
def test_what_is_neither_a_number_nor_a_text_is_no_span(value: Any) -> None:
    for read in (span, rate):
        with pytest.raises(ValueError, match="is neither a number of events nor a text"):
            read(value)


@pytest.mark.parametrize(
    ("text", "count", "period"),
    [
        ("5/day", 5, 86_400),
        ("5 / d", 5, 86_400),
        ("5 a day", 5, 86_400),
        ("2 an hour", 2, 3_600),
        ("2 per Week", 2, 604_800),
        ("1 PER 2h", 1, 7_200),
        ("1 every 90 min", 1, 5_400),
        ("0.5/1h30m", 0.5, 5_400),
        (".25/s", 0.25, 1),
        ("3 every 2 days", 3, 172_800),
    ],
)
def test_a_rate_is_a_number_for_each_period(text: str, count: float, period: float) -> None:
    amount, in_time = rate(text)
    assert amount == pytest.approx(count / period, rel=1e-12)
    assert in_time


@pytest.mark.parametrize("text", ["", "many", "day", "/day", "5 days", "-5/day", "5aday", "5/", "0.5.5/day"])
def test_a_text_that_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"{text!r} is no rate: write a share of the events"):
        rate(text)


@pytest.mark.parametrize("text", ["5/fortnight", "5//day", "1/1h30", "1 per -2h"])
def test_a_rate_over_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        rate(text)


@pytest.mark.parametrize(
    ("given_seconds", "expected"),
    [
        (0.0, "0 s"),
        (0.1234, "0.123 s"),
        (45, "45 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (89.6, "1 min 30 s"),
        (720, "12 min"),
        (3_600, "1 h"),
        (12_000, "3 h 20 min"),
        (12_029, "3 h 20 min"),
        (12_031, "3 h 21 min"),
        (86_400, "1 d"),
        (187_200, "2 d 4 h"),
        (172_799, "2 d"),
        (8_640_000, "100 d"),
    ],
)
def test_a_duration_is_told_in_two_units(given_seconds: float, expected: str) -> None:
    assert lasting(given_seconds) == expected


# times


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own time is not UTC."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "t",
    [
        NEW_YEAR,
        int(NEW_YEAR),
        np.float64(NEW_YEAR),
        np.int64(NEW_YEAR),
        Fraction(int(NEW_YEAR)),
        datetime(2023, 1, 1),
        datetime(2023, 1, 1, tzinfo=UTC),
        datetime(2023, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        pd.Timestamp("2023-01-01"),
        pd.Timestamp("2023-01-01T01:00", tz="Europe/Berlin"),
        *(np.datetime64("2023-01-01", unit) for unit in ("Y", "M", "D", "h", "s", "ms", "us", "ns")),
    ],
    ids=repr,
)
@pytest.mark.usefixtures("far_from_greenwich")
def test_a_time_is_the_same_seconds_whatever_it_is_given_as(t: Any) -> None:
    found = seconds_of(t)
    assert found == NEW_YEAR
    assert type(found) is float
    assert seconds_of_many([t, t]).tolist() == [NEW_YEAR, NEW_YEAR]


@pytest.mark.parametrize(
    "t", [None, math.nan, math.inf, -math.inf, np.float32("nan"), np.datetime64("NaT"), np.datetime64("NaT", "ns")]
)
def test_what_is_missing_is_no_time_and_no_error(t: Any) -> None:
    assert math.isnan(seconds_of(t))
    found = seconds_of_many([t, t])
    assert found.dtype == np.float64
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    "t", [True, np.True_, "soon", "2023-01-01", b"5", date(2023, 1, 1), timedelta(1), 1j, [5.0], np.zeros(2)]
)
def test_what_is_no_time_is_refused_and_shown(t: Any) -> None:
    with pytest.raises(ValueError, match="is no time: give seconds as a number, a datetime or") as refused:
        seconds_of(t)
    assert f"t={t!r}" in str(refused.value)


def test_times_before_1970_and_fractions_of_a_second_are_exact() -> None:
    before = datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)
    assert seconds_of(before) == seconds_of(np.datetime64("1969-12-31T23:59:58.5")) == -1.5
    assert seconds_of(np.datetime64("2023-01-01T00:00:00.123456")) == NEW_YEAR + 0.123456
    assert seconds_of_many(np.array(["1969-12-31T23:59:58.5"], "datetime64[ms]")).tolist() == [-1.5]


NAIVE = [datetime(2023, 1, 1), None, datetime(2023, 1, 1, 0, 0, 1, 500_000)]
AWARE = [t and t.replace(tzinfo=UTC) for t in NAIVE]
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    "column",
    [
        NAIVE,
        AWARE,
        np.array(["2023-01-01", "NaT", "2023-01-01T00:00:01.5"], "datetime64[ns]"),
        np.array([NEW_YEAR, np.inf, NEW_YEAR + 1.5]),
        [NEW_YEAR, None, NEW_YEAR + 1.5],
        [datetime(2023, 1, 1), np.datetime64("NaT"), NEW_YEAR + 1.5],
        pd.Series(NAIVE, index=[7, 7, 1]),
        pd.Series(NAIVE).astype("datetime64[ms]"),
        pd.Series(NAIVE, dtype=object),
        pd.Series(NAIVE, dtype=pd.ArrowDtype(pa.timestamp("us"))),
        pd.DatetimeIndex(NAIVE),
        pd.Series([NEW_YEAR, None, NEW_YEAR + 1.5], dtype="Float64"),
        pl.Series(NAIVE),
        pl.Series(AWARE).dt.convert_time_zone(BERLIN),
        pl.Series([NEW_YEAR, None, NEW_YEAR + 1.5]),
        pa.array(NAIVE, pa.timestamp("ms")),
        pa.array(AWARE, pa.timestamp("ns", BERLIN)),
        pa.chunked_array([pa.array(NAIVE[:2], pa.timestamp("us")), pa.array(NAIVE[2:], pa.timestamp("us"))]),
        pa.array([NEW_YEAR, None, NEW_YEAR + 1.5]),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__} {getattr(column, 'dtype', '')}",
)
@pytest.mark.usefixtures("far_from_greenwich")
def test_a_column_of_times_is_read_whichever_table_it_is_from(column: Any) -> None:
    found = seconds_of_many(column)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [NEW_YEAR, np.nan, NEW_YEAR + 1.5])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1_700_000_000, 1_700_000_060]),
        np.array([1_700_000_000, 1_700_000_060], np.uint32),
        pl.Series([1_700_000_000, 1_700_000_060]),
        range(1_700_000_000, 1_700_000_061, 60),
    ],
)
def test_whole_numbers_are_seconds(column: Any) -> None:
    assert seconds_of_many(column).tolist() == [1.7e9, 1.7e9 + 60]


def test_dates_without_a_time_of_day_are_midnight_in_a_column() -> None:
    for column in (
        pl.Series([date(2023, 1, 1)]),
        pa.array([date(2023, 1, 1)]),
        np.array(["2023-01-01"], "datetime64[D]"),
    ):
        assert seconds_of_many(column).tolist() == [NEW_YEAR]


@pytest.mark.parametrize(
    "column",
    [
        ["soon"],
        [NEW_YEAR, True, None],
        [True, False],
        np.array([True]),
        pd.Series(["2023-01-01"]),
        pl.Series([timedelta(1)]),
        np.array([5.0, [6.0], None], dtype=object),
    ],
    ids=repr,
)
def test_a_column_that_is_no_time_is_refused(column: Any) -> None:
    with pytest.raises(ValueError, match="is no time"):
        seconds_of_many(column)


@pytest.mark.parametrize(("t", "dimensions"), [(5.0, 0), ([[5.0]], 2), (pd.DataFrame({"t": [5.0]}), 2)])
def test_one_time_for_each_event_is_one_dimension(t: Any, dimensions: int) -> None:
    with pytest.raises(ValueError, match=f"t has {dimensions} dimensions: give one time for each event"):
        seconds_of_many(t)


def test_no_times_are_an_empty_column() -> None:
    columns: tuple[Any, ...] = ([], np.array([], "datetime64[s]"), pl.Series([], dtype=pl.Datetime))
    for column in columns:
        assert seconds_of_many(column).tolist() == []


@pytest.mark.parametrize(
    ("given_time", "expected"),
    [
        (math.nan, None),
        (0.0, 0.0),
        (-5.5, -5.5),
        (631_151_999.0, 631_151_999.0),
        (631_152_000.0, "1990-01-01T00:00:00Z"),
        (4_102_444_800.0, "2100-01-01T00:00:00Z"),
        (4_102_444_801.0, 4_102_444_801.0),
        (NEW_YEAR, "2023-01-01T00:00:00Z"),
        (NEW_YEAR + 0.25, "2023-01-01T00:00:00.250Z"),
        (NEW_YEAR + 0.1239, "2023-01-01T00:00:00.124Z"),
        (NEW_YEAR + 0.0004, "2023-01-01T00:00:00Z"),
        (NEW_YEAR - 0.0004, "2023-01-01T00:00:00Z"),
    ],
)
@pytest.mark.usefixtures("far_from_greenwich")
def test_epoch_seconds_are_shown_as_dates_and_other_numbers_as_they_are(given_time: float, expected: Any) -> None:
    assert shown(given_time) == expected


# the clock


def test_a_clock_never_goes_back_for_a_few_and_counts_what_is_odd() -> None:
    clock = Clock()
    given_times = [math.nan, 5.0, 6.0, 6.0, 2.0, math.nan, 5.9, 7.0]
    told = [clock.advance(one) for one in given_times]
    assert math.isnan(told[0])
    assert told[1:] == [5.0, 6.0, 6.0, 6.0, 6.0, 6.0, 7.0]
    assert clock == Clock(7.0, n_missing=2, n_backward=2, n_duplicate=1, behind=0)
    assert clock.summary() == "2 missing, 2 going back, 1 the same as before"


def test_a_clock_has_nothing_to_say_where_nothing_is_odd() -> None:
    clock = Clock()
    clock.advance_many(np.arange(5.0))
    assert clock.summary() == ""
    assert Clock(n_backward=1_234).summary() == "1,234 going back"


@pytest.mark.parametrize("sizes", [[1] * 102, [102], [50, 52], [100, 1, 1]], ids=lambda sizes: len(sizes))
def test_after_a_hundred_earlier_times_in_a_row_the_clock_is_set_back(sizes: list[int]) -> None:
    stamps = np.array([1e9, *np.arange(1.0, 102.0)])
    loop, batch = Clock(), Clock()
    told = [loop.advance(one) for one in stamps.tolist()]
    assert told == [1e9] * 100 + [100.0, 101.0]
    parts = [batch.advance_many(part) for part in np.split(stamps, np.cumsum(sizes)[:-1])]
    assert np.concatenate(parts).tolist() == told
    assert loop == batch == Clock(101.0, n_backward=100)


def test_a_later_time_in_the_next_mini_batch_ends_a_row_of_earlier_ones() -> None:
    clock = Clock()
    clock.advance_many(np.array([9.0, 5.0]))
    assert clock.behind == 1
    clock.advance_many(np.array([10.0]))
    assert clock == Clock(10.0, n_backward=1)


@pytest.mark.parametrize(("between", "is_set_back"), [(math.nan, True), (1e9, False), (1e9 + 1, False)])
def test_only_events_without_a_time_leave_a_row_of_earlier_ones_whole(between: float, is_set_back: bool) -> None:
    clock = Clock(1e9)
    told = [clock.advance(one) for one in [*np.arange(99.0), between, 99.0]]
    assert (told[-1] == 99.0) == is_set_back
    assert clock.behind == (0 if is_set_back else 1)


def assert_same(one: Clock, other: Clock) -> None:
    """Clocks that no time was ever told are the same, too."""
    for name, mine in vars(one).items():
        np.testing.assert_equal(vars(other)[name], mine, name)
        assert type(vars(other)[name]) is type(mine), name


some_times = st.lists(
    st.one_of(
        st.integers(0, 6).map(float), st.just(math.nan), st.floats(allow_nan=False, allow_infinity=False, width=32)
    ),
    max_size=30,
)


@given(parts=st.lists(st.tuples(some_times, st.integers(0, 120)), max_size=4))
def test_times_in_mini_batches_however_cut_are_the_loop(parts: list[tuple[list[float], int]]) -> None:
    loop, batch = Clock(), Clock()
    for times, again in parts:
        part = times + times[-1:] * again  # the same time again and again, which may be an earlier one
        told = [loop.advance(one) for one in part]
        np.testing.assert_array_equal(batch.advance_many(np.array(part, dtype=np.float64)), np.array(told))
        assert_same(batch, loop)


@given(times=some_times)
def test_times_that_are_told_do_not_go_back_and_each_was_given(times: list[float]) -> None:
    clock = Clock()
    told = [one for one in (clock.advance(one) for one in times) if not math.isnan(one)]
    assert told == sorted(told)
    assert set(told) <= set(times)
    numbers = [one for one in times if not math.isnan(one)]
    assert clock.n_missing == len(times) - len(numbers)
    assert clock.n_backward == sum(one < max(numbers[:i], default=one) for i, one in enumerate(numbers))
    assert clock.latest == max(numbers) if numbers else math.isnan(clock.latest)
