"""Types for files that have them: what the text cells of a CSV are, and what a column is that changes its type."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pyarrow.compute as pc

from svead_stream.cli.cell_texts import json_texts
from svead_stream.cli.cells import is_text

_EXACT = 2.0**53  # larger integers are not all floats
_NO_NUMBER = r"^[+-]?0\d"  # leading zeros are those of a code, such as that of a city
_LARGE_INTEGER = r"^[+-]?\d+$"


class Types:
    """The types of the columns of a CSV: as narrow as their cells allow, and wider for good when one asks for it."""

    def __init__(self) -> None:
        self._types: dict[str, pa.DataType] = {}

    def typed(self, table: pa.Table, readable: pa.Table, numbers: pa.Table) -> pa.Table:
        """The table with its text as integers, floats or true and false wherever all cells so far are.

        Parameters
        ----------
        table
            Cells as they stood.
        readable
            The same, missing where a word stands for that.
        numbers
            Those columns that are features.

        """
        known = dict(zip(numbers.column_names, numbers.columns, strict=True))
        columns = [
            self._typed(name, cells, plain, known.get(name)) if is_text(cells.type) else cells
            for name, cells, plain in zip(table.column_names, table.columns, readable.columns, strict=True)
        ]
        return pa.table(columns, table.column_names)

    def _typed(
        self, name: str, cells: pa.ChunkedArray, plain: pa.ChunkedArray, numbers: pa.ChunkedArray | None
    ) -> pa.ChunkedArray:
        before = self._types.get(name)
        if before == pa.string():
            return cells
        shown = pc.if_else(plain.is_valid(), cells, None)
        plain = shown if numbers is None else plain  # only what was learned as a number need not be text as `20 °C` is
        if plain.null_count == len(plain):
            return pa.chunked_array([pa.nulls(len(plain), before or pa.null())])
        if before is None or before == pa.bool_():
            if (found := _as_bools(shown)) is not None:
                return self._settle(name, found)
            before = before and pa.string()
        if (before is None or before == pa.int64()) and (found := _as_integers(plain)) is not None:
            return self._settle(name, found)
        if before != pa.string() and (found := _as_floats(plain, numbers, is_new=before != pa.float64())) is not None:
            return self._settle(name, found)
        return self._settle(name, cells)

    def _settle(self, name: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        self._types[name] = cells.type
        return cells


def _as_bools(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    if cells.drop_null()[0].as_py().strip().lower() not in ("true", "false"):  # of most columns it is seen at once
        return None
    words = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
    is_true, is_false = pc.equal(words, "true"), pc.equal(words, "false")
    return is_true if pc.all(pc.or_(is_true, is_false)).as_py() else None


def _as_integers(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    trimmed, found = _cast(cells, pa.int64())
    if found is None:
        return None
    is_code = pc.and_(pc.starts_with(trimmed, "0"), pc.greater(pc.binary_length(trimmed), 1))
    return None if pc.any(pc.or_(is_code, pc.starts_with(trimmed, "-0"))).as_py() else found


def _as_floats(cells: pa.ChunkedArray, numbers: pa.ChunkedArray | None, is_new: bool) -> pa.ChunkedArray | None:
    if numbers is None:
        trimmed, found = _cast(cells, pa.float64())
        if found is None:
            return None
    else:
        trimmed, found = cells, pa.chunked_array([pa.array(numbers.to_numpy(), from_pandas=True)])
    if is_new and pc.any(pc.match_substring_regex(trimmed, _NO_NUMBER)).as_py():
        return None
    largest = pc.max(pc.abs(found)).as_py()
    if largest is not None and largest > _EXACT and pc.any(_are_large_integers(trimmed, found)).as_py():
        return None
    return found


def _are_large_integers(texts: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.and_(pc.match_substring_regex(texts, _LARGE_INTEGER), pc.greater(pc.abs(numbers), _EXACT))


def _cast(cells: pa.ChunkedArray, kind: pa.DataType) -> tuple[pa.ChunkedArray, pa.ChunkedArray | None]:
    """The cells, trimmed where they must be, and what they are; None if not all of them are of this kind."""
    with contextlib.suppress(pa.ArrowInvalid):
        return cells, pc.cast(cells, kind)
    trimmed = pc.utf8_trim_whitespace(cells)
    trimmed = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    with contextlib.suppress(pa.ArrowInvalid):
        return trimmed, pc.cast(trimmed, kind)
    return trimmed, None


# A column whose type changes from one batch to the next


def common_schema(before: pa.Schema, now: pa.Schema, as_text: bool = False) -> pa.Schema:
    """A schema for the tables of both: what one of them lacks is missing there, what differs has a type for both.

    Parameters
    ----------
    before, now
        The two.
    as_text
        Whether that type is text in any case.

    """
    known = {field.name: field for field in before}
    new = {field.name: field for field in now}
    fields = []
    for name in known | new:
        one = known.get(name) or new[name]
        other = new.get(name) or known[name]
        kind = one.type
        if one.type != other.type:
            kind = pa.string() if as_text else _common(one.type, other.type)
        is_optional = one.nullable or other.nullable or name not in known or name not in new
        fields.append(pa.field(name, kind, is_optional, one.metadata))
    return pa.schema(fields, metadata=before.metadata)


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    try:
        schemas = [pa.schema([("", kind)]) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.string()


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the columns of a schema; raises ArrowInvalid if a number would change."""
    cells = dict(zip(table.column_names, table.columns, strict=True))
    columns = [
        _fitted(cells[field.name], field.type) if field.name in cells else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def without_dictionaries(table: pa.Table) -> pa.Table:
    """The table with every cell spelled out."""
    spelled = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(spelled, metadata=table.schema.metadata))


def _fitted(cells: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if cells.type == kind:
        return cells
    if pa.types.is_nested(cells.type) and is_text(kind):
        return pa.chunked_array([pa.array(json_texts(cells, missing=None), kind)])
    return cells.cast(kind)
