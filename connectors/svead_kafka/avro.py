"""Avro messages, translated to JSON: from there on they are events like all others.

So what holds for JSON holds for them. The numbers of an event are those in the JSON that its scored event carries, and
an answer that brings this JSON back means the same event. NaN and infinity become null, a missing value. Decimals
become the nearest double; times, dates and UUIDs the text that is usual for them, which is no feature but can be the
time of the event; bytes become base64.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import orjson

from svead_kafka.avro_bounds import Bounds
from svead_kafka.errors import ConfigurationError
from svead_kafka.events import Reason
from svead_kafka.schemas import Directory, File, NoSchema, Registry, Schema, essential
from svead_stream.errors import MissingExtra

try:
    import fastavro
    from fastavro.read import LOGICAL_READERS
except ImportError:
    raise MissingExtra("Avro needs fastavro, which is not installed: pip install 'svead-stream[avro]'") from None

_HEADER = 5  # bytes: a zero and the schema id


def translator(schemas: File | Directory | Registry) -> Callable[[bytes], bytes]:
    """A function from an Avro message to JSON, which raises the `Reason` if the message does not fit its schema."""
    if isinstance(schemas, File):
        return _bare(_codec(schemas.schema))
    by_id = _ById(schemas)
    if isinstance(schemas, Directory):
        by_id.known |= {schema_id: _codec(schema) for schema_id, schema in schemas.schemas.items()}
    return by_id


def _codec(schema: Schema) -> Codec:
    try:
        return Codec(schema)
    except NoSchema as error:
        raise ConfigurationError(str(error)) from None


def _bare(codec: Codec) -> Callable[[bytes], bytes]:
    def to_json(value: bytes) -> bytes:
        try:
            return codec.to_json(value)
        except Reason as reason:
            if value[0] == 0 and len(value) > _HEADER:
                hint = f"if it begins with a schema id, {_schema_id(value)}, give a directory or a registry as --schema"
                raise Reason(f"{reason}; {hint}") from None
            raise

    return to_json


class _ById:
    """Reads messages in the wire format of schema registries: a zero, the schema id in four bytes, the body."""

    def __init__(self, schemas: Directory | Registry) -> None:
        self.known: dict[int, Codec | str] = {}  # a schema, or why it is none
        self._schemas = schemas

    def __call__(self, value: bytes) -> bytes:
        if value[0] != 0:
            raise Reason(f"not Avro with a schema id: it begins with {value[0]:#04x}, not with 0x00")
        if len(value) < _HEADER:
            raise Reason("not Avro with a schema id: it ends too early")
        schema_id = _schema_id(value)
        codec = self.known.get(schema_id)
        if codec is None:
            codec = self._find(schema_id)
        if isinstance(codec, str):
            raise Reason(codec)
        return codec.to_json(value, _HEADER)

    def _find(self, schema_id: int) -> Codec | str:
        try:
            schema = self._schemas.find(schema_id)
        except NoSchema as error:
            return str(error)  # it may be there the next time
        try:
            self.known[schema_id] = Codec(schema)
        except NoSchema as error:
            self.known[schema_id] = str(error)
        return self.known[schema_id]


def _schema_id(value: bytes) -> int:
    return int.from_bytes(value[1:_HEADER], "big")


class Codec:
    """Reads bodies that were written with a schema.

    Raises
    ------
    NoSchema
        If it is no schema of Avro.
    """

    def __init__(self, schema: Schema) -> None:
        self.name = schema.name
        named: dict[str, Any] = {}
        try:
            *others, last = map(essential, schema.documents)
            for other in others:
                fastavro.parse_schema(other, named)
            # Around the schema, which may be a union or a plain type, goes a record: it takes no bytes, and fastavro
            # remembers the types of a record only.
            fields = [{"name": "body", "type": last}]
            self._schema = fastavro.parse_schema({"type": "record", "name": "_", "fields": fields}, named)
            self._bounds = Bounds(_body_of(self._schema), named)
        except Exception as error:  # fastavro raises what comes along
            raise NoSchema(f"{self.name} is no schema of Avro: {type(error).__name__}: {error}"[:500]) from None

    def to_json(self, value: bytes, start: int = 0) -> bytes:
        """The body that begins at `start`, as JSON."""
        self._bounds.check(value, start)
        body = BytesIO(value)
        body.seek(start)
        try:
            record: Any = fastavro.schemaless_reader(body, self._schema, None)
        except MemoryError:  # says nothing about the message
            raise
        except Exception as error:  # as above; its text may hold addresses in memory
            raise Reason(f"does not fit {self.name}: {_why(error)}") from None
        if body.tell() < len(value):
            raise Reason(f"does not fit {self.name}: bytes left over: {len(value) - body.tell()}")
        try:
            return orjson.dumps(record["body"], default=_base64)
        except TypeError as error:
            raise Reason(f"cannot be written as JSON: {error}") from None


def _body_of(schema: Any) -> Any:
    """The schema within the record that was put around it."""
    return schema["fields"][0]["type"]


def _why(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it ends too early"
    if isinstance(error, UnicodeDecodeError):
        return "it has text that is not UTF-8"
    if isinstance(error, IndexError):
        return "it ends too early, or has a branch or symbol that the schema lacks"
    return type(error).__name__


def _base64(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError


# logical types, under names of our own: fastavro's table belongs to all that use it

_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY = date(1970, 1, 1)
_DAY = timedelta(days=1)


def _decimal(data: bytes, schema: Any, *_: Any) -> float:
    # Python's decimals would take minutes for a megabyte of digits.
    try:
        return float(int.from_bytes(data, "big", signed=True) / 10 ** schema["scale"])
    except OverflowError:
        return math.inf


def _uuid(data: bytes, *_: Any) -> str:
    return str(UUID(bytes=data)) if len(data) == 16 else data.hex()


def _date(days: int, *_: Any) -> str:
    try:
        return (_FIRST_DAY + timedelta(days=days)).isoformat()
    except OverflowError:
        return f"{days} days since 1970"


def _timestamp(unit: str, suffix: str) -> Callable[..., str]:
    nanos = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}[unit]
    precision = "milliseconds" if unit == "millis" else "microseconds"

    def read(count: int, *_: Any) -> str:
        micros, rest = divmod(count * nanos, 1000)
        try:
            text = (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec=precision)
        except OverflowError:  # far beyond all calendars, and no time that can be used
            return f"{count} {unit} since 1970"
        return f"{text}{rest:03d}{suffix}" if unit == "nanos" else text + suffix

    return read


def _time_of_day(unit: str) -> Callable[..., str]:
    def read(count: int, *_: Any) -> str:
        since = timedelta(microseconds=count * {"millis": 1000, "micros": 1}[unit]) if 0 <= count < 2**40 else _DAY
        if since >= _DAY:
            return f"{count} {unit} since midnight"
        return (_EPOCH + since).time().isoformat(timespec="milliseconds" if unit == "millis" else "microseconds")

    return read


LOGICAL_READERS |= {
    "bytes-svead-decimal": _decimal,
    "fixed-svead-decimal": _decimal,
    "fixed-svead-uuid": _uuid,
    "int-svead-date": _date,
    "int-svead-time-millis": _time_of_day("millis"),
    "long-svead-time-micros": _time_of_day("micros"),
    **{f"long-svead-timestamp-{unit}": _timestamp(unit, "Z") for unit in ("millis", "micros", "nanos")},
    **{f"long-svead-local-timestamp-{unit}": _timestamp(unit, "") for unit in ("millis", "micros", "nanos")},
}
