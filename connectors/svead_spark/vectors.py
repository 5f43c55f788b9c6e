"""A column of vectors, as `VectorAssembler` makes them, as columns of numbers."""

from __future__ import annotations

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from svead_spark.columns import quoted, type_of


def size_of(df: DataFrame, name: str) -> int:
    """How long the vectors of a column are: as its metadata say, else as the first is."""
    values = _values(df, name)
    said = df.schema[name].metadata.get("ml_attr", {}).get("num_attrs")
    if said is not None:
        return int(said)
    first = df.where(quoted(name).isNotNull()).select(F.size(values)).first()
    if first is None:
        raise ValueError(f"column {name!r} has no vectors: there is nothing to learn from")
    return int(first[0])


def elements(name: str, size: int) -> list[str]:
    """What the columns for the elements of a vector are called."""
    return [f"{name}[{i}]" for i in range(size)]


def spread(df: DataFrame, name: str, size: int) -> DataFrame:
    """The data with a column for every element, null where the vector is; a vector of another size fails."""
    values = _values(df, name)
    n = F.size(values)
    wrong = F.concat(F.lit(f"column {name!r} has a vector of size "), n, F.lit(f" among those of {size}"))
    checked = F.when(values.isNull() | (n == size), values).otherwise(F.raise_error(wrong))
    return df.select("*", *[F.get(checked, F.lit(i)).alias(one) for i, one in enumerate(elements(name, size))])


def _values(df: DataFrame, name: str) -> Column:
    kind = type_of(df, name)
    if not isinstance(kind, VectorUDT):
        raise ValueError(
            f"column {name!r} holds {kind.simpleString()}, not vectors: name columns of numbers with inputCols=[...]"
        )
    return F.when(quoted(name).isNotNull(), vector_to_array(quoted(name)))  # which fails where there is none
