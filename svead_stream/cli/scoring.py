"""The middle of every command: batches of rows in, verdicts out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from svead_stream.cli.answers import Answers
from svead_stream.cli.columns import Columns
from svead_stream.cli.errors import DataError
from svead_stream.cli.sources import FIRST_ROWS
from svead_stream.cli.tables import Batch
from svead_stream.cli.words import counted
from svead_stream.judging import ConformalFilter
from svead_stream.parameters import values_of
from svead_stream.record import Verdicts
from svead_stream.spans import seconds
from svead_stream.streaming import StreamingSVEAD


class Prepared(NamedTuple):
    """A batch before it is judged."""

    batch: Batch
    features: pa.Table
    times: npt.NDArray[np.float64] | None  # seconds, as they stand in the rows


class Scored(NamedTuple):
    """A batch that has been judged: its rows, their numbers, what is said of them, and when they happened."""

    batch: Batch
    features: pa.Table
    verdicts: Verdicts
    times: npt.NDArray[np.float64] | None  # seconds, as they stand in the rows


_NOTHING = Verdicts(np.zeros(0), np.zeros(0), np.zeros(0, np.bool_), np.zeros(0), {})


class Scorer:
    """Runs batches through the model.

    Parameters
    ----------
    model
        The model.
    columns
        Chooses the columns.
    learn
        Whether rows are learned.
    in_time
        Parameters of the detector that are given in time; they are turned into events as soon as the clock is known.
    answers
        What people say of rows: taken right after them.
    """

    def __init__(
        self,
        model: ConformalFilter,
        columns: Columns,
        learn: bool = True,
        in_time: Mapping[str, str] | None = None,
        answers: Answers | None = None,
    ) -> None:
        self.model = model
        self.columns = columns
        self.learn = learn
        self.n_rows = 0
        self._in_time = dict(in_time or {})
        self._answers = answers

    def prepare(self, name: str, batch: Batch) -> Prepared:
        """The rows of a batch that can be scored, their numbers and their times."""
        batch, features = self.columns.numbers(name, batch)
        if not batch.table.num_rows:  # a header, or nothing but rejects: that there is no clock yet means nothing
            return Prepared(batch, features, None)
        if not features.num_columns:
            there = ", ".join(batch.table.column_names[:10])
            if self.columns.known:
                raise DataError(f"{name}: none of the model's features is among its columns ({there})")
            is_one = batch.table.num_columns == 1
            remedy = "if it is several, --delimiter tells them apart" if is_one else "--one-hot makes features of text"
            raise DataError(f"{name}: no column of numbers to use among {there}; {remedy}")
        times = self.columns.times(batch)
        self._make_room(features.num_columns)
        self._settle(times)
        return Prepared(batch, features, times)

    def score(self, name: str, prepared: Prepared) -> Scored:
        """Judge rows, and learn them unless that is switched off."""
        batch, features, times = prepared
        if not batch.table.num_rows:
            return Scored(batch, features, _NOTHING, None)
        try:
            verdicts = self._judge(features, times)
        except ValueError as error:  # more features than the model takes
            parameter, given, _ = str(error).partition("=")
            if times is None and given and hasattr(self.model, parameter):
                raise click.UsageError(_without_clock(parameter, getattr(self.model, parameter))) from error
            raise DataError(f"{name}: {error}") from error
        self.n_rows += features.num_rows
        return Scored(batch, features, verdicts, times)

    def _judge(self, features: pa.Table, times: npt.NDArray[np.float64] | None) -> Verdicts:
        """Judge rows; where there are answers, in parts that end with the rows they are about."""
        n, answers, due = features.num_rows, self._answers, {}
        names, matrix = features.column_names, np.stack([column.to_numpy() for column in features.columns], axis=1)
        if answers is not None:
            answers.begin(self.model, self.columns)
            due = answers.due(self.n_rows, n, times)
        parts, start = [], 0
        for end in [*(i + 1 for i in due), n]:
            if start < end:
                part = None if times is None else times[start:end]
                parts.append(self.model.judge_many(matrix[start:end], names, part, self.learn))
            if answers is not None and end - 1 in due:
                answers.take(self.model, due.pop(end - 1), features.slice(end - 1, 1).to_pylist()[0])
            start = end
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _make_room(self, n: int) -> None:
        """Let a new model take all columns of the first rows: the usual limit is for names that vary by row."""
        detector = detector_of(self.model)
        if self.n_rows or self.columns.known or n <= detector.max_features:
            return
        if detector.max_features == StreamingSVEAD().max_features:  # any other was asked for
            self.model.detector = StreamingSVEAD(**values_of(detector) | {"max_features": n})

    def _settle(self, times: npt.NDArray[np.float64] | None) -> None:
        """Turn durations into numbers of events by the time between the first ones, before anything is learned."""
        given, self._in_time = self._in_time, {}
        if not given:
            return
        if times is None:
            raise click.UsageError(_without_clock(*next(iter(given.items()))))
        first = times[:FIRST_ROWS]  # not more, so that the result does not depend on how the rows come
        steps = np.diff(first[~np.isnan(first)])
        if not (steps > 0).any():
            option, value = next(iter(given.items()))
            rows = counted(len(first), "first row")
            raise click.UsageError(
                f"{_spelled(option)} {value} is given in time, which does not go forward in the {rows}: "
                "give a number of events"
            )
        # The median passes over gaps. Several events at a time are that much closer together.
        step = float(np.median(steps[steps > 0]) * (steps > 0).sum() / (steps >= 0).sum())
        events = {name: max(1, round(seconds(value) / step)) for name, value in given.items()}
        try:
            self.model.detector = StreamingSVEAD(**values_of(detector_of(self.model)) | events)
        except ValueError as error:
            raise click.UsageError(f"with an event every {step:g} s, {error}") from error


def _joined(parts: list[Verdicts]) -> Verdicts:
    """Verdicts on rows that follow each other."""
    starts = np.cumsum([0, *map(len, parts[:-1])]).tolist()

    def all_of(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    def of_rows(name: str) -> Any:
        return {s + i: one for s, part in zip(starts, parts, strict=True) for i, one in getattr(part, name).items()}

    arrays = map(all_of, ("scores", "p_values", "alerts", "thresholds"))
    return Verdicts(*arrays, *map(of_rows, ("reasons", "incidents", "changes")))


def _spelled(parameter: str) -> str:
    return "--" + parameter.replace("_", "-")


def _without_clock(parameter: str, value: Any) -> str:
    return f"{_spelled(parameter)} {value} is given in time: no column of time was found; --time NAME says which it is"


def detector_of(model: ConformalFilter) -> StreamingSVEAD:
    """The detector inside; the command line has no filters around other detectors."""
    return cast(StreamingSVEAD, model.detector)
