"""The rules of incidents one by one, at the event where they decide, and what is kept of an incident on every path."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from detectors import BatchEcho, Echo

from svead_stream import ConformalFilter, Incident, SnapshotError, StreamingSVEAD, Verdict, from_bytes, snapshot
from svead_stream.clock import Clock
from svead_stream.kernels import ranks

START = 1_700_000_000.0


def falling(n: int, top: float = 1_000.0) -> list[float]:
    """Scores of which each is the lowest so far: none is an alert, and all are different."""
    return [top - i for i in range(n)]


def judged(model: ConformalFilter, scores: list[float], times: list[float] | None = None) -> list[Verdict]:
    return [
        model.judge_one({0: score}, None if times is None else time)
        for score, time in zip(scores, times or scores, strict=True)
    ]


@pytest.mark.without_jit
@pytest.mark.parametrize(("calm", "opens"), [(127, False), (128, True), (129, True)])
def test_once_an_incident_is_due_the_strangest_event_of_the_window_opens_it(calm: int, opens: bool) -> None:
    model = ConformalFilter(Echo(), alert_rate=1 / 31, window=30, incident_rate=1 / 128, hold_off=5, burn_in=0)
    judged(model, falling(calm))  # each of them adds 1 / 128 to the credit
    verdict = model.judge_one({0: 1_000.0 - calm + 30.001})  # just above the highest of the window
    assert (verdict.p_value, verdict.alert) == (1 / 31, True)
    assert (verdict.incident is not None) == opens


@pytest.mark.without_jit
def test_a_rate_in_time_is_a_rate_of_events_by_the_time_of_all_so_far() -> None:
    model = ConformalFilter(Echo(), incident_rate="1/1000s", burn_in=0)
    judged(model, [math.nan] * 5 + falling(5), [100.0 * i for i in range(10)])
    # 900 s in 10 events: 0.09 an event, times 2**0.9 since 0.9 of one are due. That is 0.168, just more than 1 / 6.
    assert model.threshold == 1_000.0
    assert model.judge_one({0: 1_001.0}, 1_000.0).incident == 1


@pytest.mark.without_jit
@pytest.mark.parametrize(
    ("score", "opens"),
    [(1.0, False), (1.0 + 1e-9, False), (1.0 + 0.8 * math.log(2) / 4, False), (1.0 + 1.2 * math.log(2) / 4, True)],
)
def test_a_score_far_above_all_others_is_rarer_than_its_rank(score: float, opens: bool) -> None:
    # 99 scores; the 5 highest are 0 to 1 in steps of 1 / 4, on average 1 / 2 above the lowest of them
    highest = [1.0, 0.75, 0.5, 0.25, 0.0]
    model = ConformalFilter(Echo(), alert_rate=0.02, window=99, incident_rate=0.01 / 2**0.5, hold_off=5, burn_in=99)
    judged(model, highest + [-1.0 - i for i in range(94)])
    # an event of p-value 1 % has to be 2**0.5 times as rare to open an incident
    verdict = model.judge_one({0: score}, learn=True)
    assert verdict.p_value == (0.02 if score == 1.0 else 0.01)
    assert verdict.alert
    assert (verdict.incident is not None) == opens


@pytest.mark.without_jit
@pytest.mark.parametrize(("score", "opens"), [(1.0, False), (1.0 + 1e-9, True)])
def test_where_the_highest_scores_are_equal_any_higher_one_is_as_rare_as_can_be(score: float, opens: bool) -> None:
    model = ConformalFilter(Echo(), alert_rate=0.1, window=99, incident_rate=1e-5, hold_off=5, burn_in=99)
    judged(model, [1.0] * 5 + [-1.0 - i for i in range(94)])
    verdict = model.judge_one({0: score})
    assert verdict.alert
    assert (verdict.incident is not None) == opens


@pytest.mark.without_jit
@pytest.mark.parametrize(("quiet", "is_over"), [(2, False), (3, False), (4, True)])
def test_an_alert_after_so_many_events_belongs_to_the_incident_one_later_does_not(quiet: int, is_over: bool) -> None:
    model = ConformalFilter(Echo(), alert_rate=0.05, hold_off=3, burn_in=100)
    judged(model, [*falling(100), 5_000.0])
    assert model.n_incidents_ == 1
    between = judged(model, falling(quiet - 1, 500.0))
    assert not any(verdict.changes for verdict in between)
    verdict = model.judge_one({0: 6_000.0})
    assert verdict.incident == (2 if is_over else 1)
    assert [change.state for change in verdict.changes] == (["closed", "open"] if is_over else ["update"])


@pytest.mark.parametrize(("pause", "is_over"), [(899.0, False), (900.0, False), (900.001, True)])
def test_an_alert_within_the_hold_off_in_time_belongs_to_the_incident(pause: float, is_over: bool) -> None:
    model = ConformalFilter(Echo(), alert_rate=0.05, hold_off="15m", burn_in=100)
    judged(model, [*falling(100), 5_000.0, 5_500.0], [float(i) for i in range(102)])
    verdict = model.judge_one({0: 6_000.0}, 101.0 + pause)
    assert verdict.incident == (2 if is_over else 1)


def test_the_end_of_an_incident_is_told_at_the_first_event_after_the_hold_off_even_without_a_score() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.05, hold_off=3, burn_in=100)
    judged(model, [*falling(100), 5_000.0, 400.0, 300.0, math.nan])
    assert model.open_incident is not None
    verdict = model.judge_one({0: math.nan})
    assert [(one.state, one.first, one.last) for one in verdict.changes] == [("closed", 101, 101)]
    assert not verdict.alert
    assert verdict.incident is None is model.open_incident


def test_scores_of_an_incident_are_ranked_among_for_two_alerts_and_again_after_a_thousand() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.3, hold_off=10, burn_in=100)
    judged(model, falling(600))
    entered = int(model._standing.ranks.window.counters[ranks.ENTERED])
    for alert in range(1, 1_004):
        assert model.judge_one({0: 2_000.0 + alert}).incident == 1
        assert model._standing.ranks.window.counters[ranks.ENTERED] == entered + min(alert, 2) + max(0, alert - 1_000)


def test_scores_of_events_that_were_withheld_are_always_ranked_among() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.3, hold_off=10, burn_in=100, window=200, protect=True)
    judged(model, falling(600))
    learned = len(model.detector.learned)
    for alert in range(1, 21):
        assert model.judge_one({0: 2_000.0 + alert}).incident == 1
        assert model._standing.ranks.n_withheld == alert
    assert model._standing.ranks.saved()["recent"].tolist()[-20:] == [2_001.0 + i for i in range(20)]
    assert len(model.detector.learned) == learned


def test_exactly_twice_the_rate_of_a_full_window_is_withheld() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.1, hold_off=10, burn_in=100, window=99, protect=True)
    judged(model, falling(200))
    learned = len(model.detector.learned)
    judged(model, [2_000.0 + i for i in range(25)])
    assert model._standing.ranks.n_withheld == 20
    assert len(model.detector.learned) == learned + 5


def test_events_that_were_withheld_and_fall_out_of_a_shorter_window_no_longer_count() -> None:
    model = ConformalFilter(Echo(), alert_rate=0.3, hold_off=10, burn_in=100, window=200, protect=True)
    judged(model, [*falling(300), 2_001.0, 2_002.0, *falling(50, 500.0), 3_000.0, 3_001.0])
    assert model._standing.ranks.n_withheld == 4
    model.window = 20
    assert model._standing.ranks.n_withheld == int(model._standing.ranks.window.withheld.sum()) == 2


def test_an_event_as_high_as_the_threshold_is_no_alert_whether_it_is_learned_or_not() -> None:
    for detector in (Echo(), BatchEcho()):
        model = ConformalFilter(detector, alert_rate=0.05, burn_in=100)
        judged(model, falling(200))
        rows = np.array([[model.threshold], [math.nextafter(model.threshold, math.inf)]])
        assert model.judge_many(rows, learn=False).alerts.tolist() == [False, True]
        assert [model.judge_one({0: s}, learn=False).alert for s in rows[:, 0].tolist()] == [False, True]
        assert model.judge_many(rows).alerts.tolist() == [False, True]


def test_thresholds_are_those_before_each_event_however_the_detector_takes_mini_batches() -> None:
    rows = np.random.default_rng(2).gamma(2, 1, (300, 1))
    thresholds = [ConformalFilter(one, burn_in=100).judge_many(rows).thresholds for one in (Echo(), BatchEcho())]
    np.testing.assert_array_equal(*thresholds)
    assert np.isinf(thresholds[0][:100]).all()
    assert np.isfinite(thresholds[0][100:]).all()


@pytest.mark.parametrize(
    ("settings", "closed_at"),
    [({"hold_off": 5}, 6), ({"alert_rate": 0.2}, 21), ({"window": 50}, 21), ({"burn_in": 9_000}, 21)],
    ids=str,
)
def test_an_incident_that_is_open_goes_on_when_settings_change(settings: dict[str, Any], closed_at: int) -> None:
    model = ConformalFilter(Echo(), alert_rate=0.05, hold_off=20, burn_in=100)
    judged(model, [*falling(200), 5_000.0, 5_001.0, 5_002.0])
    before = model.open_incident
    model.change(**settings)
    assert model.open_incident == before
    verdicts = judged(model, falling(30, 500.0))
    changed = [(i, change) for i, verdict in enumerate(verdicts, start=1) for change in verdict.changes]
    assert before is not None
    assert changed == [(closed_at, before._replace(state="closed"))]
    assert model.judge_one({0: 9_000.0}).incident == (None if "burn_in" in settings else 2)


def test_updates_are_told_when_the_alerts_have_doubled() -> None:
    model = ConformalFilter(BatchEcho(), alert_rate=0.05, burn_in=100)
    scores = [*falling(100), *(5_000.0 + i for i in range(70))]
    told = [c for changes in model.judge_many(np.array(scores)[:, None]).changes.values() for c in changes]
    assert [(one.state, one.alerts, one.last) for one in told] == [
        ("open", 1, 101),
        *(("update", 2**k, 100 + 2**k) for k in range(1, 7)),
    ]
    assert model.open_incident is not None
    assert (model.open_incident.state, model.open_incident.alerts, model.open_incident.number) == ("open", 70, 1)


# what an incident is due to


class Blaming(Echo):
    """Blames the feature that the event names."""

    def explain_one(self, x: Any) -> Any:
        return {x[1]: 0.75, "both": 0.25}


CALM = [(score, "calm") for score in falling(100, 0.5)]
ALERTS = [(0.625, "low"), (10.0, "high")]


def by_judge_one(model: ConformalFilter, events: Any) -> None:
    for score, name in events:
        model.judge_one({0: score, 1: name})


def by_learn_one(model: ConformalFilter, events: Any) -> None:
    for score, name in events:
        model.learn_one({0: score, 1: name})


def by_judge_many(model: ConformalFilter, events: Any) -> None:
    model.judge_many(np.array(events, dtype=object))


def in_parts(model: ConformalFilter, events: Any) -> None:
    for event in events:
        by_judge_many(model, [event])
        vars(model).update(vars(pickle.loads(pickle.dumps(model))))


@pytest.mark.parametrize("path", [by_judge_one, by_learn_one, by_judge_many, in_parts])
def test_features_are_to_blame_by_their_shares_times_the_scores(path: Callable[[Any, Any], None]) -> None:
    model = ConformalFilter(Blaming(), alert_rate=0.05, burn_in=100)
    path(model, CALM + ALERTS[:1])
    assert model.open_incident is not None
    assert list((model.open_incident.reasons or {}).items()) == [("low", 0.75), ("both", 0.25)]
    path(model, ALERTS[1:])
    assert model.open_incident.alerts == 2
    reasons = model.open_incident.reasons or {}
    assert list(reasons) == ["high", "both", "low"]
    assert reasons == pytest.approx({"high": 7.5 / 10.625, "both": 0.25, "low": 0.75 * 0.625 / 10.625})


def test_what_is_not_learned_is_explained_and_changes_neither_incidents_nor_the_clock() -> None:
    for detector in (Blaming(), StreamingSVEAD(seed=1)):
        model = ConformalFilter(detector, burn_in=100)
        X = np.random.default_rng(1).normal(size=(300, 2))
        model.judge_many(X, t=np.arange(300.0))
        before = pickle.dumps(model)
        verdicts = model.judge_many(np.array([[90.0, 90.0]]), t=[500.0], learn=False)
        verdict = model.judge_one({0: 90.0, 1: 90.0}, 500.0, learn=False)
        assert pickle.dumps(model) == before
        assert verdict.alert
        assert verdict == verdicts[0]
        assert verdict.reasons
        assert (verdict.incident, verdict.changes) == (None, ())
        assert model.clock_ == Clock(299.0)


@pytest.mark.parametrize("detector", [Echo, BatchEcho])
def test_events_without_a_time_happen_at_the_latest_one_and_are_not_missing_any(detector: type[Echo]) -> None:
    model = ConformalFilter(detector(), alert_rate=0.05, burn_in=100)
    model.judge_many(np.array(falling(100))[:, None], t=START + np.arange(100.0))
    (opened,) = model.judge_many(np.array([[5_000.0]])).changes[0]
    assert (opened.start, opened.end, opened.first) == (START + 99, START + 99, 101)
    assert model.clock_ == Clock(START + 99)


@pytest.mark.parametrize("detector", [BatchEcho(), StreamingSVEAD(seed=1)], ids=type)
def test_mini_batches_without_times_or_with_too_many_are_refused_and_change_nothing(detector: Any) -> None:
    rows = np.ones((5, 2))
    for given_in_time in ({"incident_rate": "5/day"}, {"hold_off": "15m"}, {"burn_in": "1d"}):
        model = ConformalFilter(detector, **given_in_time)
        before = pickle.dumps(model)
        for learn in (False, True):
            with pytest.raises(ValueError, match="is given in time: say when each event happened"):
                model.judge_many(rows, learn=learn)
        assert pickle.dumps(model) == before
    with pytest.raises(ValueError, match="t has 7 times for 5 events: give one for each"):
        ConformalFilter(detector).judge_many(rows, t=np.arange(7.0))


# what is written


def test_the_record_of_an_incident_has_all_that_is_known_of_it() -> None:
    reasons: dict[Any, float] = {"a": 2 / 3, "b": 0.3, "c": 1 / 30}
    incident = Incident(7, "update", 101, 105, START, START + 90.5, 3, 9.5, 0.001, reasons)
    assert incident.record(2) == {
        "incident": 7,
        "state": "update",
        "start": "2023-11-14T22:13:20Z",
        "end": "2023-11-14T22:14:50.500Z",
        "first": 101,
        "last": 105,
        "events": 5,
        "alerts": 3,
        "peak": 9.5,
        "p_value": 0.001,
        "top_features": [{"feature": "a", "share": 0.6667}, {"feature": "b", "share": 0.3}],
    }
    bare = incident._replace(start=None, end=None, reasons=None).record(2)
    assert (bare["start"], bare["end"], bare["top_features"]) == (None, None, [])


def test_the_record_of_an_event_has_the_incident_that_it_belongs_to() -> None:
    assert Verdict(1.0, 0.5, False).record(3) == {"score": 1.0, "p_value": 0.5, "alert": False}
    written = Verdict(9.0, 0.01, True, {"a": 0.75, "b": 0.25}, 4).record(1)
    shares = [{"feature": "a", "share": 0.75}]
    assert written == {"score": 9.0, "p_value": 0.01, "alert": True, "incident": 4, "top_features": shares}
    assert Verdict(9.0, 0.01, True, {}).record(1)["top_features"] == []


def test_the_alerts_alone_keep_what_was_said_of_each() -> None:
    events = [*CALM, (5.0, "a"), (6.0, "b"), *CALM[50:59], (7.0, "c"), *CALM[50:59], (0.6, "d")]
    model = ConformalFilter(Blaming(), alert_rate=0.05, burn_in=100, hold_off=3)
    verdicts = model.judge_many(np.array(events, dtype=object))
    expected = [verdict for verdict in verdicts if verdict.alert]
    states = [[change.state for change in verdict.changes] for verdict in expected]
    assert states == [["open"], ["update"], ["open"], []]  # the end is told at an event that is none
    assert [verdict.incident for verdict in expected] == [1, 1, 2, None]
    alone = verdicts.only_alerts()
    assert list(alone) == expected == [alone[i] for i in range(len(alone))]
    assert alone.thresholds.tolist() == verdicts.thresholds[verdicts.alerts].tolist()


# snapshots


def test_a_filter_that_was_saved_in_a_row_of_earlier_times_sets_its_clock_back_at_the_same_event() -> None:
    X = np.random.default_rng(1).normal(size=(500, 2))
    times = START + 60.0 * np.arange(500)
    times[[50, 60]] = math.nan
    times[200] += 1e8
    whole, model = (ConformalFilter(StreamingSVEAD(seed=1), hold_off="15m", burn_in=100) for _ in range(2))
    expected = list(whole.judge_many(X, t=times))
    verdicts: list[Verdict] = []
    for part in np.split(np.arange(500), [30, 55, 201, 260, 300, 301, 390]):
        verdicts += model.judge_many(X[part], t=times[part])
        model = from_bytes(model.to_bytes())
    assert verdicts == expected
    assert model.clock_ == whole.clock_ == Clock(float(times[-1]), n_missing=2, n_backward=100)
    assert model.to_bytes() == whole.to_bytes()


def with_open_incident() -> tuple[dict[str, Any], dict[str, Any]]:
    model = ConformalFilter(StreamingSVEAD(seed=1), burn_in=100)
    X = np.random.default_rng(1).normal(size=(302, 2))
    X[300:] += 30
    model.judge_many(X, t=np.arange(302.0))
    _, fields, arrays = snapshot.unpack(model.to_bytes())
    assert fields["incidents"]["current"]["last"] == 302
    return fields, arrays


def no_incident_but_one_open(fields: Any, arrays: Any) -> None:
    fields["incidents"]["count"] = fields["incidents"]["current"]["number"] = 0
    arrays["counters"][ranks.INCIDENTS] = 0


def more_incidents_than_alerts(fields: Any, arrays: Any) -> None:
    many = int(arrays["counters"][ranks.ALERTS]) + 1
    fields["incidents"]["count"] = fields["incidents"]["current"]["number"] = many
    arrays["counters"][ranks.INCIDENTS] = many


def an_alert_after_the_latest_time(fields: Any, arrays: Any) -> None:
    arrays["pace"][ranks.ALERT_TIME] = 302.0


def open_for_the_ranks_alone(fields: Any, arrays: Any) -> None:
    fields["incidents"]["current"] = None


def open_for_the_incidents_alone(fields: Any, arrays: Any) -> None:
    arrays["counters"][ranks.OPEN] = 0


def another_number_of_incidents(fields: Any, arrays: Any) -> None:
    fields["incidents"]["count"] += 1
    fields["incidents"]["current"]["number"] += 1
    arrays["counters"][ranks.ALERTS] += 1


@pytest.mark.parametrize(
    "forge",
    [
        no_incident_but_one_open,
        more_incidents_than_alerts,
        an_alert_after_the_latest_time,
        open_for_the_ranks_alone,
        open_for_the_incidents_alone,
        another_number_of_incidents,
    ],
)
def test_a_snapshot_whose_parts_tell_different_incidents_is_refused(forge: Callable[[Any, Any], None]) -> None:
    fields, arrays = with_open_incident()
    ConformalFilter.from_bytes(snapshot.pack("ConformalFilter", fields, arrays))
    forge(fields, arrays)
    with pytest.raises(SnapshotError, match="does not fit together"):
        ConformalFilter.from_bytes(snapshot.pack("ConformalFilter", fields, arrays))
