"""The command: files and tables in, scores and a model out, within Spark and from outside by spark-submit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import svead_spark
from click.testing import CliRunner
from svead_spark import storage
from svead_spark.cli import spark as command

from svead_stream import SVEAD, load


def run(*args, fails_with=None):
    result = CliRunner().invoke(command, ["score", *map(str, args)])
    if fails_with is None:
        assert result.exit_code == 0, (result.output, result.exception)
    else:
        assert result.exit_code != 0
        assert fails_with in result.output + str(result.exception)
    return result.output


@pytest.fixture
def files(frame, tmp_path, spark):
    """Two Parquet files, the second without a column, and an id and a name beside the features."""
    named = frame.assign(id=range(len(frame)), name="x")
    (tmp_path / "in").mkdir()
    named[:300].to_parquet(tmp_path / "in" / "1.parquet")
    named[300:600].drop(columns="c").to_parquet(tmp_path / "in" / "2.parquet")
    return tmp_path


def test_files_become_scores_and_a_model_that_scores_again_alike(files, frame):
    said = run(
        files / "in", "-o", files / "out", "--save", files / "model.svead", "-x", "id",
        "--n-partitions", 6, "--n-anchors", 4, "--scaling", "range",
    )  # fmt: skip
    assert "hold no numbers: name" in said
    model = load(files / "model.svead")
    assert type(model) is SVEAD
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    out = pd.read_parquet(files / "out").sort_values("id")
    assert out["c"].isna().sum() >= 300
    assert np.array_equal(out["score"], model.anomaly_scores(out[["a", "b", "c", "d"]]))
    run(files / "in", "-o", files / "again", "--load", files / "model.svead", "--score-column", "odd")
    again = pd.read_parquet(files / "again").sort_values("id")
    assert np.array_equal(again["odd"], out["score"])
    run(files / "in", "-o", files / "out", "--load", files / "model.svead", fails_with="exists")


def test_a_table_becomes_a_table(spark, data):
    data.limit(200).write.saveAsTable("readings_in")
    run("--table", "readings_in", "--output-table", "readings_out", "-f", "a,b", "--n-partitions", 3, "--n-anchors", 3)
    assert spark.table("readings_out").where("score >= 0").count() == 200
    run("--table", "nowhere", "--output-table", "x", fails_with="table nowhere cannot be read")


def test_csv_files_are_matched_by_the_names_in_their_headers(tmp_path, frame, spark):
    frame[:50].to_csv(tmp_path / "1.csv", index=False)
    frame[["b", "a", "d"]][50:90].to_csv(tmp_path / "2.csv", index=False)
    read = storage.read(spark, [str(tmp_path / "1.csv"), str(tmp_path / "2.csv")]).toArrow().to_pandas()
    expected = frame[:90].copy()
    expected.loc[50:, "c"] = np.nan
    pd.testing.assert_frame_equal(read, expected)


def test_wrong_usage_says_what_to_do(tmp_path, spark):
    run(fails_with="either paths, or --table")
    run("x", "--table", "y", fails_with="either paths, or --table")
    run("x", fails_with="nothing would be kept")
    run("x", "-o", "y", "--output-table", "z", fails_with="two places")
    run("x", "-o", "y", "--load", "m", "-f", "a", fails_with="--features does not go with --load")
    run("x", "-o", "y", "--load", "m", "--n-anchors", "16", fails_with="--n-anchors does not go with --load")
    run(tmp_path / "absent", "-o", "y", fails_with="absent cannot be read as parquet")
    run(tmp_path / "absent", "-o", "y", "-x", "q", fails_with="absent cannot be read")


def test_spark_submit_runs_the_command(surroundings, frame, tmp_path):
    entry = Path(svead_spark.__file__).with_name("__main__.py")
    frame[:500].to_parquet(tmp_path / "in.parquet")
    done = subprocess.run(
        [
            surroundings / "bin" / "spark-submit", "--master", "local[1]", "--conf", "spark.ui.enabled=false",
            "--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            entry, "score", tmp_path / "in.parquet", "-o", tmp_path / "out", "--save", tmp_path / "m.svead",
            "--n-partitions", "3", "--n-anchors", "3",
        ],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(pd.read_parquet(tmp_path / "out")) == 500
    assert load(tmp_path / "m.svead").n_features_in_ == 4
