"""What a model makes of the answers of people."""

import copy
import pickle

import numpy as np
import pytest
from river import anomaly, compose, preprocessing

from svead_stream import ConformalFilter, SnapshotError, StreamingSVEAD
from svead_stream import snapshot as snapshots
from svead_stream.kernels import layout
from svead_stream.kernels.answers import FAINT, KEPT

USUAL = {"a": 0.3, "b": 1.5, "c": 0.2}
ODD = {"a": 4.0, "b": -6.0, "c": 0.5}
OTHER = {"a": -6.0, "b": 6.0, "c": 9.0}


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += 2 * X[:, 0]
    return X


def trained(seed=0, n=2_000, **parameters):
    model = StreamingSVEAD(seed=seed, **parameters)
    model.learn_many(data(n, seed), ["a", "b", "c"])
    return model


def judge(seed=0, n=3_000, **parameters):
    model = ConformalFilter(StreamingSVEAD(seed=seed), **parameters)
    model.judge_many(data(n, seed), ["a", "b", "c"])
    return model


def near(event, rng, spread=0.3):
    return {name: value + spread * rng.normal() for name, value in event.items()}


def trust_of(model):
    return np.concatenate([memory.trust for memory in model._ensemble.memories])


# What an answer changes


@pytest.mark.parametrize("scaling", ["mixed", "std"])
def test_events_like_a_confirmed_anomaly_score_higher_and_others_about_the_same(scaling):
    model = trained(scaling=scaling)
    before = [model.score_one(x) for x in (ODD, OTHER, USUAL)]
    model.feedback_one(ODD, True)
    after = [model.score_one(x) for x in (ODD, OTHER, USUAL)]
    assert after[0] > before[0]
    assert after[1:] == pytest.approx(before[1:], rel=0.25)
    assert after[0] - before[0] > 2 * abs(after[2] - before[2])


@pytest.mark.parametrize("scaling", ["mixed", "std"])
def test_events_like_a_false_alarm_score_lower_the_more_often_it_is_one_and_others_do_not(scaling):
    model, rng = trained(scaling=scaling), np.random.default_rng(1)
    scores, others = [model.score_one(ODD)], [model.score_one(OTHER)]
    for _ in range(3):
        model.feedback_one(near(ODD, rng, 0.1), False)
        scores.append(model.score_one(ODD))
        others.append(model.score_one(OTHER))
    assert np.diff(scores).max() < 0
    assert scores[-1] > 0
    assert min(others) > 0.7 * others[0]


def test_a_missed_anomaly_that_was_reported_is_an_alert_the_next_time():
    model, rng = judge(), np.random.default_rng(2)
    missed = {"a": 1.0, "b": 0.2, "c": 2.1}
    assert not model.judge_one(missed, learn=False).alert
    for _ in range(5):
        model.feedback_one(near(missed, rng, 0.05), True)
    assert model.judge_one(missed, learn=False).p_value < 0.05


@pytest.mark.parametrize("teach", [False, True])
def test_a_false_alarm_that_comes_again_and_again_stops_coming(teach):
    model, rng = judge(n=4_000), np.random.default_rng(3)
    X = data(8_000, 4)
    told = []
    for i, row in enumerate(X.tolist()):
        event = dict(zip("abc", row, strict=True))
        if i % 200 == 199:
            event = near(ODD, rng)
            verdict = model.judge_one(event)
            told.append(verdict.alert)
            if verdict.alert:
                model.feedback_one(event, False, teach)
        else:
            model.judge_one(event)
    assert told[0]
    assert sum(told[20:]) <= 6
    assert model.judge_one(OTHER, learn=False).alert


def test_partitions_that_told_an_anomaly_are_trusted_more():
    model, rng = trained(), np.random.default_rng(4)
    for _ in range(10):
        model.feedback_one({"a": rng.normal(), "b": 12.0, "c": 0.1 * rng.normal()}, True)
    trust = trust_of(model)
    sees_b = np.concatenate([memory.state.weight[:, 1] > 0 for memory in model._ensemble.memories])
    assert trust[sees_b].mean() > 1.3 * trust[~sees_b].mean()


def test_only_false_alarms_leave_the_trust_as_it_is():
    model, rng = trained(), np.random.default_rng(5)
    for _ in range(20):
        model.feedback_one(near(ODD, rng), False)
    assert trust_of(model) == pytest.approx(1.0)


def test_without_answers_all_partitions_are_trusted_the_same():
    assert (trust_of(trained()) == 1.0).all()


def test_a_partition_keeps_its_features_and_scaling_for_life():
    model = StreamingSVEAD(seed=1)
    seen = []
    for start in range(0, 4_000, 500):
        model.learn_many(data(500, start))
        state = model._ensemble.memories[0].state
        seen.append((state.weight > 0).tolist() + state.partitions.shape[:, layout.WARPED].tolist())
    assert all(kinds == seen[0] for kinds in seen)
    assert len({tuple(row) for row in state.weight > 0}) > 1


# Unknown, contradictory, wrong and late answers


