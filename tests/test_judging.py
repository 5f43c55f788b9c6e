"""The rate of alerts is the rate asked for, on any detector, and every path to it gives the same answer."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from detectors import BatchEcho, Echo, Level
from hypothesis import given
from hypothesis import strategies as st
from naive_judge import NaiveJudge
from river import anomaly, checks, compose, evaluate, linear_model, metrics, preprocessing

from svead_stream import StreamingSVEAD
from svead_stream.judging import ConformalFilter, Verdict


def loop(model: Any, rows: Any) -> list[Verdict]:
    """What river's own calls say of events, one after the other."""
    verdicts = []
    for x in rows:
        score = model.score_one(x)
        alert = model.classify(score)
        reasons = model.detector.explain_one(x) if alert and hasattr(model.detector, "explain_one") else None
        verdicts.append(Verdict(score, model.p_value(score), alert, reasons))
        model.learn_one(x)
    return verdicts


def without_incidents(verdicts: Any) -> list[Verdict]:
    """What river's calls can tell."""
    return [Verdict(*verdict[:4]) for verdict in verdicts]


def assert_same_window(one: ConformalFilter, other: ConformalFilter) -> None:
    for name in ("recent", "ordered", "withheld", "counters", "pace"):
        mine, theirs = (getattr(model._standing.ranks.window, name) for model in (one, other))
        np.testing.assert_array_equal(mine, theirs)


some_scores = st.lists(
    st.one_of(st.integers(0, 5).map(float), st.floats(allow_nan=True, allow_infinity=True)), max_size=60
)


@given(scores=some_scores, window=st.integers(1, 20))
def test_p_values_and_alerts_are_those_of_counting_by_hand(scores: list[float], window: int) -> None:
    model = ConformalFilter(Echo(), alert_rate=0.5, window=window, burn_in=0)
    naive = NaiveJudge(0.5, window, rate=(0.25, False), burn_in=(0, False))
    alerts = 0
    for score in scores:
        p_value, alert = model.p_value(score), model.classify(score)
        expected = naive.judge(score)
        assert (p_value, alert) == (expected["p_value"], expected["alert"])
        if not math.isnan(score):
            assert alert == (score > model.threshold)
        model.learn_one({0: score})
        alerts += alert
    assert (model.n_seen_, model.n_alerts_) == (len(scores), alerts)


@pytest.mark.parametrize("detector", [Echo, BatchEcho])
@given(scores=some_scores, cuts=st.lists(st.integers(0, 60), max_size=4), protect=st.booleans())
def test_mini_batches_are_the_loop_however_they_are_cut(
    detector: type[Echo], scores: list[float], cuts: list[int], protect: bool
) -> None:
    by_loop = ConformalFilter(Echo(), alert_rate=0.2, window=9, protect=protect, burn_in=0)
    # missing values are left out of events, so NaN cannot be an event's only value here
    rows = [[score] for score in scores if not math.isnan(score)]
    expected = loop(by_loop, [dict(enumerate(row)) for row in rows])
    by_batch = ConformalFilter(detector(), alert_rate=0.2, window=9, protect=protect, burn_in=0)
    X = np.array(rows, dtype=float).reshape(-1, 1)
    parts = [by_batch.judge_many(part) for part in np.split(X, sorted(min(c, len(X)) for c in cuts))]
    assert without_incidents(verdict for part in parts for verdict in part) == expected
    assert by_batch.detector.learned == by_loop.detector.learned
    assert_same_window(by_batch, by_loop)


@pytest.mark.without_jit
@pytest.mark.parametrize("sizes", [[300], [3] * 100, [100, 1, 2, 150, 5, 42]])
def test_long_and_short_mini_batches_with_ties_gaps_and_a_cold_start_are_the_loop(sizes: list[int]) -> None:
    scores = np.random.default_rng(5).integers(0, 40, size=300) / 40
    scores[:7], scores[::23] = 0.0, np.nan
    by_loop = ConformalFilter(Echo(), alert_rate=0.05, window=64, burn_in=0)
    expected = loop(by_loop, [{0: score} for score in scores.tolist()])
    by_batch = ConformalFilter(BatchEcho(), alert_rate=0.05, window=64, burn_in=0)
    parts = [by_batch.judge_many(part[:, None]) for part in np.split(scores, np.cumsum(sizes)[:-1])]
    assert [verdict.p_value for part in parts for verdict in part] == [verdict.p_value for verdict in expected]
    assert_same_window(by_batch, by_loop)
    assert (by_batch.n_seen_, by_batch.n_alerts_) == (by_loop.n_seen_, by_loop.n_alerts_)
    assert type(by_batch.n_alerts_) is int


