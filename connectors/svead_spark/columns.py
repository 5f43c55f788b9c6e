"""From columns of a DataFrame to rows of numbers: which can be features, and how Arrow becomes a matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, NullType, NumericType

F64 = NDArray[np.float64]


def is_number(kind: DataType) -> bool:
    """Whether values of this type can be features; a column of nothing but nulls is one without a known value."""
    return isinstance(kind, (NumericType, BooleanType, NullType))


def features(df: DataFrame, columns: Sequence[str] | None) -> list[str]:
    """The columns to use, all by default, or an error that names what is wrong with one of them."""
    if isinstance(columns, str):
        raise ValueError(f"columns={columns!r}: give a list of names, here [{columns!r}]")
    names = list(df.columns if columns is None else columns)
    if not names:
        raise ValueError("there are no columns: name at least one that holds numbers")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"column {twice[0]!r} is there twice: rename one, or leave it out")
    for name in names:
        kind = type_of(df, name)
        if not is_number(kind):
            raise ValueError(
                f"column {name!r} holds {kind.simpleString()}, not numbers: "
                "encode it, or name the columns to use with columns=[...]"
            )
    return names


def type_of(df: DataFrame, name: str) -> DataType:
    """The type of the column of that name, or an error that lists the columns there are."""
    if not isinstance(df, DataFrame):
        raise TypeError(f"the data is a {type(df).__name__} of {type(df).__module__}: give a DataFrame of Spark")
    kinds = [field.dataType for field in df.schema.fields if field.name == name]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise ValueError(f"column {name!r} is there {len(kinds)} times: rename all but one")
    there = ", ".join(df.columns[:20]) + (", ..." if len(df.columns) > 20 else "")
    raise ValueError(f"column {name!r} is missing: the data has {there or 'no columns'}")


def quoted(name: str) -> Column:
    """The column of that name, whatever characters are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def number(name: str) -> Column:
    """The column of that name as double."""
    return quoted(name).cast("double")


def numbers(df: DataFrame, names: Sequence[str]) -> DataFrame:
    """These columns as doubles, under names of their own: Spark does not hand over batches of a column called `a.b`."""
    return df.select([number(name).alias(f"x{i}") for i, name in enumerate(names)])


def matrix(columns: Sequence[pa.Array], names: Sequence[str]) -> F64:
    """Rows of float64 from columns of Arrow; nulls are NaN.

    Parameters
    ----------
    columns
        One array per feature, of any numeric type.
    names
        Of the features, for the error if one is not a number.
    """
    X = np.empty((len(columns[0]), len(columns)))  # C order: the kernels are compiled for it
    for f, column in enumerate(columns):
        kind = column.type
        if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
            column = column.cast(pa.float64())
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise ValueError(f"column {names[f]!r} holds {kind}, not numbers: encode it, or leave it out")
        X[:, f] = column.to_numpy(zero_copy_only=False)
    return X


def refuse_infinite(X: F64, names: Sequence[str]) -> None:
    """An error that names the first column with an infinity, as on one machine."""
    infinite = np.isinf(X).any(axis=0)
    if infinite.any():
        raise ValueError(infinity_in(names[int(infinite.argmax())]))


def infinity_in(name: str) -> str:
    return f"column {name!r} has infinite values: make them null, which is a missing value, or filter the rows out"
