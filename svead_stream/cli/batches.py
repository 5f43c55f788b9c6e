"""Rows on their way from a file to the detector: as they stood, as numbers, and those that could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from svead_stream.cli.cells import found_twice
from svead_stream.cli.errors import DataError


class Reject(NamedTuple):
    """A row that was not scored, and why."""

    source: str
    line: int
    reason: str
    text: str


@dataclass
class Batch:
    """Some rows of a source, in order."""

    table: pa.Table  # cells as they stood, to be written again unchanged
    lines: npt.NDArray[np.int64]  # of each row in its source
    texts: list[bytes] | None = None  # JSON lines as they stood
    rejects: list[Reject] = field(default_factory=list)
    plain: dict[str, pa.ChunkedArray] = field(default_factory=dict)  # columns to be read otherwise than they stand

    @property
    def readable(self) -> pa.Table:
        """The table to make numbers of: `20 °C` is 20 there, `1,5` is 1.5, and NA is missing."""
        if not self.plain:
            return self.table
        columns = dict(zip(self.table.column_names, self.table.columns, strict=True))
        return pa.table(columns | self.plain)

    def without(self, bad: npt.NDArray[np.bool_]) -> Batch:
        """The batch with some rows left out."""
        kept = ~bad
        keep = pa.array(kept)
        texts = None
        if self.texts is not None:
            texts = [text for text, is_kept in zip(self.texts, kept.tolist(), strict=True) if is_kept]
        plain = {name: cells.filter(keep) for name, cells in self.plain.items()}
        return Batch(self.table.filter(keep), self.lines[kept], texts, self.rejects, plain)


def flat(table: pa.Table, source: str) -> pa.Table:
    """Nested objects as columns of their own, named like `outer.inner`; an error if two have the same name."""
    while any(pa.types.is_struct(column.type) for column in table.schema):
        table = table.flatten()
    if (twice := found_twice(table.column_names)) is not None:
        raise DataError(f"{source}: two columns are named {twice!r}: give them names of their own")
    return table
