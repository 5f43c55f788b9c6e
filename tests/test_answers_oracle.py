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
