"""The middle of every command: batches of rows in, verdicts out."""

from __future__ import annotations

from typing import NamedTuple, cast

import pyarrow as pa

from svead_stream.cli.columns import Columns
from svead_stream.cli.errors import DataError
from svead_stream.cli.tables import Batch
from svead_stream.judging import ConformalFilter
from svead_stream.record import Verdicts
from svead_stream.streaming import StreamingSVEAD


class Scored(NamedTuple):
    """A batch that has been judged: its rows, their numbers, and what is said of them."""

    batch: Batch
    features: pa.Table
    verdicts: Verdicts


class Scorer:
    """Runs batches through the model."""

    def __init__(self, model: ConformalFilter, columns: Columns, learn: bool = True) -> None:
        self.model = model
        self.columns = columns
        self.learn = learn
        self.n_rows = 0

    def score(self, name: str, batch: Batch) -> Scored:
        """Judge a batch, and learn it unless that is switched off."""
        batch, features = self.columns.numbers(name, batch)
        if batch.table.num_rows and not features.num_columns:
            there = ", ".join(batch.table.column_names[:10])
            if self.columns.known:
                raise DataError(f"{name}: none of the model's features is among its columns ({there})")
            raise DataError(f"{name}: no column of numbers to use among {there}; --one-hot makes features of text")
        try:
            verdicts = self.model.judge_many(features, learn=self.learn)
        except ValueError as error:  # more features than the model takes
            raise DataError(f"{name}: {error}") from error
        self.n_rows += features.num_rows
        return Scored(batch, features, verdicts)


def detector_of(model: ConformalFilter) -> StreamingSVEAD:
    """The detector inside; the command line has no filters around other detectors."""
    return cast(StreamingSVEAD, model.detector)
