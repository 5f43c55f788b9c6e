"""The batch detector of svead-stream on Spark: fitted and applied where the data is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svead_stream.lazy import exports

if TYPE_CHECKING:
    from svead_spark.estimator import SparkSVEAD, SparkSVEADModel
    from svead_spark.fitting import fit, sample
    from svead_spark.scoring import register, score

_MODULES = {
    "SparkSVEAD": "estimator",
    "SparkSVEADModel": "estimator",
    "fit": "fitting",
    "register": "scoring",
    "sample": "fitting",
    "score": "scoring",
}

__all__ = ["SparkSVEAD", "SparkSVEADModel", "fit", "register", "sample", "score"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = exports(__name__, _MODULES, "spark", ("pyspark", "pandas", "pyarrow"))
