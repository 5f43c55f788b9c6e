"""From a table to the numbers that the detector learns, and to its times: which columns, text as numbers, one-hot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from svead_stream.cli import clocks, roles
from svead_stream.cli.cells import first_filled, floats, shorten
from svead_stream.cli.tables import Batch, Reject
from svead_stream.cli.words import did_you_mean, listed, printable


@dataclass
class Columns:
    """Chooses the feature columns when it sees the first rows, and makes numbers of them from then on.

    Parameters
    ----------
    use
        The columns to use; all numeric ones if empty, but for clocks, counters and ids.
    ignore
        Columns to leave out.
    label
        The column of the truth, which is left out as well.
    one_hot
        Columns of categories: each value becomes a feature of its own, 0 or 1.
    max_categories
        Values of one column that get a feature; later ones share `column=(other)`.
    known
        Feature names of a loaded model: they are the columns to use.
    time
        The column of the clock; found out if None.

    """

    use: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    label: str | None = None
    one_hot: tuple[str, ...] = ()
    max_categories: int = 64
    known: tuple[str, ...] = ()
    time: str | None = None
    left_out: dict[str, str] = field(default_factory=dict)  # columns that are not used, and why
    _chosen: dict[str, None] = field(default_factory=dict)  # in the order in which they came
    _seen: set[str] = field(default_factory=set)
    _categories: dict[str, dict[str, None]] = field(default_factory=dict)
    _clock: tuple[str, clocks.Kind] | None = None

    @property
    def clock(self) -> str | None:
        """The column that tells the time; None if there is none, or none so far."""
        return None if self._clock is None else self._clock[0]

    def numbers(self, name: str, batch: Batch) -> tuple[Batch, pa.Table]:
        """The rows that can be used, and their features as float64 columns; the others join the rejects.

        Parameters
        ----------
        name
            Of the source, for the rejects.
        batch
            Rows as they were read.

        """
        table = batch.readable
        self._choose(table)
        cells = dict(zip(table.column_names, table.columns, strict=True))
        bad = np.zeros(table.num_rows, dtype=np.bool_)
        columns: dict[str, npt.NDArray[np.float64]] = {}
        for column in self._chosen:
            if column not in cells:
                continue
            columns[column], wrong = floats(cells[column])
            if not wrong.any():
                continue
            for i in np.flatnonzero(wrong & ~bad).tolist():
                cell = batch.table[column][i].as_py()
                row = batch.table.slice(i, 1).to_pylist()[0]
                text = ",".join("" if v is None else str(v) for v in row.values())
                reason = f"has {shorten(cell)} in column {column!r}, which is not a number"
                batch.rejects.append(Reject(name, int(batch.lines[i]), reason, text))
            bad |= wrong
        for column in self.one_hot:
            if column in cells:
                words = pc.if_else(cells[column].is_valid(), pc.cast(batch.table[column], pa.string()), None)
                columns |= self._encode(column, words)
        if not columns and self._chosen:  # JSON lines without any of the features that others have
            columns[next(iter(self._chosen))] = np.full(batch.table.num_rows, np.nan)
        if bad.any():
            batch = batch.without(bad)
            columns = {column: values[~bad] for column, values in columns.items()}
        return batch, pa.table({column: pa.array(values) for column, values in columns.items()})

    def told(self, features: Sequence[str]) -> str:
        """What is used and what is not, in a line."""
        left_out = [f"{printable(column)} ({why})" for column, why in self.left_out.items()]
        return f"using {listed([printable(name) for name in features])}" + (
            f"; not using {listed(left_out)}" if left_out else ""
        )

    def role(self, name: str) -> str:
        """What a column is to the run, in words."""
        if name in self._chosen:
            return "feature"
        if name in self.one_hot:
            return "features, one for each value"
        if name in (self.clock, self.label):
            return "label" if name == self.label else self.left_out[name]
        asked = "--ignore" if name in self.ignore else "not among --features" if self.use else None
        return f"not used: {asked or self.left_out.get(name, 'no value in the first rows')}"

    def times(self, batch: Batch) -> npt.NDArray[np.float64] | None:
        """Seconds since 1970 of the rows, NaN where they are not known; None while there is no clock.

        Parameters
        ----------
        batch
            Rows that `numbers` has returned.

        """
        if self._clock is None and self.time is None:
            return None
        if self._clock is None or self._clock[0] not in batch.table.column_names:
            return np.full(batch.table.num_rows, np.nan)
        name, kind = self._clock
        return kind.seconds(batch.readable[name])

    def read_times(self, cells: pa.ChunkedArray) -> npt.NDArray[np.float64]:
        """Times from elsewhere as seconds, in the form of the clock or as ISO 8601; NaN where they cannot be read."""
        assert self._clock is not None
        times = self._clock[1].seconds(cells)
        return np.where(np.isnan(times), clocks.Kind().seconds(cells), times)

    def _choose(self, table: pa.Table) -> None:
        names = table.column_names
        new = [name for name in names if name not in self._seen]
        if not new:
            return
        if not self._seen:
            self._check(names)
        if not table.num_rows:
            return
        self._seen.update(new)
        others = self._find_clocks(new, table)
        use, known, taken = set(self.use), set(self.known), {*self.ignore, *self.one_hot, self.label}
        for name in new:
            if name in (self.clock, self.time) and name not in known:
                continue
            if name in taken or (use and name not in use):
                continue
            if known and name not in known:
                self.left_out[name] = "not in the model"
            elif name in use or name in known:
                self._chosen[name] = None
            elif name in others:
                self.left_out[name] = "also a clock"
            elif (why := roles.unfit(table[name], name)) is None:
                self._chosen[name] = None
            elif table[name].null_count < table.num_rows:
                self.left_out[name] = why
            else:
                self._seen.discard(name)  # nothing but missing values so far: decide later

    def _find_clocks(self, new: list[str], table: pa.Table) -> set[str]:
        """Find the clock among new columns, if there is none yet; return the clocks beside it."""
        named = {*self.use, *self.ignore, *self.one_hot, *self.known, self.label, self.time}
        found = roles.clocks(table, [name for name in new if name not in named])
        if self.time in new:
            self._set_clock(self.time, self._asked_clock(self.time, table[self.time]))
        elif found and self.time is None and self._clock is None:
            self._set_clock(*next(iter(found.items())))
        return set(found)

    def _set_clock(self, name: str, kind: clocks.Kind | None) -> None:
        if kind is None:
            self._seen.discard(name)  # nothing but missing values so far
            return
        self._clock = name, kind
        if name not in self.known:
            self.left_out[name] = "clock, in seconds" if kind.unit == clocks.ELAPSED else "clock"

    def _asked_clock(self, name: str, cells: pa.ChunkedArray) -> clocks.Kind | None:
        kind = clocks.find(cells, name, asked=True)
        filled = first_filled(cells)
        if kind is None and len(filled):
            shown = ", ".join(shorten(cell) for cell in filled.slice(0, 3).to_pylist())
            raise click.UsageError(f"--time {name}: {shown} cannot be read as times; {clocks.FORMS_READ} can")
        return kind

    def _check(self, names: list[str]) -> None:
        there = set(names)
        given = {"--features": self.use, "--one-hot": self.one_hot, "--ignore": self.ignore}
        one = {"--label": self.label, "--time": self.time}
        for option, wanted in (given | {option: (name,) for option, name in one.items() if name}).items():
            for name in wanted:
                if name not in there:
                    known = did_you_mean(name, names) or f"; there are {', '.join(names[:20])}"
                    raise click.UsageError(f"{option} {name}: no such column{known}")
        if self.time and self.time in (*self.use, *self.one_hot, self.label):
            raise click.UsageError(f"--time {self.time}: a clock is no feature and no label: leave it out there")
        # A model that was trained with one-hot features needs them again, without being told.
        for feature in self.known:
            column = feature.partition("=")[0]
            if feature not in there and "=" in feature and column in there:
                if column not in self.one_hot:
                    self.one_hot = (*self.one_hot, column)
                self._categories.setdefault(column, {})[feature.partition("=")[2]] = None

    def _encode(self, column: str, cells: pa.ChunkedArray) -> dict[str, npt.NDArray[np.float64]]:
        texts = pc.cast(cells, pa.string())
        known = self._categories.setdefault(column, {})
        for value in pc.unique(texts).to_pylist():
            if value is not None and len(known) < self.max_categories:
                known.setdefault(value)
        absent = texts.is_null().to_numpy()
        features = {}
        rest = ~absent
        for value in known:
            if value == "(other)":
                continue
            hit = pc.fill_null(pc.equal(texts, value), False).to_numpy()
            features[f"{column}={value}"] = np.where(absent, np.nan, hit.astype(np.float64))
            rest &= ~hit
        if rest.any() or "(other)" in known:
            features[f"{column}=(other)"] = np.where(absent, np.nan, rest.astype(np.float64))
        return features
