"""From bytes to tables: CSV, JSON lines and Parquet, batch by batch, with the rows that cannot be read set aside."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from svead_stream.cli.errors import DataError
from svead_stream.cli.sources import Block, Source
from svead_stream.cli.words import counted

_MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None", "none", "?"]
_PARQUET_ROWS = 16_384
_LONGEST_HEADER = 1000  # lines: names may hold line ends
_QUOTED = re.compile(r'"[^"]*"')
_DEEP = 256  # brackets in a line of JSON: more may be nested so deep that pyarrow overflows the stack


class Reject(NamedTuple):
    """A row that was not scored, and why."""

    source: str
    line: int
    reason: str
    text: str


@dataclass
class Batch:
    """Some rows of a source, in order."""

    table: pa.Table
    lines: npt.NDArray[np.int64]  # of each row in its source
    texts: list[bytes] | None = None  # JSON lines as they stood, to be written again unchanged
    rejects: list[Reject] = field(default_factory=list)

    def without(self, bad: npt.NDArray[np.bool_]) -> Batch:
        """The batch with some rows left out."""
        keep = ~bad
        texts = None
        if self.texts is not None:
            texts = [text for text, kept in zip(self.texts, keep.tolist(), strict=True) if kept]
        return Batch(self.table.filter(pa.array(keep)), self.lines[keep], texts, self.rejects)


@dataclass(frozen=True)
class CsvOptions:
    """How a CSV is written: its separator and whether the first line names the columns."""

    delimiter: str | None = None
    header: bool = True


def read(
    source: Source, format: str, options: CsvOptions, end: Callable[[], bool] | None = None, first_rows: int = 0
) -> Iterator[Batch]:
    """The batches of a source; `end` makes it wait for a growing file, `first_rows` for a slow one: `Source.blocks`."""
    if format == "parquet":
        return _read_parquet(source)
    if format == "jsonl":
        return (_parse_json(source.name, block) for block in source.blocks(False, end, first_rows))
    return _read_csv(source, options, end, first_rows)


# CSV: every cell is kept as text, so that it is written as it was read, and numbers are made of it later


def _read_csv(source: Source, options: CsvOptions, end: Callable[[], bool] | None, first_rows: int) -> Iterator[Batch]:
    start = source.peek().removeprefix(b"\xef\xbb\xbf")
    while b"\n" not in start and end is not None and not end():  # half a header names half of the columns
        start = source.peek().removeprefix(b"\xef\xbb\xbf")
    if not start:
        raise DataError(f"{source.name} is empty: there is not even a header")
    names, source.delimiter, header = _csv_header(source.name, start, options)
    for block in source.blocks(True, end, first_rows):
        yield _parse_csv(source.name, block, names, source.delimiter, skip=header)
        header = 0


def _csv_header(name: str, start: bytes, options: CsvOptions) -> tuple[list[str], str, int]:
    """Column names, separator, and how many lines the header has, from the first bytes of a file."""
    row = _first_row(start)
    bare = _QUOTED.sub("", row)  # a name may hold any separator between quotes
    delimiter = options.delimiter or max(",;\t|", key=bare.count)
    reader = csv.reader(io.StringIO(row, newline="\n"), delimiter=delimiter)
    cells = next(reader, [])
    if not options.header:
        return [f"column{i}" for i in range(1, len(cells) + 1)], delimiter, 0
    names = [cell.strip() or f"column{i}" for i, cell in enumerate(cells, 1)]
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(f"{name}: two columns are named {twice!r}: give them names of their own")
    return names, delimiter, reader.line_num


def _first_row(start: bytes) -> str:
    """The first row of a CSV: a line, or several if one ends between quotes; a quote that stays open is a stray one."""
    lines = start.decode("utf-8", "replace").split("\n", _LONGEST_HEADER)[:_LONGEST_HEADER]
    n_quotes = 0
    for i, line in enumerate(lines, start=1):
        n_quotes += line.count('"')
        if n_quotes % 2 == 0:
            return "\n".join(lines[:i]).rstrip("\r")
    return lines[0].rstrip("\r")


def _parse_csv(name: str, block: Block, names: list[str], delimiter: str, skip: int) -> Batch:
    rejects: list[Reject] = []
    broken: list[int] = []  # rows of the block, counted from 1, that are not in the table

    def set_aside(row: Any) -> str:
        broken.append(row.number)
        reason = f"has {counted(row.actual_columns, 'cell')} where the header has {row.expected_columns}"
        rejects.append(Reject(name, block.first_line + row.number - 1, reason, row.text))
        return "skip"

    if block.data.rstrip(b"\n").count(b"\n") < skip:
        table = pa.table({n: pa.array([], pa.string()) for n in names})
    else:
        table = pa.csv.read_csv(
            pa.BufferReader(block.data),
            # One thread: only then do rows that are set aside come with their numbers.
            read_options=pa.csv.ReadOptions(use_threads=False, column_names=names, skip_rows=skip, block_size=1 << 27),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=False,  # they count as lines
                invalid_row_handler=set_aside,
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=_MISSING,
                strings_can_be_null=True,
                check_utf8=False,  # one bad byte is the row's affair, not the block's
            ),
        )
    rows = np.arange(1 + skip, table.num_rows + len(broken) + 1 + skip)
    if broken:
        rows = np.setdiff1d(rows, broken)
    batch = Batch(table, block.first_line - 1 + rows, None, rejects)
    empty = np.ones(table.num_rows, dtype=np.bool_)
    for column in table.columns:
        if not column.null_count:
            empty[:] = False
            break
        empty &= column.is_null().to_numpy()
    if empty.any():
        batch = batch.without(empty)
    return _set_bad_text_aside(name, batch)


def _set_bad_text_aside(name: str, batch: Batch) -> Batch:
    try:
        batch.table.validate(full=True)
    except pa.ArrowInvalid:
        bad = np.zeros(batch.table.num_rows, dtype=np.bool_)
        for column in batch.table.columns:
            cells = column.cast(pa.binary()).to_pylist()
            bad |= [cell is not None and not _is_utf8(cell) for cell in cells]
        cells_of = batch.table.cast(pa.schema([(n, pa.binary()) for n in batch.table.column_names]))
        cells_of = cells_of.filter(pa.array(bad))
        for line, row in zip(batch.lines[bad].tolist(), cells_of.to_pylist(), strict=True):
            text = ",".join((cell or b"").decode("utf-8", "backslashreplace") for cell in row.values())
            batch.rejects.append(Reject(name, line, "is not UTF-8 text", text))
        return batch.without(bad)
    return batch


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# JSON lines: pyarrow reads a block at once; a block it cannot read is read line by line


def _parse_json(name: str, block: Block) -> Batch:
    texts = block.data.split(b"\n")
    if texts[-1] == b"":
        texts.pop()
    lines = np.arange(block.first_line, block.first_line + len(texts))
    filled = np.array([bool(text.strip()) for text in texts], dtype=np.bool_)
    if not filled.all():
        texts, lines = [text for text in texts if text.strip()], lines[filled]
    if not texts:
        return Batch(pa.table({}), lines, [])
    if max(text.count(b"{") + text.count(b"[") for text in texts) > _DEEP:
        return _parse_json_by_line(name, texts, lines)
    try:
        table = pa.json.read_json(
            pa.BufferReader(b"\n".join(texts)), read_options=pa.json.ReadOptions(use_threads=False, block_size=1 << 27)
        )
        if table.num_rows != len(texts):
            raise pa.ArrowInvalid("objects and lines do not match")
    except pa.ArrowInvalid:
        return _parse_json_by_line(name, texts, lines)
    return Batch(_flat(table), lines, texts)


def _parse_json_by_line(name: str, texts: list[bytes], lines: npt.NDArray[np.int64]) -> Batch:
    rows: list[dict[str, Any]] = []
    rejects = []
    kept = []
    for i, (text, line) in enumerate(zip(texts, lines.tolist(), strict=True)):
        try:
            row = json.loads(text)
            reason = None if isinstance(row, dict) else f"is {_shorten(row)}, not an object"
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
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat |= _flat_row(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _flat(table: pa.Table) -> pa.Table:
    """Nested objects as columns of their own, named like `outer.inner`."""
    while any(pa.types.is_struct(column.type) for column in table.schema):
        table = table.flatten()
    return table


def _shorten(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:37] + "..."


# Parquet: has types and row groups of its own


def _read_parquet(source: Source) -> Iterator[Batch]:
    if source.path != "-":
        yield from _parquet_batches(source, source.path)
        return
    with tempfile.TemporaryFile() as kept:  # the table of contents is at the end: a pipe must be kept first
        while data := source.read():
            kept.write(data)
        kept.seek(0)
        yield from _parquet_batches(source, kept)


def _parquet_batches(source: Source, where: Any) -> Iterator[Batch]:
    try:
        file = pa.parquet.ParquetFile(where)
    except pa.ArrowInvalid as error:
        raise DataError(f"{source.name} is not Parquet: {str(error).splitlines()[0]}") from error
    total = max(file.metadata.num_rows, 1)
    row = 1
    for part in file.iter_batches(_PARQUET_ROWS):
        lines = np.arange(row, row + part.num_rows)
        row += part.num_rows
        source.n_read = (source.size or 0) * (row - 1) // total
        yield Batch(_flat(pa.Table.from_batches([part])), lines)
