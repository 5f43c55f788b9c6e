"""From tables to rows of numbers: data frames of any kind, 2-D arrays, lists of events."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream.errors import brief
from svead_stream.features import ABSENT, number

_FORMS = "a 2-D array or a data frame, one row per event, or a list of dicts"
_NO_NUMBERS = ("String", "Categorical", "Enum", "Datetime", "Date", "Time", "Duration", "Binary")  # types of narwhals


def table(X: Any, names: Sequence[Hashable] | None = None) -> tuple[list[Hashable], NDArray[np.float64]]:
    """Column names and a float64 matrix of a data frame (pandas, polars, pyarrow, ...), a 2-D array or a list of dicts.

    What is missing, in whichever way, is NaN.
    """
    columns: Iterable[NDArray[Any] | list[Any]]
    X = collected(X)
    frame = _frame(X)
    if is_events(X):
        names = _names_of(X, names)
        columns = ([event.get(name) for event in X] for name in names)
    elif frame is None:
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
    """Rows of what `table` takes as dictionaries, for detectors that take one event at a time.

    Missing values are left out by default: river's detectors know them by their absence, and one NaN spoils a scaler
    for good.
    """
    X = collected(X)
    frame = _frame(X)
    rows: Iterable[Iterable[tuple[Hashable, Any]]]
    if is_events(X):
        _names_of(X, names)
        rows = (event.items() for event in X)
    else:
        array = _array(X) if frame is None else None
        names = _checked(names, range(array.shape[1]) if array is not None else frame.columns)
        values = array.tolist() if array is not None else frame.iter_rows()
        rows = (zip(names, row, strict=True) for row in values)
    for event in rows:
        yield {name: value for name, value in event if keep_missing or not _is_missing(value)}


def collected(X: Any) -> Any:
    """X in a form that the others here know.

    The rows of a lazy frame are fetched, a batch of Arrow is a table, and what an array masks is missing.
    """
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.float64), np.nan) if X.dtype.kind in "fiub" else X.filled()
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(X, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([X])
    if not hasattr(X, "collect") and not hasattr(X, "compute") and not hasattr(X, "execute"):
        return X
    import narwhals.stable.v2 as nw  # slow to import, and most streams are no frames

    frame = nw.from_native(X, pass_through=True)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else X


def is_events(X: Any) -> bool:
    """Whether X is a list of dicts, or a list of nothing."""
    return isinstance(X, (list, tuple)) and all(isinstance(event, Mapping) for event in X)


def refuse_text(X: Any) -> None:
    """Raise a ValueError that names the first column of text or dates, which NumPy would turn into numbers, or try to.

    Columns of objects are not looked into.
    """
    frame = _frame(X)
    if frame is not None:
        for name, kind in frame.schema.items():
            if type(kind).__name__ in _NO_NUMBERS:
                table(frame.select(name).to_native())
    elif isinstance(X, Mapping) or (not hasattr(X, "toarray") and _as_array(X).dtype.kind in "USmM"):
        table(X)


def _frame(X: Any) -> Any:
    """X as narwhals sees it, which knows many kinds of data frames; None if it is none."""
    if isinstance(X, (np.ndarray, list, tuple)):
        return None
    import narwhals.stable.v2 as nw  # slow to import, and most streams are no frames

    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"column names are not distinct: {' '.join(str(error).split())}") from None
    return frame if isinstance(frame, nw.DataFrame) else None


def _array(X: Any) -> NDArray[Any]:
    if hasattr(X, "toarray"):
        raise TypeError(f"X is a sparse {type(X).__name__}: give X.toarray()")
    if isinstance(X, Mapping):
        raise TypeError(f"X is a dict: one event goes to score_one or judge_one, X must be {_FORMS}")
    array = _as_array(X)
    if array.dtype.kind in "US" and not isinstance(X, np.ndarray):  # one text made text of all numbers
        array = np.asarray(X, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"X, {brief(X)}, has {array.ndim} dimensions: it must be {_FORMS}")
    return array


def _as_array(X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError:  # NumPy speaks of inhomogeneous shapes
        raise ValueError(f"the rows of X differ in length: it must be {_FORMS}") from None


def _names_of(events: Sequence[Mapping[Hashable, Any]], names: Sequence[Hashable] | None) -> list[Hashable]:
    """The names of events, in the order in which they are first met."""
    if names is not None and events:
        raise ValueError("dicts bring the names of their features: leave feature_names out")
    return list(names or dict.fromkeys(name for event in events for name in event))


def _checked(names: Sequence[Hashable] | None, own: Sequence[Hashable]) -> list[Hashable]:
    """The names given for the columns, or else their own."""
    if isinstance(names, (str, set, frozenset)) or not isinstance(names, (Iterable, NoneType)):  # sets have no order
        raise ValueError(f"feature_names={brief(names)}: give a list of names, one per column")
    checked = list(own if names is None else names)
    if len(checked) != len(own):
        raise ValueError(f"{len(checked)} feature_names for {len(own)} columns: give one name per column")
    if len(set(checked)) != len(checked):
        raise ValueError(f"column names are not distinct: {brief(checked)}")
    return checked


def _values(column: Any) -> NDArray[Any] | list[Any]:
    """A column of a frame as an array, if NumPy has a type of numbers for it, or else value by value."""
    array: NDArray[Any] = column.to_numpy()
    return array if array.dtype.kind in "fiub" and array.ndim == 1 else list(column.to_list())


def _is_missing(value: Any) -> bool:
    return type(value).__name__ in ABSENT or bool(value != value)
