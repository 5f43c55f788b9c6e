"""The batch detector is the paper's algorithm and a good scikit-learn citizen."""

import pickle

import numpy as np
import pandas as pd
import pytest
from naive import fourth_root, naive_batch
from sklearn.utils.estimator_checks import parametrize_with_checks

from svead_stream import SVEAD, StreamingSVEAD, batch, geometry
from svead_stream.geometry import merge_cells, score_table, spreads
from svead_stream.kernels import layout


@parametrize_with_checks([SVEAD(n_partitions=10), SVEAD(n_partitions=5, scaling="iqr", contamination=0.1)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.without_jit
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


@pytest.mark.without_jit
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


def test_merged_cells_have_all_points_and_the_largest_distance_of_either_side():
    cells = np.array([[[2.0, 5.0, 4.0], [1.0, 3.0, 3.0], [0.0, 0.0, 0.0]]])
    merge_cells(cells, np.array([[[3.0, 4.0, 2.0], [1.0, 7.0, 7.0], [1.0, 6.0, 6.0]]]))
    np.testing.assert_array_equal(cells, [[[5.0, 9.0, 4.0], [2.0, 10.0, 7.0], [1.0, 6.0, 6.0]]])


def test_a_cell_of_one_point_does_not_score_and_one_of_two_does():
    anchors = np.array([[[0.0], [100.0]], [[0.0], [50.0]]])
    model = SVEAD(n_partitions=2, n_anchors=2)
    model.set_partitions(anchors, np.ones(1), np.arange(100.0)[:, None])
    X = np.array([[0.0], [2.0], [90.0]])
    model.set_cells(model.cells_of(X), X)
    np.testing.assert_array_equal(model.cells_[..., 0], [[2, 1], [2, 1]])
    np.testing.assert_array_equal(np.isnan(score_table(model.cells_)[..., 0]), [[False, True], [False, True]])
    # 48 is near an anchor with one point in the second partition: the first alone scores it, d / d_max * d_mean
    np.testing.assert_allclose(model.anomaly_scores([[1.0], [48.0], [95.0]]), [0.5, 24.0, 0.0], rtol=1e-5)


def test_a_model_fitted_by_parts_is_that_of_fit():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(900, 3)), columns=list("abc"))
    whole = SVEAD(n_partitions=5, random_state=0, contamination=0.1).fit(X)
    parts = SVEAD(n_partitions=5, random_state=0, contamination=0.1)
    parts.set_partitions(whole.anchors_, whole.scales_, X.to_numpy(), list(X.columns))
    assert not parts.cells_.any()
    cells = parts.cells_of(X.to_numpy()[:400])
    merge_cells(cells, SVEAD.from_bytes(parts.to_bytes()).cells_of(X.to_numpy()[400:]))
    parts.set_cells(cells, X.to_numpy())
    assert parts.offset_ == pytest.approx(whole.offset_, rel=1e-6)
    np.testing.assert_allclose(parts.score_samples(X), whole.score_samples(X), rtol=1e-6)
    assert list(parts.feature_names_in_) == ["a", "b", "c"]


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


@pytest.mark.parametrize("at_once", [1, 10_000, 2**20])
def test_explanations_equal_those_of_one_row_and_one_partition_after_the_other(at_once, monkeypatch):
    monkeypatch.setattr(geometry, "EXPLAINED", at_once)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)) * [1, 10, 0.1, 0]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[3] = np.nan
    model = SVEAD(n_partitions=7, n_anchors=12, scaling="range", random_state=1).fit(X)
    np.testing.assert_allclose(model.explain(X), naive_explanations(X, model), rtol=1e-12, atol=1e-15)


def naive_explanations(X, model):
    """The squared gaps of each feature, weighted so that those of a partition sum to what it adds to the score."""
    rows = []
    for x in X:
        shares = np.zeros(len(x))
        for anchors, cells in zip(model.anchors_, model.cells_, strict=True):
            squares = np.nan_to_num(((x - anchors) / model.scales_) ** 2)
            j = squares.sum(axis=1).argmin()
            count, total, largest = cells[j]
            far = squares[j].sum()
            if count > 1 and far > 0:
                shares += squares[j] / far * np.sqrt(far) * (total / count / largest if largest > 0 else 1.0)
        rows.append(shares / shares.sum() if shares.any() else np.full(len(x), 1 / len(x)))
    return np.array(rows)


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


@pytest.mark.parametrize("scaling", ["none", "std", "iqr"])
def test_huge_numbers_are_as_strange_as_can_be(scaling):
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = SVEAD(random_state=0, scaling=scaling).fit(X)
    large, *huge = model.anomaly_scores([[0.1, v, 0.2] for v in (1e10, 1e155, 1e300, -1.7e308)])
    assert np.isfinite(huge).all()
    assert (np.array(huge) >= large).all()
    X[7, 1] = 1e300
    model = SVEAD(random_state=0, scaling=scaling).fit(X)
    assert model.anomaly_scores_.argmax() == 7
    assert np.isfinite(model.anomaly_scores_).all()
    assert model.explain(X[7:8]).argmax() == 1


class TestWarmStart:
    X = np.random.default_rng(0).normal(size=(2000, 4))

    @pytest.mark.without_jit
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

    def test_rows_of_the_sample_are_as_suspicious_as_they_are_strange(self):
        """So that outliers among them become no anchors."""
        X = self.X.copy()
        X[:20] += 30
        model = SVEAD(n_partitions=9, random_state=0).fit(X)
        warm = StreamingSVEAD.from_batch(model, X[:150], seed=1)
        for memory in warm._ensemble.memories:
            suspicion = memory.state.sample.suspicion[: memory.state.counters[layout.STORED]]
            assert suspicion[:20].min() > suspicion[20:].max() > 0

    @pytest.mark.parametrize(("n_partitions", "n_anchors"), [(3, 7), (6, 7), (3, 4), (2, 5), (9, 16)])
    def test_it_still_sees_when_its_sample_is_surveyed_before_a_partition_is_replaced(self, n_partitions, n_anchors):
        model = SVEAD(n_partitions, n_anchors, scaling="std", random_state=0).fit(self.X)
        warm = StreamingSVEAD.from_batch(model, self.X[:300], seed=1)
        scores = warm.score_learn_many(np.random.default_rng(2).normal(size=(1_200, 4)))
        assert scores.min() > 0

    def test_infinities_in_the_sample_are_missing_and_huge_numbers_bounded_as_in_events(self):
        sample = self.X[:200].copy()
        sample[3, 1], sample[5, 2] = np.inf, 1e200
        warm = StreamingSVEAD.from_batch(SVEAD(n_partitions=9, random_state=0).fit(self.X), sample, seed=1)
        for memory in warm._ensemble.memories:
            assert np.argwhere(np.isnan(memory.state.sample.rows[:150])).tolist() == [[3, 1]]
            assert memory.state.sample.rows[5, 2] == 1e100
        again = StreamingSVEAD.from_bytes(warm.to_bytes())
        np.testing.assert_array_equal(again.score_learn_many(self.X), warm.score_learn_many(self.X))

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


def test_a_platform_that_does_not_tell_which_cores_may_be_used_has_all(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity")
    assert SVEAD(3, 2).fit(np.eye(4)).n_features_in_ == 4
