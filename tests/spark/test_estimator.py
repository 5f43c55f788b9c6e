"""The detector as a stage of pyspark.ml: the numbers of `fit` and `score`, in pipelines, saved and loaded."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from svead_spark import SparkSVEAD, SparkSVEADModel

from svead_stream import SVEAD

NAMES = ["a", "b", "c", "d"]
SETTINGS = {"n_partitions": 12, "n_anchors": 8, "scaling": "std", "seed": 7}


@pytest.fixture(scope="module")
def fitted(data):
    """A pipeline with a column of vectors; nulls are missing values within them."""
    assembler = VectorAssembler(inputCols=NAMES, outputCol="row", handleInvalid="keep")
    return Pipeline(stages=[assembler, SparkSVEAD(featuresCol="row", **SETTINGS)]).fit(data)


def test_a_pipeline_gives_the_scores_and_predictions_of_the_model_also_when_it_is_loaded(data, model, fitted, tmp_path):
    scored = fitted.transform(data).toArrow().to_pandas()
    assert list(scored.columns) == [*NAMES, "row", "score", "prediction"]
    expected = model.anomaly_scores(scored[NAMES])
    np.testing.assert_allclose(scored["score"], expected, rtol=1e-9)
    svead = fitted.stages[-1].svead
    assert np.array_equal(
        scored["prediction"], svead.predict(scored[NAMES].set_axis(svead.feature_names_in_, axis=1)) < 0
    )
    assert 0 < scored["prediction"].sum() < 1_000
    fitted.save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    assert loaded.stages[-1].svead.to_bytes() == svead.to_bytes()
    assert loaded.stages[-1].uid == fitted.stages[-1].uid
    assert loaded.stages[-1].extractParamMap() == fitted.stages[-1].extractParamMap()
    again = loaded.transform(data).toArrow().to_pandas()
    assert np.array_equal(again["score"], scored["score"])


def test_columns_of_numbers_are_features_as_well(data, model, tmp_path):
    estimator = SparkSVEAD(inputCols=NAMES, **SETTINGS)
    estimator.save(str(tmp_path / "estimator"))
    estimator = SparkSVEAD.load(str(tmp_path / "estimator"))
    ours = estimator.fit(data, {estimator.scoreCol: "odd", estimator.predictionCol: ""})
    np.testing.assert_allclose(ours.svead.cells_, model.cells_, rtol=1e-9)
    assert np.array_equal(ours.svead.anchors_, model.anchors_)
    assert ours.transform(data).columns == [*NAMES, "odd"]
    other = ours.copy({ours.scoreCol: "odder"}).setPredictionCol("is odd")
    assert other.transform(data).columns == [*NAMES, "odder", "is odd"]
    assert ours.getScoreCol() == "odd"
    with pytest.raises(PySparkException, match="estimator/metadata"):
        ours.save(str(tmp_path / "estimator"))
    ours.write().overwrite().save(str(tmp_path / "estimator"))
    loaded = SparkSVEADModel.load(str(tmp_path / "estimator"))
    assert loaded.svead.to_bytes() == ours.svead.to_bytes()
    assert loaded.getInputCols() == NAMES


def test_a_model_of_one_machine_is_a_stage_and_scores_streams(spark, data, model, tmp_path):
    stage = SparkSVEADModel(model).setInputCols(NAMES)
    data.limit(10).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(data.schema).parquet(str(tmp_path / "in"))
    query = stage.transform(stream).writeStream.format("memory").queryName("staged").trigger(availableNow=True).start()
    query.awaitTermination(600)
    assert query.exception() is None
    rows = spark.table("staged").toArrow().to_pandas()
    assert np.array_equal(rows["score"], model.anomaly_scores(rows[NAMES]))


def test_vectors_may_be_null_or_sparse_but_not_of_another_size(spark, model):
    stage = SparkSVEADModel(model).setFeaturesCol("the row")
    rows = [(Vectors.dense(1, 2, 3, 4),), (Vectors.sparse(4, {1: 2.0}),), (None,)]
    scores = [row["score"] for row in stage.transform(spark.createDataFrame(rows, ["the row"])).collect()]
    expected = model.anomaly_scores(pd.DataFrame([[1, 2, 3, 4], [0, 2, 0, 0], [np.nan] * 4], columns=NAMES))
    assert scores == expected.tolist()
    short = spark.createDataFrame([(Vectors.dense(1, 2),)], ["the row"])
    with pytest.raises(PySparkException, match="column 'the row' has a vector of size 2 among those of 4"):
        stage.transform(short).collect()
    assert stage.transform(short).columns == ["the row", "score", "prediction"]


def test_wrong_columns_and_parameters_are_named(data, model):
    with pytest.raises(ValueError, match="column 'features' is missing: the data has a, b, c, d"):
        SparkSVEAD().fit(data)
    with pytest.raises(ValueError, match="column 'a' holds double, not vectors: name columns of numbers with"):
        SparkSVEAD(featuresCol="a").fit(data)
    for taken in ("b", "score"):
        with pytest.raises(ValueError, match=f"column '{taken}' is there already: choose another predictionCol"):
            SparkSVEADModel(model).setInputCols(NAMES).setPredictionCol(taken).transform(data)
    with pytest.raises(ValueError, match="n_anchors=0"):
        SparkSVEAD(inputCols=NAMES, n_anchors=0).fit(data)
    with pytest.raises(ValueError, match="seed=-1: it must be a whole number from 0 to"):
        SparkSVEAD(inputCols=NAMES, seed=-1).fit(data)
    with pytest.raises(TypeError, match=r"the data is a DataFrame of pandas.*: give a DataFrame of Spark"):
        SparkSVEAD(inputCols=["a"]).fit(pd.DataFrame({"a": [1.0]}))
    for no_model in (SVEAD(), None):
        with pytest.raises(TypeError, match=r"the model is .*: Spark scores with a fitted SVEAD"):
            SparkSVEADModel(no_model)
    with pytest.raises(TypeError, match='for param "n_anchors"'):
        SparkSVEAD(n_anchors="many")
    with pytest.raises(TypeError, match='for param "contamination"'):
        SparkSVEAD(contamination="much")
    described = SparkSVEAD(contamination=0.1).explainParams()
    assert "contamination: Share of the data that is predicted to be anomalous, or auto. (default: auto" in described
    assert "n_partitions: Partitions of the ensemble. (default: 100)" in described
