"""Alerts that belong together are one incident: by the rules of the oracle, at the rate asked for, on every path."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime
from typing import Any

import jsonschema
import numpy as np
import pytest
from detectors import BatchEcho, Echo
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from naive_judge import NaiveJudge, judge_all

from svead_stream import ConformalFilter, Incident, StreamingSVEAD, from_bytes
from svead_stream.record import schema
from svead_stream.spans import rate, span

START = 1_700_000_000.0


def bursts(n: int, seed: int) -> Any:
    """Scores with calm, single outliers, bursts, and a level that shifts for good."""
    rng = np.random.default_rng(seed)
    scores = rng.gamma(2.0, 1.0, n)
    for _ in range(n // 200):
        at, long = rng.integers(n), rng.integers(1, 40)
        scores[at : at + long] += rng.uniform(3, 12)
    scores[2 * n // 3 :] *= 1.5
    scores[rng.random(n) < 0.01] = np.nan
    scores[:5] = 0.0
    return np.round(scores, 2)


def stamps(n: int, seed: int, step: float = 60.0) -> Any:
    """Times of events with gaps, repetitions, steps back, and some that are missing."""
    rng = np.random.default_rng(seed)
    times = START + np.cumsum(rng.choice([0.0, step, step, step, 5 * step], n))
    times[rng.random(n) < 0.02] -= 10 * step
    times[rng.random(n) < 0.02] = np.nan
    times[n // 2] = START + 1e9  # one from the future, which must not hold the clock for ever
    return times


SETTINGS = [
    {},
    {"burn_in": 0},
    {"alert_rate": 0.05, "burn_in": 100, "hold_off": 7},
    {"alert_rate": 0.02, "incident_rate": "6/day", "hold_off": "20m", "burn_in": "6h", "window": 700},
    {"incident_rate": "3 a day", "burn_in": "1h"},
    {"incident_rate": 0.02, "hold_off": "5m", "window": 150, "alert_rate": 0.1},
]


def oracle(settings: dict[str, Any]) -> NaiveJudge:
    alert_rate = settings.get("alert_rate", 0.01)
    naive = NaiveJudge(alert_rate, settings.get("window", ConformalFilter(Echo(), alert_rate).capacity))
    naive.rate = tuple(rate(settings.get("incident_rate", alert_rate / 2)))
    naive.hold_off = tuple(span(settings["hold_off"])) if "hold_off" in settings else None
    naive.burn_in = tuple(span(settings.get("burn_in", 256)))
    return naive


def said(verdicts: Any) -> list[Any]:
    return [
        (v.p_value, v.alert, v.incident, [(c.number, c.state, c.first, c.last, c.alerts) for c in v.changes])
        for v in verdicts
    ]


@pytest.mark.without_jit
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_event_is_judged_as_the_oracle_judges_it(settings: dict[str, Any]) -> None:
    n = 1_500
    scores, times = bursts(n, 1), stamps(n, 2)
    naive = oracle(settings)
    expected = judge_all(naive, scores.tolist(), times.tolist())
    model = ConformalFilter(Echo(), **settings)
    for i, (score, time) in enumerate(zip(scores.tolist(), times.tolist(), strict=True)):
        verdict = model.judge_one({0: score}, time)
        own = expected[i]
        assert (verdict.p_value, verdict.alert, verdict.incident) == (own["p_value"], own["alert"], own["incident"]), i
        states = [change.state for change in verdict.changes]
        assert ("open" in states, "closed" in states) == (own["opens"], own["closes"])
    assert model.n_incidents_ == len(naive.incidents) > 1
    assert len(model._standing.ranks.saved()["recent"]) == len(naive.recent)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_an_incident_is_what_was_said_of_its_alerts(settings: dict[str, Any]) -> None:
    scores, times = bursts(3_000, 3), stamps(3_000, 4)
    naive = oracle(settings)
    judge_all(naive, scores.tolist(), times.tolist())
    verdicts = ConformalFilter(BatchEcho(), **settings).judge_many(scores[:, None], t=times)
    closed = [c for changes in verdicts.changes.values() for c in changes if c.state == "closed"]
    assert len(closed) in (len(naive.incidents), len(naive.incidents) - 1)
    for incident, own in zip(closed, naive.incidents, strict=False):
        assert (incident.first, incident.last) == (own["events"][0] + 1, own["events"][-1] + 1)
        assert (incident.start, incident.end) == (own["times"][0], own["times"][-1])
        assert incident.alerts == len(own["events"]) <= incident.events
        assert (incident.peak, incident.p_value) == (max(own["scores"]), min(own["p_values"]))
    jsonschema.Draft202012Validator(schema("incident")).validate(closed[0].record(3))


@hypothesis_settings(max_examples=20)
@given(
    seed=st.integers(0, 10_000),
    settings=st.sampled_from(SETTINGS),
    cuts=st.lists(st.integers(0, 1_200), max_size=5),
    saves=st.booleans(),
)
def test_mini_batches_however_cut_saved_and_restored_are_the_loop(
    seed: int, settings: dict[str, Any], cuts: list[int], saves: bool
) -> None:
    scores, times = bursts(1_200, seed), stamps(1_200, seed)
    loop = ConformalFilter(Echo(), **settings)
    expected = [loop.judge_one({0: s}, t) for s, t in zip(scores.tolist(), times.tolist(), strict=True)]
    batch, verdicts = ConformalFilter(BatchEcho(), **settings), []
    for part in np.split(np.arange(1_200), sorted(cuts)):
        verdicts += list(batch.judge_many(scores[part][:, None], t=times[part]))
        batch = pickle.loads(pickle.dumps(batch)) if saves else batch
    assert said(verdicts) == said(expected)
    assert (batch.clock_, batch.open_incident) == (loop.clock_, loop.open_incident)


@pytest.mark.parametrize("protect", [False, True])
def test_a_saved_filter_goes_on_with_its_open_incident(protect: bool) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2_000, 3))
    X[900:960] += 6
    times = START + 60.0 * np.arange(2_000)
    whole, model = (ConformalFilter(StreamingSVEAD(seed=1), protect=protect) for _ in range(2))
    expected = list(whole.judge_many(X, t=times))
    verdicts = list(model.judge_many(X[:930], t=times[:930]))
    assert model.open_incident is not None
    assert model.open_incident.reasons
    model = from_bytes(model.to_bytes())
    verdicts += [model.judge_one(dict(enumerate(x)), t) for x, t in zip(X[930:], times[930:].tolist(), strict=True)]
    assert verdicts == expected
    assert model.to_bytes() == whole.to_bytes()


def changes_of(verdicts: Any) -> list[Incident]:
    return [change for verdict in verdicts for change in verdict.changes]


def test_a_fault_is_one_incident_with_its_start_its_end_and_the_feature_to_blame() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(50, 1, size=(3_000, 3))
    X[2_000:2_050, 1] += 15  # fifty minutes
    model = ConformalFilter(StreamingSVEAD(seed=2), incident_rate="1/day")
    times = [datetime.fromtimestamp(START + 60 * i, UTC) for i in range(3_000)]
    verdicts = list(model.judge_many(X, ["heat", "load", "speed"], t=times))
    fault = [change for change in changes_of(verdicts) if change.first == 2_001]
    assert [one.state for one in fault] == ["open", "update", "update", "update", "update", "update", "closed"]
    assert [one.alerts for one in fault[:6]] == [1, 2, 4, 8, 16, 32]
    opened, closed = fault[0], fault[-1]
    assert opened.start == opened.end == START + 60 * 2_000
    assert START + 60 * 2_049 <= (closed.end or 0) <= START + 60 * 2_080
    assert closed.alerts >= 50
    (first, share), *_ = (closed.reasons or {}).items()
    assert first == "load"
    assert share > 0.5
    assert sum((closed.reasons or {}).values()) == pytest.approx(1)
    assert all(verdict.alert and verdict.incident == closed.number for verdict in verdicts[2_000:2_050])


@pytest.mark.parametrize(("asked", "correlation"), [(0.02, 0.0), (0.01, 0.9), (0.005, 0.9), (0.002, 0.99)])
def test_the_rate_of_incidents_is_held_however_the_scores_hang_together(asked: float, correlation: float) -> None:
    rng = np.random.default_rng(7)
    noise, scores = rng.normal(size=40_000), np.zeros(40_000)
    for i in range(1, 40_000):
        scores[i] = correlation * scores[i - 1] + noise[i]
    scores[20_000:] = 4 * scores[20_000:]  # and changes its size for good
    model = ConformalFilter(BatchEcho(), incident_rate=asked, hold_off=20)
    verdicts = model.judge_many(np.exp(scores / 10)[:, None])
    opened = [i for i, changes in verdicts.changes.items() if any(c.state == "open" for c in changes)]
    for low, high in ((1_000, 20_000), (20_000, 40_000)):
        count = sum(low <= i < high for i in opened)
        assert count == pytest.approx(asked * (high - low), rel=0.2)


def test_five_a_day_are_five_a_day_whatever_the_number_of_events() -> None:
    rng = np.random.default_rng(8)
    for seconds in (10.0, 300.0):
        n = 60_000 if seconds == 10.0 else 10_000
        model = ConformalFilter(BatchEcho(), incident_rate="5/day", hold_off="10m")
        model.judge_many(rng.gamma(2, 1, (n, 1)), t=START + seconds * np.arange(n))
        days = n * seconds / 86_400
        assert model.n_incidents_ == pytest.approx(5 * days, rel=0.2)


def test_incidents_rarer_than_the_window_can_tell_are_told_all_the_same() -> None:
    scores = np.random.default_rng(9).gamma(2, 1, (60_000, 1))
    model = ConformalFilter(BatchEcho(), incident_rate=1e-4, window=500)
    model.judge_many(scores)
    assert 3 <= model.n_incidents_ <= 8


def test_a_lasting_fault_is_told_to_its_end_and_hides_nothing_that_comes_after_it() -> None:
    rng = np.random.default_rng(10)
    scores = rng.normal(1, 0.1, 5_000)
    scores[2_000:2_600] += 2  # far more than 1 % of the window
    scores[3_000:3_005] += 1  # and a smaller one, later
    verdicts = ConformalFilter(BatchEcho()).judge_many(scores[:, None])
    assert verdicts.alerts[2_000:2_600].all()
    assert verdicts.alerts[3_000:3_005].all()
    assert len({verdicts.incidents[i] for i in range(2_000, 2_600)}) == 1
    assert verdicts.incidents[3_000] != verdicts.incidents[2_599]


def test_what_has_come_to_stay_is_over_as_an_incident() -> None:
    rng = np.random.default_rng(11)
    scores = rng.normal(1, 0.1, 12_000)
    scores[3_000:] += 2
    model = ConformalFilter(BatchEcho())
    verdicts = model.judge_many(scores[:, None])
    assert verdicts.alerts[3_000:3_900].all()
    assert verdicts.alerts[6_000:].mean() < 0.05
    longest = max(c.events for changes in verdicts.changes.values() for c in changes if c.state == "closed")
    assert 1_000 <= longest < 2_000


def test_the_first_events_are_no_alerts() -> None:
    scores = np.arange(1.0, 3_001.0)[:, None]  # each the highest so far
    for burn_in, first in ((256, 256), (0, 99), (700, 700), ("6h", 360), ("2d", 2_880)):
        model = ConformalFilter(BatchEcho(), burn_in=burn_in)
        assert model.burns_in == (burn_in != 0)
        alerts = model.judge_many(scores, t=START + 60.0 * np.arange(3_000)).alerts
        assert int(np.argmax(alerts)) == pytest.approx(first, abs=1)
        assert not model.burns_in


def test_parameters_in_time_need_the_time_of_events() -> None:
    for given_in_time in ({"incident_rate": "5/day"}, {"hold_off": "15m"}, {"burn_in": "1d"}):
        model = ConformalFilter(Echo(), **given_in_time)
        with pytest.raises(ValueError, match=r"is given in time: say when each event happened \(t="):
            model.judge_one({0: 1.0})
        with pytest.raises(ValueError, match="is given in time"):
            model.judge_many(np.ones((3, 1)))
        with pytest.raises(ValueError, match="is given in time"):
            model.learn_one({0: 1.0})
        assert model.n_seen_ == 0
        assert model.judge_one({0: 1.0}, math.nan).score == 1.0  # unknown for once is fine


def test_times_that_are_none_or_too_few_are_refused_and_nothing_is_learned() -> None:
    model = ConformalFilter(StreamingSVEAD(seed=1))
    model.judge_many(np.random.default_rng(1).normal(size=(50, 2)), t=np.arange(50.0))
    before = model.to_bytes()
    with pytest.raises(ValueError, match="3 times for 5 events"):
        model.judge_many(np.ones((5, 2)), t=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="'soon' is no time"):
        model.judge_one({0: 1.0, 1: 1.0}, "soon")
    with pytest.raises(ValueError, match="2 dimensions"):
        model.judge_many(np.ones((5, 2)), t=np.ones((5, 2)))
    assert model.to_bytes() == before


def test_one_time_from_the_future_changes_little() -> None:
    rng = np.random.default_rng(8)
    scores, times = rng.gamma(2, 1, (20_000, 1)), START + 60.0 * np.arange(20_000)
    model = ConformalFilter(BatchEcho(), incident_rate="5/day", hold_off="10m")
    times[5_000] = START + 1e11
    verdicts = model.judge_many(scores, t=times)
    opened = [i for i, changes in verdicts.changes.items() if any(c.state == "open" for c in changes)]
    assert len([i for i in opened if i > 6_000]) == pytest.approx(5 * 14_000 / 1_440, rel=0.2)
    assert len(opened) == pytest.approx(5 * 20_000 / 1_440, rel=0.2)
    assert model.clock_.latest == times[-1]
    assert model.clock_.n_backward == 100


def test_odd_times_are_counted_and_never_fatal() -> None:
    model = ConformalFilter(BatchEcho())
    model.judge_many(np.ones((7, 1)), t=[5.0, 6.0, 6.0, 2.0, math.nan, math.inf, 9.0])
    clock = model.clock_
    assert (clock.latest, clock.n_missing, clock.n_backward, clock.n_duplicate) == (9.0, 2, 1, 1)
    assert clock.summary() == "2 missing, 1 going back, 1 the same as before"


@pytest.mark.parametrize(
    "settings",
    [
        {"incident_rate": 0},
        {"incident_rate": 1.5},
        {"incident_rate": "many"},
        {"incident_rate": "0/day"},
        {"hold_off": 0},
        {"hold_off": "-5"},
        {"hold_off": "5 parsecs"},
        {"burn_in": -2},
        {"burn_in": []},
        {"burn_in": True},
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        ConformalFilter(Echo(), **settings)


def test_settings_are_changed_together_on_the_way() -> None:
    model = ConformalFilter(BatchEcho())
    scores = np.random.default_rng(3).gamma(2, 1, (12_000, 1))
    model.judge_many(scores[:2_000])
    model.change(incident_rate=0.02, hold_off=5, burn_in=0)
    assert (model.incident_rate, model.hold_off, model.burn_in, model.alert_rate) == (0.02, 5, 0, 0.01)
    before = model.n_incidents_
    model.judge_many(scores[2_000:])
    assert model.n_incidents_ - before == pytest.approx(200, rel=0.2)
    with pytest.raises(ValueError, match="detector cannot be changed"):
        model.change(detector=Echo())
    with pytest.raises(ValueError, match="hold_off='soon'"):
        model.change(hold_off="soon")
    assert model.hold_off == 5