@pytest.mark.parametrize("alert_rate", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "cauchy"])
def test_a_stable_stream_alerts_at_the_rate_asked_for(alert_rate: float, shape: str) -> None:
    rng = np.random.default_rng(3)
    n = 150_000 if alert_rate == 0.001 else 40_000
    scores = {"normal": rng.normal, "lognormal": rng.lognormal, "cauchy": rng.standard_cauchy}[shape](size=n)
    model = ConformalFilter(Echo(), alert_rate=alert_rate)
    alerts = model.judge_many(scores[:, None]).alerts
    assert alerts[5_000:].mean() == pytest.approx(alert_rate, rel=0.2)


def test_half_space_trees_alert_at_the_rate_asked_for() -> None:
    model = ConformalFilter(anomaly.HalfSpaceTrees(n_trees=5, height=6, seed=1), alert_rate=0.01)
    X = np.clip(np.random.default_rng(2).normal(0.5, 0.12, (20_000, 3)), 0, 1)
    alerts = model.judge_many(X).alerts
    assert alerts[1_000:].mean() == pytest.approx(0.01, rel=0.2)


@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_the_rate_returns_after_scores_moved_to_another_level(factor: float) -> None:
    rng = np.random.default_rng(4)
    model = ConformalFilter(Echo(), alert_rate=0.05)
    model.judge_many(rng.random((5_000, 1)) + 1)
    model.judge_many(factor * (rng.random((model.capacity, 1)) + 1))
    after = model.judge_many(factor * (rng.random((20_000, 1)) + 1)).alerts
    assert after.mean() == pytest.approx(0.05, rel=0.2)


@pytest.mark.parametrize(("alert_rate", "known"), [(0.29, 99), (0.58, 49), (0.57, 199), (0.35, 179), (0.1, 99)])
def test_a_p_value_equal_to_the_rate_is_an_alert_whatever_rounding_does(alert_rate: float, known: int) -> None:
    model = ConformalFilter(Echo(), alert_rate=alert_rate, incident_rate=1e-6, burn_in=0)
    for score in range(known, 0, -1):
        model.learn_one({0: float(score)})
    verdicts = [model.judge_one({0: score + 0.5}, learn=False) for score in range(known + 1)]
    assert alert_rate in [verdict.p_value for verdict in verdicts]
    for verdict in verdicts:
        assert verdict.alert == model.classify(verdict.score) == (verdict.p_value <= alert_rate)


def test_a_p_value_above_the_rate_is_no_alert_whatever_rounding_does() -> None:
    rate = 1 - 7 / 12  # times 12, it is rounded up to 5
    by_loop, by_batch = (ConformalFilter(BatchEcho(), alert_rate=rate, window=11, burn_in=0) for _ in range(2))
    scores = np.random.default_rng(3).permutation(60) + 1.0
    expected = loop(by_loop, [{0: score} for score in scores.tolist()])
    assert without_incidents(by_batch.judge_many(scores[:, None])) == expected
    assert 5 / 12 in [verdict.p_value for verdict in expected]
    assert all(verdict.alert <= (verdict.p_value <= max(rate, 0.5)) for verdict in expected)
    assert all(verdict.alert >= (verdict.p_value <= rate) for verdict in expected)


def test_there_is_no_alert_before_one_could_be_that_rare() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.01, incident_rate=1e-6, burn_in=0)
    alerts = model.judge_many(np.arange(1.0, 101.0)[:, None]).alerts
    assert alerts.tolist() == [False] * 99 + [True]


def test_equal_scores_are_no_alerts() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.05)
    assert not model.judge_many(np.full((5_000, 1), 0.7)).alerts.any()
    assert model.classify(0.8)


def test_zeros_of_a_detector_that_warms_up_do_not_make_the_rest_alerts() -> None:
    rng = np.random.default_rng(8)
    scores = np.concatenate([np.zeros(250), 0.9 + 0.05 * rng.random(2_000)])
    alerts = ConformalFilter(Echo(), alert_rate=0.01).judge_many(scores[:, None]).alerts
    assert alerts.sum() < 40


def test_memory_stays_the_same_however_long_the_stream() -> None:
    model = ConformalFilter(Level(), alert_rate=0.05)
    rng = np.random.default_rng(9)
    model.judge_many(rng.random((2_000, 1)))
    before = len(pickle.dumps(model))
    model.judge_many(rng.random((20_000, 1)))
    assert len(pickle.dumps(model)) == pytest.approx(before, abs=512)  # an incident may be open
    assert len(model._standing.ranks.saved()["recent"]) == model.capacity


