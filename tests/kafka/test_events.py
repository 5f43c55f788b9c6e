"""Decoding: which messages are events, and which numbers they have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from svead_kafka.events import Decoder, Verdict, dead_letter_headers, scored

VALUES = st.sampled_from([None, True, 3, -2.5, 2**60, "text", [], [1], {}, {"c": 1}, {"c": "x"}, {"c": {"d": 0.5}}])


def record(value: bytes | None, offset: int = 0, key: bytes | None = None, headers: Any = ()) -> Any:
    return SimpleNamespace(
        value=value, key=key, headers=list(headers), offset=offset, topic="t", partition=3, timestamp=1700000000000
    )


def one(value: Any, **options: Any) -> dict[str, float] | str:
    """The features of one message, or why it is no event."""
    raw = value if isinstance(value, bytes) or value is None else orjson.dumps(value)
    good, bad = Decoder(**options).decode([record(raw)])
    return dict(zip(good[0].names, good[0].values, strict=True)) if good else bad[0].reason


def test_numbers_and_booleans_are_features_and_nested_objects_get_dotted_names() -> None:
    event = {"a": 1, "b": {"c": 2.5, "d": {"e": True}}, "s": "text", "l": [1], "n": None}
    assert one(event) == {"a": 1, "b.c": 2.5, "b.d.e": True}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null value"),
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b"[1, 2]", "not an object but a list"),
        (b"17", "not an object but a number"),
        (b"null", "not an object but null"),
        (b"{}", "no numbers"),
        (b'{"a": "text"}', "no numbers"),
        (b'{"a": 1, "pad": "' + b"x" * 2000 + b'"}', "too large"),
    ],
)
def test_what_is_no_event_has_a_reason(value: bytes | None, reason: str) -> None:
    answer = one(value, max_bytes=1000)
    assert isinstance(answer, str)
    assert answer.startswith(reason)


def test_named_features_are_used_alone_and_must_be_numbers() -> None:
    assert one({"a": 1, "b": 2, "id": "x"}, features=["a"]) == {"a": 1}
    assert one({"a": "high", "b": 2}, features=["a", "b"]) == "feature 'a' is a string, not a number"
    assert one({"b": 2}, features=["a"]) == "none of the features a"
    assert one({"a": None, "b": 2}, features=["a", "b"]) == {"b": 2}
    assert one({"p": {"x": 1, "y": 2}, "q": 3}, features=["p"]) == {"p.x": 1, "p.y": 2}


def test_ignored_names_take_everything_below_them_along() -> None:
    assert one({"id": 7, "meta": {"ts": 1, "more": {"n": 2}}, "a": 1}, ignore=["id", "meta"]) == {"a": 1}


def test_deep_nesting_is_no_way_to_stop_the_decoder() -> None:
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    assert one(deep) == {".".join(["a"] * 900): 1}
    assert str(one(b'{"a":' * 100_000)).startswith("not JSON")


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), max_size=8))
def test_a_message_is_read_the_same_whatever_came_before_it(messages: list[dict[str, Any]]) -> None:
    raws = [record(orjson.dumps(message), offset=i) for i, message in enumerate(messages)]
    good, bad = Decoder().decode(raws)
    together = {event.record.offset: (event.names, list(event.values)) for event in good}
    together |= {one.record.offset: one.reason for one in bad}  # type: ignore[misc]
    for raw in raws:
        alone, refused = Decoder().decode([raw])
        expected = (alone[0].names, list(alone[0].values)) if alone else refused[0].reason
        assert together[raw.offset] == expected


def test_a_scored_event_carries_the_event_byte_for_byte() -> None:
    raw = b'{ "a" : 1.50, "big": 123456789012345678901234567890 }'
    good, _ = Decoder().decode([record(raw, offset=5)])
    value = scored(good[0], Verdict(0.5, 0.25, False), 3, include_event=True)
    assert raw in value
    parsed = orjson.loads(value)
    assert parsed["source"] == {"topic": "t", "partition": 3, "offset": 5}
    assert "top_features" not in parsed
    assert "event" not in orjson.loads(scored(good[0], Verdict(0.5, 0.25, False), 3, include_event=False))


def test_dead_letters_say_where_they_came_from_and_why() -> None:
    _, bad = Decoder().decode([record(b"[]", offset=9, headers=[("trace", b"1"), ("none", None)])])
    assert dead_letter_headers(bad[0]) == [
        ("trace", b"1"),
        ("none", b""),
        ("svead-reason", b"not an object but a list"),
        ("svead-topic", b"t"),
        ("svead-partition", b"3"),
        ("svead-offset", b"9"),
        ("svead-timestamp", b"1700000000000"),
    ]
