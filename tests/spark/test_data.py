"""What data brings along: nulls, types, names, empty parts. As on one machine, or an error that names the column."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest
import svead_spark
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from svead_stream import SVEAD, SveadError

SMALL = {"n_partitions": 4, "n_anchors": 4, "seed": 0}


@pytest.fixture(scope="module")
def typed(spark):
    """Columns of many types under awkward names."""
    rows = [
        (
            i,
            float(i) if i % 5 else None,
            i % 2 == 0,
            decimal.Decimal(i) / 4,
            f"text {i}",
            None if i % 3 else float("nan"),
        )
        for i in range(60)
    ]
    schema = "`the id` long, `a.b` double, `tick``ed` boolean, money decimal(10,2), words string, unknown double"
    return spark.createDataFrame(rows, schema).coalesce(1).persist()


def test_numbers_of_any_type_under_any_name_nulls_and_columns_without_a_value_are_as_on_one_machine(typed):
    columns = ["the id", "a.b", "tick`ed", "money", "unknown"]
    model = svead_spark.fit(typed, columns=columns, **SMALL)
    X = typed.drop("words").toArrow().to_pandas()[columns].astype(float)
    one = SVEAD.from_bytes(model.to_bytes())
    one.set_cells(one.cells_of(X.to_numpy()), X.to_numpy())
    assert np.array_equal(model.cells_, one.cells_)
    scored = svead_spark.score(typed, model, "how odd").toArrow().to_pandas()
    assert list(scored.columns) == [*typed.columns, "how odd"]
    assert np.array_equal(scored["how odd"], one.anomaly_scores(X))


def test_fewer_rows_than_anchors_are_enough(typed):
    model = svead_spark.fit(typed.limit(3).persist(), columns=["the id"], n_partitions=5, n_anchors=4, seed=0)
    assert model.anchors_.shape == (5, 3, 1)
    assert {tuple(sorted(anchors.ravel())) for anchors in model.anchors_} == {(0, 1, 2)}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, "column 'words' holds string, not numbers"),
        (["the id", "absent"], "column 'absent' is missing: the data has the id, a.b"),
        (["the id", "the id"], "column 'the id' is there twice"),
        ("money", "give a list of names"),
        ([], "no columns"),
    ],
)
def test_columns_that_cannot_be_features_are_named(typed, columns, message):
    with pytest.raises(ValueError, match=message):
        svead_spark.fit(typed, columns=columns)


def test_parameters_are_checked_before_anything_runs(typed):
    with pytest.raises(ValueError, match="n_anchors=0"):
        svead_spark.fit(typed, n_anchors=0)
    with pytest.raises(ValueError, match="scaling='mixed'"):
        svead_spark.fit(typed, scaling="mixed")
    with pytest.raises(ValueError, match="size=0"):
        svead_spark.sample(typed, 0)


def test_no_rows_and_infinities_are_refused_with_what_to_do(spark, typed):
    with pytest.raises(ValueError, match="no rows"):
        svead_spark.fit(typed.select("money").where("money < 0"), **SMALL)
    infinite = typed.select("the id", (F.col("`the id`") / F.lit(0.5)).alias("ratio")).replace(
        4.0, float("inf"), ["ratio"]
    )
    with pytest.raises(ValueError, match="column 'ratio' has infinite values: make them null"):
        svead_spark.fit(infinite, **SMALL)


def test_rows_that_change_between_passes_are_noticed(typed):
    def made_up(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"a": np.random.default_rng().normal(size=batch.num_rows)})

    changing = typed.select("money").mapInArrow(made_up, "a double")
    with pytest.raises(SveadError, match="changed between two passes"):
        svead_spark.fit(changing, **SMALL)


def test_scoring_checks_the_model_and_the_columns_at_once(data, model, typed):
    with pytest.raises(ValueError, match="column 'a' is missing"):
        svead_spark.score(typed, model)
    with pytest.raises(ValueError, match="column 'b' is there already"):
        svead_spark.score(data, model, "b")
    with pytest.raises(ValueError, match="2 columns for a model of 4 features"):
        svead_spark.score(data, model, columns=["a", "b"])
    with pytest.raises(TypeError, match="the model is 'model': Spark scores with a fitted SVEAD"):
        svead_spark.score(data, "model")
    nameless = SVEAD(3, 3).fit(np.arange(20.0).reshape(10, 2))
    with pytest.raises(ValueError, match="without column names"):
        svead_spark.score(data, nameless)
    scored = svead_spark.score(data, nameless, columns=["a", "b"]).limit(3).toArrow().to_pandas()
    assert np.array_equal(scored["score"], nameless.anomaly_scores(scored[["a", "b"]].to_numpy()))


def test_an_infinity_met_while_scoring_names_the_column(data, model):
    infinite = data.limit(10).withColumn("c", F.lit(float("inf")))
    with pytest.raises(PySparkException, match="column 'c' has infinite values"):
        svead_spark.score(infinite, model).collect()
