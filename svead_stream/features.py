"""From events to rows of numbers: names, their order, and what counts as a number.

A model has one column per feature name that it has met. Names that arrive together are put in an order of their own,
so that the order of a dict never matters.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svead_stream.errors import brief
from svead_stream.record import Explanation

Row = NDArray[np.float64]
Matrix = NDArray[np.float64]
_NAN = float("nan")
ABSENT = ("NoneType", "NAType", "MaskedConstant")  # what stands for a missing value in Python, pandas and NumPy
# what float() would take all the same
_NO_NUMBERS = (str, bytes, bytearray, np.ndarray, np.datetime64, np.timedelta64, np.complexfloating)


def number(name: Hashable, value: Any) -> float:
    """The value as a float, NaN where it is missing, or an error that names the feature."""
    if type(value).__name__ in ABSENT:
        return _NAN
    if not isinstance(value, _NO_NUMBERS):
        try:
            return float(value)
        except OverflowError:
            return _NAN
        except (TypeError, ValueError):
            pass
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return number(name, value[()])
    raise ValueError(
        f"feature {name!r} has the value {brief(value)}, which is not a number: "
        "encode it (for example one-hot) or drop it"
    )


def check_event(x: Any) -> None:
    """Raise a TypeError that says what to give, unless x has names and values, as a dict has, or a row of pandas."""
    if isinstance(x, Mapping) or (hasattr(x, "items") and getattr(x, "ndim", 1) == 1):
        return
    many = "; rows of a table go to score_many, learn_many or judge_many" if hasattr(x, "__len__") else ""
    raise TypeError(
        f"the event is {brief(x)} ({type(x).__name__}): give a dict of feature names and numbers, such as "
        f"{{'heat': 21.5}}{many}"
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
        if type(x) is not dict:
            check_event(x)
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

    def named(self, row: Row, shares: Row) -> Explanation:
        """The shares that are not 0 by name, largest first; equal ones of the features present where all are 0."""
        event = {name: v for name, v in zip(self.names, row.tolist(), strict=True) if math.isfinite(v)}
        found = {name: share for name, share in zip(self.names, shares.tolist(), strict=True) if share > 0}
        if not found:
            return Explanation({name: 1 / len(event) for name in event}, event)
        return Explanation(sorted(found.items(), key=itemgetter(1), reverse=True), event)
