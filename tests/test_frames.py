"""Data frames of any kind, and arrays, are the same numbers and the same events."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from svead_stream.frames import records, table

NAN = float("nan")
COLUMNS = {"b": [1.5, None, 3.0], "a": [1, 2, None], "c": [True, False, None], "d": [Decimal("0.5"), None, Decimal(2)]}
MATRIX = np.array([[1.5, 1, 1, 0.5], [NAN, 2, 0, NAN], [3, NAN, NAN, 2]])
EVENTS = [{"b": 1.5, "a": 1, "c": True, "d": 0.5}, {"a": 2, "c": False}, {"b": 3.0, "d": 2}]

FRAMES = {
    "pandas": lambda: pd.DataFrame(COLUMNS, index=[7, 7, 9]),
    "pandas of objects": lambda: pd.DataFrame(COLUMNS, dtype=object),
    "pandas, nullable": lambda: pd.DataFrame(COLUMNS).astype({"b": "Float64", "a": "Int64", "c": "boolean"}),
    "pandas of Arrow": lambda: pa.table(COLUMNS).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "pyarrow": lambda: pa.table(COLUMNS),
    "pyarrow in chunks": lambda: pa.concat_tables([pa.table(COLUMNS).slice(0, 1), pa.table(COLUMNS).slice(1)]),
    "polars, lazy": lambda: pl.LazyFrame(COLUMNS),
    "a batch of pyarrow": lambda: pa.RecordBatch.from_pydict(COLUMNS),
}
frames = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)


@frames
def test_a_frame_of_any_kind_is_a_matrix_in_which_what_is_missing_is_nan(make):
    names, matrix = table(make())
    assert names == ["b", "a", "c", "d"]
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    np.testing.assert_array_equal(matrix, MATRIX)


@frames
def test_a_frame_of_any_kind_is_events_without_what_is_missing(make):
    assert list(records(make())) == EVENTS
    for event, row in zip(records(make(), keep_missing=True), MATRIX, strict=True):
        assert list(event) == ["b", "a", "c", "d"]
        kept = [event[name] for name in np.array(list(event))[~np.isnan(row)]]
        assert kept == row[~np.isnan(row)].tolist()


@frames
def test_names_given_with_a_frame_rename_its_columns(make):
    names, matrix = table(make(), [1, "x", None, 2.5])
    assert names == [1, "x", None, 2.5]
    np.testing.assert_array_equal(matrix, MATRIX)
    assert next(records(make(), [1, "x", None, 2.5])) == {1: 1.5, "x": 1, None: True, 2.5: 0.5}
    with pytest.raises(ValueError, match="1 feature_names for 4 columns"):
        table(make(), ["a"])


def test_arrays_and_lists_have_numbers_for_names_unless_there_are_others():
    X = [[1.0, None], [NAN, 4]]
    for given in (X, np.array(X, dtype=object), np.array(X, dtype=float)):
        names, matrix = table(given)
        assert names == [0, 1]
        np.testing.assert_array_equal(matrix, [[1, NAN], [NAN, 4]])
        assert list(records(given)) == [{0: 1.0}, {1: 4}]
        assert list(records(given, ["a", "b"])) == [{"a": 1.0}, {"b": 4}]
        assert [set(event) for event in records(given, keep_missing=True)] == [{0, 1}, {0, 1}]


def test_a_matrix_of_floats_is_not_copied():
    X = np.ones((5, 2))
    assert np.shares_memory(table(X)[1], X)


def test_columns_of_pandas_may_be_named_by_anything():
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=[3, "a", ("t", 1)])
    assert table(frame)[0] == [3, "a", ("t", 1)]
    assert list(records(frame)) == [{3: 1.0, "a": 2.0, ("t", 1): 3.0}]


@pytest.mark.parametrize(
    "values", [["x", "y"], [b"x", b"y"], pd.to_datetime(["2020-01-01", "2020-01-02"]), [[1], [2]]], ids=str
)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_that_hold_no_numbers_are_named(kind, values):
    frame = kind({"a": [1.0, 2.0], "b": values})
    with pytest.raises(ValueError, match=r"feature 'b' has the value .*, which is not a number"):
        table(frame)


@pytest.mark.parametrize(
    ("X", "shown"),
    [
        ([[1.0, 2.0], [3, "x"]], "'x'"),
        (np.array([[1, 2], [3, "x"]], dtype=object), "'x'"),
        (np.array([["2020-01-01", "2020-01-02"]], dtype="M8[ns]")[:, ::-1], "2020"),
        (np.array([[1, 2]], dtype="m8[ns]"), "timedelta"),
        (np.array([[1, 2j]]), "1+0j"),
    ],
    ids=str,
)
def test_arrays_and_lists_that_hold_no_numbers_are_named(X, shown):
    with pytest.raises(
        ValueError, match=rf"feature '[ab]' has the value .*{re.escape(shown)}.*, which is not a number"
    ):
        table(X, ["a", "b"])


def test_a_list_of_dicts_has_all_their_names_and_gaps_where_one_is_without():
    names, matrix = table(EVENTS)
    assert names == ["b", "a", "c", "d"]
    np.testing.assert_array_equal(matrix, MATRIX)
    assert list(records(EVENTS)) == EVENTS
    assert list(records([{"a": None, "b": NAN, "c": 1}])) == [{"c": 1}]
    assert list(records([{"a": None}], keep_missing=True)) == [{"a": None}]
    assert table([])[1].shape == (0, 0)
    for read in (table, lambda X, names: next(records(X, names))):
        with pytest.raises(ValueError, match="leave feature_names out"):
            read(EVENTS, list("abcd"))
    with pytest.raises(ValueError, match="feature 'b' has the value 'x'"):
        table([{"a": 1.0}, {"b": "x"}])


@pytest.mark.parametrize("read", [table, lambda X: next(records(X))])
@pytest.mark.parametrize(
    "twice", [pd.DataFrame([[1, 2]], columns=["a", "a"]), pa.table([[1], [2]], names=["a", "a"])], ids=type
)
def test_names_that_occur_twice_are_refused(read, twice):
    with pytest.raises(ValueError, match=r"column names are not distinct.*'a'"):
        read(twice)


@pytest.mark.parametrize(
    "X", [[1.0, 2.0], pd.Series([1.0]), pl.Series([1.0]), pa.chunked_array([[1.0]]), 3.0], ids=type
)
@pytest.mark.parametrize("read", [table, lambda X: next(records(X))])
def test_what_has_no_rows_and_columns_is_refused(read, X):
    with pytest.raises(ValueError, match="dimensions: it must be a 2-D array or a data frame"):
        read(X)


@pytest.mark.parametrize("empty", [pd.DataFrame({"a": []}), pl.DataFrame({"a": []}), np.empty((0, 1))], ids=type)
def test_a_frame_without_rows_has_no_events(empty):
    assert table(empty)[1].shape == (0, 1)
    assert list(records(empty)) == []
