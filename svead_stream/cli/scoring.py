"""The middle of every command: batches of rows in, scores, alerts and their reasons out."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from svead_stream.alerts import ConformalFilter, Judged
from svead_stream.cli.columns import Columns
from svead_stream.cli.errors import DataError
from svead_stream.cli.output import Shares
from svead_stream.cli.tables import Batch
from svead_stream.streaming import StreamingSVEAD

_SLICE = 1024


class Scored(NamedTuple):
    """A batch that has been judged: its rows, their numbers, and for alerts the share of each feature."""

    batch: Batch
    features: pa.Table
    judged: Judged
    shares: list[Shares]
    thresholds: list[tuple[int, float]]  # from which row of the batch on, and what an alert had to exceed


class Scorer:
    """Runs batches through the model.

    An alert is explained by the model as it was shortly before, at most a slice of rows earlier: by the time the
    slice is learned the event itself may be one of the anchors that others are measured by. Slices are counted from
    the start of the run, so that they do not depend on how the input was cut into batches.
    """

    def __init__(self, model: ConformalFilter, columns: Columns, learn: bool = True) -> None:
        self.model = model
        self.columns = columns
        self.learn = learn
        self.n_rows = 0
        self._before = detector_of(model)
        self._slice_end = 0

    def score(self, name: str, batch: Batch) -> Scored:
        """Judge a batch, and learn it unless that is switched off."""
        batch, features = self.columns.numbers(name, batch)
        if batch.table.num_rows and not features.num_columns:
            there = ", ".join(batch.table.column_names[:10])
            if self.columns.known:
                raise DataError(f"{name}: none of the model's features is among its columns ({there})")
            raise DataError(f"{name}: no column of numbers to use among {there}; --one-hot makes features of text")
        parts: list[Judged] = []
        shares: list[Shares] = []
        thresholds: list[tuple[int, float]] = []
        for start, part in self._slices(features):
            thresholds.append((start, self.model.threshold))
            try:
                judged = self.model.score_learn_many(part) if self.learn else self.model.score_many(part)
            except ValueError as error:  # more features than the model takes
                raise DataError(f"{name}: {error}") from error
            parts.append(judged)
            shares += [{}] * part.num_rows
            alerts = np.flatnonzero(judged.alerts)
            values = {column: part[column].to_numpy()[alerts].tolist() for column in part.column_names}
            for k, i in enumerate(alerts.tolist()):
                x = {column: values[column][k] for column in values}
                shares[start + i] = {str(name): share for name, share in self._before.explain_one(x).items()}
        return Scored(batch, features, _joined(parts), shares, thresholds)

    def _slices(self, features: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        start = 0
        while start < features.num_rows:
            if self.n_rows == self._slice_end:
                # A young model changes fast: short slices first.
                self._slice_end += min(_SLICE, max(32, self.n_rows // 4))
                if self.learn:
                    self._before = copy.deepcopy(detector_of(self.model))
            size = min(self._slice_end - self.n_rows, features.num_rows - start)
            yield start, features.slice(start, size)
            start += size
            self.n_rows += size


def detector_of(model: ConformalFilter) -> StreamingSVEAD:
    """The detector inside; the command line has no filters around other detectors."""
    return cast(StreamingSVEAD, model.detector)


def _joined(parts: list[Judged]) -> Judged:
    if not parts:
        return Judged(np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_))
    return Judged(*(np.concatenate(column) for column in zip(*parts, strict=True)))
