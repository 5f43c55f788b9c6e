"""What scores are worth, on examples small enough to work out by hand."""

from __future__ import annotations

import _judge
import numpy as np
import pytest
from _real import Machine, NabSeries, Series


def _nab(window: list[int], weight: list[float], start: int = 0) -> NabSeries:
    windows = np.array(window)
    n_windows = len({*window} - {-1})
    time, X, y = np.arange(float(len(window))), np.zeros((len(window), 1)), (windows >= 0).astype(np.int64)
    return NabSeries("nab", "made", time, X, y, start, windows, np.array(weight), n_windows)


# Two windows, the first detection in each worth most, and false alarms worth -1 or less where a window has just ended.
WINDOWS = [-1, 4, 4, -1, 5, 5, -1]
WEIGHTS = [-1.0, 1.0, 0.6, -0.5, 1.0, 0.2, -0.3]


@pytest.mark.parametrize(
    ("alarms", "expected"),
    [
        ([], -2.0),
        ([1], 0.0),
        ([2], 0.6 - 1.0),
        ([1, 2], 0.0),
        ([1, 4], 2.0),
        ([1, 4, 0, 3], 2.0 - 0.11 * 1.5),
        ([5, 6], 0.2 - 1.0 - 0.11 * 0.3),
    ],
)
def test_a_window_counts_its_best_alarm_or_minus_one_and_false_alarms_a_little(
    alarms: list[int], expected: float
) -> None:
    assert _judge.nab_sum(_nab(WINDOWS, WEIGHTS), np.array(alarms, dtype=np.intp)) == pytest.approx(expected)


def test_perfect_alarms_are_100_and_none_at_all_is_0() -> None:
    one = _nab(WINDOWS, WEIGHTS)
    perfect = _judge.nab_sum(one, np.array([1, 4]))
    nothing = _judge.nab_sum(one, np.array([], dtype=np.intp))
    assert _judge.nab_normalised(perfect, 2) == 100.0
    assert _judge.nab_normalised(nothing, 2) == 0.0


def test_the_threshold_is_the_best_one_for_all_series_together() -> None:
    first = _nab([-1, 0, -1], [-1.0, 1.0, -1.0])
    second = _nab([0, -1, -1], [1.0, -1.0, -1.0])
    scores = [np.array([0.1, 0.9, 0.2]), np.array([0.3, 0.8, 0.7])]
    # At 0.3: both windows, two false alarms. At 0.9, the best for the first series alone: one window.
    assert _judge.nab_raw([first, second], scores) == pytest.approx(100.0 * (2.0 - 0.22 + 2.0) / 4.0)
    assert _judge.nab_raw([first], scores[:1]) == 100.0


def test_no_alarm_is_better_than_alarms_that_cost_more_than_they_bring() -> None:
    one = _nab([*[-1] * 30, 0], [*[-1.0] * 30, 1.0])
    assert _judge.nab_raw([one], [np.arange(31.0)[::-1]]) == 0.0


def test_the_sweep_over_thresholds_equals_trying_each() -> None:
    rng = np.random.default_rng(0)
    series, scores = [], []
    for n in (40, 60):
        window = np.full(n, -1)
        window[15:20], window[28:30] = 0, 1
        weight = np.where(window >= 0, rng.random(n), -rng.random(n))
        series.append(_nab(window.tolist(), weight.tolist(), start=10))
        scores.append(rng.integers(0, 8, n) / 8.0)  # many ties
    sums = [
        sum(_judge.nab_sum(one, 10 + np.flatnonzero(s[10:] >= t)) for one, s in zip(series, scores, strict=True))
        for t in np.arange(9) / 8.0
    ]
    assert _judge.nab_raw(series, scores) == pytest.approx(_judge.nab_normalised(max(sums), 4))


def test_rows_of_probation_do_not_count() -> None:
    one = _nab([-1, -1, 0, -1], [-1.0, -1.0, 1.0, -1.0], start=2)
    assert _judge.nab_raw([one], [np.array([9.0, 8.0, 7.0, 0.0])]) == 100.0


