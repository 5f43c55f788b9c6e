"""From events to rows of numbers: names, their order, and what counts as a number.

A model has one column per feature name that it has met. Names that arrive together are put in an order of their own,
so that the order of a dict never matters.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svead_stream.record import Reasons

Row = NDArray[np.float64]
Matrix = NDArray[np.float64]
_NAN = float("nan")
# what float() would take all the same
_NO_NUMBERS = (str, bytes, bytearray, np.ndarray, np.datetime64, np.timedelta64, np.complexfloating)


def number(name: Hashable, value: Any) -> float:
    """The value as a float, NaN where it is missing, or an error that names the feature."""
    if value is None or type(value).__name__ == "NAType":  # pandas.NA
        return _NAN
    if not isinstance(value, _NO_NUMBERS):
        try:
            return float(value)
        except OverflowError:
            return _NAN
        except (TypeError, ValueError):
            pass
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise ValueError(
        f"feature {name!r} has the value {shown}, which is not a number: encode it (for example one-hot) or drop it"
    )


def in_order(names: Iterable[Hashable]) -> list[Hashable]:
    """The names in an order that depends on nothing but themselves."""
    names = list(names)
    try:
        return sorted(names)  # type: ignore[type-var]
    except TypeError:
        return sorted(names, key=lambda name: (type(name).__name__, repr(name)))


class Run(NamedTuple):
    """Rows of a mini-batch, and the features that are new in the first of them, with their numbers there."""

    start: int
    end: int
    new: dict[Hashable, float]


class Features:
    """The feature names of a model in the order of its columns, and the way from an event to a row.

    Attributes
    ----------
    row
        The row that was set last.
    unknown
        Numbers that the event packed last has for names that are not known here.
    """

    def __init__(self, names: Iterable[Hashable] = ()) -> None:
        self.names = list(names)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.unknown: dict[Hashable, float] = {}
        n = len(self.names)
        self.row: Row = np.full(n, _NAN)
        self._buffer = self.row.data.cast("B") if n else memoryview(bytearray())
        self._pack = struct.Struct(f"{n}d").pack
        self._get: Callable[[Mapping[Hashable, Any]], tuple[Any, ...]]
        if n == 1:
            only = self.names[0]
            self._get = lambda x: (x[only],)
        elif n:
            self._get = itemgetter(*self.names)
        else:
            self._get = lambda x: ()

    def pack(self, x: Mapping[Hashable, Any]) -> bytes:
        """An event as the bytes of a row, which are easy to compare."""
        if len(x) == len(self.index):
            try:
                packed = self._pack(*self._get(x))
            except (KeyError, struct.error, OverflowError, TypeError, ValueError):
                pass
            else:
                self.unknown = {}
                return packed
        values = {name: number(name, value) for name, value in x.items()}
        self.unknown = {name: v for name, v in values.items() if name not in self.index and math.isfinite(v)}
        return self._pack(*(values.get(name, _NAN) for name in self.names))

    def set_row(self, packed: bytes) -> None:
        """Put a packed event into the row."""
        self._buffer[:] = packed

    def with_new(self, new: Iterable[Hashable], limit: int) -> Features:
        """These features and the new ones, up to a limit: hostile events cannot grow a model without bound."""
        new = in_order(new)
        if len(self.names) + len(new) > limit:
            raise ValueError(
                f"{len(self.names) + len(new)} distinct feature names, the newest {new[-1]!r}, are more than "
                f"max_features={limit}: drop names that vary from event to event, or raise max_features"
            )
        return Features([*self.names, *new])

    def runs(self, names: list[Hashable], matrix: Matrix, learn: bool, most: int, limit: int) -> Iterator[Run]:
        """Rows of a mini-batch to take together, at most so many, and no new feature but in the first: as in a loop.

        More features than the limit are an error before the first run, not on the way.
        """
        new: dict[int, dict[Hashable, float]] = {}
        for i, name in enumerate(names):
            if learn and name not in self.index:
                numbers = np.isfinite(matrix[:, i])
                if numbers.any():
                    row = int(numbers.argmax())
                    new.setdefault(row, {})[name] = matrix[row, i]
        if new:
            self.with_new([name for together in new.values() for name in together], limit)
        for start in sorted({*range(0, len(matrix), most), *new}):
            later = (row for row in new if row > start)
            yield Run(start, min(len(matrix), (start // most + 1) * most, *later), new.get(start, {}))

    def in_order(self, names: list[Hashable], matrix: Matrix) -> Matrix:
        """The columns of the model from a matrix whose columns have these names."""
        if names == self.names:
            return matrix
        ordered = np.full((len(matrix), len(self.names)), _NAN)
        for i, name in enumerate(names):
            if name in self.index:
                ordered[:, self.index[name]] = matrix[:, i]
        return ordered

    def named(self, row: Row, shares: Row) -> Reasons:
        """The shares that are not 0 by name, largest first; equal ones of the features present where all are 0."""
        found = {name: share for name, share in zip(self.names, shares.tolist(), strict=True) if share > 0}
        if not found:
            here = [name for name, v in zip(self.names, row.tolist(), strict=True) if math.isfinite(v)]
            return {name: 1 / len(here) for name in here}
        return dict(sorted(found.items(), key=itemgetter(1), reverse=True))


def distinct(names: Iterable[Hashable]) -> list[Hashable]:
    names = list(names)
    if len(set(names)) != len(names):
        raise ValueError(f"column names are not distinct: {names!r}")
    return names


def table(X: Any, names: Sequence[Hashable] | None = None) -> tuple[list[Hashable], NDArray[np.float64]]:
    """Column names and a float64 matrix of a data frame (pandas, polars, pyarrow, ...) or a 2-D array, with its names.

    What is missing, in whichever way, is NaN.
    """
    columns: Iterable[NDArray[Any] | list[Any]]
    frame = _frame(X)
    if frame is None:
        array = _array(X)
        names = _checked(names, range(array.shape[1]))
        if array.dtype.kind in "fiub":
            return names, np.ascontiguousarray(array, dtype=np.float64)
        columns = (list(column) if array.dtype.kind in "mMc" else column.tolist() for column in array.T)
    else:
        names = _checked(names, frame.columns)
        columns = map(_values, frame.iter_columns())
    matrix = np.empty((len(X), len(names)))
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        is_ready = isinstance(column, np.ndarray)
        matrix[:, i] = column if is_ready else [number(name, value) for value in column]
    return names, matrix


def records(
    X: Any, names: Sequence[Hashable] | None = None, keep_missing: bool = False
) -> Iterator[dict[Hashable, Any]]:
    """Rows of a data frame or a 2-D array as dictionaries, for detectors that take one event at a time.

    Missing values are left out by default: river's detectors know them by their absence, and one NaN spoils a scaler
    for good.
    """
    frame = _frame(X)
    array = _array(X) if frame is None else None
    names = _checked(names, range(array.shape[1]) if array is not None else frame.columns)
    for row in array.tolist() if array is not None else frame.iter_rows():
        event = zip(names, row, strict=True)
        yield {name: value for name, value in event if keep_missing or not _is_missing(value)}


def _frame(X: Any) -> Any:
    """X as narwhals sees it, which knows many kinds of data frames; None if it is none."""
    if isinstance(X, np.ndarray):
        return None
    import narwhals.stable.v2 as nw  # slow to import, and most streams are no frames

    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(X, pyarrow.RecordBatch):
        X = pyarrow.Table.from_batches([X])
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"column names are not distinct: {' '.join(str(error).split())}") from None
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"X is a lazy frame ({type(X).__module__}): its rows are not there yet, collect it first")
    return frame if isinstance(frame, nw.DataFrame) else None


def _array(X: Any) -> NDArray[Any]:
    array = np.asarray(X)
    if array.dtype.kind in "US" and not isinstance(X, np.ndarray):  # one text made text of all numbers
        array = np.asarray(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"X has {array.ndim} dimensions: it must be a 2-D array or a data frame, one row per event")
    return array


def _checked(names: Sequence[Hashable] | None, own: Sequence[Hashable]) -> list[Hashable]:
    """The names given for the columns, or else their own."""
    checked = distinct(own if names is None else names)
    if len(checked) != len(own):
        raise ValueError(f"{len(checked)} feature_names for {len(own)} columns: give one name per column")
    return checked


def _values(column: Any) -> NDArray[Any] | list[Any]:
    """A column of a frame as an array, if NumPy has a type of numbers for it, or else value by value."""
    array: NDArray[Any] = column.to_numpy()
    return array if array.dtype.kind in "fiub" else list(column.to_list())


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType" or bool(value != value)
