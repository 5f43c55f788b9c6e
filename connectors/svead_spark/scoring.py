"""Scoring on a cluster: a fitted model as a column of a DataFrame, batch or streaming, and as a function in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from svead_spark.columns import features, matrix, number, refuse_infinite
from svead_spark.workers import check_workers
from svead_stream.batch import SVEAD
from svead_stream.errors import brief


def score(df: DataFrame, model: SVEAD, output_col: str = "score", columns: Sequence[str] | None = None) -> DataFrame:
    """Add the score of every row: the larger, the more anomalous.

    A lazy transformation: nothing runs until the result is used. It works on a streaming DataFrame as well.

    Parameters
    ----------
    df
        Rows to score; other columns stay as they are and are not sent to Python.
    model
        A fitted `SVEAD`, from Spark or from one machine.
    output_col
        Name of the new column, of type double.
    columns
        The features, in the model's order; by default the columns with the names that the model was fitted to.
    """
    names = _names(model, columns)
    if output_col in df.columns:
        raise ValueError(f"column {output_col!r} is there already: choose another output_col, or drop it")
    features(df, names)
    row = F.struct(*[number(name).alias(name) for name in names])
    return df.withColumn(output_col, _function(df.sparkSession, model, names)(row))


def register(
    spark: SparkSession, model: SVEAD, name: str = "svead_score", columns: Sequence[str] | None = None
) -> None:
    """Make the model a function in SQL, which takes the features as a struct: ``svead_score(struct(a, b))``.

    Fields are found by name, in any order; others are ignored, so that ``struct(*)`` will do.

    Parameters
    ----------
    spark
        The session in which the function will be known.
    model
        A fitted `SVEAD`.
    name
        Of the function.
    columns
        Names of the fields, in the model's order; by default those that the model was fitted to.
    """
    spark.udf.register(name, _function(spark, model, _names(model, columns)))


def check_model(model: Any) -> None:
    """Refuse what is no fitted SVEAD with a TypeError."""
    if not isinstance(model, SVEAD) or not hasattr(model, "anchors_"):
        raise TypeError(f"the model is {brief(model)}: Spark scores with a fitted SVEAD")


def _names(model: SVEAD, columns: Sequence[str] | None) -> list[str]:
    check_model(model)
    names = getattr(model, "feature_names_in_", None) if columns is None else columns
    if names is None:
        raise ValueError("the model was fitted without column names: name its features with columns=[...]")
    if len(names) != model.n_features_in_:
        raise ValueError(f"{len(names)} columns for a model of {model.n_features_in_} features: give one name for each")
    return [str(name) for name in names]


def _function(spark: SparkSession, model: SVEAD, names: list[str]) -> Any:
    check_workers(spark)
    shared = spark.sparkContext.broadcast(model.to_bytes())

    def scores(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        loaded = SVEAD.from_bytes(shared.value)
        loaded.n_jobs = 1  # Spark has a task for every core already
        for batch in batches:
            X = matrix(_fields(batch, names), names)
            refuse_infinite(X, names)
            yield pa.array(loaded.scores_of(X))

    return F.arrow_udf(scores, "double")  # type: ignore[attr-defined, unused-ignore]


def _fields(batch: pa.Array, names: list[str]) -> list[pa.Array]:
    """The columns of a struct, by name; where the whole struct is null each of them is."""
    if not pa.types.is_struct(batch.type):
        raise ValueError(f"the function takes one struct of the features, such as struct({', '.join(names[:3])})")
    there = {field.name: i for i, field in enumerate(batch.type)}
    missing = [name for name in names if name not in there]
    if missing:
        raise ValueError(f"column {missing[0]!r} is missing: the struct has {', '.join(there)}")
    columns = batch.flatten()
    return [columns[there[name]] for name in names]
