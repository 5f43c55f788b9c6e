"""Scored rows on their way out: CSV, JSON lines or Parquet, to a file or to the next command in a pipe."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import click
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from svead_stream.cli.errors import DataError
from svead_stream.cli.tables import Batch, Reject
from svead_stream.cli.words import counted
from svead_stream.record import FIELDS, Verdicts, top_features

_TOP_FEATURES = pa.list_(pa.struct([("feature", pa.string()), ("share", pa.float64())]))
_SUFFIXES = {".csv": "csv", ".tsv": "csv", ".json": "jsonl", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_SUFFIXES |= {".parquet": "parquet", ".pq": "parquet"}


def output_format(path: str, asked: str | None, input_format: str) -> str:
    """As asked, or by the name of the file, or that of the input."""
    if asked is not None:
        return asked
    suffixes = [s.lower() for s in Path(path).suffixes if s.lower() not in (".gz", ".zst", ".bz2", ".lz4")]
    return _SUFFIXES.get(suffixes[-1], input_format) if suffixes else input_format


class Writer:
    """Writes rows with their scores; closing it leaves a complete file, also after an interruption."""

    def __init__(self, path: str, format: str, delimiter: str, prefix: str, top: int) -> None:
        self.path = path
        self.format = format
        self.delimiter = delimiter
        self.prefix = prefix
        self.names = [prefix + name for name in FIELDS]
        self.top = top
        self._sink: Any = None
        self._writer: Any = None
        self._schema: pa.Schema | None = None

    def write(self, batch: Batch, verdicts: Verdicts) -> None:
        """Write the rows of a batch with what is said of them."""
        table = batch.table
        names = table.column_names
        taken = set(names).intersection(self.names)
        if taken:
            raise click.UsageError(f"the input has a column named {min(taken)!r} already: give a --prefix")
        if self.format == "jsonl":
            self._write_json(batch, verdicts)
            return
        tops: list[Any] = [None] * len(verdicts)
        for i, reasons in verdicts.reasons.items():
            top = top_features(reasons, self.top)
            tops[i] = _dumps(top) if self.format == "csv" else top
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
        self._write_table(pa.table([*table.columns, *columns], names + self.names))

    def _open(self) -> Any:
        if self._sink is None:
            self._sink = _Stdout() if self.path == "-" else pa.output_stream(self.path, compression="detect")
        return self._sink

    def _write_table(self, table: pa.Table) -> None:
        if self._schema is None:
            self._schema = table.schema
            if self.format == "csv":
                self._open().write(_csv_line(table.column_names, self.delimiter))
            else:
                self._writer = pa.parquet.ParquetWriter(self._open(), table.schema)
        if table.schema != self._schema:
            table = _fit(table, self._schema, self.path)
        if self.format == "csv":
            self._sink.write(_as_csv(table.cast(_flat_schema(table.schema)), self.delimiter))
        else:
            self._writer.write_table(table)

    def _write_json(self, batch: Batch, verdicts: Verdicts) -> None:
        texts = batch.texts or [_as_json(row) for row in batch.table.to_pylist()]
        lines = []
        for text, verdict in zip(texts, verdicts, strict=True):
            start = text.rstrip()[:-1].rstrip()  # all but the closing brace: the row stays as it stood
            comma = b"" if start.endswith(b"{") else b","
            record = {self.prefix + name: value for name, value in verdict.record(self.top).items()}
            lines.append(start + comma + _dumps(record)[1:].encode() + b"\n")
        self._open().write(b"".join(lines))

    def flush(self) -> None:
        """Hand what was written to whoever reads the pipe."""
        if self.path == "-" and self._sink is not None:
            self._sink.flush()

    def close(self) -> None:
        """Finish the file. Without any row there is no file."""
        if self._writer is not None:
            self._writer.close()
        if self._sink is not None:
            self._sink.close()


class _Stdout:
    """Standard output as pyarrow wants its sinks: closing it leaves it open for Python to flush at exit."""

    closed = False

    def __init__(self) -> None:
        self._out: IO[bytes] = sys.stdout.buffer

    def write(self, data: Any) -> int:
        return self._out.write(data)

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        self._out.flush()

    def tell(self) -> int:
        return 0


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _as_json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, default=str, ensure_ascii=False).encode()


def _csv_line(cells: Sequence[str], delimiter: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()


def _as_csv(table: pa.Table, delimiter: str) -> bytes:
    """Rows without a header, quoted only where a cell of the batch needs it, and in the last column, which is JSON."""
    try:
        lines = _written(table.select(table.column_names[:-1]), delimiter, "none").split(b"\n")[:-1]
    except pa.ArrowInvalid:
        return _written(table, delimiter, "needed")
    end = delimiter.encode()
    texts = ["" if text is None else '"' + text.replace('"', '""') + '"' for text in table.column(-1).to_pylist()]
    return b"".join([line + end + text.encode() + b"\n" for line, text in zip(lines, texts, strict=True)])


def _written(table: pa.Table, delimiter: str, quoting: str) -> bytes:
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(table, sink, pa.csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=quoting))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _flat_schema(schema: pa.Schema) -> pa.Schema:
    """CSV holds no lists and the like: they go out as text."""
    nested = pa.types.is_nested
    return pa.schema([pa.field(f.name, pa.string() if nested(f.type) else f.type) for f in schema])


def _fit(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """A later table in the columns of the first: JSON lines and further files can have fewer, or other types."""
    extra = [name for name in table.column_names if name not in schema.names]
    if extra:
        raise DataError(
            f"{path}: column {extra[0]!r} appears only after the first rows were written: "
            "write JSON lines (--output-format jsonl), which need no fixed columns"
        )
    columns = []
    for f in schema:
        if f.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, f.type))
            continue
        try:
            columns.append(table[f.name].cast(f.type))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{path}: column {f.name!r} was {f.type} at first and now is not ({error}): "
                "write JSON lines (--output-format jsonl)"
            ) from error
    return pa.table(columns, schema=schema)


class Rejects:
    """Counts the rows that were not scored, remembers the first few, and writes all of them if there is a file."""

    SHOWN = 5

    def __init__(self, path: str | None, strict: bool) -> None:
        self.count = 0
        self.first: list[Reject] = []
        self.strict = strict
        self.path = path
        self._file = open(path, "w", encoding="utf-8") if path is not None else None  # noqa: SIM115

    def add(self, rejects: list[Reject]) -> None:
        """Note rows; the first one ends the run if it is strict."""
        for reject in rejects:
            self.count += 1
            if len(self.first) < self.SHOWN:
                self.first.append(reject)
            if self._file is not None:
                self._file.write(json.dumps(reject._asdict(), ensure_ascii=False) + "\n")
            if self.strict:
                raise DataError(f"{reject.source}, line {reject.line} {reject.reason}")

    def close(self) -> None:
        """Finish the file."""
        if self._file is not None:
            self._file.close()

    def summary(self) -> list[str]:
        """Lines for stderr: how many, and the first of them by name."""
        if not self.count:
            return []
        where = f", kept in {self.path}" if self.path else " (--rejects FILE keeps them)"
        lines = [f"{counted(self.count, 'row')} not scored{where}:"]
        lines += [f"  {r.source}, line {r.line} {r.reason}" for r in self.first]
        if self.count > len(self.first):
            lines.append(f"  and {self.count - len(self.first):,} more")
        return lines
