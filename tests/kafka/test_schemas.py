"""Where Avro schemas come from, and what is the matter when they don't: dead letter, try again, or give up at once."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaError
from registry import Registry, of, record, registry, wire
from svead_kafka import ConfigurationError, Options, Worker, schemas
from svead_kafka.events import Decoder, decoder
from svead_kafka.options import describe
from svead_kafka.schemas import RegistryUnavailable

SECRET = "correct-horse-battery"
COUNT = of("int")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_PAUSES", (0.01, 0.01))


@pytest.fixture
def served() -> Iterator[Registry]:
    with registry() as made:
        yield made


def options(place: object, **more: Any) -> Options:
    return Options(input=["in"], output="out", value_format="avro", schema=str(place), **more)


def read(made: Decoder, value: bytes) -> dict[str, float] | str:
    """The features of one message, or why it is no event."""
    good, bad = made.decode([record(value)])
    return dict(zip(good[0].names, good[0].values, strict=True)) if good else bad[0].reason


def test_one_file_is_for_bare_bodies(tmp_path: Path) -> None:
    file = tmp_path / "event.avsc"
    file.write_text(json.dumps(COUNT))
    made = decoder(options(file))
    assert read(made, b"\x06") == {"a": 3}
    assert read(made, b"\x06\x06") == "does not fit event.avsc: bytes left over: 1"
    hint = "if it begins with a schema id, 7, give a directory or a registry as --schema"
    assert read(made, wire(7, b"\x06")) == f"does not fit event.avsc: bytes left over: 5; {hint}"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"a": 1}', "not Avro with a schema id: it begins with 0x7b, not with 0x00"),
        (b"\x00\x00\x00", "not Avro with a schema id: it ends too early"),
        (wire(7, b""), "does not fit 7.avsc: it ends too early"),
        (wire(8, b"\x06"), "schema 8 is not in "),
        (wire(2**32 - 1, b"\x06"), "schema 4294967295 is not in "),
        (b"", "empty"),
    ],
)
def test_a_directory_has_a_file_for_each_schema_id(tmp_path: Path, value: bytes, reason: str) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(COUNT))
    (tmp_path / "notes.avsc").write_text("no schema, and not looked at")
    made = decoder(options(tmp_path))
    assert read(made, wire(7, b"\x06")) == {"a": 3}
    assert str(read(made, value)).startswith(reason)
    (tmp_path / "8.avsc").write_text(json.dumps(COUNT))  # is found by the next worker: this one decides once
    assert str(read(made, value)).startswith(reason)


def test_files_that_are_no_schemas_are_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"has no schemas: their files are named by id, such as 7\.avsc"):
        options(tmp_path)
    with pytest.raises(ConfigurationError, match="no file or directory of schemas at"):
        options(tmp_path / "nowhere")
    file = tmp_path / "7.avsc"
    for text, said in (
        ("{", "cannot be read"),
        ('{"type": "what"}', "is no schema of Avro"),
        ("3", "no schema of Avro"),
    ):
        file.write_text(text)
        for place in (tmp_path, file):
            with pytest.raises(ConfigurationError, match=f"7.avsc.*{said}"):
                Worker(options(place))


def test_a_registry_is_asked_once_for_each_schema_id(served: Registry) -> None:
    served.add(7, COUNT)
    served.add(8, of("double"))
    made = decoder(options(served.address + "/"))
    for _ in range(3):
        assert read(made, wire(7, b"\x06")) == {"a": 3}
        assert read(made, wire(8, b"\x06")) == "does not fit schema 8: it ends too early"
    assert served.asked == ["/schemas/ids/7", "/schemas/ids/8"]


def test_schemas_that_a_schema_refers_to_are_asked_for_by_subject_and_version(served: Registry) -> None:
    street = {"type": "record", "name": "Street", "namespace": "x", "fields": [{"name": "n", "type": "int"}]}
    place = {"type": "record", "name": "Place", "namespace": "x", "fields": [{"name": "s", "type": "Street"}]}
    to_street = {"name": "x.Street", "subject": "a/street", "version": 3}
    to_place = {"name": "x.Place", "subject": "place", "version": 1}
    served.add_version("a%2Fstreet", 3, street)
    served.add_version("place", 1, place, references=[to_street])
    served.add(7, ["x.Street", "x.Place"], references=[to_street, to_place])
    served.add(8, ["null"], references=[{"name": "gone", "subject": "gone", "version": 2}])
    made = decoder(options(served.address))
    assert read(made, wire(7, b"\x02\x06")) == {"s.n": 3}
    assert len(served.asked) == 3
    assert read(made, wire(8, b"\x00")) == "schema 8 refers to version 2 of 'gone', which the registry lacks"


def test_a_schema_that_the_registry_does_not_have_makes_dead_letters(
    served: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = decoder(options(served.address))
    for _ in range(3):
        assert read(made, wire(9, b"\x06")) == "schema 9 is not in the registry"
    assert served.asked == ["/schemas/ids/9"]  # not for each of a thousand messages
    served.add(9, COUNT)
    monkeypatch.setattr(schemas, "_ASK_AGAIN", 0.0)
    assert read(made, wire(9, b"\x06")) == {"a": 3}


def test_a_schema_that_is_not_avro_makes_dead_letters(served: Registry) -> None:
    served.add(1, "syntax = 'proto3'", schemaType="PROTOBUF")
    served.add(2, {"type": "what"})
    served.pages["/schemas/ids/3"] = (200, b'{"schema": "{"}')
    served.add(4, "null", references=[{"subject": 3}])
    made = decoder(options(served.address))
    for schema_id, reason in (
        (1, "schema 1 is PROTOBUF, not Avro"),
        (2, "schema 2 is no schema of Avro: UnknownType"),
        (3, "schema 3 cannot be read: JSONDecodeError"),
        (4, "schema 4 cannot be read: KeyError"),
    ):
        for _ in range(2):
            assert str(read(made, wire(schema_id, b"\x06"))).startswith(reason)
    assert served.asked == [f"/schemas/ids/{schema_id}" for schema_id in range(1, 5)]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_registry_that_is_out_of_order_is_asked_again_and_nothing_is_decided(served: Registry, status: int) -> None:
    served.add(7, COUNT)
    made = decoder(options(served.address))
    served.failures = [status, status]
    assert read(made, wire(7, b"\x06")) == {"a": 3}
    served.add(8, COUNT)
    served.failures = [status] * 3
    with pytest.raises(RegistryUnavailable, match=f"answered {status} to /schemas/ids/8") as caught:
        read(made, wire(8, b"\x06"))
    assert isinstance(caught.value, KafkaError)  # which a worker takes for a failure that may pass
    assert read(made, wire(8, b"\x06")) == {"a": 3}


def test_a_registry_out_of_reach_is_a_failure_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        port = silent.getsockname()[1]
        with pytest.raises(
            RegistryUnavailable, match=f"registry at http://127.0.0.1:{port} did not answer to /schemas/ids/7 in"
        ):
            read(decoder(options(f"http://user:{SECRET}@127.0.0.1:{port}")), wire(7, b"\x06"))
    for place, why in ((f"127.0.0.1:{port}", "Connection refused"), ("no-such-host.invalid", "did not answer")):
        with pytest.raises(RegistryUnavailable, match=why) as caught:
            read(decoder(options(f"http://user:{SECRET}@{place}")), wire(7, b"\x06"))
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b"{}", "refuses the worker"),
        (403, b"{}", "refuses the worker"),
        (404, b"<html>", "answered 404 to /schemas/ids/7, without a schema"),
        (
            404,
            b'{"error_code": 404, "message": "HTTP 404 Not Found"}',
            "answered 404 to /schemas/ids/7, without a schema",
        ),
        (404, b"{}", "answered 404 to /schemas/ids/7, without a schema"),
        (302, b"", "answered 302 to /schemas/ids/7, without a schema"),
        (200, b"<html>", "answered 200 to /schemas/ids/7, without a schema"),
        (200, b"[]", "answered 200 to /schemas/ids/7, without a schema"),
        (200, b'{"schema": 3}', "answered 200 to /schemas/ids/7, without a schema"),
    ],
)
def test_a_registry_that_refuses_us_or_is_none_ends_the_worker(
    served: Registry, status: int, body: bytes, said: str
) -> None:
    served.pages["/schemas/ids/7"] = (status, body)
    made = decoder(options(served.address.replace("//", f"//user:{SECRET}@")))
    with pytest.raises(ConfigurationError, match=said) as caught:
        read(made, wire(7, b"\x06"))
    assert SECRET not in str(caught.value)
    assert len(served.asked) == 1


def test_user_and_password_are_sent_and_never_told(served: Registry, tmp_path: Path) -> None:
    served.add(7, COUNT)
    mine = options(served.address.replace("//", f"//me:{SECRET}%21@"))
    assert read(decoder(mine), wire(7, b"\x06")) == {"a": 3}
    assert served.authorized == ["Basic bWU6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5IQ=="]
    said = "".join(describe(mine, {"in": 4, "out": 4}))
    assert f"events are Avro, schemas from the schema registry at {served.address}; features" in said
    assert SECRET not in said + repr(mine) + str(mine.fingerprint)
    for wrong in (
        f"ftp://me:{SECRET}@host",
        f"https://me:{SECRET}@",
        f"http://me:{SECRET}@host:99999",
        f"http://{SECRET} ",
    ):
        with pytest.raises(ConfigurationError, match="no address of a registry") as caught:
            options(wrong.format(SECRET))
        assert SECRET not in str(caught.value)


def test_saved_models_know_by_which_schema_their_events_were_read(tmp_path: Path) -> None:
    file, again, other = tmp_path / "a.avsc", tmp_path / "b.avsc", tmp_path / "c.avsc"
    file.write_text(json.dumps(COUNT))
    again.write_text(json.dumps(COUNT | {"doc": "said differently"}, indent=2))
    other.write_text(json.dumps(of("long")))
    assert options(file).fingerprint == options(again).fingerprint != options(other).fingerprint
    (tmp_path / "7.avsc").write_text(json.dumps(COUNT))
    by_id = options(tmp_path).fingerprint
    assert by_id == options("https://example.com").fingerprint  # what an id stands for does not depend on the place
    plain = Options(input=["in"], output="out").fingerprint
    assert plain.keys() == by_id.keys() - {"value_format", "schema"}  # models of JSON events stay valid


def test_avro_needs_a_schema_and_json_has_none() -> None:
    for wrong in ({"value_format": "avro"}, {"schema": "event.avsc"}):
        with pytest.raises(ConfigurationError, match="--value-format avro and --schema go together"):
            Options(input=["in"], output="out", **wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="value_format must be json or avro, not 'xml'"):
        Options(input=["in"], output="out", value_format="xml")
