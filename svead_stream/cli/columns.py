"""From a table to the numbers that the detector learns: which columns, text made into numbers, one-hot encoding."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from svead_stream.cli.tables import Batch, Reject

# A column of text is taken for numbers when nearly all of its first cells are: the rest are bad rows.
_NUMERIC_SHARE = 0.9
_NUMBER = r"^[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)$"


@dataclass
class Columns:
    """Chooses the feature columns when it sees the first rows, and makes numbers of them from then on.

    Parameters
    ----------
    use
        The columns to use; all numeric ones if empty.
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

    """

    use: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    label: str | None = None
    one_hot: tuple[str, ...] = ()
    max_categories: int = 64
    known: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)  # columns that are not used, and why
    _chosen: dict[str, None] = field(default_factory=dict)  # in the order in which they came
    _seen: set[str] = field(default_factory=set)
    _categories: dict[str, dict[str, None]] = field(default_factory=dict)

    def numbers(self, name: str, batch: Batch) -> tuple[Batch, pa.Table]:
        """The rows that can be used, and their features as float64 columns; the others join the rejects.

        Parameters
        ----------
        name
            Of the source, for the rejects.
        batch
            Rows as they were read.

        """
        self._choose(batch.table)
        bad = np.zeros(batch.table.num_rows, dtype=np.bool_)
        columns: dict[str, npt.NDArray[np.float64]] = {}
        for column in self._chosen:
            if column not in batch.table.column_names:
                continue
            values, wrong = _floats(batch.table[column])
            columns[column] = values
            for i in np.flatnonzero(wrong & ~bad).tolist():
                cell = batch.table[column][i].as_py()
                row = batch.table.slice(i, 1).to_pylist()[0]
                text = ",".join("" if v is None else str(v) for v in row.values())
                reason = f"has {_shorten(cell)} in column {column!r}, which is not a number"
                batch.rejects.append(Reject(name, int(batch.lines[i]), reason, text))
            bad |= wrong
        for column in self.one_hot:
            if column in batch.table.column_names:
                columns |= self._encode(column, batch.table[column])
        if not columns and self._chosen:  # JSON lines without any of the features that others have
            columns[next(iter(self._chosen))] = np.full(batch.table.num_rows, np.nan)
        if bad.any():
            batch = batch.without(bad)
            columns = {column: values[~bad] for column, values in columns.items()}
        return batch, pa.table({column: pa.array(values) for column, values in columns.items()})

    def _choose(self, table: pa.Table) -> None:
        new = [name for name in table.column_names if name not in self._seen]
        if not new:
            return
        if not self._seen:
            self._check(table.column_names)
        self._seen.update(new)
        for name in new:
            if name in self.ignore or name in self.one_hot or name == self.label:
                continue
            if self.use and name not in self.use:
                continue
            if self.known and name not in self.known:
                self.left_out[name] = "not in the model"
                continue
            if name in self.use or name in self.known or _looks_numeric(table[name]):
                self._chosen[name] = None
            elif table[name].null_count < table.num_rows:
                self.left_out[name] = str(table.schema.field(name).type).replace("string", "text")
            else:
                self._seen.discard(name)  # nothing but missing values so far: decide later

    def _check(self, names: list[str]) -> None:
        given = {"--features": self.use, "--one-hot": self.one_hot, "--ignore": self.ignore}
        for option, wanted in (given | {"--label": (self.label,) if self.label else ()}).items():
            for name in wanted:
                if name not in names:
                    raise click.UsageError(f"{option} {name}: no such column; there are {', '.join(names[:20])}")
        # A model that was trained with one-hot features needs them again, without being told.
        for feature in self.known:
            column = feature.partition("=")[0]
            if feature not in names and "=" in feature and column in names:
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


def with_numbers(batch: Batch, features: pa.Table) -> Batch:
    """The batch with its text columns that were used as numbers turned into numbers; what is missing is null."""
    table = batch.table
    for i, name in enumerate(table.column_names):
        if name in features.column_names and pa.types.is_string(table.schema.field(i).type):
            table = table.set_column(i, name, pa.array(features[name].to_numpy(), from_pandas=True))
    return replace(batch, table=table)


def labels(cells: pa.ChunkedArray, name: str) -> npt.NDArray[np.float64]:
    """1 for an anomaly, 0 for none, NaN where nobody knows."""
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(cells))
        cells = pc.if_else(pc.equal(words, "true"), "1", pc.if_else(pc.equal(words, "false"), "0", words))
    values, wrong = _floats(cells)
    if wrong.any():
        cell = cells[int(np.flatnonzero(wrong)[0])].as_py()
        raise click.UsageError(f"--label {name}: {cell!r} is neither 0 or 1 nor true or false")
    return np.where(np.isnan(values), np.nan, (values != 0).astype(np.float64))


def _floats(cells: pa.ChunkedArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Cells as numbers, missing ones as NaN, and which of them are no numbers."""
    try:
        numbers = pc.cast(cells, pa.float64(), safe=False)
        wrong = np.zeros(len(cells), dtype=np.bool_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        try:
            texts = pc.utf8_trim_whitespace(pc.cast(cells, pa.string()))
        except pa.ArrowNotImplementedError:  # lists and the like
            return np.full(len(cells), np.nan), cells.is_valid().to_numpy().copy()
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
        is_number = pc.match_substring_regex(texts, _NUMBER, ignore_case=True)
        wrong = ~pc.fill_null(is_number, True).to_numpy()
        numbers = pc.cast(pc.if_else(is_number, texts, None), pa.float64())
    return numbers.to_numpy().astype(np.float64, copy=False), wrong


def _looks_numeric(cells: pa.ChunkedArray) -> bool:
    kind = cells.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return True
    if pa.types.is_decimal(kind):
        return True
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return False
    filled = cells.drop_null().slice(0, 10_000)
    if not len(filled):
        return False
    return float(1 - _floats(filled)[1].mean()) >= _NUMERIC_SHARE


def _shorten(cell: object) -> str:
    shown = repr(cell)
    return shown if len(shown) <= 40 else shown[:37] + "..."
