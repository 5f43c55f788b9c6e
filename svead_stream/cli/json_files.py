"""Rows of JSON: a line each, or elements of an array, or objects over several lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json

from svead_stream.cli.batches import Batch, Reject, flat
from svead_stream.cli.cells import is_number, shorten
from svead_stream.cli.errors import DataError
from svead_stream.cli.sources import Source
from svead_stream.cli.words import listed

_DEEP = 256  # brackets in a line of JSON: more may be nested so deep that pyarrow overflows the stack
_TOKEN = re.compile(
    rb'(?P<whole>\{(?:[^"{}\[\]]+|"(?:[^"\\\n]|\\.)*+")*+\})'  # most objects hold no others
    rb'|"(?:[^"\\\n]|\\.)*+(?:"|\n|\\?\Z)'  # a string is over where its line is
    rb"|[{}\[\]]"
)
_LINE_ENDS = re.compile(rb"\s*[\r\n]\s*")
_BETWEEN = b" \t\r\n,"
_LONGEST = 1 << 26  # bytes of an element
_ARRAY = re.compile(rb"\s*\[\s*([\[{\]]|\Z)")
_NUMBERED = re.compile(r"(.+)\.\d+")
_ROWS = "write a row a line, in pandas with to_json(..., orient='records', lines=True)"


def read(source: Source, end: Callable[[], bool] | None, first_rows: int) -> Iterator[Batch]:
    """The batches of a JSON file, in whatever form.

    Parameters
    ----------
    source
        Its bytes.
    end, first_rows
        As for `Source.blocks`.

    """
    is_first = first_rows > 0  # a single row then is the only one
    rows = _elements if _is_spread(source.peek(1 + first_rows, end)) else _lines
    parser = _Parser(source.name)
    for texts, lines in rows(source, end, first_rows):
        batch = parser.parse(texts, np.asarray(lines, dtype=np.int64))
        if is_first and batch.table.num_rows == 1:
            _check_rows(source.name, batch.table)
        is_first = False
        yield batch


def _lines(source: Source, end: Callable[[], bool] | None, first_rows: int) -> Iterator[tuple[list[bytes], list[int]]]:
    for block in source.blocks(False, end, first_rows):
        texts = block.data.split(b"\n")
        if texts[-1] == b"":
            texts.pop()
        filled = [i for i, text in enumerate(texts) if text.strip()]
        yield [texts[i] for i in filled], [block.first_line + i for i in filled]


# Arrays, and objects over several lines: cut where brackets are balanced


def _is_spread(start: bytes) -> bool:
    """Whether a file is anything else than an object a line, by its first line."""
    if _ARRAY.match(start):
        return True
    first, *others = (line for line in start.split(b"\n", 100) if line.strip())
    texts, _ = _Cutter().cut(first)
    if texts:
        return texts != [first.strip()]
    return first.lstrip().startswith(b"{") and not (others and others[0].startswith(b"{"))


def _elements(
    source: Source, end: Callable[[], bool] | None, first_rows: int
) -> Iterator[tuple[list[bytes], list[int]]]:
    cutter = _Cutter()
    for more in source.pieces(end, first_rows):
        yield cutter.cut(more)
        if cutter.n_open > _LONGEST:
            raise DataError(f"{source.name}: an object of more than {_LONGEST >> 20} MB of JSON: not a row of a table")
    yield cutter.rest()


class _Cutter:
    """Cuts JSON into the elements of the outermost array, or objects that follow each other, as it comes."""

    def __init__(self) -> None:
        self._data = b""  # from the first element on that is not complete yet
        self._at = 0  # so much of it was looked at
        self._level = 0  # of brackets, not counting those of the outermost array
        self._in_array = False
        self._line = 1

    @property
    def n_open(self) -> int:
        """Bytes that wait for the end of their element."""
        return len(self._data)

    def cut(self, more: bytes) -> tuple[list[bytes], list[int]]:
        """The elements that are complete now, and the lines in which they begin."""
        data = self._data + more
        pieces: list[tuple[int, int]] = []
        start, self._data = 0, data
        at = len(data)
        for token in _TOKEN.finditer(data, self._at):
            sign = data[token.start() : token.start() + 1]
            if sign == b'"':
                if token.end() == len(data):  # it may go on
                    at = token.start()
                    break
            elif token["whole"] is not None:
                if self._level == 0:
                    pieces += (start, token.start()), token.span()
                    start = token.end()
            elif sign in b"{[":
                if self._level == 0:
                    pieces.append((start, token.start()))  # nothing but commas, as it should be
                    opens_array = sign == b"[" and not self._in_array
                    start = token.end() if opens_array else token.start()
                    self._in_array |= opens_array
                    self._level -= opens_array
                self._level += 1
            elif self._level > 1:
                self._level -= 1
            else:
                pieces.append((start, token.start() + self._level))
                self._in_array &= self._level == 1
                self._level, start = 0, token.end()
        texts, lines, counted = [], [], 0
        for begin, end in pieces:
            if text := data[begin:end].strip(_BETWEEN):
                self._line += data.count(b"\n", counted, begin)
                counted = begin
                texts.append(_LINE_ENDS.sub(b" ", text))
                lines.append(self._line)
        self._line += data.count(b"\n", counted, start)
        self._data, self._at = data[start:], at - start
        return texts, lines

    def rest(self) -> tuple[list[bytes], list[int]]:
        """What is left at the end: nothing, unless the last element is cut off."""
        text = self._data.strip(_BETWEEN)
        return ([text], [self._line]) if text else ([], [])


def _check_rows(name: str, table: pa.Table) -> None:
    """Refuse a single object that holds a whole table."""
    names = table.column_names
    lists = [n for n, kind in zip(names, table.schema.types, strict=True) if pa.types.is_list(kind)]
    if any(map(is_number, table.schema.types)):
        numbered = {found[1] for n in names if (found := _NUMBERED.fullmatch(n))}
        if len(names) >= 2 * len(numbered) and all(map(_NUMBERED.fullmatch, names)):
            raise DataError(f"{name} is one JSON object of columns ({listed(sorted(numbered))}): {_ROWS}")
        return
    for inner in lists:
        if pa.types.is_struct(table.schema.field(inner).type.value_type):
            raise DataError(f"{name} is one JSON object with rows inside {inner!r}: jq -c '.{inner}[]' takes them out")
    if len(lists) == len(names) and len({len(table[n][0]) for n in names}) == 1:
        raise DataError(f"{name} is one JSON object of columns ({listed(names)}): {_ROWS}")


# pyarrow reads some rows at once; those it cannot read are read one by one


class _Parser:
    """Makes tables of objects.

    pyarrow takes text that looks like a time for one, in UTC and without its zone. Here such text stays as it stood.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._times = pa.schema([])  # fields that are text, whatever they look like
        self._names: dict[str, None] = {}  # of columns, in the order in which they came

    def parse(self, texts: list[bytes], lines: npt.NDArray[np.int64]) -> Batch:
        """The batch of some objects, which begin in these lines."""
        if not texts:
            return Batch(pa.table({}), lines, [])
        are_objects = all(text.lstrip().startswith(b"{") for text in texts)  # pyarrow would take null for one
        if not are_objects or max(text.count(b"{") + text.count(b"[") for text in texts) > _DEEP:
            return _parse_one_by_one(self._name, texts, lines)
        try:
            table = self._read(texts)
            if table.num_rows != len(texts):
                raise pa.ArrowInvalid("objects and lines do not match")
        except pa.ArrowInvalid:
            return _parse_one_by_one(self._name, texts, lines)
        return Batch(table, lines, texts)

    def _read(self, texts: list[bytes]) -> pa.Table:
        data = b"\n".join(texts)
        nested = _nested(data, self._times)
        table = flat(nested, self._name)
        self._names |= dict.fromkeys(table.column_names)
        times = [one for one in map(_as_text, nested.schema) if one is not None]
        if times:
            self._times = pa.unify_schemas([self._times, pa.schema(times)], promote_options="permissive")
            table = flat(_nested(data, self._times), self._name)
        there = set(table.column_names)
        return table.select([name for name in self._names if name in there])


