"""Fitting on a cluster gives the model of one machine, whatever the partitioning, and when an executor is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import svead_spark
from naive import naive_batch
from svead_spark import passes

from svead_stream import SVEAD, StreamingSVEAD, load, save

PARAMETERS = {"n_partitions": 12, "n_anchors": 8, "scaling": "std", "seed": 7}


def assert_same_model(a, b):
    assert np.array_equal(a.anchors_, b.anchors_)
    assert np.array_equal(a.centre_, b.centre_)
    assert np.array_equal(a.cells_[..., 0], b.cells_[..., 0])
    np.testing.assert_allclose(a.scales_, b.scales_, rtol=1e-12)
    np.testing.assert_allclose(a.cells_, b.cells_, rtol=1e-6)
    assert a.offset_ == pytest.approx(b.offset_, rel=1e-6)


def test_the_cells_and_scores_are_those_of_one_machine_with_the_same_anchors(data, model, frame):
    X = frame.to_numpy()
    one = SVEAD.from_bytes(model.to_bytes())
    np.testing.assert_allclose(model.scales_, np.nanstd(X, axis=0), rtol=1e-12)
    one.set_cells(one.cells_of(X), X)
    assert np.array_equal(one.cells_[..., 0], model.cells_[..., 0])
    assert model.cells_[..., 0].sum() == 12 * len(X)
    np.testing.assert_allclose(model.cells_, one.cells_, rtol=1e-6)
    scored = svead_spark.score(data, model).toArrow().to_pandas()
    np.testing.assert_allclose(scored["score"], one.anomaly_scores(scored[["a", "b", "c", "d"]]), rtol=1e-6)


@pytest.mark.parametrize("many", [True, False])
def test_the_scores_are_those_of_the_papers_algorithm(spark, data, frame, many):
    few = frame[["a", "c"]].dropna().drop_duplicates().head(40)
    complete = data.select("a", "c").dropna() if many else spark.createDataFrame(few)
    model = svead_spark.fit(complete, n_partitions=5, n_anchors=6 if many else 16, seed=1)
    assert (model.cells_[..., 0] == 1).any() != many  # cells of one point, which do not score
    scored = svead_spark.score(complete, model).toArrow().to_pandas()
    np.testing.assert_allclose(
        scored["score"], naive_batch(scored[["a", "c"]].to_numpy(), model.anchors_), rtol=1e-5, atol=1e-9
    )


@pytest.mark.parametrize("how", ["one partition", "skewed, half of them empty"])
def test_the_model_does_not_depend_on_the_partitioning(data, model, how):
    other = data.coalesce(1) if how == "one partition" else data.repartition(6, data["a"] > 0)
    assert_same_model(svead_spark.fit(other, **PARAMETERS), model)


def test_another_seed_draws_other_anchors_each_of_them_a_row(data, model, frame):
    other = svead_spark.fit(data.select("a", "b"), n_partitions=3, n_anchors=4, seed=8)
    rows = {tuple(row) for row in frame[["a", "b"]].dropna().to_numpy().tolist()}
    anchors = other.anchors_.reshape(-1, 2).tolist()
    known = [tuple(anchor) for anchor in anchors if tuple(anchor) in rows]
    assert len(known) >= 10  # the others had missing values
    assert not np.array_equal(other.anchors_, model.anchors_[:3, :4, :2])


def test_one_machine_samples_in_its_own_way_and_its_scores_are_others_and_equally_good(model, frame):
    scores, others = model.anomaly_scores(frame), SVEAD(12, 8, "std", random_state=7).fit(frame).anomaly_scores_
    assert scores.argmax() == others.argmax() == frame["a"].argmax()
    assert 0.5 < frame.assign(x=scores, y=others).drop_duplicates()[["x", "y"]].corr("spearman").iloc[0, 1] < 0.999


def test_a_killed_executor_changes_nothing(spark, data, model):
    def slowly(batches):
        for batch in batches:
            time.sleep(0.4)
            yield batch

    slow = data.repartition(8).mapInArrow(slowly, data.schema)
    results = []
    thread = threading.Thread(target=lambda: results.append(svead_spark.fit(slow, **PARAMETERS)))
    before = executors(spark)
    assert len(before) == 2
    thread.start()
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + 300  # only so that nothing hangs
    while not any(_is_halfway(tracker.getStageInfo(i)) for i in tracker.getActiveStageIds()):
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(before[0], signal.SIGKILL)
    thread.join(600)
    assert len(results) == 1
    assert before[0] not in executors(spark)
    assert_same_model(results[0], model)


def _is_halfway(stage):
    return stage is not None and stage.numTasks == 8 and stage.numCompletedTasks >= 3 and stage.numActiveTasks >= 1


def executors(spark):
    """Process numbers of this session's own executors: children of its own JVM."""
    driver = str(spark.sparkContext._gateway.proc.pid)
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = file.read().rpartition(")")[2].split()[1]
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    command = file.read()
            except OSError:  # it has ended meanwhile
                continue
            if parent == driver and b"CoarseGrainedExecutorBackend" in command:
                found.append(int(name))
    return found


