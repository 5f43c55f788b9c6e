"""What a report remembers: everything is counted, and only so much is kept, however long the run is."""

from __future__ import annotations

import numpy as np
import pytest
from pages import MARCH, recorded

from svead_stream.record import Incident
from svead_stream.report import Recorder, render
from svead_stream.report.record import N_ALERTS, N_BLAMED, N_INCIDENTS
from svead_stream.report.timeline import N_BINS, Timeline


def test_a_million_rows_are_thinned_for_drawing_but_not_for_counting() -> None:
    timeline = Timeline()
    rng = np.random.default_rng(2)
    scores = rng.random(1_000_000)
    alerts = rng.random(1_000_000) < 0.01
    for part in np.array_split(np.arange(1_000_000), 37):
        timeline.add(scores[part], alerts[part], np.full(len(part), 0.9))
    drawn = timeline.to_json()
    assert N_BINS / 2 <= len(drawn["high"]) <= N_BINS
    assert sum(drawn["alerts"]) == alerts.sum()
    width = drawn["width"]
    by_hand = [scores[i : i + width].max() for i in range(0, len(scores), width)]
    assert drawn["high"] == pytest.approx(by_hand, rel=1e-4)
    assert drawn["low"] == pytest.approx([scores[i : i + width].min() for i in range(0, len(scores), width)], rel=1e-4)


def test_only_the_strongest_alerts_are_kept_and_all_are_counted() -> None:
    recorder = recorded(n=6_000, every=2)
    data = recorder.to_json()
    assert data["alerts"] == 3_000
    assert len(data["table"]) == N_ALERTS
    assert sum(one["first"] for one in data["shares"]) == 3_000
    weakest = min(alert["score"] for alert in data["table"])
    assert sum(data["timeline"]["alerts"]) == 3_000
    assert len(render(data | {"title": "", "seconds": 1.0, "written": "", "measured": None, "settings": {}})) < 2e6
    assert weakest > 3.0


def test_every_score_but_the_zeros_of_a_cold_start_is_in_the_distribution() -> None:
    recorder = Recorder()
    scores = np.concatenate([np.zeros(50), np.random.default_rng(3).lognormal(0, 2, 5_000)])
    recorder.add_rows(scores, np.zeros(len(scores), dtype=bool), np.full(len(scores), np.inf))
    assert sum(recorder.to_json()["distribution"]["rows"]) == 5_000


def test_every_bin_knows_the_first_and_the_last_of_its_times_whatever_the_batches() -> None:
    rng = np.random.default_rng(4)
    n = 50_000
    times = MARCH + np.cumsum(rng.integers(0, 60, n))
    times[:100] = np.nan  # the clock was not known yet
    times[rng.random(n) < 0.1] = np.nan
    timeline = Timeline()
    for part in np.array_split(np.arange(n), 23):
        timeline.add(rng.random(len(part)), np.zeros(len(part), dtype=bool), np.full(len(part), 0.9), times[part])
    drawn = timeline.to_json()
    width = drawn["width"]
    assert drawn["clock"] == "dates"
    assert len(drawn["start"]) == len(drawn["end"]) == len(drawn["high"]) <= N_BINS
    for i, (start, end) in enumerate(zip(drawn["start"], drawn["end"], strict=True)):
        known = times[i * width : (i + 1) * width]
        known = known[~np.isnan(known)]
        assert (start, end) == ((known[0], known[-1]) if len(known) else (None, None))


@pytest.mark.parametrize(
    ("times", "clock"),
    [(None, None), (np.full(9, np.nan), None), (np.arange(9.0), "seconds"), (MARCH + np.arange(9.0), "dates")],
)
def test_times_are_dates_where_they_look_like_it(times: np.ndarray | None, clock: str | None) -> None:
    timeline = Timeline()
    timeline.add(np.ones(9), np.zeros(9, dtype=bool), np.ones(9), times)
    drawn = timeline.to_json()
    assert drawn["clock"] == clock
    assert (drawn["start"] is None) == (clock is None)


@pytest.mark.parametrize(("wrong", "goes_back"), [(100, False), (1_500, True)])
def test_a_few_times_from_the_future_do_not_spoil_the_axis(wrong: int, goes_back: bool) -> None:
    times = MARCH + 60.0 * np.arange(3_000)
    times[200 : 200 + wrong] = MARCH + 1e9
    timeline = Timeline()
    for part in np.array_split(np.arange(3_000), 7):
        timeline.add(np.ones(len(part)), np.zeros(len(part), dtype=bool), np.ones(len(part)), times[part])
    drawn = timeline.to_json()
    assert drawn["goes_back"] == goes_back
    if not goes_back:
        assert drawn["start"] == sorted(drawn["start"])
        assert (drawn["start"][199], drawn["end"][250]) == (times[199], times[300])
        assert max(pause for pause in drawn["pause"] if pause is not None) == 60


def test_rows_with_and_without_a_clock_can_follow_each_other() -> None:
    timeline = Timeline()
    for times in (None, np.array([MARCH]), None, np.array([MARCH + 1])):
        timeline.add(np.ones(1), np.zeros(1, dtype=bool), np.ones(1), times)
    assert timeline.to_json()["start"] == [None, MARCH, None, MARCH + 1]


def test_labels_of_rows_that_were_only_learned_do_not_count() -> None:
    recorder = Recorder()
    truth = np.array([1.0, 1.0, 0.0, 1.0, np.nan, 1.0])
    alerts = np.array([False, False, False, True, False, False])
    recorder.add_rows(np.ones(6), alerts, np.ones(6), truth, burn_in=2)
    data = recorder.to_json()
    assert data["burn_in"] == 2
    assert data["truth"] == {"anomalies": 2, "found": 1}


def incident(k: int, p_value: float, peak: float, state: str = "closed") -> Incident:
    reasons = {f"feature {i}": 1 / 2 ** (i + 1) for i in range(40)}
    return Incident(k, state, 10 * k, 10 * k + 4, None, None, 3, peak, p_value, reasons)


def test_only_the_strongest_incidents_are_kept_and_all_are_counted() -> None:
    recorder = Recorder()
    order = np.random.default_rng(5).permutation(4_000)
    for k, rank in enumerate(order.tolist(), start=1):
        p_value = 0.001 if rank >= 1_000 else 0.01  # of equal p-values, the higher peak is the stronger one
        state = "open" if k == 4_000 else "closed"
        recorder.add_incident(incident(k, p_value, float(rank), state), 10 * k, f"x.csv, line {k}", rank >= 3_500)
    told = recorder.to_json()["incidents"]
    assert (told["total"], told["open"], told["true"]) == (4_000, 1, 500)
    kept = told["kept"]
    assert len(kept) == N_INCIDENTS
    assert {one["peak"] for one in kept} == set(range(3_000, 4_000))
    assert [one["row"] for one in kept] == sorted(one["row"] for one in kept)
    assert all(len(one["features"]) == N_BLAMED for one in kept)
    assert all(one["last"] - one["row"] == 4 for one in kept)