def test_unknown_answers_change_nothing():
    model = judge()
    before = model.to_bytes()
    model.feedback_one(ODD, None)
    assert model.to_bytes() == before


@pytest.mark.parametrize("answer", ["yes", 2, 0.5, float("nan"), [True]])
def test_what_is_no_answer_is_refused_and_changes_nothing(answer):
    model = judge()
    before = model.to_bytes()
    with pytest.raises(ValueError, match=r"is_anomaly=.*True, False or None"):
        model.feedback_one(ODD, answer)
    assert model.to_bytes() == before


@pytest.mark.parametrize("answer", [1, np.True_, np.int64(1)])
def test_numbers_and_truths_of_other_kinds_are_answers(answer):
    ours, theirs = trained(), trained()
    ours.feedback_one(ODD, answer)
    theirs.feedback_one(ODD, True)
    assert ours.to_bytes() == theirs.to_bytes()


def test_of_contradictory_answers_on_one_event_the_last_counts():
    once, twice = trained(), trained()
    once.feedback_one(ODD, False)
    twice.feedback_one(ODD, True)
    twice.feedback_one(ODD, False)
    assert once.score_one(ODD) == pytest.approx(twice.score_one(ODD), rel=1e-6)
    assert twice.n_answers_ == 2


def test_an_answer_before_anything_is_learned_changes_nothing():
    model = ConformalFilter(StreamingSVEAD(seed=0))
    model.feedback_one(ODD, True)
    assert model.detector.n_answers_ == 0
    assert model.judge_one(ODD).score == 0.0


def test_an_answer_about_nothing_that_is_known_changes_nothing():
    model = trained()
    before = model.to_bytes()
    assert model.feedback_one({"other": 3.0, "a": None}, True) is None
    assert model.to_bytes() == before


def test_the_first_answers_of_a_young_model_do_no_harm():
    model = StreamingSVEAD(seed=0)
    for row in data(12).tolist():
        event = dict(zip("abc", row, strict=True))
        assert 0 <= model.score_one(event) <= 1
        model.learn_one(event)
        model.feedback_one(event, True)
    assert model.n_answers_ == 12


# Bounded influence


@pytest.mark.parametrize("is_anomaly", [False, True])
def test_no_number_of_answers_silences_the_detector_or_makes_one_partition_everything(is_anomaly):
    model, rng = judge(n=4_000), np.random.default_rng(6)
    for _ in range(300):
        model.feedback_one(near(ODD, rng, 1.0), is_anomaly)
    trust = trust_of(model.detector)
    assert trust.min() > 0
    assert trust.max() / trust.min() <= np.exp(6) + 1e-9
    assert trust.max() < 12
    assert model.judge_one(OTHER, learn=False).alert
    assert not model.judge_one(USUAL, learn=False).alert


def test_the_size_of_a_model_is_bounded_however_many_answers_it_gets():
    model, rng = trained(), np.random.default_rng(7)
    sizes = []
    for i in range(3 * KEPT):
        model.feedback_one(near(ODD, rng, 1.0), i % 2 == 0)
        sizes.append(len(model.to_bytes()))
    assert max(sizes) - min(sizes) < 200  # numbers in the header
    assert model.n_answers_ == 3 * KEPT
    assert (model._ensemble.answers.state.strength > 0).all()


def test_the_same_answer_again_and_again_leaves_the_others_in_place():
    model, rng = trained(), np.random.default_rng(7)
    for _ in range(10):
        model.feedback_one(near(OTHER, rng, 1.0), True)
    for _ in range(2 * KEPT):
        model.feedback_one(ODD, True)
    assert (model._ensemble.answers.state.strength[0] > 0).sum() == 11
    assert model.n_answers_ == 10 + 2 * KEPT


def test_answers_fade_if_asked_to():
    lasting, fading = trained(), trained(answer_memory=500)
    X = data(5_000, 9)
    for model in (lasting, fading):
        for _ in range(3):
            model.feedback_one(ODD, True)
            model.feedback_one(OTHER, False)
    rising = fading.score_one(ODD)
    fading.learn_many(X[:500], ["a", "b", "c"])
    lasting.learn_many(X, ["a", "b", "c"])
    half = fading.score_one(ODD)
    fading.learn_many(X[500:], ["a", "b", "c"])
    assert fading.score_one(ODD) < half < rising
    assert (fading._ensemble.answers.state.strength < FAINT).all()
    assert trust_of(fading) == pytest.approx(1.0, abs=0.02)
    assert lasting.score_one(ODD) > fading.score_one(ODD)
    assert lasting._ensemble.answers.state.strength.max() == 3.0  # the same false alarm, three times


@pytest.mark.parametrize("answer_memory", [0, -1, "long"])
def test_a_memory_for_answers_must_be_a_number_of_events(answer_memory):
    with pytest.raises(ValueError, match="answer_memory"):
        StreamingSVEAD(answer_memory=answer_memory)


# The same on every path


