"""What a user of the streaming detector may rely on."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import anomaly
from scipy import stats
from sklearn.metrics import roc_auc_score

from svead_stream import ConformalFilter, StreamingSVEAD
from svead_stream.kernels import online

SMALL = {"n_partitions": 6, "n_anchors": 3, "normal_after": 50}


def data(n, d=4, seed=0, gaps=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [10.0**i for i in range(d)] + 1000
    X[rng.random(X.shape) < gaps] = np.nan
    return X


def as_events(X):
    return [dict(enumerate(row)) for row in X.tolist()]


def loop(model, X):
    scores = []
    for event in as_events(X):
        scores.append(model.score_one(event))
        model.learn_one(event)
    return np.array(scores)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=8),
    gaps=st.sampled_from([0.0, 0.1, 0.7]),
    scaling=st.sampled_from(["mixed", "std"]),
    seed=st.integers(0, 3),
)
def test_mini_batches_of_any_size_give_the_bits_of_the_loop(sizes, gaps, scaling, seed):
    X = data(sum(sizes), seed=seed, gaps=gaps)
    one, many = (StreamingSVEAD(**SMALL, scaling=scaling, seed=seed) for _ in range(2))
    expected = loop(one, X)
    parts = np.split(X, np.cumsum(sizes)[:-1])
    got = np.concatenate([many.score_learn_many(part) for part in parts])
    np.testing.assert_array_equal(got, expected)
    assert many.to_bytes() == one.to_bytes()


@pytest.mark.parametrize("missing", [np.nan, -np.inf])
@pytest.mark.parametrize("scaling", ["mixed", "std"])
def test_an_event_of_nothing_but_new_features_among_strange_ones_scores_the_same_in_a_mini_batch(scaling, missing):
    X = np.column_stack([data(400), np.full(400, np.nan)])
    X[300:320, :4] += 50.0  # what is usual in a spell is raised
    X[310] = [missing] * 4 + [1.0]
    one, many = (StreamingSVEAD(**SMALL, scaling=scaling, seed=1) for _ in range(2))
    expected = loop(one, X)
    np.testing.assert_array_equal(many.score_learn_many(X), expected)
    assert many.to_bytes() == one.to_bytes()
    assert expected[310] == 0.0 < expected[309]


def test_learning_alone_leads_to_the_same_model_as_scoring_and_learning():
    X = data(300)
    models = [StreamingSVEAD(**SMALL, seed=1) for _ in range(4)]
    loop(models[0], X)
    for event in as_events(X):
        models[1].learn_one(event)
    models[2].learn_many(X)
    for event, other in zip(as_events(X), as_events(X[::-1]), strict=True):
        models[3].score_one(event)
        models[3].score_one(other)  # what was scored last is not what is learned
        models[3].learn_one(event)
    assert len({model.to_bytes() for model in models}) == 1


def test_scoring_many_equals_scoring_each_and_changes_nothing():
    model = StreamingSVEAD(**SMALL, seed=1)
    model.learn_many(data(200))
    before = model.to_bytes(), pickle.dumps(model)
    X = data(150, seed=5, gaps=0.1)
    np.testing.assert_array_equal(model.score_many(X), [model.score_one(event) for event in as_events(X)])
    assert (model.to_bytes(), pickle.dumps(model)) == before


def test_the_order_of_features_changes_nothing():
    X = data(200, d=5)
    names = ["delta", "alpha", "echo", "bravo", "charlie"]
    model, shuffled = StreamingSVEAD(**SMALL, seed=1), StreamingSVEAD(**SMALL, seed=1)
    rng = np.random.default_rng(0)
    for row in X.tolist():
        event = dict(zip(names, row, strict=True))
        other = dict(rng.permutation(list(event.items())).tolist())
        other = {name: float(value) for name, value in other.items()}
        assert model.score_one(event) == shuffled.score_one(other)
        model.learn_one(event)
        shuffled.learn_one(other)
    assert model.feature_names_ == sorted(names)
    assert model.to_bytes() == shuffled.to_bytes()


def test_frames_arrays_and_names_are_the_same_data():
    X = data(120)
    names = ["a", "b", "c", "d"]
    frames = [
        pd.DataFrame(X, columns=names),
        pl.DataFrame(X, schema=names),
        pl.DataFrame(X, schema=names).to_arrow(),
        pd.DataFrame(X, columns=names)[["d", "b", "a", "c"]],
    ]
    expected = StreamingSVEAD(**SMALL, seed=1).score_learn_many(X, feature_names=names)
    for frame in frames:
        np.testing.assert_array_equal(StreamingSVEAD(**SMALL, seed=1).score_learn_many(frame), expected)


def test_columns_that_a_frame_lacks_are_missing_values():
    X = data(120)
    model = StreamingSVEAD(**SMALL, seed=1)
    model.learn_many(X, feature_names=["a", "b", "c", "d"])
    without = model.score_many(pd.DataFrame(X[:, [2, 0]], columns=["c", "a"]))
    gone = X.copy()
    gone[:, [1, 3]] = np.nan
    np.testing.assert_array_equal(without, model.score_many(gone, feature_names=["a", "b", "c", "d"]))


def test_a_column_that_was_never_learned_does_not_count_and_scoring_it_changes_nothing():
    X = data(120)
    model = StreamingSVEAD(**SMALL, seed=1)
    model.learn_many(X, feature_names=["a", "b", "c", "d"])
    before = model.to_bytes()
    with_more = model.score_many(np.column_stack([X, X[:, 0]]), feature_names=["a", "b", "c", "d", "new"])
    np.testing.assert_array_equal(with_more, model.score_many(X, feature_names=["a", "b", "c", "d"]))
    assert model.to_bytes() == before


def test_features_that_begin_within_a_mini_batch_begin_at_their_row_as_in_the_loop():
    X = data(400)
    X[:150, 3] = X[:90, 1] = X[200:210, 2] = np.nan
    one, many = StreamingSVEAD(**SMALL, seed=1), StreamingSVEAD(**SMALL, seed=1)
    np.testing.assert_array_equal(many.score_learn_many(X), loop(one, X))
    assert many.feature_names_ == [0, 2, 1, 3]
    assert many.n_missing_ == one.n_missing_ == 10  # not those from before a feature was known
    assert many.to_bytes() == one.to_bytes()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_goes_on_alike_and_apart(copied):
    X = data(300, gaps=0.1)
    model = StreamingSVEAD(**SMALL)
    model.learn_many(X[:117])
    twin = copied(model)
    np.testing.assert_array_equal(twin.score_learn_many(X[117:]), model.score_learn_many(X[117:]))
    model.learn_many(X)
    assert twin.n_seen_ != model.n_seen_


def test_clone_is_untrained_and_mutate_keeps_the_convention():
    model = StreamingSVEAD(**SMALL, seed=3)
    model.learn_many(data(100))
    clone = model.clone({"n_anchors": 5})
    assert (clone.n_seen_, clone.n_anchors, clone.seed) == (0, 5, 3)


def test_a_memory_that_never_forgets_is_a_uniform_sample_of_the_stream():
    """Positions of the sampled events, over many seeds, against the uniform distribution."""
    n = 1000
    X = np.arange(n, dtype=float)[:, None]
    stored = []
    for seed in range(60):
        model = StreamingSVEAD(n_partitions=2, n_anchors=1, memory=None, seed=seed)
        model.learn_many(X)
        stored.append(model._ensemble.memories[1].state.sample.rows[:, 0])
    assert stats.kstest(np.concatenate(stored), stats.uniform(0, n).cdf).pvalue > 0.001


@pytest.mark.parametrize(("which", "half_life"), [(0, 400), (1, 600)])
def test_half_of_each_memory_is_younger_than_its_half_life(which, half_life):
    n = 5000
    X = np.arange(n, dtype=float)[:, None]
    ages = []
    for seed in range(40):
        model = StreamingSVEAD(n_partitions=2, n_anchors=2, normal_after=400, memory=600, seed=seed)
        model.learn_many(X)
        ages.append(n - 1 - model._ensemble.memories[which].state.sample.rows[:, 0])
    ages = np.concatenate(ages)
    assert np.mean(ages < half_life) == pytest.approx(0.5, abs=0.05)
    assert np.mean(ages < 2 * half_life) == pytest.approx(0.75, abs=0.05)


def test_scores_are_useful_after_a_few_dozen_points():
    rng = np.random.default_rng(0)
    model = StreamingSVEAD(seed=0)
    model.learn_many(rng.normal(size=(30, 3)))
    X = np.vstack([rng.normal(size=(200, 3)), 8 * rng.choice([-1, 1], size=(20, 3)) + rng.normal(size=(20, 3))])
    assert roc_auc_score([0] * 200 + [1] * 20, model.score_many(X)) > 0.99


def test_it_follows_an_abrupt_change():
    rng = np.random.default_rng(0)
    model = StreamingSVEAD(seed=0)
    model.learn_many(rng.normal(size=(3000, 4)))
    model.learn_many(rng.normal(size=(2000, 4)) + 50)
    X = np.vstack([rng.normal(size=(300, 4)) + 50, rng.normal(size=(30, 4)) + 25])
    assert roc_auc_score([0] * 300 + [1] * 30, model.score_many(X)) > 0.99


def test_a_regime_that_returns_is_normal_from_its_first_event_on():
    rng = np.random.default_rng(0)
    model = StreamingSVEAD(seed=0)
    model.learn_many(rng.normal(size=(3000, 4)))
    before = np.median(model.score_many(rng.normal(size=(300, 4))))
    model.learn_many(rng.normal(size=(3000, 4)) + 50)
    after = np.median(model.score_many(rng.normal(size=(300, 4))))
    assert after < 1.1 * before


@pytest.mark.parametrize(("normal_after", "normal"), [(128, True), (4096, False)])
def test_how_long_something_new_lasts_before_it_is_normal_can_be_chosen(normal_after, normal):
    rng = np.random.default_rng(0)
    model = StreamingSVEAD(normal_after=normal_after, seed=0)
    model.learn_many(rng.normal(size=(3000, 4)))
    usual = np.median(model.score_many(rng.normal(size=(300, 4))))
    model.learn_many(rng.normal(size=(500, 4)) + 50)
    assert (np.median(model.score_many(rng.normal(size=(300, 4)) + 50)) < 1.3 * usual) == normal


def test_a_fault_is_told_of_as_long_as_it_has_not_lasted_and_is_normal_soon_after():
    rng = np.random.default_rng(0)
    model = StreamingSVEAD(seed=0)
    usual = np.median(model.score_learn_many(rng.normal(size=(3000, 4)))[1000:])
    scores = model.score_learn_many(rng.normal(size=(1500, 4)) + 8)
    assert scores[:256].min() > 1.3 * usual
    assert np.median(scores[1000:]) < 1.2 * usual


def test_what_does_not_surprise_is_learned_without_waiting():
    rng = np.random.default_rng(0)
    drift = np.linspace(0, 8, 4000)[:, None]  # eight deviations, slowly
    scores = StreamingSVEAD(seed=0).score_learn_many(rng.normal(size=(4000, 3)) + drift)
    assert np.median(scores[3000:]) < 1.2 * np.median(scores[500:1000])


def test_a_strange_event_after_strange_events_scores_more_than_alone():
    rng = np.random.default_rng(0)
    model = StreamingSVEAD(seed=0)
    model.learn_many(rng.normal(size=(2000, 3)))
    alone = model.score_one({0: 4.0, 1: 4.0, 2: 4.0})
    usual = model.score_one({0: 0.0, 1: 0.1, 2: 0.2})
    model.learn_many(3 + rng.normal(size=(6, 3)) / 3)
    assert model.score_one({0: 4.0, 1: 4.0, 2: 4.0}) > alone + 0.01
    assert model.score_one({0: 0.0, 1: 0.1, 2: 0.2}) > usual + 0.02
    model.learn_many(rng.normal(size=(60, 3)))
    assert model.score_one({0: 0.0, 1: 0.1, 2: 0.2}) == pytest.approx(usual, abs=0.05)


def test_shuffled_events_score_the_same_whatever_came_before_them():
    rng = np.random.default_rng(0)
    model = StreamingSVEAD(seed=0)
    model.learn_many(rng.normal(size=(3000, 3)))
    x = {0: 2.0, 1: 0.0, 2: 0.0}
    scores = []
    for row in rng.normal(size=(60, 3)):
        model.learn_one(dict(enumerate(row)))
        scores.append(model.score_one(x))
    assert np.ptp(scores) < 0.1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rare", [0.0, 0.05])
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e6])
def test_the_first_other_value_in_a_constant_series_scores_highest(rare, size, seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(1000) < rare, 5 + size, 5.0)[:, None]
    model = StreamingSVEAD(seed=seed)
    model.learn_many(X)
    scores = model.score_learn_many(np.full((50, 1), 5 + 3 * size))
    assert scores[0] > 0.5
    assert scores[0] >= scores.max()


@pytest.mark.parametrize("seed", range(5))
def test_a_combination_of_categories_never_seen_scores_above_those_seen_often(seed):
    rng = np.random.default_rng(seed)
    often = np.array([[1, 0, 0, 1, 0], [0, 1, 0, 1, 0], [0, 0, 1, 0, 1]], float)
    model = StreamingSVEAD(seed=seed)
    model.learn_many(often[rng.choice(3, 2000, p=[0.5, 0.3, 0.2])])
    never = np.array([[1, 0, 0, 0, 1], [0, 0, 1, 1, 0]], float)
    assert model.score_many(never).min() > model.score_many(often).max()


def test_a_young_model_says_nothing_strong():
    X = data(40)
    X[20] *= 1e6
    scores = StreamingSVEAD(seed=0).score_learn_many(X)
    assert scores[20] == pytest.approx(20 / 28 * (520 / 512))


def test_scores_of_mixed_scaling_lie_between_0_and_1():
    rng = np.random.default_rng(0)
    X = rng.standard_cauchy(size=(3000, 3)) * 1e6
    scores = StreamingSVEAD(seed=0).score_learn_many(X)
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert np.isfinite(scores).all()


def test_explanations_name_the_feature_to_blame():
    model = StreamingSVEAD(seed=1)
    model.learn_many(data(500), feature_names=["a", "b", "c", "d"])
    shares = model.explain_one({"a": 1000.0, "b": 1000.0, "c": 1000 + 5000.0, "d": 1000.0})
    assert next(iter(shares)) == "c"
    assert shares["c"] > 0.8
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_explanations_of_events_with_gaps_speak_of_what_is_there():
    model = StreamingSVEAD(seed=1)
    model.learn_many(data(500), feature_names=["a", "b", "c", "d"])
    assert set(model.explain_one({"a": 3.0, "b": None})) == {"a"}
    assert model.explain_one({}) == {}
    assert StreamingSVEAD().explain_one({"a": 1.0}) == {}


def test_models_over_the_same_anchors_merge_exactly():
    X = data(400, gaps=0.05)
    base = StreamingSVEAD(n_partitions=6, normal_after=10**9, memory=None, seed=1)
    base.learn_many(X[:256])
    one, left, right = (copy.deepcopy(base) for _ in range(3))
    left.learn_many(X[256:290])  # and no refresh is due before 320
    right.learn_many(X[290:318])
    left.merge(right, base)
    for event in as_events(X[256:318]):  # the cells of one model that learned it all, in distances alone
        one.score_one(event)
        one.learn_one(event)
    for merged, alone in zip(left._ensemble.memories, one._ensemble.memories, strict=True):
        np.testing.assert_array_equal(merged.state.cells[..., 0], alone.state.cells[..., 0])
        np.testing.assert_allclose(merged.state.cells, alone.state.cells, rtol=1e-12)
    assert (left.n_seen_, left.n_missing_) == (one.n_seen_, one.n_missing_)


def test_a_score_from_before_a_merge_is_not_used_after_it():
    X = data(300)
    base = StreamingSVEAD(**SMALL, seed=1)
    base.learn_many(X[:256])
    model, fresh, other = (copy.deepcopy(base) for _ in range(3))
    other.learn_many(X[256:280])
    event = as_events(X[290:])[0]
    before = model.score_one(event)
    for one in (model, fresh):
        one.merge(other, base)
    assert model.score_one(event) == fresh.score_one(event) != before


def test_a_score_from_before_a_mini_batch_is_not_used_after_it():
    X = data(600)
    event, other = as_events(X[:2])
    model, fresh = StreamingSVEAD(**SMALL, seed=1), StreamingSVEAD(**SMALL, seed=1)
    for one in (model, fresh):
        one.learn_many(X[:500])
    before = model.score_one(event)
    for one in (model, fresh):
        one.learn_many(X[500:])
    assert model.score_one(event) == fresh.score_one(event) != before
    model.score_one(other)
    for one in (model, fresh):
        one.learn_many(X[:100])
        one.learn_one(other)
    assert model.to_bytes() == fresh.to_bytes()


def test_one_search_serves_any_number_of_calls_for_the_same_event(monkeypatch):
    searches = []
    score_event = online.score_event
    monkeypatch.setattr(online, "score_event", lambda *args: searches.append(1) or score_event(*args))
    detector = StreamingSVEAD(seed=1)
    detector.learn_many(data(20))  # a new feature makes a wider model, whose search is another one
    for model in (ConformalFilter(detector), anomaly.QuantileFilter(detector, q=0.9), detector):
        searches.clear()
        for event in as_events(data(50)):
            score = model.score_one(event)
            assert model.score_one(event) == score
            detector.explain_one(event)
            model.learn_one(event)
        assert len(searches) == 50


def test_models_over_other_anchors_do_not_merge():
    left, right = StreamingSVEAD(**SMALL, seed=1), StreamingSVEAD(**SMALL, seed=2)
    for model in (left, right):
        model.learn_many(data(100))
    before = left.to_bytes()
    with pytest.raises(ValueError, match="same anchors"):
        left.merge(right)
    assert left.to_bytes() == before


def test_memory_does_not_grow_over_a_million_points():
    def size(model):
        return len(pickle.dumps(model)), sum(len(pickle.dumps(memory.state)) for memory in model._ensemble.memories)

    rng = np.random.default_rng(0)
    model = StreamingSVEAD(n_partitions=4, n_anchors=4, seed=1)
    model.learn_many(rng.normal(size=(1000, 3)))
    before = size(model)
    for _ in range(10):
        model.learn_many(rng.normal(size=(100_000, 3)))
    assert model.n_seen_ == 1_001_000
    after = size(model)
    assert after[1] == before[1]
    assert abs(after[0] - before[0]) < 100  # counters may take some bytes more in a pickle