def _nested(data: bytes, known: pa.Schema) -> pa.Table:
    return pa.json.read_json(
        pa.BufferReader(data),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=1 << 27),
        parse_options=pa.json.ParseOptions(explicit_schema=known, unexpected_field_behavior="infer"),
    )


def _as_text(field: pa.Field) -> pa.Field | None:
    """The field with text in the place of times, and without anything else; None if it holds no times."""
    kind = field.type
    if pa.types.is_timestamp(kind):
        return field.with_type(pa.string())
    if pa.types.is_struct(kind):
        inner = [one for one in map(_as_text, kind) if one is not None]
        return field.with_type(pa.struct(inner)) if inner else None
    if pa.types.is_list(kind):
        item = _as_text(kind.value_field)
        return None if item is None else field.with_type(pa.list_(item))
    return None


def _parse_one_by_one(name: str, texts: list[bytes], lines: npt.NDArray[np.int64]) -> Batch:
    rows: list[dict[str, Any]] = []
    rejects = []
    kept = []
    for i, (text, line) in enumerate(zip(texts, lines.tolist(), strict=True)):
        try:
            row = json.loads(text)
            if b"\\ud" in text.lower():  # half a pair of surrogates is no text
                row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
            reason = None if isinstance(row, dict) else f"is {shorten(row)}, not an object"
            row = _flat_row(row) if reason is None else row
        except (ValueError, RecursionError) as error:  # wrong UTF-8 is a ValueError too
            reason = f"is not JSON: {error}"
        if reason is None:
            rows.append(row)
            kept.append(i)
        else:
            rejects.append(Reject(name, line, reason, text.decode("utf-8", "backslashreplace")))
    names = list(dict.fromkeys(key for row in rows for key in row))
    if not names:  # a table without columns has no rows either
        rejects += [Reject(name, int(lines[i]), "has no fields", texts[i].decode()) for i in kept]
        kept = []
    table = pa.table({key: _column([row.get(key) for row in rows]) for key in names})
    return Batch(table, lines[kept], [texts[i] for i in kept], rejects)


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # Of several types: as text, of which numbers are made where they are needed.
        texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
        return pa.array(texts, pa.string())


def _flat_row(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flattened: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flattened |= _flat_row(value, f"{prefix}{key}.")
        else:
            flattened[f"{prefix}{key}"] = value
    return flattened
