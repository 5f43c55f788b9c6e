"""Answers against the naive oracle: every score, trust and level after every event and every answer."""

import numba
import numpy as np
import pytest
from test_streaming_oracle import SHAPE, compare_state, events, oracle_of

from svead_stream import StreamingSVEAD
from svead_stream.kernels import layout

EVENTS = 100 if numba.config.DISABLE_JIT else 200


def answers(seed, n, rng_of_events):
    """Answers of every kind, on events just seen, on old ones, on the same one twice, on nothing that was ever seen."""
    rng = np.random.default_rng(seed)
    for i, event in enumerate(rng_of_events):
        told = []
        if rng.random() < 0.15:
            told.append((event, bool(rng.random() < 0.4)))
        if rng.random() < 0.03 and i > 20:
            told += [(event, True), (event, False)]
        if rng.random() < 0.03:
            told.append(({"a": 90.0, "b": None, "other": 1.0}, True))
        yield event, told


@pytest.mark.parametrize(
    ("scaling", "gaps", "late", "answer_memory", "teach"),
    [
        ("std", 0.0, False, None, False),
        ("none", 0.1, True, 150, True),
        pytest.param("mixed", 0.0, True, None, True, marks=pytest.mark.without_jit),
        ("mixed", 0.1, False, 40, False),
    ],
)
def test_every_score_after_every_answer_equals_the_oracle(scaling, gaps, late, answer_memory, teach):
    model = StreamingSVEAD(**SHAPE, scaling=scaling, answer_memory=answer_memory, seed=7)
    oracle = oracle_of(model)
    n = 0
    for event, told in answers(5, EVENTS, events(EVENTS, seed=3, gaps=gaps, late=late)):
        assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
        model.learn_one(event)
        oracle.learn(event)
        for x, is_anomaly in told:
            model.feedback_one(x, is_anomaly, teach)
            oracle.feedback(x, is_anomaly, teach)
            n += 1
        compare_state(model, oracle)
        for memory, naive in zip(model._ensemble.memories, oracle.memories, strict=True):
            trust = memory.state.partitions.metric[:, layout.TRUST]
            np.testing.assert_allclose(trust, naive.trust, rtol=1e-5)
    assert n > 10
    assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
    expected = oracle.shares(event)
    assert dict.fromkeys(expected, 0.0) | model.explain_one(event) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("scaling", ["std", pytest.param("mixed", marks=pytest.mark.without_jit)])
def test_mini_batches_between_answers_equal_the_oracle(scaling):
    X = np.random.default_rng(4).normal(size=(150, 4))
    X[::9, 1] = np.nan
    X[:70, 3] = np.nan
    X[70:76:2, :3] = np.nan  # events of nothing but a feature that no partition uses yet
    X[60:90, 0] += 4.0
    model = StreamingSVEAD(**SHAPE, scaling=scaling, answer_memory=40, seed=7)
    oracle = oracle_of(model)
    for start in range(0, len(X), 25):
        part = X[start : start + 25]
        expected = []
        for row in part.tolist():
            event = dict(enumerate(row))
            expected.append(oracle.score(event))
            oracle.learn(event)
        np.testing.assert_allclose(model.score_learn_many(part), expected, rtol=1e-5, atol=1e-6)
        compare_state(model, oracle)
        for i, is_anomaly in ((3, True), (7, False), (11, start % 50 == 0)):
            event = dict(enumerate((part[i] * 2).tolist()))
            model.feedback_one(event, is_anomaly)
            oracle.feedback(event, is_anomaly)
    again = [oracle.score(dict(enumerate(row))) for row in X[-80:].tolist()]
    np.testing.assert_allclose(model.score_many(X[-80:]), again, rtol=1e-5, atol=1e-6)


@pytest.mark.without_jit
def test_answers_in_large_memories_equal_the_oracle():
    model = StreamingSVEAD(n_partitions=18, n_anchors=14, normal_after=40, memory=300, seed=3)
    oracle = oracle_of(model)
    seen = list(events(128, seed=4))
    for event in seen:
        model.learn_one(event)
        oracle.learn(event)
    assert sum(len(p.anchors) for p in oracle.memories[1].partitions) > 128
    assert len(oracle.memories[0].rows) > 64
    for event, is_anomaly in ((seen[-1], True), (seen[-2] | {"b": -30.0}, False)):
        model.feedback_one(event, is_anomaly)
        oracle.feedback(event, is_anomaly)
    compare_state(model, oracle)
    for memory, naive in zip(model._ensemble.memories, oracle.memories, strict=True):
        np.testing.assert_allclose(memory.trust, naive.trust, rtol=1e-5)
    for event in seen:
        assert model.score_one(event) == pytest.approx(oracle.score(event), rel=1e-5, abs=1e-6)
