"""What incidents of real streams are worth, worked out by hand on small examples, and the script on tiny data."""

from __future__ import annotations

from pathlib import Path

import _incidents
import _rcf
import incidents
import numpy as np
import pytest
from _real import Machine, NabSeries, Series

from svead_stream import ConformalFilter, StreamingSVEAD


def _flags(n: int, rows: list[int]) -> _incidents.Flags:
    flags = np.zeros(n, dtype=bool)
    flags[rows] = True
    return flags


def _nab(n: int, windows: list[tuple[int, int]], start: int = 0) -> NabSeries:
    window = np.full(n, -1)
    for number, (a, b) in enumerate(windows):
        window[a:b] = number
    y = (window >= 0).astype(np.int64)
    return NabSeries("nab", "made", 300.0 * np.arange(n), np.zeros((n, 1)), y, start, window, np.zeros(n), len(windows))


def _run(n: int, faults: list[tuple[int, int]], start: int = 0) -> Series:
    y = np.zeros(n, dtype=np.int64)
    for a, b in faults:
        y[a:b] = 1
    return Series("skab", "made", 2.0 * np.arange(n), np.zeros((n, 1)), y, start)


# Incidents of ours and of others


def test_alerts_belong_to_an_incident_until_there_was_none_for_the_hold_off() -> None:
    assert _incidents.grouped(_flags(100, [3, 5, 35, 66])) == [(3, 35), (66, 66)]
    assert _incidents.grouped(_flags(100, [3, 5, 35, 66]), hold_off=31) == [(3, 66)]
    assert _incidents.grouped(_flags(100, [])) == []


def test_ours_are_grouped_by_the_same_hold_off() -> None:
    scores = np.random.default_rng(0).normal(size=5_000)
    told = _incidents.told(_run(5_000, []), scores)
    assert len(told.incidents) > 10
    assert any(b > a for a, b in told.incidents)
    assert _incidents.grouped(told.members) == told.incidents
    assert not (told.members & ~told.alerts).any()


@pytest.mark.parametrize("seed", range(3, 6))
def test_known_scores_make_the_incidents_that_the_detector_itself_makes(seed: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3_000, 2))
    X[2_000:2_040] += 6.0
    one = Series("made", "made", 60.0 * np.arange(3_000), X, np.zeros(3_000, dtype=np.int64), 0)
    model = ConformalFilter(StreamingSVEAD(seed=seed), incident_rate="6/day")
    verdicts = model.judge_many(X, t=one.time)
    opened = [i for i, changes in verdicts.changes.items() if any(change.state == "open" for change in changes)]
    told = _incidents.told(one, StreamingSVEAD(seed=seed).score_learn_many(X), incident_rate="6/day")
    assert [a for a, _ in told.incidents] == opened
    assert any(a <= 2_000 and b >= 2_039 for a, b in told.incidents)  # one for the fault, which an alert may precede
    assert told.alerts.tolist() == verdicts.alerts.tolist()


def test_the_rate_called_the_default_is_the_default() -> None:
    scores = np.random.default_rng(0).normal(size=3_000)
    by_default, asked = (_incidents.told(_run(3_000, []), scores, **given) for given in ({}, {"incident_rate": 0.005}))
    assert by_default.incidents == asked.incidents
    assert incidents.DEFAULT_RATE == 0.005


def test_chance_has_the_asked_number_of_incidents_after_probation() -> None:
    series = [_nab(1_000, [], start=200), _nab(500, [], start=100)]
    first, second = _incidents.at_random(series, 0.01, seed=0)
    assert (len(first), len(second)) == (8, 4)
    assert all(a == b and 200 <= a < 1_000 for a, b in first)
    assert _incidents.at_random(series, 0.01, seed=0) == [first, second]


# NAB

SERIES = _nab(100, [(20, 30), (50, 60), (80, 90)], start=10)


@pytest.mark.parametrize(
    ("its", "opened", "overlapped"),
    [
        ([], (0, 0, 0), (0, 0, 0)),
        ([(22, 24), (26, 29)], (1, 0, 2), (1, 0, 2)),
        ([(15, 21)], (0, 1, 1), (1, 0, 1)),  # opens too early for the stricter count
        ([(25, 55)], (1, 0, 1), (2, 0, 1)),
        ([(40, 45), (82, 99)], (1, 1, 2), (1, 1, 2)),
        ([(2, 5), (7, 12)], (0, 0, 0), (0, 1, 1)),  # the second goes on after probation
    ],
)
def test_windows_are_found_where_an_incident_opens_or_by_any_overlap(
    its: list[tuple[int, int]], opened: tuple[int, ...], overlapped: tuple[int, ...]
) -> None:
    assert tuple(_incidents.opened([SERIES], [its]).values()) == opened
    assert tuple(_incidents.overlapped([SERIES], [its]).values()) == overlapped


def test_counts_are_summed_over_series_and_the_halves_are_every_second_one() -> None:
    its = [[(25, 25)], [(25, 25), (55, 55)], [(0, 0), (99, 99)]]
    figures = incidents.with_halves(_incidents.opened)([SERIES] * 3, its)
    assert [figures[name] for name in ("found", "false", "incidents")] == [3, 1, 4]
    assert [figures[name] for name in ("found_A", "false_A", "found_B", "false_B")] == [1, 1, 2, 0]


