"""Fixtures: one small cluster for the session, with two executors in processes of their own, and its data.

Without Java or pyspark the tests are skipped with the reason, except in CI (`CI` is set), where that is a failure.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _local_cluster import environment, settings

HERE = Path(__file__).parent


class Skipped(pytest.Module):
    """A file of tests that cannot even be imported."""

    def collect(self):
        pytest.skip("needs svead-stream[spark]")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if importlib.util.find_spec("pyspark") is None and not os.environ.get("CI"):
        return Skipped.from_parent(parent, path=module_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """pyspark itself warns of pandas 3."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
            )


@pytest.fixture(scope="session")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Environment variables for Spark; returns its home."""
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    if java is None:
        if os.environ.get("CI"):
            pytest.fail("no Java, and CI needs it for Spark", pytrace=False)
        pytest.skip("no Java: Spark needs version 17 or newer")
    set_here = environment(tmp_path_factory.mktemp("spark"))
    before = {name: os.environ.get(name) for name in set_here}
    os.environ.update(set_here)
    yield Path(set_here["SPARK_HOME"])
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def spark(surroundings, tmp_path_factory):
    """A session on a cluster of two executors with one core each."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("tests")
    for name, value in settings(2, tmp_path_factory.mktemp("session")).items():
        builder = builder.config(name, value)
    for process in ("driver", "executor"):  # short jobs: compile quickly rather than well
        builder = builder.config(f"spark.{process}.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = builder.config("spark.task.maxFailures", "2")  # what is wrong with the data stays wrong
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def frame():
    """5000 rows of four features with missing values; a fifth of the rows are copies of one, a fifth of two others."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(5000, 4)) * [1, 10, 0.1, 1000] + [0, 5, 0, 1e6]
    X[rng.random(X.shape) < 0.01] = np.nan
    X[:1000] = X[0]
    X[1000:2000] = X[[1000, 1001]].repeat(500, axis=0)
    X[2000] = 9, -60, 2, 1e6
    return pd.DataFrame(rng.permutation(X), columns=["a", "b", "c", "d"])


@pytest.fixture(scope="session")
def data(spark, frame):
    return spark.createDataFrame(frame).repartition(3).persist()


@pytest.fixture(scope="session")
def model(data):
    import svead_spark

    return svead_spark.fit(data, n_partitions=12, n_anchors=8, scaling="std", seed=7)