@pytest.mark.parametrize("detector", [Level, BatchEcho, lambda: StreamingSVEAD(seed=3)])
def test_judging_changes_nothing(detector: Callable[[], Any]) -> None:
    model = ConformalFilter(detector(), alert_rate=0.05)
    model.judge_many(np.random.default_rng(9).random((300, 1)))
    before = pickle.dumps(model)
    judged = model.judge_many(np.array([[0.5], [70.0]]), learn=False)
    model.p_value(3.0), model.classify(3.0), model.score_one({0: 3.0}), model.threshold
    assert pickle.dumps(model) == before
    assert judged.alerts.tolist() == [False, True]


@pytest.mark.parametrize("alert_rate", [0.0, 1.0, -0.1, 2, math.nan])
def test_an_alert_rate_that_makes_no_sense_is_refused(alert_rate: float) -> None:
    with pytest.raises(ValueError, match=r"alert_rate.* between 0 and 1"):
        ConformalFilter(Echo(), alert_rate=alert_rate)


def test_a_window_that_could_never_alert_is_refused_with_the_least_that_could() -> None:
    with pytest.raises(ValueError, match="at least 999"):
        ConformalFilter(Echo(), alert_rate=0.001, window=500)
    ConformalFilter(Echo(), alert_rate=0.001, window=999)


def as_pandas(rows: list[dict[str, Any]]) -> Any:
    return pd.DataFrame(rows)


@pytest.mark.parametrize("table", [as_pandas, pl.DataFrame, pa.Table.from_pylist])
def test_tables_reach_a_river_pipeline_without_their_missing_values(table: Any) -> None:
    rng = np.random.default_rng(10)
    rows: list[dict[str, Any]] = [
        {"level": None if i % 7 == 0 else float(rng.random()), "kind": "ab"[i % 2]} for i in range(700)
    ]

    def pipeline() -> Any:
        numbers = compose.SelectType(float) | preprocessing.MinMaxScaler()
        words = compose.SelectType(str) | preprocessing.OneHotEncoder()
        return ConformalFilter((numbers + words) | anomaly.HalfSpaceTrees(n_trees=3, height=4, seed=1), 0.05)

    expected = loop(pipeline(), [{k: v for k, v in row.items() if v is not None} for row in rows])
    judged = pipeline().judge_many(table(rows))
    assert without_incidents(judged) == expected
    assert max(judged.scores) > 0


def stream(n: int = 1_500) -> Iterator[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(11)
    for i in range(n):
        odd = i % 100 == 99
        yield {"a": rng.normal(0.5, 0.05) + 0.4 * odd, "b": rng.normal(0.5, 0.05)}, odd


def test_river_evaluates_it_like_its_own_filters() -> None:
    model = ConformalFilter(preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=1), alert_rate=0.02)
    metric = evaluate.progressive_val_score(stream(), model, metrics.ROCAUC())
    assert metric.get() > 0.8


def test_in_a_river_pipeline_it_keeps_alerts_from_the_model_behind_it() -> None:
    seen: list[float] = []

    class Spy(linear_model.LinearRegression):
        def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
            seen.append(x["a"])

    model = ConformalFilter(anomaly.HalfSpaceTrees(seed=1, window_size=50), alert_rate=0.02) | Spy()
    for x, odd in stream():
        model.learn_one(x, float(odd))
    assert len(seen) > 1_450
    assert sum(a > 0.75 for a in seen[500:]) < sum(x["a"] > 0.75 for x, _ in list(stream())[500:]) / 2


def test_supervised_detectors_are_given_the_target() -> None:
    model = ConformalFilter(anomaly.GaussianScorer(window_size=None, grace_period=10), alert_rate=0.02)
    for i in range(300):
        model.learn_one({}, float(i % 10))
    assert model.classify(model.score_one({}, 60.0))


@pytest.mark.parametrize("check", list(checks.yield_checks(ConformalFilter(Level()))), ids=lambda c: c.__name__)
def test_river_accepts_it_as_an_estimator(check: Any) -> None:
    check(ConformalFilter(**next(ConformalFilter._unit_test_params())))


# with the detector of this package


