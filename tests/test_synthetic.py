"""The paper's three kinds of anomaly are found: global, local, dependency; in batch and streaming."""

from __future__ import annotations

import numpy as np
import pytest
from _synthetic import KINDS, synthetic
from sklearn.metrics import roc_auc_score

from svead_stream import SVEAD, StreamingSVEAD

NEEDED = {"S1": 0.95, "S2": 0.90, "S3": 0.90}
SEEDS = range(5)
ANCHORS = 64  # local structure needs close looks: of 300 points, about 6 anchors are anomalies


@pytest.mark.parametrize("name", KINDS)
def test_the_batch_detector_finds_the_anomalies(name: str) -> None:
    aucs = []
    for seed in SEEDS:
        X, y = synthetic(name, seed=seed)
        aucs.append(roc_auc_score(y, SVEAD(n_anchors=ANCHORS, random_state=seed).fit(X).anomaly_scores_))
    assert np.mean(aucs) >= NEEDED[name]


@pytest.mark.parametrize("name", KINDS)
def test_the_streaming_detector_finds_them_as_they_arrive(name: str) -> None:
    """Each point is scored before it is learned; judging starts when the short memory has been filled once."""
    start, aucs = 16 * ANCHORS, []
    for seed in SEEDS:
        X, y = synthetic(name, n=5_000, seed=seed)
        # as in batch: as many anchors, features as they are
        detector = StreamingSVEAD(n_anchors=ANCHORS, scaling="none", seed=seed)
        scores = detector.score_learn_many(X)
        aucs.append(roc_auc_score(y[start:], scores[start:]))
    assert np.mean(aucs) >= NEEDED[name]


@pytest.mark.parametrize("name", KINDS)
def test_a_synthetic_set_is_what_was_asked_for(name: str) -> None:
    X, y = synthetic(name, n=300, rate=0.1, seed=3)
    again, _ = synthetic(name, n=300, rate=0.1, seed=3)
    other, _ = synthetic(name, n=300, rate=0.1, seed=4)
    assert X.shape == (300, 2)
    assert y.sum() == 30
    assert np.array_equal(X, again)
    assert not np.array_equal(X, other)
    assert 5 < y[:150].sum() < 25  # in a random order


def test_the_kinds_of_anomaly_differ_as_described() -> None:
    X, y = synthetic("S1", n=3_000)
    assert np.linalg.norm(X[y == 1], axis=1).min() > 3.5
    X, y = synthetic("S2", n=3_000)
    normal, anomalies = X[y == 0], X[y == 1]
    assert (anomalies >= normal.min(axis=0)).all()  # not outside the moons
    assert (anomalies <= normal.max(axis=0)).all()
    X, y = synthetic("S3", n=3_000)
    assert np.corrcoef(X[y == 0].T)[0, 1] > 0.9
    assert np.corrcoef(X[y == 1].T)[0, 1] < -0.9


def test_unknown_sets_and_impossible_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="'S4' is unknown; known are S1, S2, S3"):
        synthetic("S4")
    with pytest.raises(ValueError, match=r"rate=1\.0"):
        synthetic("S1", rate=1.0)
