"""The batch detector as a stage of `pyspark.ml`: fitted and applied within pipelines, saved and loaded with them."""

from __future__ import annotations

from typing import Any, Self

from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasFeaturesCol, HasInputCols, HasPredictionCol, HasSeed
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from svead_spark import storage, vectors
from svead_spark.columns import quoted
from svead_spark.fitting import fit
from svead_spark.scoring import check_model, score
from svead_stream.batch import SVEAD
from svead_stream.parameters import BATCH

_FITTED_WITH = (*(parameter.name for parameter in BATCH), "contamination", "seed")
_HELP = {parameter.name: parameter.help for parameter in BATCH}
_FILE = "model.svead"


def _share(value: Any) -> float | str:
    return "auto" if value == "auto" else TypeConverters.toFloat(value)


class _Parameters(HasInputCols, HasFeaturesCol, HasPredictionCol, HasSeed):
    """Columns under Spark's names, and the parameters of `SVEAD` under its own."""

    scoreCol: Param[str] = Param(
        Params._dummy(), "scoreCol", "column of the scores: larger is more anomalous.", TypeConverters.toString
    )
    n_partitions: Param[int] = Param(Params._dummy(), "n_partitions", _HELP["n_partitions"], TypeConverters.toInt)
    n_anchors: Param[int] = Param(Params._dummy(), "n_anchors", _HELP["n_anchors"], TypeConverters.toInt)
    scaling: Param[str] = Param(Params._dummy(), "scaling", _HELP["scaling"], TypeConverters.toString)
    contamination: Param[float | str] = Param(
        Params._dummy(), "contamination", "Share of the data that is predicted to be anomalous, or auto.", _share
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(scoreCol="score", contamination="auto", seed=0)
        self._setDefault(**{parameter.name: parameter.default for parameter in BATCH})

    def getScoreCol(self) -> str:
        """Name of the column of scores."""
        return self.getOrDefault(self.scoreCol)

    def setInputCols(self, value: list[str]) -> Self:
        """Set the columns of numbers that are the features; they go before `featuresCol`."""
        return self._set(inputCols=value)

    def setFeaturesCol(self, value: str) -> Self:
        """Set the column of vectors that are the features."""
        return self._set(featuresCol=value)

    def setScoreCol(self, value: str) -> Self:
        """Set the name of the column of scores."""
        return self._set(scoreCol=value)

    def setPredictionCol(self, value: str) -> Self:
        """Set the name of the column that is 1 for anomalies and 0 for the rest; "" leaves it out."""
        return self._set(predictionCol=value)


class SparkSVEAD(Estimator["SparkSVEADModel"], _Parameters, DefaultParamsWritable, DefaultParamsReadable["SparkSVEAD"]):
    """`svead_spark.fit` as an Estimator.

    Parameters
    ----------
    inputCols
        The features, as columns of numbers or booleans.
    featuresCol
        The features as one column of vectors, unless `inputCols` are given.
    scoreCol
        Name of the column of scores.
    predictionCol
        Name of the column that is 1 for anomalies and 0 for the rest; `""` leaves it out.
    n_partitions, n_anchors, scaling, contamination, seed
        As in `svead_spark.fit`; the seed is 0 by default, so that the same data gives the same model.
    """

    _input_kwargs: dict[str, Any]  # what was given, from `keyword_only`

    @keyword_only
    def __init__(
        self,
        *,
        inputCols: list[str] | None = None,
        featuresCol: str = "features",
        scoreCol: str = "score",
        predictionCol: str = "prediction",
        n_partitions: int = 100,
        n_anchors: int = 16,
        scaling: str = "none",
        contamination: float | str = "auto",
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.setParams(**self._input_kwargs)

    def setParams(self, **given: Any) -> Self:
        """Set some of the parameters, by name."""
        return self._set(**{name: value for name, value in given.items() if value is not None})

    def _fit(self, dataset: DataFrame) -> SparkSVEADModel:
        settings = {name: self.getOrDefault(name) for name in _FITTED_WITH}
        if self.isSet(self.inputCols):
            svead = fit(dataset, self.getInputCols(), **settings)
        else:
            name = self.getFeaturesCol()
            size = vectors.size_of(dataset, name)
            svead = fit(vectors.spread(dataset, name, size), vectors.elements(name, size), **settings)
        return self._copyValues(SparkSVEADModel(svead))


class SparkSVEADModel(Model, _Parameters, MLWritable, MLReadable["SparkSVEADModel"]):
    """`svead_spark.score` as a Model, which adds a column of scores and one of predictions.

    Parameters
    ----------
    svead
        A fitted `SVEAD`, from Spark or from one machine; an attribute of that name holds it.
    """

    def __init__(self, svead: SVEAD) -> None:
        super().__init__()
        check_model(svead)
        self.svead = svead

    def _transform(self, dataset: DataFrame) -> DataFrame:
        column, prediction = self.getScoreCol(), self.getPredictionCol()
        _refuse_taken("scoreCol", column, dataset.columns)
        _refuse_taken("predictionCol", prediction, [*dataset.columns, column])
        if self.isSet(self.inputCols):
            scored = score(dataset, self.svead, column, self.getInputCols())
        else:
            name, size = self.getFeaturesCol(), self.svead.n_features_in_
            names = vectors.elements(name, size)
            scored = score(vectors.spread(dataset, name, size), self.svead, column, names).drop(*names)
        if not prediction:
            return scored
        is_anomaly = quoted(column) > F.lit(float(-self.svead.offset_))
        return scored.withColumn(prediction, is_anomaly.cast("double"))

    def write(self) -> MLWriter:
        """What saves the model: the parameters as Spark does it, and the snapshot of `SVEAD` beside them."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[SparkSVEADModel]:
        """What loads a model that was saved."""
        return _Reader()


def _refuse_taken(param: str, name: str, columns: list[str]) -> None:
    if name in columns:
        raise ValueError(f"column {name!r} is there already: choose another {param}, or drop it")


class _Writer(MLWriter):
    def __init__(self, model: SparkSVEADModel) -> None:
        super().__init__()
        self._model = model

    def saveImpl(self, path: str) -> None:
        DefaultParamsWriter.saveMetadata(self._model, path, self.sparkSession)
        storage.write_model(self.sparkSession, self._model.svead, f"{path}/{_FILE}")


class _Reader(MLReader[SparkSVEADModel]):
    def load(self, path: str) -> SparkSVEADModel:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        model = SparkSVEADModel(storage.read_model(self.sparkSession, f"{path}/{_FILE}"))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model