def sensor_rows(n: int, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[rng.random(n) < 0.02] *= 6
    return X


@pytest.mark.without_jit
@pytest.mark.parametrize("protect", [False, True])
def test_mini_batches_of_streaming_svead_are_the_loop(protect: bool) -> None:
    X = sensor_rows(600, 2)
    X[5:300:7, 1] = np.nan
    by_loop = ConformalFilter(StreamingSVEAD(seed=3), alert_rate=0.02, protect=protect)
    expected = loop(by_loop, [dict(zip("abc", row, strict=True)) for row in X.tolist()])
    by_batch = ConformalFilter(StreamingSVEAD(seed=3), alert_rate=0.02, protect=protect)
    parts = [by_batch.judge_many(part, feature_names=list("abc")) for part in np.array_split(X, 7)]
    assert without_incidents(verdict for part in parts for verdict in part) == expected
    assert by_batch.n_incidents_ > 0
    assert by_batch.to_bytes() == by_loop.to_bytes()


def test_events_and_mini_batches_by_turns_are_the_loop() -> None:
    X = sensor_rows(900, 4)
    events = [dict(zip("abc", row, strict=True)) for row in X.tolist()]
    expected = loop(ConformalFilter(StreamingSVEAD(seed=3), alert_rate=0.05), events)
    model = ConformalFilter(StreamingSVEAD(seed=3), alert_rate=0.05)
    verdicts = []
    for start in range(0, 900, 30):
        verdicts += model.judge_many(X[start : start + 20], list("abc"))
        verdicts += [model.judge_one(event) for event in events[start + 20 : start + 30]]
    assert without_incidents(verdicts) == expected
    assert any(verdict.alert for start in range(0, 900, 30) for verdict in verdicts[start + 20 : start + 30])


@pytest.mark.parametrize("protect", [False, True])
def test_rows_that_are_no_numbers_leave_the_model_as_it_was(protect: bool) -> None:
    model = ConformalFilter(StreamingSVEAD(seed=3), protect=protect)
    model.judge_many(sensor_rows(100, 1))
    before = model.to_bytes()
    rows = sensor_rows(9, 2).tolist()
    rows[5][1] = "warm"
    with pytest.raises(ValueError, match="feature 1 has the value 'warm'"):
        model.judge_many(rows)
    assert model.to_bytes() == before


def test_verdicts_are_counted_from_either_end() -> None:
    verdicts = ConformalFilter(StreamingSVEAD(seed=3), alert_rate=0.05).judge_many(sensor_rows(600, 4))
    assert verdicts.reasons
    for i, verdict in enumerate(verdicts):
        assert verdicts[i] == verdicts[i - 600] == verdict
    for outside in (600, -601):
        with pytest.raises(IndexError):
            verdicts[outside]


def test_the_alert_rate_can_be_changed_on_the_way() -> None:
    rng = np.random.default_rng(12)
    model = ConformalFilter(BatchEcho(), alert_rate=0.001)
    model.judge_many(rng.random((6_000, 1)))
    model.alert_rate = 0.05
    alerts = model.judge_many(rng.random((20_000, 1))).alerts
    assert alerts[1_000:].mean() == pytest.approx(0.05, rel=0.2)
    assert len(model._standing.ranks.saved()["recent"]) == model.capacity == 2_499
    assert model.window is None  # what is the default goes with the rate


def test_a_shorter_window_keeps_the_newest_scores_and_all_counts() -> None:
    model = ConformalFilter(BatchEcho(), alert_rate=0.1, window=100)
    model.judge_many(np.arange(1.0, 151.0)[:, None])
    model.window = 40
    assert model._standing.ranks.saved()["recent"].tolist() == list(range(111, 151))
    assert model.p_value(111.0) == 1.0
    assert (model.window, model.alert_rate, model.n_seen_) == (40, 0.1, 150)


@pytest.mark.parametrize("detector", [BatchEcho, lambda: StreamingSVEAD(seed=3)])
def test_the_thresholds_in_a_mini_batch_and_after_it_are_those_of_the_loop(detector: Callable[[], Any]) -> None:
    by_batch, by_loop = (ConformalFilter(detector(), alert_rate=0.05, burn_in=50) for _ in range(2))
    for part in np.split(np.random.default_rng(14).random((300, 1)), 3):
        for value, threshold in zip(part[:, 0].tolist(), by_batch.judge_many(part).thresholds.tolist(), strict=True):
            assert threshold == by_loop.threshold
            by_loop.judge_one({0: value})
        assert by_batch.threshold == by_loop.threshold < math.inf


@pytest.mark.parametrize("call", ["learn_one", "judge_one"])
def test_an_event_that_the_detector_refuses_changes_nothing(call: str) -> None:
    model = ConformalFilter(StreamingSVEAD(max_features=1, seed=3))
    for i in range(50):
        model.learn_one({"a": float(i % 7)})
    before = model.to_bytes()
    with pytest.raises(ValueError, match="max_features=1"):
        getattr(model, call)({"a": 3.0, "b": 1.0})
    assert model.to_bytes() == before
