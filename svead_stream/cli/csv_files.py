"""Rows of CSV: cells are kept as text, so that they are written as they were read; numbers are made of them later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from svead_stream.cli.batches import Batch, Reject
from svead_stream.cli.dialects import COMMENT, CsvOptions, Dialect, find
from svead_stream.cli.encodings import BAD_LINES, is_utf8
from svead_stream.cli.errors import DataError
from svead_stream.cli.sources import Block, Source
from svead_stream.cli.words import counted

_MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None", "none", "?"]
_MISSING_CELLS = [word.encode() or b'""' for word in _MISSING]  # empty text is missing too


def read(source: Source, options: CsvOptions, end: Callable[[], bool] | None, first_rows: int) -> Iterator[Batch]:
    """The batches of a CSV.

    Parameters
    ----------
    source
        Its bytes.
    options
        What is known of how it is written.
    end, first_rows
        As for `Source.blocks`.

    """
    start = source.peek(1 + first_rows, end)
    if not start.strip():
        raise DataError(f"{source.name} is empty: there is not even a header")
    dialect = find(source.name, start, options)
    source.delimiter = dialect.delimiter
    for text in dialect.said:
        source.say(text)
    skip = dialect.skip
    for block in source.blocks(True, end, first_rows, dialect.clean):
        yield _parse(source, block, dialect, skip)
        skip = 0


def _parse(source: Source, block: Block, dialect: Dialect, skip: int) -> Batch:
    rejects: list[Reject] = []
    broken: list[int] = []  # rows of the block, counted from 1, that are not in the table
    is_text = is_utf8(block.data)
    # pyarrow hands over only such bad rows as are UTF-8: any bytes are, taken for letters of Latin-1.
    data = block.data if is_text else block.data.decode("latin-1").encode()

    def set_aside(row: Any) -> str:
        broken.append(row.number)
        if row.text.lstrip().startswith(dialect.comment or COMMENT):
            return "skip"
        reason = f"has {counted(row.actual_columns, 'cell')} where the header has {row.expected_columns}"
        text = row.text if is_text else row.text.encode("latin-1").decode("utf-8", "backslashreplace")
        rejects.append(Reject(source.name, block.first_line + row.number - 1, reason, text))
        return "skip"

    table = _table(data, dialect, skip, False, set_aside)
    rows = np.arange(1 + skip, table.num_rows + len(broken) + 1 + skip)
    if broken:
        rows = np.setdiff1d(rows, broken)
    lines = block.first_line - 1 + rows
    table, plain = _as_it_stood(data, dialect, skip, table)
    batch = Batch(table, lines, None, rejects, plain)
    if not is_text:
        batch = _set_bad_text_aside(source, batch, dialect.delimiter)
    empty = _empty_rows(batch.readable)
    return batch.without(empty) if empty.any() else batch


def _table(
    data: bytes,
    dialect: Dialect,
    skip: int,
    is_as_it_stood: bool,
    set_aside: Callable[[Any], str],
    names: list[str] | None = None,
) -> pa.Table:
    if skip and len(data.rstrip(b"\r\n").splitlines()) <= skip:
        return pa.table({name: pa.array([], pa.string()) for name in names or dialect.names})
    return pa.csv.read_csv(
        pa.BufferReader(data),
        # One thread: only then do rows that are set aside come with their numbers.
        read_options=pa.csv.ReadOptions(
            use_threads=False, column_names=dialect.names, skip_rows=skip, block_size=1 << 27
        ),
        parse_options=pa.csv.ParseOptions(
            delimiter=dialect.delimiter,
            newlines_in_values=True,
            ignore_empty_lines=False,  # they count as lines
            invalid_row_handler=set_aside,
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(dialect.names, pa.string()),
            include_columns=names,
            null_values=[""] if is_as_it_stood else _MISSING,
            strings_can_be_null=True,
            quoted_strings_can_be_null=not is_as_it_stood,
            check_utf8=False,  # looked at before
        ),
    )


def _as_it_stood(
    data: bytes, dialect: Dialect, skip: int, table: pa.Table
) -> tuple[pa.Table, dict[str, pa.ChunkedArray]]:
    """The table with what stood for missing values, and the columns without."""
    columns = dict(zip(dialect.names, table.columns, strict=True))
    with_missing = {name: cells for name, cells in columns.items() if cells.null_count}
    if not with_missing or not any(cell in data for cell in _MISSING_CELLS):
        return table, {}
    written = _table(data, dialect, skip, True, lambda row: "skip", list(with_missing))
    plain = {name: cells for name, cells in with_missing.items() if written[name].null_count < cells.null_count}
    return pa.table(columns | {name: written[name] for name in plain}), plain


def _set_bad_text_aside(source: Source, batch: Batch, delimiter: str) -> Batch:
    """The rows that are text, of a batch that was read as Latin-1."""
    rows = list(zip(*map(_as_bytes, batch.table.columns), strict=True))
    bad = np.array([not all(cell is None or is_utf8(cell) for cell in row) for row in rows], dtype=np.bool_)
    named = "UTF-8" if source.encoding == "utf-8" else source.encoding
    for i in np.flatnonzero(bad).tolist():
        text = delimiter.join((cell or b"").decode("utf-8", "backslashreplace") for cell in rows[i])
        batch.rejects.append(Reject(source.name, int(batch.lines[i]), f"is not {named} text", text))
    if bad.sum() >= BAD_LINES and source.encoding == "utf-8":
        source.say(f"{source.name} has rows that are not UTF-8: --encoding cp1252, or whatever it is, reads them")
    batch = batch.without(bad)
    table = pa.table([_restored(cells) for cells in batch.table.columns], batch.table.column_names)
    return replace(batch, table=table, plain={name: _restored(cells) for name, cells in batch.plain.items()})


def _restored(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(_as_bytes(cells), pa.binary())]).cast(pa.string())


def _as_bytes(cells: pa.ChunkedArray) -> list[bytes | None]:
    return [None if cell is None else cell.encode("latin-1") for cell in cells.to_pylist()]


def _empty_rows(table: pa.Table) -> npt.NDArray[np.bool_]:
    empty = np.ones(table.num_rows, dtype=np.bool_)
    for column in table.columns:
        if not column.null_count:
            empty[:] = False
            break
        empty &= column.is_null().to_numpy()
    return empty
