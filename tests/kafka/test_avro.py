"""Avro messages: what they are as JSON, which are no events, and that none can harm the process."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from registry import of, record, written
from svead_kafka.avro import Codec
from svead_kafka.events import Bad, Decoder, Event, Reason, Verdict, scored
from svead_kafka.schemas import Schema

EVENT = {
    "type": "record", "name": "Event", "namespace": "com.example", "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "load", "type": ["null", "double"], "default": None, "doc": "of the machine"},
        {"name": "count", "type": "long"},
        {"name": "ok", "type": "boolean"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["ON", "OFF"]}},
        {"name": "heat", "type": {"type": "record", "name": "Heat", "fields": [
            {"name": "motor", "type": "double"}, {"name": "case", "type": ["null", "float"]}]}},
        {"name": "more", "type": {"type": "map", "values": ["null", "double", "string"]}},
        {"name": "parts", "type": {"type": "array", "items": "int"}},
        {"name": "spare", "type": ["null", "Heat"]},
    ],
}  # fmt: skip
TREE: dict[str, Any] = {
    "type": "record", "name": "Tree", "fields": [
        {"name": "x", "type": "double"},
        {"name": "left", "type": ["null", "Tree"]},
        {"name": "rest", "type": {"type": "array", "items": "Tree"}},
        {"name": "nothing", "type": {"type": "array", "items": "null"}},
    ],
}  # fmt: skip


def codec(*documents: Any) -> Codec:
    return Codec(Schema("the schema", documents))


def logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


def long(number: int) -> bytes:
    """A number as Avro writes it."""
    return written("long", number)


@pytest.mark.parametrize(
    ("field", "body", "expected"),
    [
        ("null", b"", None),
        ("boolean", b"\x01", True),
        ("int", long(-7), -7),
        ("long", long(2**62), 2**62),
        ("float", struct.pack("<f", 0.5), 0.5),
        ("double", struct.pack("<d", 0.1), 0.1),
        ("double", struct.pack("<d", math.nan), None),
        ("double", struct.pack("<d", -math.inf), None),
        ("bytes", b"\x04\xff\xfe", "//4="),
        ({"type": "fixed", "name": "F", "size": 2}, b"\xff\xfe", "//4="),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, long(1), "B"),
        (["null", "int"], b"\x00", None),
        (["null", "int"], b"\x02\x06", 3),
        (logical("bytes", "decimal", precision=9, scale=2), b"\x04\x04\xd2", 12.34),
        (logical("bytes", "decimal", precision=9, scale=2), b"\x04\xff\xfe", -0.02),
        (logical("bytes", "decimal", precision=9), b"\x02\x05", 5.0),
        (logical("fixed", "decimal", name="D", size=2, precision=4, scale=1), b"\x00\x0f", 1.5),
        (logical("bytes", "decimal", precision=999, scale=0), long(900) + b"\x7f" * 900, None),
        (logical("string", "uuid"), long(2) + b"ab", "ab"),
        (logical("fixed", "uuid", name="U", size=16), bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (logical("int", "date"), long(19_000), "2022-01-08"),
        (logical("int", "date"), long(2**31 - 1), "2147483647 days since 1970"),
        (logical("int", "time-millis"), long(3_723_004), "01:02:03.004"),
        (logical("long", "time-micros"), long(3_723_000_004), "01:02:03.000004"),
        (logical("long", "time-micros"), long(-1), "-1 micros since midnight"),
        (logical("long", "timestamp-millis"), long(1_700_000_000_123), "2023-11-14T22:13:20.123Z"),
        (logical("long", "timestamp-micros"), long(1_700_000_000_123_456), "2023-11-14T22:13:20.123456Z"),
        (logical("long", "timestamp-nanos"), long(1_700_000_000_123_456_789), "2023-11-14T22:13:20.123456789Z"),
        (logical("long", "local-timestamp-millis"), long(1_700_000_000_123), "2023-11-14T22:13:20.123"),
        (logical("long", "timestamp-millis"), long(2**62), "4611686018427387904 millis since 1970"),
        (logical("long", "of-somebody-else"), long(5), 5),
    ],
)  # fmt: skip
def test_what_a_value_is_as_json(field: Any, body: bytes, expected: Any) -> None:
    assert orjson.loads(codec(of(field)).to_json(body)) == {"a": expected}


NUMBERS = st.floats(width=32)
HEATS = st.builds(lambda motor, case: {"motor": motor, "case": case}, st.floats(), st.none() | NUMBERS)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.text(max_size=5),
    "at": st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(
        lambda at: at.replace(tzinfo=UTC, microsecond=at.microsecond // 1000 * 1000)),
    "load": st.none() | st.floats(),
    "count": st.integers(-(2**63), 2**63 - 1),
    "ok": st.booleans(),
    "state": st.sampled_from(["ON", "OFF"]),
    "heat": HEATS,
    "more": st.dictionaries(st.text(max_size=3), st.none() | st.floats() | st.text(max_size=3), max_size=3),
    "parts": st.lists(st.integers(-5, 5), max_size=3),
    "spare": st.none() | HEATS,
}  # fmt: skip
EVENTS = st.tuples(*FIELDS.values()).map(lambda values: dict(zip(FIELDS, values, strict=True)))


def seen(event: Event) -> tuple[Any, ...]:
    return event.names, list(event.values), repr(event.time)


@given(st.lists(EVENTS, max_size=4))
def test_an_avro_event_is_the_same_as_its_json(events: list[dict[str, Any]]) -> None:
    """Names, numbers to the bit, and time; and what its scored event carries means the same event."""
    avro, _ = Decoder(time="at", to_json=codec(EVENT).to_json).decode(
        [record(written(EVENT, event)) for event in events]
    )
    as_json = [event | {"at": int(event["at"].timestamp() * 1000 + 0.5)} for event in events]  # NaN is null in JSON
    plain, _ = Decoder(time="at").decode([record(orjson.dumps(event)) for event in as_json])
    assert [seen(event) for event in avro] == [seen(event) for event in plain]
    for event in avro:
        value = orjson.loads(scored(event, Verdict(0.5, 0.25, False), 3, include_event=True))
        back, _ = Decoder(time="at").decode([record(orjson.dumps(value["event"]))])
        assert seen(back[0]) == seen(event)


def test_what_the_schema_calls_a_time_is_no_feature_but_can_be_the_time() -> None:
    schema = of(logical("long", "timestamp-millis"))
    schema["fields"] += [{"name": "day", "type": logical("int", "date")}, {"name": "x", "type": "int"}]
    raw = record(written(schema, {"a": datetime(2024, 5, 1, 12, tzinfo=UTC), "day": date(2024, 5, 1), "x": 3}))
    for name, hour in (("a", 12), ("day", 0)):
        [event], _ = Decoder(time=name, to_json=codec(schema).to_json).decode([raw])
        assert (event.names, event.values) == (("x",), (3,))
        assert event.time == datetime(2024, 5, 1, hour, tzinfo=UTC).timestamp()
    [event], _ = Decoder(to_json=codec(schema).to_json).decode([raw])
    assert event.time == 1_700_000_000.0  # of the message


def test_a_schema_may_be_a_union_and_refer_to_others() -> None:
    street = {"type": "record", "name": "Street", "namespace": "com.example", "fields": [{"name": "n", "type": "int"}]}
    place = {"type": "record", "name": "Place", "namespace": "com.example", "fields": [
        {"name": "one", "type": "Street"}, {"name": "two", "type": ["null", "com.example.Street"]}]}  # fmt: skip
    read = codec(street, place, ["null", "com.example.Street", "com.example.Place"]).to_json
    assert read(b"\x02\x08") == b'{"n":4}'
    assert read(b"\x04\x08\x02\x06") == b'{"one":{"n":4},"two":{"n":3}}'


def test_of_a_large_array_nothing_is_lost() -> None:
    schema = of({"type": "array", "items": {"type": "record", "name": "I", "fields": [{"name": "b", "type": "int"}]}})
    value = {"a": [{"b": i} for i in range(150_000)]}
    body = written(schema, value)
    assert len(body) * 2 > 500_000  # so that it is walked through before
    assert orjson.loads(codec(schema).to_json(body)) == value


HUGE = 2**60
DEEP = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
LISTS = {"type": "record", "name": "L", "fields": [{"name": "n", "type": {"type": "array", "items": "L"}}]}
EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    ("schema", "body", "reason"),
    [
        (of("int"), b"", "ends too early"),
        (of("double"), b"1234", "ends too early"),
        (of("long"), b"\xff\xff", "ends too early"),
        (of("string"), long(HUGE) + b"abc", "ends too early"),
        (of("string"), long(-5) + b"abc", "ends too early"),
        (of("string"), b"\x04\xff\xfe", "text that is not UTF-8"),
        (of("int"), b"\x02\x02", "bytes left over: 1"),
        (of(["null", "int"]), b"\x08\x02", "a branch or symbol that the schema lacks"),
        (of({"type": "enum", "name": "E", "symbols": ["A"]}), b"\x08", "a branch or symbol that the schema lacks"),
        (of({"type": "array", "items": "int"}), long(HUGE) + b"abc", "ends too early"),
        (of({"type": "map", "values": "int"}), long(HUGE) + b"abc", "ends too early"),
        (of({"type": "array", "items": "null"}), long(HUGE) + b"\x00", "more than 500000 values"),
        (of({"type": "array", "items": "null"}), long(-HUGE) + b"\x00\x00", "more than 500000 values"),
        (of({"type": "array", "items": "null"}), (long(400_000) * 2) + b"\x00", "more than 500000 values"),
        (of({"type": "array", "items": EMPTY}), long(HUGE) + b"\x00", "more than 500000 values"),
        (of({"type": "array", "items": {"type": "array", "items": "null"}}), b"\x02" + long(HUGE), "more than 500000"),
        (DEEP, b"\x02" * 300_000, "more than 200 levels deep"),
        (DEEP, b"\x02" * 100, "ends too early"),
        (DEEP, b"\x06", "a branch that the schema lacks"),
        (DEEP, b"\xff" * 100, "a number of more than 64 bits"),
        (LISTS, b"\x02" * 300_000, "more than 200 levels deep"),
        (of(logical("bytes", "decimal", precision=9)), long(HUGE) + b"\x01", "ends too early"),
    ],
)  # fmt: skip
def test_what_does_not_fit_or_is_too_much_is_no_event(schema: Any, body: bytes, reason: str) -> None:
    with pytest.raises(Reason) as caught:
        codec(schema).to_json(body)
    assert reason in str(caught.value)
    assert "0x" not in str(caught.value)  # the same message has the same reason in every run


def test_schemas_that_grow_without_end_are_no_trouble() -> None:
    bombs = [{"type": "record", "name": "B0", "fields": [{"name": "a", "type": "null"}]}]
    for i in range(1, 40):
        fields = [{"name": f"f{j}", "type": f"B{i - 1}"} for j in range(10)]
        bombs.append({"type": "record", "name": f"B{i}", "fields": fields})
    with pytest.raises(Reason, match="more than 500000 values"):
        codec(*bombs).to_json(b"\x00")


def test_a_decimal_of_any_length_is_read_at_once() -> None:
    body = long(800_000) + b"\x7f" * 800_000
    assert codec(of(logical("bytes", "decimal", precision=9, scale=2))).to_json(body) == b'{"a":null}'


def test_an_event_that_is_too_large_as_json_is_a_dead_letter() -> None:
    """The scored event carries it as JSON, and must fit into its topic."""
    schema = {"type": "record", "name": "R", "fields": [{"name": f"a_long_name_{i}", "type": "int"} for i in range(50)]}
    raw = record(b"\x02" * 50)
    assert Decoder(to_json=codec(schema).to_json, max_bytes=2000).decode([raw])[0]
    _, [bad] = Decoder(to_json=codec(schema).to_json, max_bytes=200).decode([raw])
    assert bad.reason.startswith("too large as JSON: ")


SAMPLE = {
    "id": "e1", "at": datetime(2024, 5, 1, tzinfo=UTC), "load": 0.5, "count": 3, "ok": True, "state": "ON",
    "heat": {"motor": 1.5, "case": None}, "more": {"a": 1.0, "b": "x"}, "parts": [1, 2], "spare": None,
}  # fmt: skip
LEAF: dict[str, Any] = {"x": 1.0, "left": None, "rest": [], "nothing": [None, None]}
MUTATIONS = st.lists(
    st.tuples(st.integers(0, 200), st.binary(max_size=10) | st.sampled_from([long(HUGE), long(-HUGE), b"\x02" * 300])),
    max_size=4,
)


@given(st.sampled_from(["event", "tree"]), MUTATIONS, st.booleans(), st.integers(0, 200))
@example("tree", [(9, b"\x02" * 300)], False, 200)
def test_any_bytes_are_an_event_or_a_dead_letter(
    which: str, changes: list[tuple[int, bytes]], insert: bool, end: int
) -> None:
    schema, value = {"event": (EVENT, SAMPLE), "tree": (TREE, LEAF | {"left": LEAF, "rest": [LEAF, LEAF]})}[which]
    body = bytearray(written(schema, value))
    for at, data in changes:
        body[at : at + (0 if insert else len(data))] = data
    raw = record(bytes(body[:end]))
    results = []
    for _ in range(2):
        good, bad = Decoder(to_json=codec(schema).to_json, time="at").decode([raw])
        assert len(good) + len(bad) == 1
        results += [seen(one) if isinstance(one, Event) else one.reason for one in good + bad]
        assert all(isinstance(one, Event | Bad) for one in good + bad)
    assert results[0] == results[1]


def test_without_fastavro_one_line_says_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['fastavro'] = None\nfrom svead_stream import MissingExtra\n"
        "from svead_kafka.events import decoder\nfrom svead_kafka import Options\n"
        "options = Options(input=['a'], output='b', value_format='avro', schema='http://127.0.0.1:1')\n"
        "try: decoder(options)\nexcept MissingExtra as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "Avro needs fastavro, which is not installed: pip install 'svead-stream[avro]'\n"
