"""Workers that are another Python are noticed before a job fails over it."""

from __future__ import annotations

import re
import sys
import venv

import pytest
import svead_spark

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