def test_an_alarm_silences_what_follows_it_but_one_on_probation_does_not() -> None:
    p = np.array([0.01, 0.5, 0.01, 0.01, 0.02, 0.01, 0.3, 0.01])
    assert _judge.held_off(p, 0.01, start=1, silence=2).tolist() == [2, 5]
    assert _judge.held_off(p, 0.02, start=3, silence=1).tolist() == [3, 5, 7]
    assert _judge.held_off(p, 0.001, start=0).tolist() == []


def test_a_rank_counts_all_scores_as_high_among_those_before() -> None:
    scores = np.array([0.0, 0.0, -2.0, 1.0, 3.0, 1.0])
    assert _judge.p_values(scores, 100) == pytest.approx([1, 2 / 2, 3 / 3, 1 / 4, 1 / 5, 3 / 6])
    rng = np.random.default_rng(0)
    scores = rng.integers(-20, 20, 400) / 3.0
    naive = [(1 + (scores[max(0, i - 100) : i] >= s).sum()) / (1 + min(i, 100)) for i, s in enumerate(scores)]
    assert _judge.p_values(scores, 100) == pytest.approx(naive)


def test_alerts_of_the_demo_leave_out_the_zeros_of_a_detector_that_warms_up() -> None:
    scores = np.array([0.0, 0.0, 2.0, 1.0, 3.0, 2.0])
    assert _judge.alert_p_values(scores, 100) == pytest.approx([1, 1, 1, 2 / 2, 1 / 3, 3 / 4])
    assert _judge.alert_p_values(np.zeros(3), 100) == pytest.approx([1, 1, 1])


def test_a_lone_peak_in_a_window_scores_100_after_ranking() -> None:
    rng = np.random.default_rng(0)
    window = [*[-1] * 300, 0, 0, *[-1] * 100]
    weight = [*[-1.0] * 300, 1.0, 0.5, *[-1.0] * 100]
    scores = rng.random(402)
    scores[300] = 5.0
    assert _judge.nab_held_off([_nab(window, weight, start=50)], [scores]) == 100.0


def test_the_mean_of_the_last_scores_starts_with_fewer() -> None:
    assert _judge.smoothed(np.array([4.0, 2.0, 0.0, 6.0]), 2) == pytest.approx([4.0, 3.0, 1.0, 3.0])


def test_skab_pools_its_runs_and_takes_each_threshold_from_quiet_rows() -> None:
    y = np.zeros(410, dtype=np.int64)
    y[400:404] = 1
    scores = np.linspace(0.0, 1.0, 410)
    scores[:150] = 99.0  # not quiet: before the rows that the threshold is taken from
    scores[400:] = [9, 9, 9, 0, 9, 0, 0, 0, 0, 0]
    runs = [Series("skab", name, np.arange(410.0), np.zeros((410, 8)), y, 400) for name in "ab"]
    silent = np.zeros(410)
    figures = _judge.judge_skab(runs, [scores, silent])
    assert figures["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 5))
    assert figures["far"] == pytest.approx(100 * 1 / 12)
    assert figures["mar"] == pytest.approx(100 * 5 / 8)
    always = _judge.always_alarm(runs)
    assert (always["f1"], always["far"], always["mar"]) == (pytest.approx(2 * 8 / (2 * 8 + 12)), 100.0, 0.0)


def test_a_series_with_one_label_is_left_out_of_auc_and_ap() -> None:
    quiet = _nab([-1, -1, -1], [-1.0, -1.0, -1.0])
    figures = _judge.judge_nab([_nab([-1, 0, -1], [-1.0, 1.0, -1.0]), quiet], [np.array([0.1, 0.9, 0.2])] * 2)
    assert figures["auc"] == 1.0
    assert figures["ap"] == 1.0


def test_an_alert_in_a_fault_finds_it_and_others_are_false() -> None:
    y = np.zeros(10, dtype=np.int64)
    y[4:6] = y[8:9] = 1
    one = Machine("demo", "made", np.arange(10.0), np.zeros((10, 1)), y, 2, ((4, 6), (8, 9)))
    alerts = np.zeros(10, dtype=bool)
    alerts[[0, 3, 4, 5, 7]] = True  # the first is too early to count
    assert _judge.found_and_false(one, alerts) == (1, 2)
