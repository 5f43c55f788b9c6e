"""What the judge makes of answers: ranks of earlier scores, the rate of alerts, pipelines."""

import numpy as np
import pytest
from answering import ODD, OTHER, USUAL, data, judge, near
from river import anomaly, compose, preprocessing

from svead_stream import ConformalFilter, StreamingSVEAD
from svead_stream.rescored import Rescored


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("scaling", ["mixed", "std"])
def test_the_rate_of_alerts_holds_where_every_alert_is_answered(scaling, answer):
    rates = []
    for seed in range(3):
        model = ConformalFilter(StreamingSVEAD(seed=seed, scaling=scaling))
        model.judge_many(data(4_000, seed), ["a", "b", "c"])
        alerts = 0
        for row in data(4_000, 50 + seed).tolist():
            event = dict(zip("abc", row, strict=True))
            if model.judge_one(event).alert:
                alerts += 1
                model.feedback_one(event, answer)
        rates.append(alerts / 4_000)
    assert 0.004 < np.mean(rates) < 0.02


def test_no_number_of_taught_false_alarms_takes_over_the_memory():
    model, rng = judge(n=4_000), np.random.default_rng(3)
    for _ in range(100):
        model.feedback_one({"a": 6 + 0.3 * rng.normal(), "b": rng.normal(), "c": rng.normal()}, False, teach=True)
    sample = model.detector._ensemble.memories[1].state.sample.rows
    assert 0.05 < (sample[:, 0] > 4).mean() < 0.2
    model.judge_many(data(8_000, 4), ["a", "b", "c"])
    assert model.judge_one(OTHER, learn=False).alert


def test_a_taught_false_alarm_is_lowered_no_less_than_one_that_is_only_answered():
    rng = np.random.default_rng(5)
    answered, taught = judge(), judge()
    for _ in range(3):
        event = near(ODD, rng, 0.1)
        answered.feedback_one(event, False)
        taught.feedback_one(event, False, teach=True)
    for model in (answered, taught):
        model.judge_many(data(3_000, 6), ["a", "b", "c"])
    assert taught.score_one(ODD) <= answered.score_one(ODD) + 0.02


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_rate_of_alerts_holds_after_answers(share):
    rates = []
    for seed in range(3):
        model, rng = judge(seed, n=5_000), np.random.default_rng(seed)
        for _ in range(60):
            event = dict(zip("abc", (3 * rng.normal(size=3)).tolist(), strict=True))
            model.feedback_one(event, bool(rng.random() < share))
        rates.append(model.judge_many(data(3_000, 100 + seed), ["a", "b", "c"]).alerts.mean())
    assert 0.004 < np.mean(rates) < 0.02


def test_the_ranks_of_earlier_scores_move_with_the_scores():
    model, rng = judge(), np.random.default_rng(9)
    recent = model._standing.ranks.saved()["recent"].copy()
    for _ in range(20):
        model.feedback_one(near(ODD, rng), True)
    window = model._standing.ranks.window
    moved = model._standing.ranks.saved()["recent"]
    assert not np.array_equal(moved, recent)
    np.testing.assert_array_equal(np.sort(moved), window.ordered[: len(moved)])
    order = np.argsort(recent, kind="stable")
    assert (np.diff(moved[order]) >= 0).all()
    assert 0 <= moved.min() <= moved.max() <= 1


