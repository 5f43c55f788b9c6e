"""The whole state of the judge against the oracle, after every event, on streams made of what the rules are for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from detectors import Echo
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from naive_judge import NaiveJudge

from svead_stream import ConformalFilter
from svead_stream.clock import Clock
from svead_stream.kernels import ranks
from svead_stream.spans import rate, span

START = 1_700_000_000.0
DAY = 86_400.0


def piece(kind: str, length: int, seed: int, high: float) -> Any:
    rng = np.random.default_rng(seed)
    calm = np.round(rng.gamma(2.0, 1.0, length), 1)  # with ties
    return {
        "calm": calm,
        "falling": high + 200.0 - np.arange(length),
        "rising": high + 1.1 ** np.arange(1, length + 1),
        "steps": high + np.cumsum(rng.choice([0.0, 0.0, 0.01, 0.3], length)),
        "fault": calm + high + 5.0,
        "unknown": np.full(length, np.nan),
        "zeros": np.zeros(length),
        "equal": np.full(length, 3.0),
        "infinite": np.where(rng.random(length) < 0.1, np.inf, np.where(rng.random(length) < 0.1, -np.inf, calm)),
    }[kind].tolist()


def steps(kind: str, length: int, seed: int) -> Any:
    """Seconds from event to event; a negative one is followed by a clock that goes on from there."""
    rng = np.random.default_rng(seed)
    even = np.full(length, 60.0)
    if kind == "gap":
        even[0] = 40 * DAY
    elif kind == "back":
        even[0] = -5 * DAY
    elif kind == "uneven":
        even = rng.choice([0.0, 1.0, 60.0, 1_800.0], length)
    elif kind == "unknown":
        even[rng.random(length) < 0.3] = math.nan
    return even.tolist()


def stream(parts: list[tuple[str, str, int]], seed: int = 0) -> tuple[list[float], list[float]]:
    scores: list[float] = []
    times: list[float] = []
    now = START
    for i, (kind, clock, length) in enumerate(parts):
        high = max((s for s in scores[-300:] if math.isfinite(s)), default=1.0)
        scores += piece(kind, length, seed + i, high)
        for step in steps(clock, length, seed + i):
            now += 0.0 if math.isnan(step) else step
            times.append(math.nan if math.isnan(step) else now)
    return scores, times


SETTINGS: list[dict[str, Any]] = [
    {"alert_rate": 0.05, "burn_in": 20, "window": 60},
    {"alert_rate": 0.004, "incident_rate": 0.01, "burn_in": 50},
    {"alert_rate": 0.07, "incident_rate": 0.01, "burn_in": 30},
    {"alert_rate": 0.1, "incident_rate": 0.25, "hold_off": 0.5, "burn_in": 10, "window": 41},
    {"alert_rate": 0.05, "incident_rate": "2/day", "hold_off": "30m", "burn_in": "1h", "window": 100},
    {"alert_rate": 0.05, "incident_rate": "20/day", "burn_in": 0},
    {"alert_rate": 0.2, "incident_rate": "1/week", "hold_off": 3, "burn_in": "2h", "window": 30},
]

PARTS = [
    ("zeros", "even", 3),
    ("unknown", "even", 4),
    ("calm", "even", 90),
    ("falling", "even", 70),
    ("steps", "uneven", 40),
    ("calm", "gap", 60),
    ("rising", "even", 12),
    ("calm", "back", 130),
    ("fault", "unknown", 30),
    ("calm", "uneven", 50),
    ("equal", "even", 40),
    ("steps", "even", 40),
    ("infinite", "even", 60),
    ("calm", "even", 700),
    ("fault", "gap", 5),
    ("falling", "even", 40),
    ("steps", "even", 60),
]


def oracle(model: ConformalFilter) -> NaiveJudge:
    judge = NaiveJudge(model.alert_rate, model.capacity)
    judge.rate = (model.alert_rate / 2, False) if model.incident_rate is None else tuple(rate(model.incident_rate))
    judge.hold_off = None if model.hold_off is None else tuple(span(model.hold_off))
    judge.burn_in = tuple(span(model.burn_in))
    return judge


def assert_judged_as_by_the_oracle(settings: dict[str, Any], scores: list[float], times: list[float]) -> NaiveJudge:
    """Verdict, window and credit are the oracle's after every event."""
    model = ConformalFilter(Echo(), **settings)
    judge, clock = oracle(model), Clock()
    for i, (score, time) in enumerate(zip(scores, times, strict=True)):
        burning = model.burns_in
        assert burning == judge.burns_in(), i
        verdict, own = model.judge_one({0: score}, time), judge.judge(score, clock.advance(time))
        assert (verdict.p_value, verdict.alert, verdict.incident) == (own["p_value"], own["alert"], own["incident"]), i
        states = {change.state for change in verdict.changes}
        assert ("open" in states, "closed" in states) == (own["opens"], own["closes"]), i
        assert not (burning and verdict.alert)
        window = model._standing.ranks.window
        assert model._standing.ranks.saved()["recent"].tolist() == judge.recent, i
        assert window.ordered[: len(judge.recent)].tolist() == sorted(judge.recent), i
        assert window.pace[ranks.CREDIT] == pytest.approx(judge.credit, abs=1e-9), i
    assert window.pace[ranks.ELAPSED] == pytest.approx(judge.passed())
    assert model.n_incidents_ == len(judge.incidents)
    return judge


@pytest.mark.without_jit
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_window_and_the_credit_are_those_of_the_oracle_after_every_event(settings: dict[str, Any]) -> None:
    judge = assert_judged_as_by_the_oracle(settings, *stream(PARTS))
    assert len(judge.incidents) >= 2


some_parts = st.lists(
    st.tuples(
        st.sampled_from(
            ["calm", "calm", "falling", "rising", "steps", "fault", "unknown", "zeros", "equal", "infinite"]
        ),
        st.sampled_from(["even", "even", "gap", "back", "uneven", "unknown"]),
        st.integers(1, 60),
    ),
    min_size=1,
    max_size=8,
)


@hypothesis_settings(max_examples=40)
@given(parts=some_parts, settings=st.sampled_from(SETTINGS), seed=st.integers(0, 1_000))
def test_whatever_comes_is_judged_as_the_oracle_judges_it(
    parts: list[tuple[str, str, int]], settings: dict[str, Any], seed: int
) -> None:
    assert_judged_as_by_the_oracle(settings, *stream([("calm", "even", 40), *parts], seed))
