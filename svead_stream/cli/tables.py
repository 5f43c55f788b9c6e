"""From bytes to tables, batch by batch, whatever the format, with the rows that cannot be read set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from svead_stream.cli import arrow_files, csv_files, json_files
from svead_stream.cli.batches import Batch, Reject
from svead_stream.cli.dialects import CsvOptions
from svead_stream.cli.forms import Forms
from svead_stream.cli.sources import Source

__all__ = ["Batch", "CsvOptions", "Reject", "read"]


def read(
    source: Source, format: str, options: CsvOptions, end: Callable[[], bool] | None = None, first_rows: int = 0
) -> Iterator[Batch]:
    """The batches of a source; `end` makes it wait for a growing file, `first_rows` for a slow one: `Source.blocks`."""
    if format in ("parquet", "arrow"):
        batches = arrow_files.read_parquet(source) if format == "parquet" else arrow_files.read_arrow(source)
    elif format == "jsonl":
        batches = json_files.read(source, end, first_rows)
    else:
        batches = csv_files.read(source, options, end, first_rows)
    return Forms(source, options.decimal).rewrite(batches)
