"""From events to rows of numbers: names, their order, and what counts as a number.

A model has one column per feature name that it has met. Names that arrive together are put in an order of their own,
so that the order of a dict never matters.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float64]
_NAN = float("nan")


def number(name: Hashable, value: Any) -> float:
    """The value as a float, NaN where it is missing, or an error that names the feature."""
    if value is None or type(value).__name__ == "NAType":  # pandas.NA
        return _NAN
    if not isinstance(value, (str, bytes, bytearray, np.ndarray)):
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


class Features:
    """The feature names of a model in the order of its columns, and the way from an event to a row."""

    def __init__(self, names: Iterable[Hashable] = ()) -> None:
        self.names = list(names)
        self.index = {name: i for i, name in enumerate(self.names)}
        n = len(self.names)
        self.row: Row = np.full(n, _NAN)
        self._buffer = self.row.data.cast("B") if n else memoryview(bytearray())
        self._pack = struct.Struct(f"{n}d").pack_into
        self._get: Callable[[Mapping[Hashable, Any]], tuple[Any, ...]]
        if n == 1:
            only = self.names[0]
            self._get = lambda x: (x[only],)
        elif n:
            self._get = itemgetter(*self.names)
        else:
            self._get = lambda x: ()

    def key(self) -> bytes:
        """The row filled last, as bytes to compare."""
        return self._buffer.tobytes()

    def fill(self, x: Mapping[Hashable, Any]) -> list[Hashable]:
        """Put an event into the row; answers the names that are not known here."""
        if len(x) == len(self.names):
            try:
                self._pack(self._buffer, 0, *self._get(x))
                return []
            except (KeyError, struct.error, OverflowError, TypeError, ValueError):
                pass
        values = {name: number(name, value) for name, value in x.items()}
        self.row.fill(_NAN)
        new = []
        for name, value in values.items():
            at = self.index.get(name)
            if at is None:
                new.append(name)
            else:
                self.row[at] = value
        return new

    def with_new(self, new: Iterable[Hashable], limit: int) -> Features:
        """These features and the new ones, up to a limit: hostile events cannot grow a model without bound."""
        new = in_order(new)
        if len(self.names) + len(new) > limit:
            raise ValueError(
                f"{len(self.names) + len(new)} distinct feature names, the newest {new[-1]!r}, are more than "
                f"max_features={limit}: drop names that vary from event to event, or raise max_features"
            )
        return Features([*self.names, *new])


def distinct(names: Iterable[Hashable]) -> list[Hashable]:
    names = list(names)
    if len(set(names)) != len(names):
        raise ValueError(f"column names are not distinct: {names!r}")
    return names


def table(X: Any, names: Sequence[Hashable] | None = None) -> tuple[list[Hashable], NDArray[np.float64]]:
    """Column names and a float64 matrix of a data frame (pandas, polars, pyarrow) or a 2-D array, with its names."""
    if hasattr(X, "columns") and names is None:
        pyarrow = hasattr(X, "column_names")
        names = distinct(X.column_names if pyarrow else X.columns)
        columns = [np.asarray(X.column(name) if pyarrow else X[name]) for name in names]
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            raise ValueError(
                f"X has {array.ndim} dimensions: it must be a 2-D array or a data frame, one row per event"
            )
        names = distinct(range(array.shape[1]) if names is None else names)
        if len(names) != array.shape[1]:
            raise ValueError(f"{len(names)} feature_names for {array.shape[1]} columns: give one name per column")
        if array.dtype.kind in "fiub":
            return names, np.ascontiguousarray(array, dtype=np.float64)
        columns = list(array.T)
    matrix = np.empty((len(X), len(names)))
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        if column.dtype.kind in "fiub":
            matrix[:, i] = column
        else:
            matrix[:, i] = [number(name, value) for value in column.tolist()]
    return names, matrix
