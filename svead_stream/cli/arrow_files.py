"""Rows of Parquet and Arrow (Feather) files, which have types of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from svead_stream.cli.batches import Batch, flat
from svead_stream.cli.errors import DataError
from svead_stream.cli.sources import Readable, Source

_ROWS = 16_384
_STREAM = b"\xff\xff\xff\xff"


def read_parquet(source: Source) -> Iterator[Batch]:
    """The batches of a Parquet file."""
    for where in _seekable(source):
        try:
            file = pa.parquet.ParquetFile(where)
        except pa.ArrowInvalid as error:
            raise _wrong(source, "Parquet", error) from error
        yield from _batches(source, file.iter_batches(_ROWS), file.metadata.num_rows)


def read_arrow(source: Source) -> Iterator[Batch]:
    """The batches of an Arrow file, also known as Feather, or of an Arrow stream."""
    try:
        if source.start().startswith(_STREAM):
            yield from _batches(source, _cut(pa.ipc.open_stream(pa.PythonFile(Readable(source.read), "r"))))
            return
        for where in _seekable(source):
            file = pa.ipc.open_file(where)
            parts = (file.get_batch(i) for i in range(file.num_record_batches))
            yield from _batches(source, _cut(parts))
    except (pa.ArrowInvalid, OSError) as error:
        raise _wrong(source, "Arrow", error) from error


def _seekable(source: Source) -> Iterator[Any]:
    """The file; of what is compressed or comes through a pipe, a copy: the table of contents is at the end."""
    if source.can_seek and not source.is_compressed:
        yield source.path
        return
    with tempfile.TemporaryFile() as kept:
        while data := source.read():
            kept.write(data)
        kept.seek(0)
        yield kept


def _cut(parts: Any) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for start in range(0, part.num_rows, _ROWS):
            yield part.slice(start, _ROWS)


def _batches(source: Source, parts: Iterator[pa.RecordBatch], total: int | None = None) -> Iterator[Batch]:
    row = 1
    for part in parts:
        lines = np.arange(row, row + part.num_rows)
        row += part.num_rows
        if total is not None:
            source.n_read = (source.size or 0) * (row - 1) // max(total, 1)
        table = _without_views(flat(pa.Table.from_batches([part]), source.name))
        encoded = {f.name: f.type.value_type for f in table.schema if pa.types.is_dictionary(f.type)}
        plain = {name: table[name].cast(kind) for name, kind in encoded.items()}
        yield Batch(table, lines, plain=plain)


def _without_views(table: pa.Table) -> pa.Table:
    """Text as strings where it comes as views, which few functions know."""
    fields = [f.with_type(pa.string()) if pa.types.is_string_view(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _wrong(source: Source, format: str, error: Exception) -> DataError:
    return DataError(f"{source.name} is not {format}: {str(error).splitlines()[0]}")
