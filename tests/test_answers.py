"""What a model makes of the answers of people."""

import copy
import pickle

import numpy as np
import pytest
from answering import ODD, OTHER, USUAL, data, judge, kept, near, trained, trust_of

from svead_stream import ConformalFilter, SnapshotError, StreamingSVEAD
from svead_stream import snapshot as snapshots
from svead_stream.kernels import layout
from svead_stream.kernels.answers import FAINT, KEPT

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


@pytest.mark.parametrize("scaling", ["mixed", "std"])
def test_an_event_without_anything_known_scores_0_after_answers_even_among_strange_ones(scaling):
    model = trained(scaling=scaling)
    model.feedback_one(ODD, True)
    for i in range(10):
        model.learn_one(OTHER | {"a": -6.0 - i})
    assert model.score_one(USUAL) > trained(scaling=scaling).score_one(USUAL)
    assert model.score_one({}) == model.score_one({"other": 1.0, "a": None}) == 0.0
    assert model.score_many([[np.nan] * 3], list("abc")) == [0.0]


@pytest.mark.parametrize("scaling", ["mixed", "std"])
def test_no_score_is_below_0_after_false_alarms_among_what_is_usual(scaling):
    model, X = trained(scaling=scaling), data(60, 3)
    for row in X.tolist():
        model.feedback_one(dict(zip("abc", row, strict=True)), False)
    scores = model.score_many(X, ["a", "b", "c"])
    assert scores.min() >= 0
    assert scores.tolist() == [model.score_one(dict(zip("abc", row, strict=True))) for row in X.tolist()]
    assert (model._ensemble.levels >= 0).all()


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


def test_answers_before_there_are_partitions_leave_scores_at_0():
    model = StreamingSVEAD(seed=0)
    for row in data(7).tolist():
        event = dict(zip("abc", row, strict=True))
        model.learn_one(event)
        model.feedback_one(event, True)
        assert model.score_one(event) == 0.0


def test_an_answer_about_nothing_that_is_known_between_score_and_learn_changes_nothing():
    ours, theirs = trained(), trained()
    ours.score_one(OTHER)
    assert ours.feedback_one({"other": 3.0}, True) is None
    for model in (ours, theirs):
        model.learn_one(OTHER)
    assert ours.to_bytes() == theirs.to_bytes()


def test_an_answer_between_score_and_learn_changes_what_is_learned_only_by_the_answer():
    ours, theirs = trained(), trained()
    ours.score_one(OTHER)
    for model in (ours, theirs):
        model.feedback_one(ODD, True)
        model.learn_one(OTHER)
    assert ours.to_bytes() == theirs.to_bytes()


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


@pytest.mark.parametrize("is_anomaly", [False, True])
def test_the_newest_64_answers_of_a_kind_are_kept(is_anomaly):
    model = trained()
    for i in range(1, 71):
        model.feedback_one(ODD | {"a": 10.0 * i}, is_anomaly)
    assert sorted(kept(model, 1 - is_anomaly)[:, 0].tolist()) == [10.0 * i for i in range(7, 71)]
    model.feedback_one(ODD | {"a": 650.0}, not is_anomaly)  # its place is free
    model.feedback_one(ODD | {"a": 1.0}, is_anomaly)
    model.feedback_one(ODD | {"a": 2.0}, is_anomaly)
    left = [*(10.0 * i for i in range(8, 71) if i != 65), 1.0, 2.0]
    assert sorted(kept(model, 1 - is_anomaly)[:, 0].tolist()) == sorted(left)


def test_a_false_alarm_counts_for_three_however_often_it_comes():
    model = trained()
    for i in range(6):
        model.feedback_one(ODD | {"c": 0.5 + 0.01 * i}, False)
    assert model._ensemble.answers.state.strength[1, :7].tolist() == [3.0] * 6 + [0.0]


def test_a_false_alarm_like_several_counts_one_more_than_the_one_that_came_most_often():
    model = trained()
    for a, c in ((30.0, 0.0), (30.0, 0.01), (0.0, 30.0)):
        model.feedback_one({"a": a, "b": 0.0, "c": c}, False)
    assert model._ensemble.answers.state.strength[1, :4].tolist() == [2.0, 2.0, 1.0, 0.0]
    model.feedback_one({"a": 30.0, "b": 0.0, "c": 30.0}, False)
    assert model._ensemble.answers.state.strength[1, :5].tolist() == [3.0] * 4 + [0.0]


@pytest.mark.parametrize("n", [1, 600])
def test_false_alarms_that_nothing_compares_with_others_do_not_strengthen_them(n):
    model = trained(n=n)
    if n > 1:
        model.feedback_one(ODD, False)
        model.learn_one(USUAL | {"new": 1.0})  # no partition uses it yet
        model.feedback_one({"new": 3.0}, False)
    else:  # there are no partitions yet
        model.feedback_one(ODD, False)
        model.feedback_one(OTHER, False)
    assert model._ensemble.answers.state.strength[1, :3].tolist() == [1.0, 1.0, 0.0]


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


def test_a_false_alarm_that_has_faded_away_is_not_taken_for_another():
    model = trained(answer_memory=64)
    model.feedback_one(OTHER, False)
    model.learn_many(data(320, 3), ["a", "b", "c"])
    model.feedback_one(ODD, False)
    model.feedback_one(ODD | {"c": 0.51}, False)
    assert model._ensemble.answers.state.strength[1, :4].tolist() == [2.0**-5, 2.0, 2.0, 0.0]


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


@pytest.mark.parametrize("scaling", ["mixed", "std"])
def test_events_of_features_that_nothing_is_known_of_yet_are_the_same_on_every_path_after_answers(scaling):
    one, many = (trained(scaling=scaling) for _ in range(2))
    for model in (one, many):
        model.feedback_one(ODD, True)
        model.feedback_one(OTHER, False)
    rows = np.column_stack([data(40, 5), np.full(40, np.nan)])
    rows[3::4] = [np.nan, np.nan, np.nan, 1.0]
    expected = []
    for row in rows.tolist():
        event = dict(zip("abcd", row, strict=True))
        expected.append(one.score_one(event))
        one.learn_one(event)
    assert many.score_learn_many(rows, list("abcd")).tolist() == expected
    assert one.to_bytes() == many.to_bytes()
    assert one.score_one({"d": 1.0}) == 0.0


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
