"""Scored rows on their way out: CSV, JSON lines, Parquet or Arrow, to a file or to the next command in a pipe."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from svead_stream.cli.cell_texts import dumps, flat, json_rows
from svead_stream.cli.cells import is_text
from svead_stream.cli.drafts import writing
from svead_stream.cli.errors import DataError
from svead_stream.cli.sources import FORMATS
from svead_stream.cli.tables import Batch
from svead_stream.cli.typed_file import TypedFile
from svead_stream.record import FIELDS, Verdicts, top_features

_TOP_FEATURES = pa.list_(pa.struct([("feature", pa.string()), ("share", pa.float64())]))
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def _suffixes(path: str) -> tuple[str, str]:
    """How the name of a file ends, and that of its compression, if it has one."""
    before, last = ["", "", *(suffix.lower() for suffix in Path(path).suffixes)][-2:]
    return (before, last) if last in _COMPRESSIONS else (last, "")


def output_format(path: str, asked: str | None, input_format: str) -> str:
    """As asked, or by the name of the file, or that of the input."""
    return asked or FORMATS.get(_suffixes(path)[0], input_format)


def output_delimiter(path: str, input_delimiter: str) -> str:
    """That of the input, but a tab where the name says so, or where spaces would swallow empty cells."""
    return "\t" if _suffixes(path)[0] == ".tsv" or input_delimiter == " " else input_delimiter


class Writer:
    """Writes rows with their scores.

    Parameters
    ----------
    path
        Of the file, as the user calls it; - is stdout.
    place
        Where it is written for now; what has types is passed on from there to stdout at its end.
    format
        csv, jsonl, parquet or arrow.
    delimiter
        Of a CSV.
    prefix
        Before the names of the new columns.
    top
        How many features of an alert are named.
    """

    def __init__(self, path: str, place: str, format: str, delimiter: str, prefix: str, top: int) -> None:
        self.path = path
        self.format = format
        self.delimiter = delimiter
        self.prefix = prefix
        self.names = [prefix + name for name in FIELDS]
        self.top = top
        self._place = place
        self._sink: Any = None
        self._typed: TypedFile | None = None
        self._header: list[str] | None = None

    def write(self, batch: Batch, verdicts: Verdicts) -> None:
        """Write the rows of a batch with what is said of them."""
        taken = set(batch.table.column_names).intersection(self.names)
        if taken:
            raise click.UsageError(f"the input has a column named {min(taken)!r} already: give a --prefix")
        with writing(self.path):
            if self.format == "jsonl":
                self._write_json(batch, verdicts)
            elif self.format == "csv":
                self._write_csv(self._with_verdicts(batch.table, verdicts))
            else:
                if self._typed is None:
                    self._typed = TypedFile(self._place, self.format)
                self._typed.write(self._with_verdicts(batch.table, verdicts))

    def _with_verdicts(self, table: pa.Table, verdicts: Verdicts) -> pa.Table:
        tops: list[Any] = [None] * len(verdicts)
        for i, reasons in verdicts.reasons.items():
            top = top_features(reasons, self.top)
            tops[i] = dumps(top) if self.format == "csv" else top
        numbers: list[int | None] = [None] * len(verdicts)
        for i, number in verdicts.incidents.items():
            numbers[i] = number
        columns = [
            pa.array(verdicts.scores),
            pa.array(verdicts.p_values),
            pa.array(verdicts.alerts),
            pa.array(numbers, pa.int64()),
            pa.array(tops, pa.string() if self.format == "csv" else _TOP_FEATURES),
        ]
        fields = [pa.field(name, column.type) for name, column in zip(self.names, columns, strict=True)]
        schema = pa.schema([*table.schema, *fields], table.schema.metadata)
        return pa.table([*table.columns, *columns], schema=schema)

    def _open(self) -> Any:
        if self._sink is None:
            compression = _COMPRESSIONS.get(_suffixes(self.path)[1])
            self._sink = (
                sys.stdout.buffer if self.path == "-" else pa.output_stream(self._place, compression=compression)
            )
        return self._sink

    def _write_csv(self, table: pa.Table) -> None:
        if self._header is None:
            self._header = table.column_names
            self._open().write(_csv_line(self._header, self.delimiter))
        if table.column_names != self._header:
            table = _in_order(table, self._header, self.path)
        self._sink.write(_as_csv(flat(table), self.delimiter))

    def _write_json(self, batch: Batch, verdicts: Verdicts) -> None:
        texts = batch.texts or json_rows(batch.table)
        lines = []
        for text, verdict in zip(texts, verdicts, strict=True):
            start = text.rstrip()[:-1].rstrip()  # all but the closing brace: the row stays as it stood
            comma = b"" if start.endswith(b"{") else b","
            record = {self.prefix + name: value for name, value in verdict.record(self.top).items()}
            lines.append(start + comma + dumps(record)[1:].encode() + b"\n")
        self._open().write(b"".join(lines))

    def flush(self) -> None:
        """Hand what was written to whoever reads the pipe."""
        if self.path == "-" and self._sink is not None:
            with writing(self.path):
                self._sink.flush()

    def close(self, is_complete: bool = True) -> None:
        """Finish the file, unless it is to be dropped. Without any row there is no file."""
        with writing(self.path):
            if self._typed is not None:
                self._typed.close()
                if self.path == "-" and is_complete:
                    with open(self._place, "rb") as file:
                        shutil.copyfileobj(file, self._open())
            if self._sink is not None:
                self._sink.flush() if self.path == "-" else self._sink.close()


def _csv_line(cells: Sequence[str], delimiter: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()


def _as_csv(table: pa.Table, delimiter: str) -> bytes:
    """Rows without a header. Cells are quoted that need it, and empty text, which is not a missing value."""
    cells = [_quoted(column, delimiter) for column in table.columns]
    lines = pc.binary_join_element_wise(*cells, delimiter, null_handling="replace", null_replacement="")
    return "".join([line + "\n" for line in lines.to_pylist()]).encode()


def _quoted(cells: pa.ChunkedArray, delimiter: str) -> pa.ChunkedArray:
    texts = pc.cast(cells, pa.string())
    if not is_text(cells.type):
        return texts
    in_need = pc.match_substring_regex(texts, rf'^$|["\r\n{re.escape(delimiter)}]')
    if not pc.any(in_need).as_py():
        return texts
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    return pc.if_else(in_need, quoted, texts)


def _in_order(table: pa.Table, names: list[str], path: str) -> pa.Table:
    """A later table in the columns of the first: JSON lines and further files can have fewer."""
    cells = dict(zip(table.column_names, table.columns, strict=True))
    new = next(iter(cells.keys() - set(names)), None)
    if new is not None:
        raise DataError(
            f"{'stdout' if path == '-' else path}: column {new!r} appears only after the first rows were written: "
            "write JSON lines (--output-format jsonl) or a Parquet file, which need no fixed columns"
        )
    return pa.table([cells.get(name, pa.nulls(table.num_rows)) for name in names], names)
