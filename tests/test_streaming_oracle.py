"""The kernels against the naive oracle, after every single update."""

import copy

import numba
import numpy as np
import pytest
from naive import NaiveStream

from svead_stream import StreamingSVEAD
from svead_stream.kernels import layout
from svead_stream.kernels.refresh import deviation, sort_columns
from svead_stream.kernels.simd import LANES

EVENTS = 160 if numba.config.DISABLE_JIT else 400
MIXED = pytest.param("mixed", marks=pytest.mark.without_jit)
SHAPE = {"n_partitions": 7, "n_anchors": 3, "normal_after": 60, "memory": 200}


def events(n, seed, gaps=0.0, late=False):
    """Correlated data with some far points, missing values, and features that come and go."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        a, b = rng.normal(size=2)
        event = {"a": 100 + a, "b": 3 * a + 0.3 * b, "c": rng.exponential(), "flag": float(rng.random() < 0.1)}
        if rng.random() < 0.05:
            event["b"] -= 20
        if late and i > n // 3:
            event["new"] = rng.normal()
        if late and i > n // 2:
            del event["a"]
        for name in list(event):
            if rng.random() < gaps:
                event[name] = [None, np.nan, np.inf, -np.inf][rng.integers(4)]
        yield event


def oracle_of(model):
    seeds = [memory.state.rng[0] for memory in model._ensemble.memories]
    told = (model.n_partitions, model.n_anchors, model.normal_after, model.memory, model.scaling, model.answer_memory)
    return NaiveStream(seeds, *told)


@pytest.mark.parametrize("scaling", ["none", "std", "iqr", "range", "log", MIXED])
@pytest.mark.parametrize(("gaps", "late"), [(0.0, False), (0.15, False), (0.05, True)])
def test_every_score_and_every_cell_equals_the_oracle_after_every_update(scaling, gaps, late):
    model = StreamingSVEAD(**SHAPE, scaling=scaling, seed=7)
    oracle = oracle_of(model)
    for event in events(EVENTS, seed=3, gaps=gaps, late=late):
        assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
        expected = oracle.shares(event)
        shares = dict.fromkeys(expected, 0.0) | model.explain_one(event)
        assert shares == pytest.approx(expected, rel=1e-4, abs=1e-5)
        model.learn_one(event)
        oracle.learn(event)
        compare_state(model, oracle)
    assert [len(memory.partitions) for memory in oracle.memories] == [5, 2]


def compare_state(model, oracle):
    for memory, naive in zip(model._ensemble.memories, oracle.memories, strict=True):
        compare_memory(memory.state, naive)
    np.testing.assert_allclose(model._ensemble.levels, [oracle.recent, oracle.usual, oracle.peak], rtol=1e-5, atol=1e-6)
    assert model.n_seen_ == naive.seen
    assert model.n_missing_ == naive.missing
    assert model.feature_names_ == naive.names


def compare_memory(state, naive):
    assert int(state.rng[0]) == naive.rng.state
    np.testing.assert_array_equal(
        state.sample.rows[: len(naive.rows)], np.array(naive.rows).reshape(-1, len(naive.names))
    )
    np.testing.assert_allclose(state.sample.suspicion[: len(naive.rows)], naive.suspicion, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(state.sample.arrived[: len(naive.rows)], naive.arrived)
    for k, p in enumerate(naive.partitions):
        m = len(p.anchors)
        np.testing.assert_allclose(state.anchors[k, :m], p.anchors)
        np.testing.assert_array_equal(state.weight[k] > 0, p.weight > 0)
        np.testing.assert_allclose(state.partitions.metric[k, layout.INVERSE_UNIT], 1 / p.unit, rtol=1e-4)
        counts = [p.count(cell) for cell in p.cells]
        np.testing.assert_allclose(state.cells[k, :m, layout.COUNT], counts)
        np.testing.assert_allclose(state.cells[k, :m, layout.SUM], [p.sum(c) for c in p.cells], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(state.cells[k, :m, layout.MAX], p.farthest, rtol=1e-5, atol=1e-6)
        assert state.partitions.metric[k, layout.TOTAL] == pytest.approx(sum(counts))


@pytest.mark.without_jit
def test_more_anchors_and_features_than_a_vector_holds_equal_the_oracle():
    rng = np.random.default_rng(0)
    model = StreamingSVEAD(n_partitions=3, n_anchors=11, normal_after=100, memory=None, seed=1)
    oracle = oracle_of(model)
    for row in rng.normal(size=(EVENTS - 50, 19)):
        event = dict(enumerate(row))
        assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
        model.learn_one(event)
        oracle.learn(event)
    compare_state(model, oracle)


@pytest.mark.without_jit
def test_single_anchors_equal_the_oracle():
    model = StreamingSVEAD(n_partitions=18, n_anchors=1, normal_after=20, seed=2)
    oracle = oracle_of(model)
    for event in events(70, seed=5):
        assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
        model.learn_one(event)
        oracle.learn(event)
    compare_state(model, oracle)


@pytest.mark.parametrize("scaling", ["std", MIXED])
def test_a_mini_batch_equals_the_oracle(scaling):
    X = np.random.default_rng(2).normal(size=(EVENTS, 4))
    X[::9, 1] = np.nan
    X[5] = np.nan
    model = StreamingSVEAD(**SHAPE, scaling=scaling, seed=7)
    oracle = oracle_of(model)
    expected = []
    for row in X.tolist():
        event = dict(enumerate(row))
        expected.append(oracle.score(event))
        oracle.learn(event)
    np.testing.assert_allclose(model.score_learn_many(X), expected, rtol=1e-5, atol=1e-6)
    compare_state(model, oracle)
    np.testing.assert_allclose(
        model.score_many(X[:5]), [oracle.score(dict(enumerate(row))) for row in X[:5]], rtol=1e-5
    )


@pytest.mark.parametrize("scaling", ["none", "std", MIXED])
def test_huge_numbers_equal_the_oracle(scaling):
    rng = np.random.default_rng(4)
    model = StreamingSVEAD(**SHAPE, scaling=scaling, seed=7)
    oracle = oracle_of(model)
    for i, row in enumerate(rng.normal(size=(150, 3)).tolist()):
        if i > 40 and rng.random() < 0.05:
            row[rng.integers(3)] = rng.choice([1e20, 1e99, 1e200, -1e300, 1.7e308])
        event = dict(enumerate(row))
        assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
        model.learn_one(event)
        oracle.learn(event)
        compare_state(model, oracle)
    assert model.n_missing_ == 0


@pytest.mark.without_jit
def test_a_model_through_a_change_of_regime_equals_the_oracle():
    rng = np.random.default_rng(5)
    model = StreamingSVEAD(**SHAPE, seed=7)
    oracle = oracle_of(model)
    for row in np.vstack([rng.normal(size=(150, 3)), rng.normal(size=(EVENTS - 150, 3)) * 30 + 400]).tolist():
        event = dict(enumerate(row))
        assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
        model.learn_one(event)
        oracle.learn(event)
        compare_state(model, oracle)


@pytest.mark.parametrize("absent", [False, True])
def test_a_feature_that_starts_to_vary_late_equals_the_oracle(absent):
    rng = np.random.default_rng(6)
    model = StreamingSVEAD(**SHAPE, seed=7)
    oracle = oracle_of(model)
    for i in range(400):
        event = {"a": rng.normal(), "b": rng.normal(), "flag": 7.0 if i < 130 or 290 < i < 340 else rng.normal(5)}
        if absent and 130 <= i < 260:
            del event["flag"]
        assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
        model.learn_one(event)
        oracle.learn(event)
        compare_state(model, oracle)


@pytest.mark.parametrize("seed", [14, 20, 44])  # in which the last event is the strangest of its spell
def test_an_event_that_comes_again_with_a_new_feature_is_the_same_on_every_path(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(256, 2))
    X[248:] += rng.normal(2.5, 0.5)
    model = StreamingSVEAD(n_partitions=6, n_anchors=3, normal_after=50, seed=seed)
    oracle = oracle_of(model)
    by_batch = copy.deepcopy(model)
    events = [*({"a": a, "c": c} for a, c in X.tolist()), {"a": X[-1, 0], "c": X[-1, 1], "b": 0.0}]
    scores = []
    for event in events:
        scores.append(model.score_one(event))
        assert scores[-1] == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
        model.learn_one(event)
        oracle.learn(event)
    compare_state(model, oracle)
    rows = [[event.get(name) for name in "abc"] for event in events]
    assert by_batch.score_learn_many(rows, list("abc")).tolist() == scores
    assert by_batch.to_bytes() == model.to_bytes()


@pytest.mark.without_jit
def test_equal_points_equal_the_oracle():
    model = StreamingSVEAD(**SHAPE, seed=7)
    oracle = oracle_of(model)
    for _ in range(100):
        event = {"a": 0.1, "b": 7.0}
        assert model.score_one(event) == oracle.score(event) == 0.0
        model.learn_one(event)
        oracle.learn(event)
    odd = {"a": 0.1, "b": 9.0}
    assert model.score_one(odd) == pytest.approx(oracle.score(odd), rel=1e-5)
    unknown = {"c": 1.0}
    model.learn_one(unknown)
    oracle.learn(unknown)
    assert model.score_one(unknown) == oracle.score(unknown) == 0.0


@pytest.mark.without_jit
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 31, 32, 33, 100, 230, 257])
def test_columns_are_sorted_whatever_their_length_with_gaps_at_the_end(n):
    rng = np.random.default_rng(n)
    values = rng.integers(0, n + 1, size=(n, LANES)) + rng.choice([0.0, 0.5], size=(n, LANES))
    values[rng.random(values.shape) < 0.2] = np.inf
    expected = np.sort(values, axis=0)
    sort_columns(values, n)
    np.testing.assert_array_equal(values, expected)


def test_the_deviation_of_values_with_a_far_tail_is_exact():
    values = np.sort(np.concatenate([np.random.default_rng(0).normal(1e9, 1e-3, 200), [1e9 + 5e6]]))
    assert deviation(values, len(values)) == pytest.approx(np.std(values - 1e9), rel=1e-12)
