"""What people say of events: a file of answers, each taken right after its row, or by its values before the first one.

An answer that names a row or a time is about this run. One with values of features is for a loaded model: it may be
about any event, most often one of an earlier run, and the row beside them is a row of that run.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from svead_stream.cli.cells import floats, shorten
from svead_stream.cli.columns import Columns
from svead_stream.cli.errors import DataError
from svead_stream.cli.sources import Source
from svead_stream.cli.tables import CsvOptions, read
from svead_stream.cli.truth import truth
from svead_stream.cli.words import counted, listed
from svead_stream.judging import ConformalFilter

ANSWER, ROW, TIME = "is_anomaly", "row", "time"
PREFIX = "feature:"  # before the name of a feature that would be taken for one of these
_OR_VALUES = "; values alone are for a model that knows them: --load one"


@dataclass
class Answer:
    """What was said of one event, and of which."""

    line: int  # of the file
    is_anomaly: bool
    row: int | None
    values: dict[str, float]  # of the model's features, those that are there
    time: float = math.nan


class Answers:
    """Reads a file of answers, and hands each to the model when its turn comes.

    Parameters
    ----------
    path
        CSV, JSON lines or Parquet.
    features
        Of the loaded model; none without one.
    teach
        Whether false alarms are also learned as normal.
    """

    def __init__(self, path: str, features: Iterable[str] = (), teach: bool = False) -> None:
        self._path = path
        self._teach = teach
        self._table, self._lines = _read(path)
        self.n_real = self.n_false = self.n_unknown = 0
        self._features = list(features)
        self._answers = self._parsed({column_of(name).strip(): name for name in self._features})
        self._time: str | None = None  # the column of times, until they are read
        self._is_placed = False
        self._by_row: dict[int, list[Answer]] = {}
        self._by_time: dict[float, list[Answer]] = {}
        self._timed: list[Answer] = []  # to be placed by their time as soon as there is a clock
        self._bare: list[Answer] = []  # without values among others that have some
        self._moved: list[Answer] = []  # of another time than their row
        self._differing: list[Answer] = []  # of other values than their row
        self._idle: list[Answer] = []  # of which the model knows nothing

    # the file

    def _parsed(self, features: Mapping[str, str]) -> list[Answer | None]:
        """One answer a line; None where nobody knows."""
        names = self._table.column_names
        if ANSWER not in names:
            there = f" among {listed(names)}" if names else ""
            raise DataError(f"{self._path}: no column {ANSWER}{there}: it says 1 or 0, or nothing if nobody knows")
        rows = self._rows() if ROW in names else [None] * len(self._lines)
        columns = {features[name.strip()]: self._numbers(name) for name in names if name.strip() in features}
        answers: list[Answer | None] = []
        for i, (cell, line) in enumerate(zip(self._table[ANSWER].to_pylist(), self._lines, strict=True)):
            said = self._said(cell, line)
            values = {name: numbers[i] for name, numbers in columns.items() if not math.isnan(numbers[i])}
            answers.append(None if said is None else Answer(line, said, rows[i], values))
        self.n_unknown = answers.count(None)
        return answers

    def _said(self, cell: object, line: int) -> bool | None:
        try:
            return truth(cell)
        except ValueError:
            shown = shorten(cell)
            raise self._wrong(line, f"{shown} is no answer: {ANSWER} is 1 or 0, or empty if nobody knows") from None

    def _rows(self) -> list[int | None]:
        rows = self._numbers(ROW)
        for row, line in zip(rows, self._lines, strict=True):
            if row < 1 or row % 1 > 0 or math.isinf(row):
                raise self._wrong(line, f"{row:g} is no row: rows are counted from 1 on, over all files")
        return [None if math.isnan(row) else int(row) for row in rows]

    def _numbers(self, column: str) -> list[float]:
        numbers, wrong = floats(self._table[column])
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            cell = shorten(self._table[column][i].as_py())
            raise self._wrong(self._lines[i], f"{cell} in column {column!r} is not a number: correct it or clear it")
        return [float(number) for number in numbers]

    def _wrong(self, line: int, what: str) -> DataError:
        return DataError(f"{self._path}, line {line}: {what}")

    # the run

    def begin(self, model: ConformalFilter, columns: Columns) -> None:
        """Find out what each answer is about, and take those that go by their values; again before every batch.

        Parameters
        ----------
        model
            Before its first row of this run.
        columns
            Of the run, which has seen the rows: one of them may be the clock.
        """
        if not self._is_placed:
            self._is_placed = True
            for answer in self._place(columns.clock):
                self._take(model, answer, answer.values)
        if self._time is not None and columns.clock is not None:  # it may be found later
            self._read_times(self._time, columns)

    def _place(self, clock: str | None) -> list[Answer]:
        """Sort the answers by what they name; returns those that go by their values."""
        names, answers = self._table.column_names, [answer for answer in self._answers if answer is not None]
        self._time = next((name for name in (clock, TIME) if name in names), None)
        by_value = [answer for answer in answers if answer.values]
        self._check_model([name for name in names if name not in (ANSWER, ROW, TIME, clock)])
        if not by_value and ROW not in names and self._time is None:
            places = listed(list(dict.fromkeys([ROW, TIME, clock or TIME])))
            raise DataError(f"{self._path}: no column says which rows it is about ({places}){_OR_VALUES}")
        has_time = self._table[self._time].is_valid().to_pylist() if self._time else [False] * len(self._lines)
        timed = {line for line, has in zip(self._lines, has_time, strict=True) if has}
        for answer in answers:
            if answer.values:
                continue
            if answer.row is not None:
                if by_value:
                    self._bare.append(answer)
                else:
                    self._by_row.setdefault(answer.row, []).append(answer)
            elif answer.line in timed:
                self._timed.append(answer)
            else:
                raise self._wrong(answer.line, f"names no row and no time{_OR_VALUES}")
        return by_value

    def _check_model(self, columns: list[str]) -> None:
        """Refuse answers with numbers that are no features of a loaded model: they would go to rows of another run."""
        known = {column_of(name).strip() for name in self._features}
        numbers = [name for name in columns if not floats(self._table[name])[1].any()]
        if known and numbers and not known & {name.strip() for name in columns}:
            raise DataError(
                f"{self._path}: none of {listed(numbers)} is a feature of the model that is loaded: the answers are to "
                f"another one; without these columns they are taken by row"
            )

    def _read_times(self, column: str, columns: Columns) -> None:
        self._time = None
        for answer, time in zip(self._answers, columns.read_times(self._table[column]).tolist(), strict=True):
            if answer is not None:
                answer.time = time
        for answer in self._timed:
            if math.isnan(answer.time):
                raise self._wrong(answer.line, f"its {column} cannot be read as a time: write it as the rows have it")
            self._by_time.setdefault(answer.time, []).append(answer)
        self._timed = []

    def due(self, n_before: int, n: int, times: npt.NDArray[np.float64] | None) -> dict[int, list[Answer]]:
        """The answers about some rows, by the row among them, both in order.

        Parameters
        ----------
        n_before
            Rows before these.
        n
            How many there are.
        times
            Theirs, if there is a clock.
        """
        found: dict[int, list[Answer]] = {}
        for row in [row for row in self._by_row if n_before < row <= n_before + n]:
            i = row - n_before - 1
            for answer in self._by_row.pop(row):
                is_moved = times is not None and abs(answer.time - times[i]) > 0  # False if one is not known
                (self._moved if is_moved else found.setdefault(i, [])).append(answer)
        if self._by_time and times is not None:
            for i in np.flatnonzero(np.isin(times, list(self._by_time))).tolist():
                found.setdefault(i, []).extend(self._by_time.pop(float(times[i]), []))  # the first row of that time
        return {i: sorted(found[i], key=lambda answer: answer.line) for i in sorted(found) if found[i]}

    def take(self, model: ConformalFilter, answers: Iterable[Answer], x: Mapping[str, float | None]) -> None:
        """Tell the model what was said of an event that it has just judged."""
        for answer in answers:
            if self._differs(answer, x):
                self._differing.append(answer)
            else:
                self._take(model, answer, x)

    def _differs(self, answer: Answer, x: Mapping[str, float | None]) -> bool:
        """Whether the file has other values for the event than the row that it names."""
        i = bisect_left(self._lines, answer.line)
        for name, value in x.items():
            if value is not None and column_of(name) in self._table.column_names:
                said = float(floats(self._table[column_of(name)].slice(i, 1))[0][0])
                if abs(said - value) > 1e-9 * max(abs(value), 1.0):  # False if one is not known
                    return True
        return False

    def _take(self, model: ConformalFilter, answer: Answer, x: Mapping[str, float | None]) -> None:
        if model.feedback_one(dict(x), answer.is_anomaly, self._teach):
            self.n_real += answer.is_anomaly
            self.n_false += not answer.is_anomaly
        else:
            self._idle.append(answer)

    # the end

    def summary(self) -> str:
        """How many answers were taken."""
        taken, false = counted(self.n_real + self.n_false, "answer"), counted(self.n_false, "false alarm")
        return f"took {taken}: {self.n_real:,} real, {false}" + (f"; {self.n_unknown:,} unknown" * bool(self.n_unknown))

    def unused(self) -> list[str]:
        """Which answers could not be placed, and why: a line for each reason."""
        beyond, elsewhen = ([a for some in by.values() for a in some] for by in (self._by_row, self._by_time))
        return [
            *_not_used("row", beyond, "beyond the last row"),
            *_not_used("row", self._moved, "of another time here: the answers may be to another run"),
            *_not_used("row", self._differing, "of other values here: the answers may be to another run"),
            *_not_used("line", self._idle, "about nothing that the model knows"),
            *_not_used("line", elsewhen, "of a time that no row has"),
            *_not_used("line", self._timed, "about a time, and the rows have none"),
            *_not_used("line", self._bare, "without values, beside others of an earlier run"),
        ]


def _not_used(by: str, answers: list[Answer], why: str) -> list[str]:
    """`2 answers were not used: rows 7001, 7002 are beyond the last row`."""
    if not answers:
        return []
    were, which, are = ("was", by, "is") if len(answers) == 1 else ("were", f"{by}s", "are")
    numbers = listed([str(getattr(answer, by)) for answer in answers])
    return [f"{counted(len(answers), 'answer')} {were} not used: {which} {numbers} {are} {why}"]


def column_of(feature: str) -> str:
    """The column in which the values of a feature stand, which is its name but for a few."""
    is_taken = feature.strip() in ("", ANSWER, ROW, TIME) or feature.startswith(PREFIX)
    return PREFIX + feature if is_taken else feature


def _read(path: str) -> tuple[pa.Table, list[int]]:
    """All of a file, which is to be without fault, and the line of each row."""
    source = Source(path)
    try:
        batches = list(read(source, source.format(None), CsvOptions()))
        table = pa.concat_tables([pa.table({}), *(batch.readable for batch in batches)], promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"{path}: {str(error).splitlines()[0]}") from error
    finally:
        source.close()
    for reject in (reject for batch in batches for reject in batch.rejects):
        raise DataError(f"{path}, line {reject.line} {reject.reason}")
    return table, [line for batch in batches for line in batch.lines.tolist()]
