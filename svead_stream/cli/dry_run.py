"""What a run would make of its input: columns and their roles, and the first rows as numbers. Nothing is written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from svead_stream.cli.errors import DataError
from svead_stream.cli.run import Run
from svead_stream.cli.sources import Source
from svead_stream.cli.tables import Batch, read
from svead_stream.cli.truth import labels
from svead_stream.cli.typed import Types
from svead_stream.cli.words import counted, printable
from svead_stream.clock import shown

_ROWS = 5
_FEATURES = 8  # that fit beside each other
_KINDS = {"string": "text", "int64": "integer", "double": "float", "bool": "true/false", "null": "empty"}


def lines(run: Run, path: str) -> Iterator[str]:
    """What is said of the first rows of a file; errors are those of the run itself.

    Parameters
    ----------
    run
        Before its first row.
    path
        Of the file; - is stdin.

    """
    source = Source(path, run.options["encoding"], run.note)
    try:
        format = source.format(run.options["input_format"])
        batches = read(source, format, run.csv, first_rows=run.first_rows)
        found = next((batch for batch in batches if batch.table.num_rows), None)
    finally:
        source.close()
    if found is None:
        raise DataError("no rows to score")
    n_before = len(found.rejects)
    batch, features, times = run.scorer.prepare(source.name, found)
    label = run.options["label"]
    if label is not None:
        labels(batch.readable[label], label)
    yield from _table([("column", "type", "role"), *_columns(run, batch, features, format)])
    yield ""
    yield from _first_rows(batch, features, times)
    if batch.rejects:
        n_rows, first = found.table.num_rows + n_before, batch.rejects[0]
        yield ""
        yield f"{len(batch.rejects):,} of the first {counted(n_rows, 'row')} would not be scored, first of all:"
        yield f"{first.source}, line {first.line} {first.reason}"


def _columns(run: Run, batch: Batch, features: pa.Table, format: str) -> Iterator[tuple[str, str, str]]:
    table = batch.table
    if format == "csv":
        table = Types().typed(table, batch.readable, features)
    for field in table.schema:
        kind = str(field.type)
        yield printable(field.name), _KINDS.get(kind, kind), run.scorer.columns.role(field.name)


def _first_rows(batch: Batch, features: pa.Table, times: npt.NDArray[np.float64] | None) -> Iterator[str]:
    """What the model would see."""
    names = features.column_names[:_FEATURES]
    rows = [["line", *([] if times is None else ["time"]), *map(printable, names)]]
    for i in range(min(_ROWS, features.num_rows)):
        time = [] if times is None else ["missing" if np.isnan(times[i]) else str(shown(float(times[i])))]
        rows.append([str(batch.lines[i]), *time, *(_number(features[name][i].as_py()) for name in names)])
    yield from _table(rows)
    if features.num_columns > len(names):
        yield f"and {counted(features.num_columns - len(names), 'more feature')}"


def _number(value: float) -> str:
    return "missing" if math.isnan(value) else f"{value:.6g}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