def answered(model, X, step):
    """Scores of a stream in which some events are answered, in pieces of so many rows between two answers."""
    scores, rng = [], np.random.default_rng(8)
    for start in range(0, len(X), 250):
        part = X[start : start + 250]
        scores += [model.score_learn_many(part[first : first + step]) for first in range(0, len(part), step)]
        told = dict(enumerate(part[rng.integers(250)].tolist()))
        model.feedback_one(told, bool(rng.random() < 0.5), rng.random() < 0.3)
    return np.concatenate(scores)


def test_loop_mini_batch_and_saved_model_give_the_same_bits_after_answers():
    X = data(3_000)
    X[np.random.default_rng(1).random(X.shape) < 0.02] = np.nan
    whole, pieces, loop = (StreamingSVEAD(seed=1, answer_memory=2_000) for _ in range(3))
    expected = answered(whole, X, 250)
    np.testing.assert_array_equal(answered(pieces, X, 37), expected)
    scores, rng = [], np.random.default_rng(8)
    for i, row in enumerate(X.tolist()):
        event = dict(enumerate(row))
        scores.append(loop.score_one(event))
        loop.learn_one(event)
        if i % 250 == 249:
            part = X[i - 249 : i + 1]
            told = dict(enumerate(part[rng.integers(250)].tolist()))
            loop.feedback_one(told, bool(rng.random() < 0.5), rng.random() < 0.3)
            loop = StreamingSVEAD.from_bytes(loop.to_bytes())
    np.testing.assert_array_equal(scores, expected)
    assert whole.to_bytes() == pieces.to_bytes() == loop.to_bytes()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_keep_the_answers(copied):
    model = judge()
    model.feedback_one(ODD, True)
    other = copied(model)
    X = data(500, 3)
    np.testing.assert_array_equal(
        other.judge_many(X, ["a", "b", "c"]).scores, model.judge_many(X, ["a", "b", "c"]).scores
    )
    assert other.to_bytes() == model.to_bytes()


def test_a_new_feature_leaves_the_answers_in_place():
    model = trained()
    model.feedback_one(ODD, True)
    before = model.score_one(ODD)
    model.learn_one(USUAL | {"new": 1.0})
    assert model.score_one(ODD) == pytest.approx(before, rel=0.02)
    rows = np.column_stack([data(1_500, 5), np.random.default_rng(0).normal(size=1_500)])
    model.learn_many(rows, ["a", "b", "c", "new"])
    assert model.score_one(ODD | {"new": 0.0}) > trained().score_one(ODD)


def test_explaining_an_event_between_score_and_learn_changes_nothing_after_answers():
    ours, theirs = trained(), trained()
    for model in (ours, theirs):
        model.feedback_one(ODD, True)
    ours.score_one(OTHER)
    ours.explain_one(OTHER)
    for model in (ours, theirs):
        model.learn_one(OTHER)
    assert ours.to_bytes() == theirs.to_bytes()


# The judge


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


@pytest.mark.parametrize("scaler", [None, preprocessing.StandardScaler()])
def test_a_detector_that_takes_no_answers_is_named(scaler):
    detector = anomaly.HalfSpaceTrees() if scaler is None else scaler | anomaly.HalfSpaceTrees()
    with pytest.raises(TypeError, match="HalfSpaceTrees takes no answers: StreamingSVEAD does"):
        ConformalFilter(detector).feedback_one(ODD, True)


# Snapshots from outside


def with_answers():
    model = trained()
    model.feedback_one(ODD, True)
    model.feedback_one(OTHER, False)
    return model


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows", lambda a: a.__setitem__((0, 0, 0), np.inf)),
        ("strength", lambda a: a.__setitem__((0, 0), -1.0)),
        ("strength", lambda a: a.__setitem__((0, 0), 9.0)),
        ("strength", lambda a: a.__setitem__((0, 0), np.nan)),
        ("strength", lambda a: a.__setitem__((0, 5), 1.0)),
        ("number", lambda a: a.__setitem__((0, 0), 0)),
        ("number", lambda a: a.__setitem__((1, 3), -1)),
        ("number", lambda a: a.__setitem__((1, 0), 2**62)),
        ("rows", lambda a: a.resize((2, 3), refcheck=False)),
    ],
)
def test_impossible_answers_in_a_snapshot_are_refused(name, change):
    kind, fields, arrays = snapshots.unpack(with_answers().to_bytes(), "StreamingSVEAD")
    array = arrays[f"answers.{name}"].copy()
    change(array)
    with pytest.raises(SnapshotError, match=r"does not fit together|malformed|array"):
        StreamingSVEAD.from_bytes(snapshots.pack(kind, fields, arrays | {f"answers.{name}": array}))


@pytest.mark.parametrize("trust", [0.0, -1.0, 1e9, np.nan])
def test_impossible_trust_in_a_snapshot_is_refused(trust):
    kind, fields, arrays = snapshots.unpack(with_answers().to_bytes(), "StreamingSVEAD")
    metric = arrays["long.partitions.metric"].copy()
    metric[0, layout.TRUST] = trust
    with pytest.raises(SnapshotError, match="impossible values"):
        StreamingSVEAD.from_bytes(snapshots.pack(kind, fields, arrays | {"long.partitions.metric": metric}))
