"""The batch detector is the paper's algorithm and a good scikit-learn citizen."""

import pickle

import numpy as np
import pandas as pd
import pytest
from naive import fourth_root, naive_batch
from sklearn.utils.estimator_checks import parametrize_with_checks

from svead_stream import SVEAD, StreamingSVEAD, batch
from svead_stream.batch import merge_cells, score_table, spreads


@parametrize_with_checks([SVEAD(n_partitions=10), SVEAD(n_partitions=5, scaling="iqr", contamination=0.1)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("n", "d", "m"), [(300, 2, 4), (500, 13, 16), (200, 40, 64), (90, 1, 3), (5, 3, 16)])
def test_scores_equal_algorithm_1_for_the_same_anchors(n, d, m):
    X = np.random.default_rng(n).normal(size=(n, d))
    model = SVEAD(n_partitions=20, n_anchors=m, random_state=1).fit(X)
    expected = naive_batch(X, model.anchors_)
    np.testing.assert_allclose(model.anomaly_scores_, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(model.anomaly_scores(X), model.anomaly_scores_)
    np.testing.assert_array_equal(model.score_samples(X), -model.anomaly_scores_)


def test_anchors_are_distinct_points_of_the_data():
    X = np.arange(50, dtype=float)[:, None]
    model = SVEAD(n_partitions=30, n_anchors=20, random_state=0).fit(X)
    for anchors in model.anchors_[:, :, 0]:
        assert len(set(anchors)) == 20
        assert set(anchors) <= set(X[:, 0])


def test_scaling_is_a_division_of_each_feature():
    X = np.random.default_rng(0).normal(size=(400, 3)) * [1, 50, 1e-3]
    for scaling, scale in (
        ("std", X.std(0)),
        ("range", np.ptp(X, 0)),
        ("iqr", np.subtract(*np.percentile(X, [75, 25], 0))),
    ):
        model = SVEAD(n_partitions=10, scaling=scaling, random_state=1).fit(X)
        np.testing.assert_allclose(model.anomaly_scores_, naive_batch(X / scale, model.anchors_ / scale), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_layout_and_any_number_of_threads_give_the_same_bits(dtype, order, monkeypatch):
    monkeypatch.setattr(batch, "CHUNK", 100)
    X = np.random.default_rng(0).normal(size=(950, 4)).astype(np.float32)
    expected = SVEAD(n_partitions=10, random_state=1, n_jobs=1).fit(X).anomaly_scores_
    got = SVEAD(n_partitions=10, random_state=1, n_jobs=3).fit(np.asarray(X, dtype=dtype, order=order))
    np.testing.assert_array_equal(got.anomaly_scores_, expected)


def test_large_offsets_and_scales_agree_with_float64():
    rng = np.random.default_rng(0)
    X = rng.integers(-1000, 1000, size=(500, 3)) / 8.0 + [1e12, -1e9, 0]
    model = SVEAD(n_partitions=20, random_state=1).fit(X)
    np.testing.assert_allclose(model.anomaly_scores_, naive_batch(X, model.anchors_), rtol=1e-5)


def test_missing_values_leave_the_rest_of_a_row():
    X = np.random.default_rng(0).normal(size=(300, 4))
    X[::7, 2] = np.nan
    X[5] = np.nan
    scores = SVEAD(n_partitions=10, random_state=1).fit(X).anomaly_scores_
    assert np.isfinite(scores).all()
    assert scores[5] == 0


def test_duplicates_score_0_and_new_points_do_not():
    model = SVEAD(n_partitions=10, random_state=0).fit(np.ones((50, 2)))
    np.testing.assert_array_equal(model.anomaly_scores_, np.zeros(50))
    assert model.anomaly_scores([[1.0, 3.0]])[0] > 0


def test_one_factor_alone_is_a_table_of_its_own():
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = SVEAD(n_partitions=1, n_anchors=4, random_state=0).fit(X)
    distances = np.sqrt(((X[:, None] - model.anchors_[0]) ** 2).sum(2))
    cell, d = distances.argmin(1), distances.min(1)
    largest = np.array([d[cell == j].max() for j in range(4)])
    mean = np.array([d[cell == j].mean() for j in range(4)])
    position = model.anomaly_scores(X, score_table(model.cells_, "position"))
    np.testing.assert_allclose(position, d / largest[cell], rtol=1e-5)
    np.testing.assert_allclose(model.anomaly_scores(X, score_table(model.cells_, "scale")), mean[cell], rtol=1e-5)
    with pytest.raises(ValueError, match="keep="):
        score_table(model.cells_, "neither")


def test_cells_of_parts_merge_to_the_cells_of_the_whole():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    model = SVEAD(n_partitions=5, random_state=0).fit(X)
    merged = model.cells_of(X[:300])
    merge_cells(merged, model.cells_of(X[300:]))
    np.testing.assert_allclose(merged, model.cells_, rtol=1e-12)
    np.testing.assert_array_equal(merged[..., [0, 2]], model.cells_[..., [0, 2]])


def test_outliers_are_as_many_as_asked_for():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    assert (SVEAD(contamination=0.05, random_state=0).fit_predict(X) == -1).sum() == 50
    X[3] = 40
    model = SVEAD(random_state=0).fit(X)
    assert model.predict(X)[3] == -1
    assert 0 < (model.predict(X) == -1).mean() < 0.1


def test_explanations_name_the_feature_to_blame():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    model = SVEAD(random_state=0).fit(X)
    shares = model.explain(pd.DataFrame([[0.0, 0.0, 9.0], [0.0, 0.0, np.nan]], columns=list("abc")))
    np.testing.assert_allclose(shares.sum(1), 1)
    assert shares[0].argmax() == 2
    assert shares[1, 2] == 0


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("n_partitions", 0), ("n_anchors", 1.5), ("scaling", "mixed"), ("contamination", 0.7), ("contamination", "much")],
)
def test_wrong_parameters_are_errors_that_name_them(parameter, value):
    with pytest.raises(ValueError, match=f"{parameter}="):
        SVEAD(**{parameter: value}).fit(np.zeros((10, 2)))


def test_spreads_of_constant_and_unknown_features():
    X = np.array([[1.0, np.nan, 2.0], [1.0, np.nan, 4.0]])
    np.testing.assert_array_equal(spreads(X, "std"), [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(spreads(X, "range"), [1.0, 0.0, 2.0])
    assert spreads(np.full((4096, 1), 0.1), "std") == 1.0


def test_a_feature_that_is_nearly_always_the_same_number_keeps_its_scale():
    X = np.full((5000, 2), 0.1)
    X[:, 1] = np.random.default_rng(0).normal(size=5000)
    model = SVEAD(n_partitions=10, random_state=1).fit(X)
    a, b = model.anomaly_scores([[1.1, 0.0], [1000.1, 0.0]])
    assert b > 100 * a


def test_pickles_score_alike():
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = SVEAD(n_partitions=5, random_state=0).fit(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).score_samples(X), model.score_samples(X))


def test_progress_is_shown_when_asked_for(capsys):
    SVEAD(n_partitions=2, verbose=True).fit(np.random.default_rng(0).normal(size=(50, 2)))
    assert "50 of 50" in capsys.readouterr().err


class TestWarmStart:
    X = np.random.default_rng(0).normal(size=(2000, 4))

    def test_a_streaming_model_starts_with_the_cells_of_the_batch_model(self):
        model = SVEAD(n_partitions=9, random_state=0, scaling="std").fit(self.X)
        warm = StreamingSVEAD.from_batch(model, self.X[:256], seed=1)
        scores = []
        for anchors, cells in zip(model.anchors_, model.cells_, strict=True):
            apart = np.linalg.norm((self.X[:, None] - anchors) / model.scales_, axis=2)
            count, total, _ = cells[apart.argmin(axis=1)].T
            scores.append((apart.min(axis=1) + total / count / 4) * fourth_root(len(self.X) / count))
        expected = np.minimum(np.mean(scores[:6], axis=0), np.mean(scores[6:], axis=0))
        np.testing.assert_allclose(warm.score_many(self.X), expected, rtol=1e-4)
        assert warm.n_seen_ == 2000
        scores = warm.score_learn_many(self.X)
        assert np.isfinite(scores).all()

    def test_names_of_features_are_kept(self):
        frame = pd.DataFrame(self.X, columns=["d", "b", "a", "c"])
        model = SVEAD(n_partitions=8, random_state=0).fit(frame)
        warm = StreamingSVEAD.from_batch(model, frame.head(100)[["a", "b", "c", "d"]])
        assert np.corrcoef(warm.score_many(frame), model.anomaly_scores_)[0, 1] > 0.9
        again = StreamingSVEAD.from_bytes(warm.to_bytes())
        np.testing.assert_array_equal(again.score_learn_many(frame), warm.score_learn_many(frame))

    def test_a_sample_that_does_not_fit_is_refused(self):
        model = SVEAD(n_partitions=3).fit(self.X)
        with pytest.raises(ValueError, match="columns"):
            StreamingSVEAD.from_batch(model, self.X[:, :2])
        with pytest.raises(ValueError, match="empty"):
            StreamingSVEAD.from_batch(model, self.X[:0])
