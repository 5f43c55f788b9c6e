"""When an event happened: Kafka's time stamp, or a field of the event in any usual form."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from svead_kafka.events import Decoder, Event
from svead_kafka.times import seconds

MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2099, 12, 31))
ZONES = st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-14 * 60, 14 * 60))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()


def decoded(value: Any, timestamp: int | None = 1_700_000_000_123, **options: Any) -> Event:
    message = {"value": orjson.dumps(value), "key": None, "headers": [], "offset": 0, "timestamp": timestamp}
    [event], _ = Decoder(**options).decode([SimpleNamespace(**message)])
    return event


def test_it_is_kafkas_time_stamp_unless_a_field_is_named() -> None:
    assert decoded({"x": 1}).time == 1_700_000_000.123
    assert decoded({"x": 1}, timestamp=0).time == 0.0
    for missing in (None, -1):
        assert math.isnan(decoded({"x": 1}, timestamp=missing).time)
    assert decoded({"x": 1, "at": "2024-05-01T12:00:00Z"}, time="at").time == NOON


@pytest.mark.parametrize(
    ("event", "time", "names"),
    [
        ({"x": 1, "ts": NOON}, "ts", ("x",)),
        ({"x": 1, "meta": {"ts": NOON, "y": 2}}, "meta.ts", ("x", "meta.y")),
        ({"x": 1, "meta.ts": NOON}, "meta.ts", ("x",)),
        ({"x": 1, "a": {"b.c": NOON}}, "a.b.c", ("x",)),
        ({"x": 1, "a": 3, "a.b": {"c": NOON}}, "a.b.c", ("x", "a")),
        ({"x": 1, "": {"ts": NOON}}, ".ts", ("x",)),
    ],
)
def test_a_field_is_found_by_its_dotted_name_and_is_no_feature(event: Any, time: str, names: tuple[str, ...]) -> None:
    found = decoded(event, time=time)
    assert (found.time, found.names) == (NOON, names)


def test_it_is_read_from_what_is_ignored_and_from_beside_the_features() -> None:
    event = {"x": 1, "y": 2, "meta": {"ts": NOON, "z": 3}}
    found = decoded(event, time="meta.ts", ignore=["meta"])
    assert (found.time, found.names) == (NOON, ("x", "y"))
    found = decoded(event, time="meta.ts", features=["x", "meta"])
    assert (found.time, found.names) == (NOON, ("x", "meta.z"))


def test_a_field_that_is_missing_or_unreadable_is_an_unknown_time_and_the_event_is_still_one() -> None:
    for event in ({"x": 1}, {"x": 1, "ts": None}, {"x": 1, "ts": "soon"}, {"x": 1, "ts": {"deep": 3}}):
        found = decoded(event, time="ts")
        assert math.isnan(found.time)
        assert found.names == ("x",)


@given(MOMENTS, ZONES, st.sampled_from(["T", " "]))
def test_a_moment_is_the_same_in_text_of_any_zone_and_in_numbers_of_any_unit(
    moment: datetime, zone: timezone, separator: str
) -> None:
    aware = moment.replace(tzinfo=UTC)
    expected = aware.timestamp()
    assert seconds(moment.isoformat(separator)) == expected  # without a zone it is UTC
    assert seconds(f" {aware.astimezone(zone).isoformat(separator)} ") == expected
    us = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert seconds(expected) == seconds(us) == seconds(1000 * us) == seconds(str(us)) == expected
    ms = us // 1000
    assert seconds(ms) == seconds(1000 * ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20240501T120000Z", NOON),
        ("20240501", NOON - 43_200),
        ("2024-05-01", NOON - 43_200),
        ("2024-05-01T12:00:00.5+02:00", NOON - 7_200 + 0.5),
        ("1714564800", NOON),
        ("1714564800.25", NOON + 0.25),
        ("1714564800000", NOON),
    ],
)
def test_text_can_be_a_date_in_short_or_an_epoch(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("value", [0, -1, 12, 1e5, 2**62, 1e300, True, None, "", "0", "12:00", "yesterday", "²", []])
def test_what_is_no_time_is_nan(value: Any) -> None:
    assert math.isnan(seconds(value))


@given(JSON)
def test_nothing_that_json_can_hold_is_fatal(value: Any) -> None:
    found = seconds(value)
    assert type(found) is float
    assert math.isnan(found) or not isinstance(value, (list, dict, bool))
