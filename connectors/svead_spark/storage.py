"""Where data, scores and models are: any path or table that Spark knows, local or in a lake."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from svead_stream.batch import SVEAD
from svead_stream.errors import SveadError

FORMATS = ("parquet", "csv", "json", "orc")


class StorageError(SveadError):
    """Something cannot be read or written; the message says what."""


def format_of(path: str) -> str:
    """The format that the end of a path tells; Parquet if it tells nothing."""
    name = path.rstrip("/").removesuffix(".gz").lower()
    ends = {".csv": "csv", ".json": "json", ".jsonl": "json", ".orc": "orc"}
    return next((kind for end, kind in ends.items() if name.endswith(end)), "parquet")


def read(spark: SparkSession, paths: Sequence[str], kind: str | None = None) -> DataFrame:
    """Files and folders of one format as one DataFrame.

    Columns are matched by name; one that some files lack is null there. Only CSV files within one folder must all have
    the same header, as Spark has it.

    Parameters
    ----------
    spark
        The session.
    paths
        Files and folders.
    kind
        Their format; by default what the end of the first path tells.
    """
    kind = kind or format_of(paths[0])
    reader = spark.read.format(kind)
    try:
        if kind != "csv":
            return reader.option("mergeSchema", True).load(list(paths))
        reader = reader.option("header", True).option("inferSchema", True).option("enforceSchema", False)
        parts = [reader.load(path) for path in paths]
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    except PySparkException as error:
        raise StorageError(f"{', '.join(paths)} cannot be read as {kind}: {_first_line(error)}") from error


def table(spark: SparkSession, name: str) -> DataFrame:
    """A table of the catalogue."""
    try:
        return spark.table(name)
    except PySparkException as error:
        raise StorageError(f"table {name} cannot be read: {_first_line(error)}") from error


def explain(error: PySparkException) -> StorageError:
    """Of the pages that Spark prints when a job fails, the line that says why."""
    lines = [line.strip() for line in str(error).splitlines()]
    missing = next((line for line in lines if line.startswith("ModuleNotFoundError: ")), None)
    if missing is not None:
        lacking = missing.removeprefix("ModuleNotFoundError: ")
        return StorageError(f"the workers lack a library ({lacking}): PYSPARK_PYTHON names the Python that they run")
    causes = [line for line in lines if line.startswith(("ValueError: ", "SveadError: ", "Caused by: "))]
    cause = (
        next((line for line in causes if line.startswith("ValueError: ")), None) or (causes or [_first_line(error)])[-1]
    )
    return StorageError(cause.removeprefix("ValueError: ").removeprefix("SveadError: ").removeprefix("Caused by: "))


def write_model(spark: SparkSession, model: SVEAD, path: str) -> None:
    """Save a model where Spark can write, so that it survives a driver that runs on the cluster."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    target = jvm.org.apache.hadoop.fs.Path(path)
    unfinished = jvm.org.apache.hadoop.fs.Path(path + ".part")
    system = target.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    stream = system.create(unfinished, True)
    try:
        stream.write(model.to_bytes())
    finally:
        stream.close()
    system.delete(target, False)
    if not system.rename(unfinished, target):
        raise StorageError(f"{path} cannot be written: {path}.part could not be renamed")


def read_model(spark: SparkSession, path: str) -> SVEAD:
    """Load a model from anywhere that Spark can read."""
    try:
        rows = spark.read.format("binaryFile").load(path).select("content").take(2)
    except PySparkException as error:
        raise StorageError(f"model {path} cannot be read: {_first_line(error)}") from error
    if len(rows) != 1:
        raise StorageError(f"model {path} is not one file")
    return SVEAD.from_bytes(bytes(rows[0]["content"]))


def _first_line(error: PySparkException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
