"""Cells of any type as text: in JSON, and in a CSV."""

from __future__ import annotations

import json
import math
import re
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from svead_stream.cli.cells import is_text

_ZONE = re.compile(r"([+-]\d\d)(\d\d)$")  # as Arrow writes it
Missing = TypeVar("Missing", str, None)


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_text, allow_nan=False)


def dumps(value: Any) -> str:
    """A value as JSON: what it has no type for as text, and numbers that it lacks as null."""
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_texts(cells: pa.ChunkedArray, missing: Missing) -> list[str | Missing]:
    """Each cell as JSON, or what stands for a missing one: decimals digit by digit, times in ISO 8601."""
    kind = cells.type
    if pa.types.is_dictionary(kind):
        return json_texts(cells.cast(kind.value_type), missing)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        return [missing if text is None else text for text in pc.cast(cells, pa.string()).to_pylist()]
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        texts = pc.cast(cells, pa.string()).to_pylist()
        return [missing if text is None else f'"{_iso(text)}"' for text in texts]
    if pa.types.is_floating(kind):
        return [missing if v is None else repr(v) if math.isfinite(v) else "null" for v in cells.to_pylist()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        array = cells.combine_chunks()
        items = iter(json_texts(pa.chunked_array([array.flatten()]), "null"))
        lengths = pc.list_value_length(array).to_pylist()
        return [missing if n is None else f"[{','.join(islice(items, n))}]" for n in lengths]
    if pa.types.is_struct(kind) and kind.num_fields:  # in a list: others are columns of their own
        rows = json_rows(pa.table(cells.combine_chunks().flatten(), [field.name for field in kind]))
        is_there = cells.is_valid().to_pylist()
        return [row.decode() if there else missing for row, there in zip(rows, is_there, strict=True)]
    return [missing if value is None else dumps(value) for value in cells.to_pylist()]


def _iso(time: str) -> str:
    return _ZONE.sub(r"\1:\2", time.replace(" ", "T"))


def json_rows(table: pa.Table) -> list[bytes]:
    """The rows as JSON objects."""
    columns = []
    for name, cells in zip(table.column_names, table.columns, strict=True):
        key = dumps(name)
        columns.append([f"{key}:{text}" for text in json_texts(cells, "null")])
    return [f"{{{','.join(row)}}}".encode() for row in zip(*columns, strict=True)]


def flat(table: pa.Table) -> pa.Table:
    """The table with columns that a CSV can hold: lists and the like are JSON there."""
    return pa.table([_flat(cells) for cells in table.columns], table.column_names)


def _flat(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_nested(cells.type):
        return pa.chunked_array([pa.array(json_texts(cells, None), pa.string())])
    if pa.types.is_string_view(cells.type) or pa.types.is_dictionary(cells.type):
        return cells.cast(pa.string())
    if is_text(cells.type) or pa.types.is_primitive(cells.type) or pa.types.is_decimal(cells.type):
        return cells
    return pa.chunked_array([pa.array([None if v is None else _text(v) for v in cells.to_pylist()], pa.string())])
