"""Parquet and Arrow files: their columns have one type, which may turn out to be too narrow on the way."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from svead_stream.cli.errors import DataError
from svead_stream.cli.typed import common_schema, fitted, without_dictionaries

FORMATS = ("parquet", "arrow")
_GROUP = 1 << 22  # bytes that are written together: small groups of rows make large files


class TypedFile:
    """Takes tables one after the other; where they differ in columns or types, the file holds what fits them all.

    What was written already is then written again.

    Parameters
    ----------
    place
        Of the file.
    format
        One of `FORMATS`.
    """

    def __init__(self, place: str, format: str) -> None:
        self._place = place
        self._format = format
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        self._waiting: list[pa.Table] = []
        self._n_bytes = 0  # that wait

    def write(self, table: pa.Table) -> None:
        """Write some rows."""
        if self._format == "arrow":
            table = without_dictionaries(table)  # such a file has one for all rows, and more values may come
        if self._schema is None:
            self._open(table.schema)
        if table.schema != self._schema:
            self._flush()
            table = self._widened(table)
        self._waiting.append(table)
        self._n_bytes += table.nbytes
        if self._n_bytes >= _GROUP:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._n_bytes = self._waiting, [], 0
        if waiting:
            self._writer.write_table(pa.concat_tables(waiting))

    def close(self) -> None:
        """Finish the file. A column without any value is one of text: few programs read the type of nothing."""
        if self._schema is None:
            return
        self._flush()
        fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in self._schema]
        if fields != list(self._schema):
            self._widened(pa.schema(fields).empty_table())
        self._writer.close()

    def _open(self, schema: pa.Schema) -> None:
        self._schema = schema
        write = pa.parquet.ParquetWriter if self._format == "parquet" else pa.ipc.new_file
        self._writer = write(self._place, schema)

    def _widened(self, table: pa.Table) -> pa.Table:
        """The table in the schema of the file, which is made wider if it must be."""
        assert self._schema is not None
        first, before = self._schema, f"{self._place}.before"
        try:
            for schema in (common_schema(first, table.schema), common_schema(first, table.schema, as_text=True)):
                with contextlib.suppress(pa.ArrowInvalid):  # a large integer as a float would be another one
                    rows = fitted(table, schema)
                    if schema != self._schema:
                        self._rewrite(schema, before)
                    return rows
        finally:
            Path(before).unlink(missing_ok=True)
        raise DataError(f"{self._place}: no type for {table.schema} after {first}")

    def _rewrite(self, schema: pa.Schema, before: str) -> None:
        """Write again what was written, in another schema."""
        self._writer.close()
        if not Path(before).exists():
            os.replace(self._place, before)
        self._open(schema)
        for table in _tables(before, self._format):
            self._writer.write_table(fitted(table, schema))


def _tables(path: str, format: str) -> Iterator[pa.Table]:
    if format == "parquet":
        with pa.parquet.ParquetFile(path) as file:
            for i in range(file.num_row_groups):
                yield file.read_row_group(i)
    else:
        with pa.ipc.open_file(path) as reader:
            for i in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(i)])
