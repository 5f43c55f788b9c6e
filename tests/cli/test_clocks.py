"""Columns of time: how they are found out, and that they are read as Python reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svead_stream.cli import dates
from svead_stream.cli.clocks import ELAPSED, Kind, find

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NOON_SECONDS = 1_714_564_800


def read(cells: Sequence[Any], name: str = "x", asked: bool = False) -> list[float]:
    """The cells as seconds, by the kind that is found for them."""
    column = pa.array(cells)
    kind = find(column, name, asked)
    assert kind is not None
    return kind.seconds(column).tolist()


def seconds(moments: Sequence[datetime]) -> list[float]:
    return [moment.timestamp() for moment in moments]


# text


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01T12:00:00Z",
        "2024-05-01T12:00:00",
        "2024-05-01 12:00:00",
        " 2024-05-01t12:00:00z ",
        "2024-05-01T12:00",
        "2024-05-01T12",
        "2024-05-01 12:00:00.000",
        "2024-05-01 12:00:00,000000000000",
        "2024-05-01T14:00:00+02:00",
        "2024-05-01T14:00+0200",
        "2024-05-01 14:00:00.0 +02",
        "2024-05-01T06:30:00-05:30",
        "2024-05-02T00:30:00+12:30",
        "2024-05-01 12:00:00 UTC",
        "20240501T120000Z",
        "20240501T140000.0+0200",
        "2024/05/01 12:00",
        "2024/5/1 12:00:00",
        "2024.05.01 12:00",
        "05/01/2024 12:00",
        "5/1/2024 12:00:00 PM",
        "01.05.2024 12:00",
        "1.5.2024 12:00:00.0",
        "01-05-2024 12:00",
        "01 May 2024 12:00:00",
        "1 May 2024, 12:00",
        "01-may-2024 12:00:00",
        "Wed, 01 May 2024 12:00:00 GMT",
        "Wed, 1 May 2024 14:00:00 +0200",
        "01/May/2024:12:00:00 +0000",
        "[01/May/2024:07:00:00 -0500]",
        "May 1, 2024 12:00:00 p.m.",
        "Wed May  1 12:00:00 2024",
        "Wed May  1 12:00:00 UTC 2024",
    ],
)
def test_noon_is_noon_in_every_form(text: str) -> None:
    assert read([text]) == [NOON_SECONDS]
    assert read([text, None, "soon"] + [text] * 20) == pytest.approx(
        [NOON_SECONDS, np.nan, np.nan] + [NOON_SECONDS] * 20, nan_ok=True
    )


@pytest.mark.parametrize(
    "text",
    ["2024-05-01", "2024/05/01", "20240501T00", "05/01/2024", "01.05.2024", "1-5-2024", "01 May 2024", "May 1, 2024"],
)
def test_a_date_alone_is_its_midnight(text: str) -> None:
    assert read([text]) == [NOON_SECONDS - 12 * 3600]


@pytest.mark.parametrize(
    ("text", "hour"), [("12:00 AM", 0), ("12:59 am", 0), ("1:00 a.m.", 1), ("12:00pm", 12), ("11:00 PM", 23)]
)
def test_hours_of_half_days_are_told_apart(text: str, hour: int) -> None:
    assert read([f"05/13/2024 {text}"])[0] // 3600 == datetime(2024, 5, 13, hour, tzinfo=UTC).timestamp() // 3600


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29",
        "2024-13-01",
        "2024-00-01",
        "2024-05-00",
        "2024-04-31 12:00",
        "0000-01-01",
        "2024-05-01 24:00",
        "2024-05-01 12:60",
        "2024-05-01 12:00:61",
        "2024-05-01 13:00 PM",
        "2024-05-01 00:00 AM",
        "2024-05-01T12:00:00+24:00",
        "2024-05-01T12:00:00+02:60",
        "2024-05-01T12:00:00 tomorrow",
        "12:00:00",
        "1.5",
        "",
        "\x00",
        "２０２４-05-01",
    ],
)
def test_what_no_calendar_or_clock_shows_is_missing(text: str) -> None:
    assert find(pa.array([text])) is None
    good = ["2024-05-01T12:00:00Z"] * 20
    assert np.isnan(read([*good, text])).tolist() == [False] * 20 + [True]


def test_a_leap_second_is_the_next_minute() -> None:
    assert read(["2016-12-31T23:59:60Z"]) == [datetime(2017, 1, 1, tzinfo=UTC).timestamp()]


moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))
FORMS: dict[str, Callable[[datetime], str]] = {
    dates.YEAR_FIRST: lambda t: t.isoformat(),
    dates.MONTH_FIRST: lambda t: f"{t.month}/{t.day}/{t.year:04} {t:%H:%M:%S.%f%z}",
    dates.DAY_FIRST: lambda t: f"{t.day:02}.{t.month:02}.{t.year:04} {t:%H:%M:%S.%f} {t:%z}",
    "day, name of the month": lambda t: f"{t:%a}, {t.day} {t:%b} {t.year:04} {t:%I:%M:%S.%f %p %z}",
    "name of the month, day": lambda t: f"{t:%B} {t.day}, {t.year:04} {t:%H:%M:%S,%f%z}",
    "year last": lambda t: f"{t:%A %b} {t.day:2} {t:%H:%M:%S.%f %z} {t.year:04}",
    "without separators": lambda t: f"{t.year:04}{t:%m%dT%H%M%S.%f%z}",
}


@pytest.mark.parametrize("form", dates.FORMS)
@given(moments=st.lists(st.tuples(moments, zones), min_size=1, max_size=8))
def test_dates_in_text_are_those_of_datetime(form: str, moments: list[tuple[datetime, timezone]]) -> None:
    zoned = [moment.replace(tzinfo=zone) for moment, zone in moments]
    texts = pa.array([FORMS[form](moment) for moment in zoned])
    assert Kind(form).seconds(texts) == pytest.approx(np.array(seconds(zoned)), rel=1e-15)
    plain = pa.array([FORMS[form](moment) for moment, _ in moments])
    assert Kind(form).seconds(plain) == pytest.approx(
        np.array([moment.replace(tzinfo=UTC).timestamp() for moment, _ in moments]), rel=1e-15
    )


digits = st.integers(0, 9_999).map(str) | st.sampled_from(
    ["05", "12", "2024", "2262", "1677", "00", "59", "60", "123456789"]
)
pieces = st.lists(digits | st.sampled_from(["-", "-", ":", "T", " ", ".", "Z", "+", "/"]), max_size=14).map("".join)
near_dates = st.builds(
    "{:04}-{:02}-{:02}{}{}".format,
    st.integers(1600, 2300),
    st.integers(0, 13),
    st.integers(0, 32),
    st.sampled_from(["", "T", " "]),
    pieces
    | st.sampled_from(["12", "12:30", "12:30:15", "12:30:15.5", "12:30Z", "12:30:15+02:30", "23:59:59.999999999-0730"]),
)


@given(texts=st.lists(near_dates | pieces, min_size=1, max_size=3))
def test_the_quick_way_through_arrow_and_the_careful_one_agree(texts: list[str]) -> None:
    column = pa.chunked_array([texts])
    np.testing.assert_array_equal(Kind().seconds(column), dates.read(column, dates.YEAR_FIRST))


@given(fraction=st.text("0123456789", min_size=1, max_size=30))
def test_a_fraction_may_have_any_length(fraction: str) -> None:
    assert read([f"2024-05-01T12:00:00.{fraction}Z"]) == [NOON_SECONDS + float(f"0.{fraction}")]


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["01/05/2024", "13/05/2024"], datetime(2024, 5, 1)),
        (["01/05/2024", "05/13/2024"], datetime(2024, 1, 5)),
        (["01/05/2024", "02/05/2024"], datetime(2024, 1, 5)),
        (["01.05.2024", "02.05.2024"], datetime(2024, 5, 1)),
        (["01-05-2024", "02-05-2024"], datetime(2024, 5, 1)),
        (["01.05.2024", "05.13.2024"], datetime(2024, 1, 5)),
        (["01/05/2024 23:59", "02/05/2024 00:00"], datetime(2024, 5, 1, 23, 59)),  # a minute, or a month and a minute
        (["01.05.2024 23:59", "01.06.2024 00:00"], datetime(2024, 1, 5, 23, 59)),
        (["01/05/2024 12:00", "01/05/2024 12:01"], datetime(2024, 1, 5, 12)),
        (["01.05.2024 12:00", "01.05.2024 12:01"], datetime(2024, 5, 1, 12)),
    ],
)
def test_the_order_of_day_and_month_is_settled_by_all_first_cells(texts: list[str], first: datetime) -> None:
    assert read(texts)[0] == first.replace(tzinfo=UTC).timestamp()


def test_an_order_once_found_is_kept() -> None:
    kind = find(pa.array(["13/05/2024"]))
    assert kind is not None
    assert kind.seconds(pa.array(["02/01/2024", "05/13/2024"])) == pytest.approx(
        [datetime(2024, 1, 2, tzinfo=UTC).timestamp(), np.nan], nan_ok=True
    )


def test_text_is_a_clock_when_nine_of_ten_cells_are_and_half_are_enough_where_it_is_asked_for() -> None:
    for good, found, asked in ((9, True, True), (8, False, True), (5, False, True), (4, False, False)):
        cells = pa.array(["2024-05-01"] * good + ["soon"] * (10 - good) + [None, "", " "] * 20)
        assert (find(cells) is not None) == found
        assert (find(cells, asked=True) is not None) == asked


# types of time


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_time_stamps_of_arrow_are_read_in_every_unit_and_zone(unit: str, zone: str | None) -> None:
    column = pa.array([NOON_SECONDS, None, -1], pa.int64()).cast(pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    kind = find(column)
    assert kind is not None
    assert kind.seconds(column) == pytest.approx([NOON_SECONDS, np.nan, -1], nan_ok=True)


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_of_arrow_are_their_midnights(kind: pa.DataType) -> None:
    column = pa.array([date(2024, 5, 1), None, date(1969, 12, 31)], kind)
    assert read(column) == pytest.approx([NOON_SECONDS - 43_200, np.nan, -86_400], nan_ok=True)


def test_text_of_categories_is_read_like_text() -> None:
    assert read(pa.array(["2024-05-01T12:00:00Z", None]).dictionary_encode()) == pytest.approx(
        [NOON_SECONDS, np.nan], nan_ok=True
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, None]),
        pa.array([], pa.string()),
        pa.array(["", " "]),
        pa.array([True, False]),
        pa.array([[1], [2]]),
        pa.array([43_200], pa.time32("s")),
        pa.array([1_000], pa.duration("s")),
        pa.array(["day 1 12:00", "day 1 12:01"]),
        pa.array(["12:00:00", "12:00:01"]),
        pa.array(["10.0.0.1", "10.0.0.2"]),
        pa.array(["fast", "slow"]),
        pa.array(["2024", "2025"] * 20),
    ],
)
def test_other_columns_are_no_clocks(column: pa.Array) -> None:
    assert find(column, "time") is None
    assert find(column, "time", asked=True) is None
    for kind in (Kind(), Kind(unit="s")):
        assert np.isnan(kind.seconds(column)).all()


# numbers


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.decimal128(20, 0)])
def test_an_epoch_is_known_by_its_size(unit: str, per_second: int, kind: pa.DataType) -> None:
    whole = [(NOON_SECONDS + i) * per_second for i in range(20)]
    column = pa.array(whole).cast(kind, safe=False)
    assert find(column) == Kind(unit=unit)
    assert Kind(unit=unit).seconds(column).tolist() == [NOON_SECONDS + i for i in range(20)]


@given(ticks=st.lists(st.integers(631_152_000 * 10**9, 4_102_444_800 * 10**9 - 1), min_size=1, max_size=8))
def test_an_instant_is_the_same_number_in_every_kind_of_column(ticks: list[int]) -> None:
    stamps = pa.array(ticks, pa.timestamp("ns"))
    expected = Kind().seconds(stamps)
    np.testing.assert_array_equal(Kind(unit="ns").seconds(pa.array(ticks)), expected)
    np.testing.assert_array_equal(Kind().seconds(stamps.cast(pa.string())), expected)
    assert expected == pytest.approx([one / 1e9 for one in ticks], rel=1e-15)
    thousands = [one // 10**6 for one in ticks]
    whole, real, text = (
        Kind(unit="ms").seconds(pa.array(thousands).cast(t)) for t in (pa.int64(), pa.float64(), pa.string())
    )
    np.testing.assert_array_equal(whole, real)
    np.testing.assert_array_equal(whole, text)


@pytest.mark.parametrize(
    ("form", "step"), [("%Y%m%d", 86_400), ("%Y%m%d%H", 3_600), ("%Y%m%d%H%M", 60), ("%Y%m%d%H%M%S", 1)]
)
@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_a_date_may_be_a_number(form: str, step: int, kind: pa.DataType) -> None:
    moments = [NOON.replace(hour=0) + i * timedelta(seconds=step) for i in range(200)]
    column = pa.array([int(f"{moment:{form}}") for moment in moments]).cast(kind)
    found = find(column)
    assert found == Kind(dates.DENSE)
    assert found.seconds(column).tolist() == seconds(moments)
    assert find(column.take(pa.array(np.random.default_rng(0).permutation(200)))) is None
    assert find(column[::-1], "date") == found


def test_an_epoch_is_no_date_in_digits() -> None:
    for start in (631_152_000, NOON_SECONDS, 2_000_000_000, 3_500_000_000):
        assert find(pa.array(start + 17 * np.arange(1_000))) == Kind(unit="s")


def test_elapsed_seconds_must_be_asked_for_and_grow() -> None:
    rising = np.arange(0, 50, 0.5)
    assert find(pa.array(rising), "time") is None
    assert find(pa.array(rising), asked=True) == Kind(unit=ELAPSED)
    assert find(pa.array(rising[::-1]), asked=True) is None
    assert find(pa.array([3]), asked=True) == Kind(unit=ELAPSED)
    assert find(pa.array([NOON_SECONDS]), asked=True) == Kind(unit="s")
    assert Kind(unit=ELAPSED).seconds(pa.array(["0.5", "soon", None, "inf"])) == pytest.approx(
        [0.5, np.nan, np.nan, np.nan], nan_ok=True
    )


def test_numbers_outside_of_the_epoch_are_missing() -> None:
    rising = [NOON_SECONDS + i for i in range(40)]
    odd = [0, -1, 5_000_000_000, NOON_SECONDS * 1000, None]
    expected = [*rising, *[np.nan] * 5]
    assert read(rising + odd[:4] + [None]) == pytest.approx(expected, nan_ok=True)
    assert read([float(one) for one in rising] + [0.0, np.nan, np.inf, -np.inf, None]) == pytest.approx(
        expected, nan_ok=True
    )
    assert read([str(one) for one in rising] + ["0", "soon", "", "inf", None]) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("name", "is_clock"),
    [
        ("time", True),
        ("Timestamp", True),
        ("TS", True),
        ("event.ts", True),
        ("created_at", True),
        ("createdAt", True),
        ("UnixTime", True),
        ("date of sale", True),
        ("at", False),
        ("x", False),
        ("times", False),
        ("lifetime", False),
        ("update", False),
        ("heat", False),
        ("parts", False),
    ],
)
def test_numbers_in_no_order_are_a_clock_only_by_name(name: str, is_clock: bool) -> None:
    rng = np.random.default_rng(0)
    column = pa.array(NOON_SECONDS + rng.integers(0, 10**6, 200))
    assert (find(column, name) is not None) == is_clock
    assert find(column, name, asked=True) is not None


def test_numbers_without_a_name_must_go_forward() -> None:
    rising = NOON_SECONDS + np.arange(200)
    assert find(pa.array(rising)) == Kind(unit="s")
    few_back = rising.copy()
    few_back[::20] -= 50
    assert find(pa.array(few_back)) == Kind(unit="s")
    assert find(pa.array(np.repeat(rising, 3))) == Kind(unit="s")
    assert find(pa.array(rising[::-1])) is None
    assert find(pa.array(np.full(200, NOON_SECONDS))) is None
    assert find(pa.array(rising[:5])) is None
    assert find(pa.array(rising), "bytes_total") is None
    assert find(pa.array(rising), "order_id") is None
    assert find(pa.array(rising - 1_200_000_000)) is None
