"""The batch detector of svead-stream on Spark: fitted and applied where the data is."""

from importlib.util import find_spec as _find_spec

from svead_stream.errors import MissingExtra as _MissingExtra

for _name in ("pyspark", "pandas"):
    if _find_spec(_name) is None:
        raise _MissingExtra(f"{_name} is not installed; the Spark connector needs: pip install 'svead-stream[spark]'")

from svead_spark.fitting import fit, sample  # noqa: E402
from svead_spark.scoring import register, score  # noqa: E402

__all__ = ["fit", "register", "sample", "score"]