def test_the_cells_of_a_task_are_those_of_all_its_batches(model, frame):
    batches = [pa.RecordBatch.from_pandas(frame[i : i + 500], preserve_index=False) for i in range(0, 5000, 500)]
    (found,) = passes.gathering(list(frame.columns), lambda: model)(iter(batches))
    expected = model.cells_of(frame.to_numpy()).reshape(-1, 3)[found["cell"].to_numpy()]
    assert found["count"].to_numpy().sum() == 12 * len(frame)
    assert np.array_equal(found["count"], expected[:, 0])
    assert np.array_equal(found["max"], expected[:, 2])
    np.testing.assert_allclose(found["sum"], expected[:, 1], rtol=1e-12)


def test_the_memory_of_a_task_does_not_grow_with_its_rows(model):
    names = ["a", "b", "c", "d"]
    wanted = np.sort(np.random.default_rng(0).integers(2**63, size=500).astype(np.uint64))

    def batches(count):
        for i in range(count):
            X = np.random.default_rng(i).normal(size=(2000, 4))
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in X.T], names=names)

    def peak(work, count):
        tracemalloc.start()
        for _ in work(batches(count)):
            pass
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    for work in (
        passes.looking(names, 0, 1000),
        passes.counting(names, 0, lambda: wanted),
        passes.gathering(names, lambda: model),
    ):
        peak(work, 1)  # what is imported or compiled on first use
        # To remember the rows would take 54 times 64,000 bytes more; other threads may take some, too.
        assert peak(work, 60) - peak(work, 6) < 10 * 64_000


def test_a_model_from_spark_is_saved_loaded_explained_and_predicts(model, frame, tmp_path):
    save(model, tmp_path / "model.svead")
    loaded = load(tmp_path / "model.svead")
    assert type(loaded) is SVEAD
    assert list(loaded.feature_names_in_) == ["a", "b", "c", "d"]
    assert np.array_equal(loaded.anomaly_scores(frame), model.anomaly_scores(frame))
    oddest = frame.iloc[[int(loaded.anomaly_scores(frame).argmax())]]
    assert oddest.to_numpy().tolist() == [[9, -60, 2, 1e6]]
    assert loaded.predict(oddest).tolist() == [-1]
    assert loaded.explain(oddest).sum() == pytest.approx(1)
    assert (loaded.predict(frame) == 1).mean() > 0.7


def test_a_streaming_model_starts_warm_from_a_batch_model_and_a_sample(data, model, frame):
    rows = svead_spark.sample(data, 256, seed=1)
    stream = StreamingSVEAD.from_batch(model, rows, seed=0)
    odd = {"a": 9.0, "b": -60.0, "c": 2.0, "d": 1e6}
    usual = [stream.score_one(row) for row in frame.iloc[:200].to_dict("records")]
    assert stream.score_one(odd) > 1.5 * np.quantile(usual, 0.99)
    warm = stream.score_many(frame.iloc[:200])
    # the lower score of 8 and of 4 partitions, and cells judged by how wide and rare they are, as for streams
    assert np.corrcoef(warm, model.anomaly_scores(frame.iloc[:200]))[0, 1] > 0.9
    stream.learn_one(odd)
    assert np.isfinite(stream.score_one(odd))


def test_a_sample_has_the_size_asked_for_and_is_the_same_for_a_seed_however_the_data_lies(data, frame):
    rows = svead_spark.sample(data, 100, seed=3)
    assert list(rows.columns) == list(frame.columns)
    assert len(rows) == 100
    again = svead_spark.sample(data.coalesce(1), 100, seed=3)
    assert again.equals(rows)
    few = data.sparkSession.createDataFrame(frame.head(30))  # a limit may take other rows in another pass
    everything = svead_spark.sample(few, 100)
    assert len(everything) == 30
