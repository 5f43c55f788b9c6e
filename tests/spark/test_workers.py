"""Workers that are another Python are noticed before a job fails over it."""

from __future__ import annotations

import re
import sys
import venv

import pytest
import svead_spark
from pyspark.errors import PySparkException
from svead_spark import storage

from svead_stream import SveadError


@pytest.mark.parametrize(("python", "problem"), [("bare", "has no numpy"), ("absent", "cannot be started")])
def test_a_python_without_the_libraries_is_named_with_the_variable_to_set(
    spark, data, model, tmp_path, monkeypatch, python, problem
):
    venv.create(tmp_path / "bare", symlinks=True)
    path = tmp_path / python / "bin" / "python"
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(path))
    told = f"the workers of this session run {path}, which {problem}: set PYSPARK_PYTHON={sys.executable} before"
    for work in (
        lambda: svead_spark.fit(data),
        lambda: svead_spark.sample(data, 10),
        lambda: svead_spark.score(data, model),
        lambda: svead_spark.register(spark, model),
    ):
        with pytest.raises(SveadError, match=re.escape(told)):
            work()


def test_of_a_job_that_failed_for_a_library_the_command_line_names_both(data):
    def work(batches):
        import no_such_library

        yield from no_such_library.scored(batches)

    with pytest.raises(PySparkException) as caught:
        data.limit(1).mapInArrow(work, data.schema).collect()
    told = "the workers lack a library (No module named 'no_such_library'): PYSPARK_PYTHON names the Python"
    assert told in str(storage.explain(caught.value))