def test_older_strangeness_moves_as_that_of_usual_events_did():
    rescored = Rescored(np.array([1.0, 2.0, 3.0]), np.array([0.4, 1.2, 4.0]), False)
    given = np.array([0.2, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
    expected = [0.0, 0.15, 0.4, 0.8, 1.2, 2.6, 4.0, 5.0]
    np.testing.assert_allclose(rescored.moved(given), expected, atol=1e-12)
    odd = np.array([np.inf, np.nan])
    np.testing.assert_allclose(rescored.moved_scores(np.append(given, odd)), np.append(expected, odd), atol=1e-12)


def test_older_scores_between_0_and_1_move_as_the_strangeness_in_them():
    rescored = Rescored(np.array([1.0, 2.0, 3.0]), np.array([0.4, 1.2, 4.0]), True)
    given, expected = np.array([0.2, 1.5, 2.5, 4.0, 30.0]), np.array([0.0, 0.8, 2.6, 5.0, 31.0])
    np.testing.assert_allclose(rescored.moved_scores(-np.expm1(-given)), -np.expm1(-expected), atol=1e-12)
    assert rescored.moved_scores(np.array([1.0])) == 1.0


@pytest.mark.parametrize("scaling", ["mixed", "std"])
@pytest.mark.parametrize("n", [2_000, 4_000])  # with room left in the window, and after it has come round
def test_after_an_answer_the_judge_ranks_as_one_restored_from_its_bytes(scaling, n):
    model = ConformalFilter(StreamingSVEAD(seed=0, scaling=scaling))
    model.judge_many(data(n), ["a", "b", "c"])
    before, usual = model.threshold, model.p_value(model.detector.score_one(USUAL))
    for i in range(5):
        model.feedback_one(ODD | {"c": 0.1 * i}, True)
    restored = ConformalFilter.from_bytes(model.to_bytes())
    assert model.threshold == restored.threshold != before
    assert model.p_value(model.detector.score_one(USUAL)) == pytest.approx(usual, abs=0.1)
    X = data(1_500, 6)
    np.testing.assert_array_equal(
        model.judge_many(X, ["a", "b", "c"]).p_values, restored.judge_many(X, ["a", "b", "c"]).p_values
    )


def test_the_judge_in_a_loop_and_in_batches_takes_answers_alike():
    X, verdicts = data(2_000, 12), []
    models = judge(), judge()
    for model, step in zip(models, (1, 100), strict=True):
        alerts = []
        for start in range(0, 2_000, 100):
            rows = X[start : start + 100]
            if step == 1:
                alerts += [model.judge_one(dict(zip("abc", row, strict=True))).p_value for row in rows.tolist()]
            else:
                alerts += model.judge_many(rows, ["a", "b", "c"]).p_values.tolist()
            model.feedback_one(dict(zip("abc", rows[7].tolist(), strict=True)), start % 200 == 0)
        verdicts.append(alerts)
    assert verdicts[0] == verdicts[1]
    assert models[0].to_bytes() == models[1].to_bytes()


def test_answers_go_through_the_transformers_of_a_pipeline():
    keep = compose.Select("a", "b", "c")
    behind = ConformalFilter(keep | preprocessing.StandardScaler() | StreamingSVEAD(seed=1))
    for row in data(1_000).tolist():
        behind.judge_one(dict(zip("abc", row, strict=True)) | {"id": 7.0})
    before = behind.score_one(ODD | {"id": 1.0})
    behind.feedback_one(ODD | {"id": 9.0}, True)
    assert behind.score_one(ODD | {"id": 1.0}) > before
    assert behind.detector["StreamingSVEAD"].n_answers_ == 1


def test_answers_go_through_pipelines_in_pipelines_in_their_order():
    def twice(x):
        return {name: 2 * value for name, value in x.items()}

    inner, scaler = StreamingSVEAD(seed=1), preprocessing.StandardScaler()
    within = compose.Pipeline(compose.Select("a", "b", "c"), inner)
    model = ConformalFilter(compose.Pipeline(scaler, compose.FuncTransformer(twice), within))
    for row in data(600).tolist():
        model.judge_one(dict(zip("abc", row, strict=True)))
    other = StreamingSVEAD.from_bytes(inner.to_bytes())
    model.feedback_one(ODD, False, teach=True)
    other.feedback_one(twice(scaler.transform_one(ODD)), False, teach=True)
    assert inner.to_bytes() == other.to_bytes()
    assert inner.n_answers_ == 1


@pytest.mark.parametrize("scaler", [None, preprocessing.StandardScaler()])
def test_a_detector_that_takes_no_answers_is_named(scaler):
    detector = anomaly.HalfSpaceTrees() if scaler is None else scaler | anomaly.HalfSpaceTrees()
    with pytest.raises(TypeError, match="HalfSpaceTrees takes no answers: StreamingSVEAD does"):
        ConformalFilter(detector).feedback_one(ODD, True)


def test_false_alarms_alone_leave_what_is_far_from_all_of_them_as_strange_as_it_was():
    model, rng = judge(n=4_000), np.random.default_rng(7)
    far = {"a": 40.0, "b": 80.0, "c": -60.0}
    before = model.score_one(far)
    for _ in range(20):
        model.feedback_one(near(ODD, rng), False)
    assert model.score_one(far) == pytest.approx(before, abs=0.02)
    assert model.judge_one(ODD, learn=False).p_value > 0.05
