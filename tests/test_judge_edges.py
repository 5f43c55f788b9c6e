"""The judge at its edges: detectors that warm up or overflow, times that miss or do not fit, settings that fail."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from detectors import BatchEcho, Echo
from river import anomaly

from svead_stream import ConformalFilter, StreamingSVEAD, snapshot
from svead_stream.clock import seconds_of, seconds_of_many
from svead_stream.spans import rate

RNG = np.random.default_rng(1)


@pytest.mark.parametrize("score", ["0.5x", None, [0.5, 0.6]])
def test_a_p_value_is_that_of_one_number(score) -> None:
    model = ConformalFilter(Echo())
    assert model.p_value(np.float32(0.5)) == model.p_value(0.5)
    with pytest.raises((TypeError, ValueError), match="float"):  # not Numba's, which is a page long
        model.p_value(score)


def test_zeros_of_a_warm_up_are_no_incident() -> None:
    model = ConformalFilter(Echo())
    for _ in range(1_000):
        assert not model.judge_one({0: 0.0}).alert  # event 457: alert, p_value 1.0, opens incident 1


@pytest.mark.parametrize(
    "settings", [{"hold_off": 75}, {"hold_off": 200}, {"incident_rate": "5/day", "hold_off": "15m"}]
)
def test_a_long_hold_off_on_a_stable_stream_keeps_both_rates(settings: dict) -> None:
    n = 172_800
    model = ConformalFilter(BatchEcho(), **settings)
    alerts = model.judge_many(RNG.gamma(2, 1, (n, 1)), t=1.7e9 + np.arange(n)).alerts
    asked = 10 if "incident_rate" in settings else 0.005 * n
    assert model.n_incidents_ >= asked / 2
    assert alerts[2_000:].mean() < 0.015


def test_a_supervised_detector_can_learn_an_alert() -> None:
    model = ConformalFilter(anomaly.GaussianScorer(window_size=None, grace_period=10), alert_rate=0.02)
    for i in range(300):
        model.learn_one({}, float(i % 10))
    model.learn_one({}, 60.0)  # TypeError: _explain() takes 2 positional arguments but 3 were given


@pytest.mark.parametrize("times", [np.arange(3.0), np.arange(7.0)])
@pytest.mark.parametrize(
    "model", [lambda: ConformalFilter(Echo()), lambda: ConformalFilter(StreamingSVEAD(seed=1), protect=True)]
)
def test_the_wrong_number_of_times_is_refused_on_the_path_of_the_loop(model, times) -> None:
    judge = model()
    with pytest.raises(ValueError, match="times for 5 events"):
        judge.judge_many(np.ones((5, 1)), t=times)  # 3: IndexError after 3 are learned; 7: taken
    assert judge.n_seen_ == 0


def test_the_wrong_number_of_times_teaches_no_detector_with_mini_batches() -> None:
    model = ConformalFilter(BatchEcho())
    with pytest.raises(ValueError, match="times for 5 events"):
        model.judge_many(np.ones((5, 1)), t=np.arange(3.0))
    assert model.detector.learned == []


def test_a_missing_time_in_a_column_with_a_time_zone() -> None:
    column = pd.to_datetime(pd.Series(["2023-01-01", None]), utc=True)
    assert np.isnan(seconds_of_many(column)[1])  # ValueError: NaTType does not support timestamp


def test_nat_of_pandas_is_no_time() -> None:
    assert math.isnan(seconds_of(pd.NaT))


def test_an_incident_without_a_time_ends_once_time_is_known() -> None:
    model = ConformalFilter(Echo(), hold_off="15m")
    for score in RNG.random(1_000).tolist():
        model.judge_one({0: score}, math.nan)
    model.judge_one({0: 50.0}, math.nan)
    for i in range(5_000):
        model.judge_one({0: 0.5}, 1.7e9 + 600 * i)  # 34 days without an alert
    assert model.open_incident is None


def test_an_incident_ends_after_the_hold_off_is_changed_to_time() -> None:
    model = ConformalFilter(Echo())
    for score in RNG.random(1_000).tolist():
        model.judge_one({0: score})
    model.judge_one({0: 50.0})
    model.change(hold_off="15m")
    for i in range(5_000):
        model.judge_one({0: 0.5}, 1.7e9 + 600 * i)
    assert model.open_incident is None


class Loud(Echo):
    def explain_one(self, x):
        return {"a": 0.5, "b": 0.5}

    def to_bytes(self):
        return snapshot.pack("Loud", {}, {})

    @classmethod
    def from_bytes(cls, data):
        return cls()


@pytest.mark.parametrize("scores", [[math.inf], [1e308, 1.5e308]])
def test_infinite_and_huge_scores_can_be_saved_and_explained(scores, monkeypatch) -> None:
    monkeypatch.setattr(snapshot, "_registered", dict(snapshot._registered))
    snapshot.register(Loud)
    model = ConformalFilter(Loud())
    for score in [*RNG.random(1_000).tolist(), *scores]:
        model.judge_one({0: score})
    assert ConformalFilter.from_bytes(model.to_bytes()).open_incident == model.open_incident  # cannot be read back
    assert model.open_incident.reasons == {"a": 0.5, "b": 0.5}


def test_periods_of_a_rate_begin_with_a_point() -> None:
    assert rate("5/.5h").amount == pytest.approx(5 / 1800)  # read as 5 / 1.5h, silently


@pytest.mark.parametrize("text", ["5/0s", "5/ ", "1 per 0h"])
def test_rates_without_a_period_are_value_errors(text: str) -> None:
    with pytest.raises(ValueError, match="incident_rate"):
        ConformalFilter(Echo(), incident_rate=text)  # ZeroDivisionError, IndexError


def test_a_change_that_fails_changes_nothing() -> None:
    model = ConformalFilter(Echo())
    with pytest.raises((ValueError, MemoryError)):
        model.alert_rate = 1e-12
    assert model._settings["alert_rate"] == model.alert_rate == 0.01  # settings say 1e-12, and are saved
