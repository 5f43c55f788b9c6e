"""Decoding: which messages are events, and which numbers they have; what is written of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from svead_kafka import Options
from svead_kafka.events import Decoder, Event, Verdict, dead_letter_headers, incident, incident_key, scored
from svead_kafka.outgoing import Outgoing

from svead_stream.record import Incident, schema

VALUES = st.sampled_from(
    [None, True, 3, -2.5, 2**60, "text", [], [1], {}, {"c": 1}, {"c": "x"}, {"c": {"d": 0.5}},
     1_700_000_000, "2024-05-01T12:00:00Z", {"c": "2024-05-01"}, {"c": {"d": 1_700_000_000_000}}]
)  # fmt: skip


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


def test_a_tombstone_is_neither_an_event_nor_a_dead_letter_and_an_empty_value_is_one() -> None:
    good, bad = Decoder().decode([record(None), record(b'{"a": 1}', offset=1), record(b"", offset=2)])
    assert [event.record.offset for event in good] == [1]
    assert [(one.record.offset, one.reason) for one in bad] == [(2, "empty")]


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


@given(
    st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}, optional={"c": VALUES, "d": VALUES}), max_size=8),
    st.sets(st.sampled_from(["a", "b", "b.c", "c.c.d"])),
    st.sets(st.sampled_from(["a", "d", "c.c"])),
    st.sampled_from([None, "a", "b", "b.c", "c.c.d"]),
)
def test_a_message_is_read_the_same_whatever_came_before_it(
    messages: list[dict[str, Any]], features: set[str], ignore: set[str], time: str | None
) -> None:
    options: dict[str, Any] = {"features": sorted(features), "ignore": sorted(ignore), "time": time}
    raws = [record(orjson.dumps(message), offset=i) for i, message in enumerate(messages)]
    good, bad = Decoder(**options).decode(raws)
    together = {event.record.offset: (event.names, list(event.values), repr(event.time)) for event in good}
    together |= {one.record.offset: one.reason for one in bad}  # type: ignore[misc]
    for raw in raws:
        alone, refused = Decoder(**options).decode([raw])
        expected = (alone[0].names, list(alone[0].values), repr(alone[0].time)) if alone else refused[0].reason
        assert together[raw.offset] == expected
        if alone and time is not None:
            assert not any(name == time or name.startswith(f"{time}.") for name in alone[0].names)


def test_an_object_with_features_is_read_also_where_there_was_none_before() -> None:
    raws = [record(b'{"id": 1, "engine": "n/a"}'), record(b'{"id": 2, "engine": {"heat": 5}}')]
    good, _ = Decoder(features=["id", "engine.heat"]).decode(raws)
    assert [event.names for event in good] == [("id",), ("id", "engine.heat")]


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


@pytest.mark.parametrize(
    ("value", "key", "header", "kept"),
    [
        (b"x" * 60_000, b"key", b"trace", (b"", b"key", True)),
        (b"x", b"k" * 60_000, b"trace", (b"", None, False)),
        (b"x", b"key", b"h" * 60_000, (b"", None, False)),
        (b'{"' + b"n" * 30_000 + b'": "text"}', b"key", b"trace", (None, b"key", True)),
    ],
    ids=["value", "key", "header", "reason"],
)
def test_a_dead_letter_always_fits_into_its_topic(value: bytes, key: bytes, header: bytes, kept: Any) -> None:
    """One that the broker refuses would stop the worker for good."""
    sent: list[dict[str, Any]] = []
    producer = SimpleNamespace(send=lambda topic, **message: sent.append(message))
    options = Options(input=["t"], output="out", dead_letters="dead", max_event_bytes=40_000)
    message = record(value, key=key, headers=[("h", header)])
    _, bad = Decoder(features=["n" * 30_000], max_bytes=options.max_event_bytes).decode([message])
    Outgoing(producer, options, {"dead": 1}, {"dead": 50_000}).dead_letters(TopicPartition("t", 3), bad)
    [letter] = sent
    headers = dict(letter["headers"])
    assert (letter["value"], letter["key"], "h" in headers) == (kept[0] if kept[0] is not None else value, *kept[1:])
    assert headers["svead-offset"] == b"0"
    size = len(letter["value"]) + len(letter["key"] or b"") + sum(len(n) + len(text) for n, text in letter["headers"])
    assert size < 50_000


CHANGE = Incident(4, "open", 300, 300, 1700000000.0, 1700000000.0, 1, 0.9, 0.004, {"a": 0.75, "b": 0.25})


def judged(key: bytes | None = b"k", change: Incident = CHANGE) -> list[tuple[Event, Verdict]]:
    event = Event(record(b"{}", offset=9, key=key), (), (), 1700000000.0)
    return [(event, Verdict(0.9, 0.004, True, change.reasons, change.number, (change,)))]


def written(options: Options, key: bytes | None = b"k", change: Incident = CHANGE, limit: int = 10**6) -> Any:
    """The one record that goes to the incidents topic."""
    sent: list[dict[str, Any]] = []
    producer = SimpleNamespace(send=lambda topic, **message: sent.append({"topic": topic, **message}))
    assert options.incidents is not None
    out = Outgoing(producer, options, {options.incidents: 2}, {options.incidents: limit})
    out.incidents(TopicPartition("t", 3), judged(key, change))
    [message] = sent
    assert len(message["key"]) + len(message["value"]) < limit
    return message


def test_an_incident_tells_its_place_and_with_a_model_for_each_key_the_key() -> None:
    validator = jsonschema.Draft202012Validator(schema("incident"))
    [(event, verdict)] = judged(key=b"caf\xc3\xa9 \xff")
    place = {"topic": "t", "partition": 3, "offset": 9}
    plain, keyed = (incident(event, verdict.changes[0], 1, keyed) for keyed in (False, True))
    assert plain == {**CHANGE.record(1), "source": place}
    assert keyed == {**plain, "key": "café \\xff"}
    for one in (plain, keyed, incident(judged(key=None)[0][0], CHANGE, 1, keyed=True)):
        validator.validate(one)


@given(st.lists(st.none() | st.binary(max_size=4) | st.sampled_from([b"\\xff", b"\xff", b"\\\\xff"]), unique=True))
def test_incidents_of_different_keys_and_numbers_have_different_names(keys: list[bytes | None]) -> None:
    names = [
        incident_key(judged(key)[0][0], CHANGE._replace(number=number), keyed=True) for key in keys for number in (1, 2)
    ]
    assert len(set(names)) == len(names)


def test_the_record_of_an_incident_has_its_name_as_key_and_the_time_of_the_event() -> None:
    message = written(Options(input=["t"], output="out", incidents="inc"))
    assert message["key"] == b'["t",3,4]'
    assert (message["topic"], message["partition"], message["timestamp_ms"]) == ("inc", 1, 1700000000000)
    keyed = written(Options(input=["t"], output="out", incidents="inc", model_per="key"))
    assert keyed["key"] == b'["t",3,"k",4]'


@pytest.mark.parametrize(
    ("key", "name"), [(b"\0" * 40_000, "a"), (b"k" * 1_000 + b"a", "b" * 30_000), (b"\xff" * 1_000, "a" * 30_000)]
)
def test_the_record_of_an_incident_always_fits_into_its_topic(key: bytes, name: str) -> None:
    """One that the broker refuses would stop the worker for good."""
    options = Options(input=["t"], output="out", incidents="inc", model_per="key")
    change = CHANGE._replace(reasons={name: 1.0})
    message = written(options, key, change, limit=16_384)
    value = orjson.loads(message["value"])
    assert (value["incident"], value["state"], value["alerts"]) == (4, "open", 1)
    assert message["key"] != written(options, key + b".", change, limit=16_384)["key"]
