"""What an Avro message can do to the process, and what it is kept from.

fastavro reads quickly, but believes what it reads. An array of nulls takes no bytes, so a message of ten can claim a
trillion of them. With a recursive schema a message is nested as deep as it is long, which overflows the C stack and
ends the process. So for each schema it is known how many values a message of some length can have at most; if that is
too many, or the schema is recursive, the message is walked through once before it is decoded, with a limit on values
and on depth. Most schemas are plain, and their messages are never walked through.
"""

from __future__ import annotations

import math
from typing import Any

from svead_kafka.events import Reason

_MOST_VALUES = 500_000
_DEEPEST = 200  # levels; JSON is written with at most 253
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}  # others take one or more
_SPACE = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class Bounds:
    """How much a message can become, from its schema and its length; a look at the message itself where that is much.

    With `fixed` values that every message may have, and at most `rate` more for each byte of arrays and maps.
    """

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self._body = schema
        self._named = named
        self._sizes: dict[str, tuple[float, float] | None] = {}
        self._rate = 0.0
        self._fixed, _ = self._size(schema)

    def check(self, value: bytes, start: int) -> None:
        """Raise the `Reason` if a message would become too much."""
        if self._rate == math.inf or self._fixed + self._rate * (len(value) - start) > _MOST_VALUES:
            _Walk(value, start, self._named).over(self._body, 0)

    def _size(self, schema: Any) -> tuple[float, float]:
        """The most values that a type has, without what is in arrays and maps, and the least bytes it takes."""
        if isinstance(schema, list):
            sizes = [self._size(one) for one in schema]
            return max(values for values, _ in sizes), 1 + min(least for _, least in sizes)
        name = schema.get("name") if isinstance(schema, dict) else schema
        if name not in self._named:
            return self._size_of(schema)
        if name not in self._sizes:
            self._sizes[name] = None
            self._sizes[name] = self._size_of(self._named[name])
        size = self._sizes[name]
        if size is None:  # we are within it
            self._rate = math.inf
            return 1, 0
        return size

    def _size_of(self, schema: Any) -> tuple[float, float]:
        if isinstance(schema, str):
            return 1, _LEAST_BYTES.get(schema, 1)
        kind = schema["type"]
        if kind in ("record", "error"):
            sizes = [self._size(field["type"]) for field in schema["fields"]]
            return 1 + sum(values for values, _ in sizes), sum(least for _, least in sizes)
        if kind in ("array", "map"):
            values, least = self._size(schema["items"] if kind == "array" else schema["values"])
            least += kind == "map"  # its key
            self._rate = max(self._rate, values / least if least else math.inf)
            return 1, 1
        if kind == "fixed":
            return 1, schema["size"]
        return (1, 1) if kind == "enum" else self._size(kind)


class _Walk:
    """Passes over a message without building anything, as far as its values are not too many or too deep."""

    def __init__(self, value: bytes, start: int, named: dict[str, Any]) -> None:
        self._value = value
        self._at = start
        self._named = named
        self._left = _MOST_VALUES

    def over(self, schema: Any, depth: int) -> None:
        """Pass over one value."""
        self._take(1)
        if depth > _DEEPEST:
            raise Reason(f"nested more than {_DEEPEST} levels deep")
        while not isinstance(schema, str) or schema in self._named:
            if isinstance(schema, str):
                schema = self._named[schema]
                continue
            kind = "union" if isinstance(schema, list) else schema["type"]
            if kind == "union":
                branch = self._long()
                if not 0 <= branch < len(schema):
                    raise Reason("does not fit its schema: it has a branch that the schema lacks")
                schema = schema[branch]
            elif kind in ("record", "error"):
                for field in schema["fields"]:
                    self.over(field["type"], depth + 1)
                return
            elif kind in ("array", "map"):
                self._over_items(schema, kind == "map", depth + 1)
                return
            elif kind == "fixed":
                self._skip(schema["size"])
                return
            else:
                schema = "int" if kind == "enum" else kind
        if schema in _SPACE:
            self._skip(_SPACE[schema])
        elif schema in ("string", "bytes"):
            self._skip(self._long())
        else:
            self._long()

    def _over_items(self, schema: Any, is_map: bool, depth: int) -> None:
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # how many bytes they take
            if count > self._left:
                self._take(count)
            for _ in range(count):
                if is_map:
                    self._skip(self._long())
                self.over(schema["values"] if is_map else schema["items"], depth)

    def _take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise Reason(f"more than {_MOST_VALUES} values")

    def _skip(self, count: int) -> None:
        if not 0 <= count <= len(self._value) - self._at:
            raise Reason("does not fit its schema: it ends too early")
        self._at += count

    def _long(self) -> int:
        found = shift = 0
        while True:
            if self._at >= len(self._value) or shift > 63:
                raise Reason("does not fit its schema: it ends too early, or has a number of more than 64 bits")
            byte = self._value[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
