"""Alerts are kept from the detector, but never so many that it could not follow a change."""

from __future__ import annotations

import numpy as np
import pytest
from detectors import Echo, Level

from svead_stream.judging import ConformalFilter


def test_a_protected_detector_does_not_learn_alerts() -> None:
    rng = np.random.default_rng(5)
    model = ConformalFilter(Echo(), alert_rate=0.01, protect=True)
    model.judge_many(rng.random((2_000, 1)))
    model.learn_one({0: 9.0})
    assert 9.0 not in model.detector.learned
    model.protect = False
    model.learn_one({0: 9.5})
    assert 9.5 in model.detector.learned


def test_a_protected_detector_learns_a_new_regime_all_the_same() -> None:
    rng = np.random.default_rng(6)
    model = ConformalFilter(Level(), alert_rate=0.01, protect=True)
    model.judge_many(rng.normal(0, 1, (3_000, 1)))
    model.judge_many(rng.normal(50, 1, (300, 1)))
    assert model.detector.mean == pytest.approx(50, abs=2)


def test_no_more_than_twice_the_rate_is_withheld_in_any_window_and_never_less_for_good() -> None:
    rng = np.random.default_rng(13)
    model = ConformalFilter(Level(), alert_rate=0.05, window=100, protect=True, burn_in=50)
    learned_less = 0
    for _ in range(30):
        before = model.detector.mean
        model.judge_many(rng.normal(size=(100, 1)) * (1 + 9 * (rng.random((100, 1)) < 0.1)))
        assert model._standing.ranks.n_withheld == int(model._standing.ranks.window.withheld.sum()) <= 11
        learned_less += model._standing.ranks.n_withheld > 0
        assert model.detector.mean != before
    assert learned_less == 30


def test_a_protected_detector_is_not_locked_by_scores_that_rise_for_ever() -> None:
    model = ConformalFilter(Level(), alert_rate=0.01, protect=True)
    model.judge_many(np.random.default_rng(7).normal(0, 1, (3_000, 1)))
    climb = np.cumsum(np.linspace(1, 3, 5_000))[:, None]  # ever steeper: each score is the highest so far
    model.judge_many(climb)
    assert model.detector.mean > 0.99 * climb[-1, 0]


def test_twice_the_rate_is_withheld_where_every_event_is_an_alert() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.1, window=100, protect=True, burn_in=0)
    for score in range(1, 501):
        model.judge_one({0: float(score)})
        if score > 50:
            assert model._standing.ranks.n_withheld == int(model._standing.ranks.window.withheld.sum()) in (19, 20)
    assert len(model.detector.learned) >= 0.8 * 500


def test_a_change_of_the_window_forgets_no_event_that_was_withheld() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.1, window=100, protect=True, burn_in=0)
    for score in range(1, 31):
        model.judge_one({0: float(score)})
    withheld = model._standing.ranks.saved()["withheld"].tolist()
    model.window = 60
    assert model._standing.ranks.saved()["withheld"].tolist() == withheld
    assert model._standing.ranks.n_withheld == sum(withheld) > 0
    model.window = 25
    assert model._standing.ranks.saved()["withheld"].tolist() == withheld[-25:]
    assert model._standing.ranks.n_withheld == sum(withheld[-25:]) > 0
