"""Scoring: lazy, in SQL, and on streams."""

from __future__ import annotations

import numpy as np
import pytest
import svead_spark
from pyspark.errors import PySparkException


def test_nothing_runs_before_the_scores_are_used_and_only_the_features_go_to_python(spark, data, model):
    failing = data.selectExpr("*", "raise_error('read') as other")
    scored = svead_spark.score(failing, model)
    assert scored.columns == [*failing.columns, "score"]
    assert scored.select("score").count() == data.count()
    assert scored.agg({"score": "max"}).collect()[0][0] > 0
    with pytest.raises(PySparkException):
        scored.collect()


def test_a_registered_model_scores_in_sql_by_names_in_any_order(spark, data, model, frame):
    svead_spark.register(spark, model, "oddity")
    data.createOrReplaceTempView("readings")
    rows = (
        spark.sql(
            "select a, b, c, d, oddity(struct(*)) as x, oddity(struct(d, c, b, a)) as y,"
            " oddity(if(a > 0, struct(a, b, c, d), null)) as z from readings"
        )
        .toArrow()
        .to_pandas()
    )
    expected = model.anomaly_scores(rows[["a", "b", "c", "d"]])
    assert np.array_equal(rows["x"], expected)
    assert np.array_equal(rows["y"], expected)
    positive = (rows["a"] > 0).to_numpy()
    assert np.array_equal(rows["z"][positive], expected[positive])
    for call, message in [("struct(a, b)", "column 'c' is missing"), ("a", "takes one struct")]:
        with pytest.raises(PySparkException, match=message):
            spark.sql(f"select oddity({call}) from readings").collect()


def test_a_stream_is_scored_directly_and_in_its_micro_batches(spark, data, model, tmp_path):
    data.limit(400).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(data.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    scored = svead_spark.score(stream, model)
    assert scored.isStreaming
    direct = scored.writeStream.format("memory").queryName("direct").trigger(availableNow=True).start()
    batches = []

    def each(batch, number):
        batches.append(svead_spark.score(batch, model).toArrow().to_pandas())

    by_batch = stream.writeStream.foreachBatch(each).trigger(availableNow=True).start()
    for query in (direct, by_batch):
        query.awaitTermination(600)
        assert query.exception() is None
    rows = spark.table("direct").toArrow().to_pandas()
    assert len(rows) == 400
    assert np.array_equal(rows["score"], model.anomaly_scores(rows[["a", "b", "c", "d"]]))
    assert sorted(np.concatenate([batch["score"] for batch in batches])) == sorted(rows["score"])