# Rates


def test_what_was_asked_counts_from_the_end_of_probation() -> None:
    one = _nab(1_000, [], start=200)  # an event each 300 s
    assert _incidents.asked_for(one, 0.005) == pytest.approx(4.0)
    assert _incidents.asked_for(one, "2/day") == pytest.approx(2 * 799 * 300 / 86_400)


def test_a_rate_is_kept_within_a_fifth_or_one_incident() -> None:
    series = [_nab(1_000, [])] * 4  # ten incidents asked of each
    its = [[(row, row) for row in range(n)] for n in (8, 12, 13, 5)]
    figures = _incidents.kept(series, its, 0.01)
    assert (figures["held"], figures["held_or_one"]) == (50.0, 50.0)
    assert (figures["median"], figures["min"], figures["max"]) == pytest.approx((1.0, 0.5, 1.3))
    few = _incidents.kept(series[:2], its[:2], 0.009)  # nine asked: eight are within a fifth, twelve are not
    assert few["held"] == 50.0
    one_more = _incidents.kept(series[:2], [its[0][:3], its[0][:4]], 0.002)  # two asked
    assert (one_more["held"], one_more["held_or_one"]) == (0.0, 50.0)


def test_alerts_are_a_share_of_the_events_after_probation() -> None:
    series = [_nab(300, [], start=100)] * 2
    figures = _incidents.alert_rates(series, [_flags(300, [5, 100, 299]), _flags(300, [0])], 0.01, "_in")
    assert figures == {"median_in": 0.5, "min_in": 0.0, "max_in": 1.0, "held_in": 50.0}


# Faults


def test_a_fault_is_found_by_overlap_and_soon_if_an_incident_starts_close_to_it() -> None:
    run = _run(200, [(50, 80), (120, 150)], start=40)  # a row each 2 s
    figures = _incidents.judge_skab([run], [[(10, 20), (30, 55), (90, 95), (135, 140)]])
    assert (figures["found"], figures["soon"]) == (2, 50.0)  # the second starts 20 s late, the first 40 s early
    assert figures["false"] == 1  # the one before row 40 does not count
    assert figures["far"] == pytest.approx(100 * (10 + 6) / 100)
    assert figures["mar"] == pytest.approx(100 * (24 + 24) / 60)
    assert figures["f1"] == pytest.approx(2 * 12 / (2 * 12 + 16 + 48))


def test_where_no_fault_is_found_none_is_found_soon() -> None:
    figures = _incidents.judge_skab([_run(100, [(50, 60)])], [[]])
    assert figures["found"] == 0
    assert np.isnan(figures["soon"])


def test_faults_reach_to_the_ends_of_a_run() -> None:
    assert _incidents.faults_of(np.array([1, 1, 0, 1])) == [(0, 2), (3, 4)]
    assert _incidents.faults_of(np.zeros(3, dtype=np.int64)) == []


def test_machines_are_averaged_and_the_first_day_is_counted_apart() -> None:
    y = np.zeros(100, dtype=np.int64)
    y[40:44] = y[70:74] = 1
    one = Machine("demo", "made", 60.0 * np.arange(100), np.zeros((100, 1)), y, 20, ((40, 44), (70, 74)))
    figures = _incidents.judge_demo([one, one], [[(5, 6), (38, 41), (60, 61)], [(40, 72)]])
    assert figures == {"found": 1.5, "false": 0.5, "early": 0.5, "incidents": 2.0}


# The script


@pytest.fixture
def _no_forest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rcf.shutil, "which", lambda program: None)


@pytest.mark.usefixtures("one_machine", "_no_forest")
def test_every_suite_has_its_tables_and_a_missing_forest_is_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--data", str(data), "--results", str(tmp_path / "results"), "--seeds", "2"]
    incidents.main(command)
    first = capsys.readouterr()
    for title in ("NAB, 1 series with 1 windows", "Incidents that were", "Alerts in %", "SKAB, 1 runs", "Demo, means"):
        assert title in first.out
    assert "| svead-stream, opens in the window | 2 |" in first.out
    assert "| river QuantileFilter | 2 |" in first.out
    assert "Left out: AWS RandomCutForest grades (java is not installed)." in first.out
    assert "svead-stream on nab/peak, seed 1" in first.err
    incidents.main(command)
    second = capsys.readouterr()
    assert second.out == first.out
    assert "svead-stream on" not in second.err
    incidents.main([*command, "--again"])
    assert "svead-stream on nab/peak, seed 1" in capsys.readouterr().err


@pytest.mark.usefixtures("one_machine", "_no_forest")
def test_grades_above_zero_are_the_alerts_of_the_forest(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def peak(setting: object) -> object:
        return lambda X: np.where(np.arange(len(X)) == 402, 0.7, 0.0)

    monkeypatch.setattr(incidents, "FORESTS", (incidents.Detector("forest", "raw", peak),))
    (data / "skab" / "fault.npz").unlink()
    incidents.main(["--data", str(data), "--results", str(tmp_path / "results"), "--seeds", "1"])
    printed = capsys.readouterr()
    assert "| forest, opens in the window | 1 | 1.0 | 0.0 | 1.0 | 1.0 | 0.0 | 0.0 | 0.0 |" in printed.out
    assert f"no .npz files in {data / 'skab'}: left out" in printed.err
