"""Whatever events hold: missing, odd, hostile, degenerate."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from svead_stream import StreamingSVEAD


def trained(**parameters):
    model = StreamingSVEAD(seed=1, **parameters)
    rng = np.random.default_rng(0)
    model.learn_many(rng.normal(size=(300, 3)), feature_names=["a", "b", "c"])
    return model


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf"), float("-inf"), 10**400, Decimal("1e400"), pd.NA])
def test_missing_values_are_left_out_and_counted(missing):
    model = trained()
    event = {"a": 0.5, "b": missing, "c": 0.1}
    assert model.score_one(event) == model.score_one({"a": 0.5, "c": 0.1}) > 0
    model.learn_one(event)
    assert model.n_missing_ == 1


HUGE = [1e101, 1e155, 1e300, -1.7e308]


@pytest.mark.parametrize("scaling", ["none", "std", "iqr", "range", "log", "mixed"])
def test_huge_numbers_are_as_strange_as_can_be_and_do_not_ruin_the_model(scaling):
    loop, batch = trained(scaling=scaling), trained(scaling=scaling)
    large = loop.score_one({"a": 0.5, "b": 1e10, "c": 0.1})
    assert loop.score_one({"a": 0.5, "b": 0.2, "c": 0.1}) < large
    for huge in HUGE:
        event = {"a": 0.5, "b": huge, "c": 0.1}
        assert large <= loop.score_one(event) < np.inf
        assert next(iter(loop.explain_one(event))) == "b"
    X = np.random.default_rng(1).normal(size=(400, 3))
    X[np.arange(4) * 90, 1] = HUGE
    scores = []
    for row in X.tolist():
        event = dict(zip("abc", row, strict=True))
        scores.append(loop.score_one(event))
        loop.learn_one(event)
    assert batch.score_learn_many(X, list("abc")).tolist() == scores
    assert batch.to_bytes() == loop.to_bytes()
    assert loop.n_missing_ == 0
    assert np.isfinite(scores).all()
    usual = {"a": 0.5, "b": 0.2, "c": 0.1}
    assert StreamingSVEAD.from_bytes(loop.to_bytes()).score_one(usual) < loop.score_one({**usual, "b": 1e300}) / 2


def test_an_answer_on_a_huge_number_is_taken():
    model = trained()
    event = {"a": 0.5, "b": 1e300, "c": 0.1}
    assert model.feedback_one(event, False, teach=True) is not None
    assert np.isfinite(model.score_one(event))
    assert StreamingSVEAD.from_bytes(model.to_bytes()).score_one(event) == model.score_one(event)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.int8(3), 3.0),
        (Decimal("0.25"), 0.25),
        (Fraction(1, 4), 0.25),
        (2**60 + 1, 2.0**60),
        (np.bool_(True), 1.0),
    ],
)
def test_whatever_is_a_number_counts_as_one(value, number):
    model = trained()
    assert model.score_one({"a": value, "b": 0, "c": 0}) == model.score_one({"a": number, "b": 0.0, "c": 0.0})


@pytest.mark.parametrize("bad", ["1.5", b"1", [1], {"x": 1}, 1j, object(), np.array([1.0]), pd.Timestamp(0)])
@pytest.mark.parametrize("call", ["score_one", "learn_one", "explain_one"])
def test_what_is_no_number_is_an_error_that_names_it_and_changes_nothing(bad, call):
    model = trained()
    before = model.to_bytes()
    for name in ("b", "unknown"):
        with pytest.raises(ValueError, match=rf"feature '{name}' has the value .* (encode|drop)"):
            getattr(model, call)({"a": 1.0, name: bad})
    assert model.to_bytes() == before


def test_a_frame_with_text_is_an_error_that_names_the_column_and_changes_nothing():
    model = trained()
    before = model.to_bytes()
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    for call in (model.score_many, model.learn_many, model.score_learn_many):
        with pytest.raises(ValueError, match="feature 'b' has the value 'x'"):
            call(frame)
    assert model.to_bytes() == before


def test_frames_with_nullable_and_object_columns_are_read():
    model, other = trained(), trained()
    frame = pd.DataFrame(
        {"a": pd.array([1, None], dtype="Int64"), "b": [True, False], "c": [Decimal("0.5"), None]}, index=[7, 9]
    )
    scores = model.score_learn_many(frame)
    np.testing.assert_array_equal(scores, other.score_learn_many([[1, 1, 0.5], [np.nan, 0, np.nan]], ["a", "b", "c"]))


@pytest.mark.parametrize("event", [{}, {"a": None}, {"a": float("nan"), "z": None}])
def test_events_without_any_value_score_0_and_are_not_learned(event):
    model = trained()
    before = model.to_bytes()
    assert model.score_one(event) == 0.0
    model.learn_one(event)
    assert model.to_bytes() == before
    np.testing.assert_array_equal(model.score_learn_many(np.full((3, 2), np.nan), ["a", "z"]), np.zeros(3))
    assert model.to_bytes() == before


def test_nothing_can_be_scored_before_anything_is_learned():
    model = StreamingSVEAD(seed=1)
    assert model.score_one({"a": 1.0}) == 0.0
    np.testing.assert_array_equal(model.score_many([[1.0, 2.0]]), [0.0])


def test_features_of_any_hashable_type_may_come_and_go():
    model = StreamingSVEAD(seed=1)
    rng = np.random.default_rng(0)
    for i in range(300):
        event = {"s": rng.normal(), 7: rng.normal(), ("t", 1): rng.normal(), None: rng.normal(), 2.5: rng.normal()}
        for name in list(event)[: i % 4]:
            del event[name]
        assert np.isfinite(model.score_one(event))
        model.learn_one(event)
    assert set(model.feature_names_) == {"s", 7, ("t", 1), None, 2.5}
    clone = StreamingSVEAD.from_bytes(model.to_bytes())
    assert clone.feature_names_ == model.feature_names_


def test_hostile_events_cannot_grow_a_model_without_bound():
    model = trained(max_features=5)
    model.learn_one({"a": 1.0, "d": 1.0, "e": 1.0})
    before = model.to_bytes()
    with pytest.raises(ValueError, match=r"max_features=5"):
        model.learn_one({"f": 1.0})
    with pytest.raises(ValueError, match=r"max_features=5"):
        model.learn_many([[1.0]], feature_names=["f"])
    with pytest.raises(ValueError, match=r"max_features=5"):  # and no row before it is learned
        model.learn_many([[1.0, None], [1.0, None], [1.0, 2.0]], feature_names=["a", "f"])
    assert model.to_bytes() == before
    assert model.score_one({"a": 0.1, "f": 3.0}) == model.score_one({"a": 0.1})


@pytest.mark.parametrize("scaling", ["none", "std", "iqr", "range", "log", "mixed"])
def test_equal_points_score_0_and_a_different_one_highest(scaling):
    model = StreamingSVEAD(seed=1, scaling=scaling)
    scores = model.score_learn_many(np.full((400, 3), 7.3))
    np.testing.assert_array_equal(scores, np.zeros(400))
    assert model.score_one({0: 7.3, 1: 7.3, 2: 7.4}) > 0
    duplicates = StreamingSVEAD(seed=1, scaling=scaling)
    duplicates.learn_many(np.array([[0.0, 1.0], [1.0, 0.0]])[np.arange(500) % 2])
    usual = max(duplicates.score_one({0: 0.0, 1: 1.0}), duplicates.score_one({0: 1.0, 1: 0.0}))
    assert duplicates.score_one({0: 5.0, 1: 1.0}) > usual


def test_a_constant_feature_changes_no_ranking_until_it_changes():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(500, 2)), np.full(500, 3.0)])
    model = StreamingSVEAD(seed=1)
    scores = model.score_learn_many(X)
    assert np.isfinite(scores).all()
    assert model.score_one({0: 0.0, 1: 0.0, 2: 90.0}) > np.quantile(scores[300:], 0.99)


@pytest.mark.parametrize("scaling", ["none", "std", "iqr", "range", "log", "mixed"])
def test_offsets_of_1e12_do_not_change_the_ranking(scaling):
    rng = np.random.default_rng(0)
    X = rng.integers(-1000, 1000, size=(600, 4)) / 8.0  # exact in float64 beside 1e12
    near = StreamingSVEAD(seed=1, scaling=scaling).score_learn_many(X)
    far = StreamingSVEAD(seed=1, scaling=scaling).score_learn_many(X + 1e12)
    np.testing.assert_allclose(far, near, rtol=1e-5, atol=1e-7)


def test_scales_from_1e_12_to_1e12_do_not_change_the_ranking():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    for scaling in ("std", "iqr", "range"):
        plain = StreamingSVEAD(seed=1, scaling=scaling).score_learn_many(X)
        scaled = StreamingSVEAD(seed=1, scaling=scaling).score_learn_many(X * [1e-12, 1.0, 1e6, 1e12])
        assert spearmanr(plain, scaled).statistic > 0.999999


@settings(max_examples=60)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "c", 4]),
            st.one_of(st.none(), st.floats(), st.integers(), st.booleans()),
            max_size=4,
        ),
        max_size=80,
    )
)
def test_no_event_whatsoever_makes_a_score_that_is_not_finite(events):
    model = StreamingSVEAD(n_partitions=8, n_anchors=1, normal_after=16, memory=20, seed=1)
    for event in events:
        assert np.isfinite(model.score_one(event))
        model.learn_one(event)
    assert np.isfinite(model.score_one({"a": 1.0}))
    assert StreamingSVEAD.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_partitions", 1),
        ("n_partitions", 2.5),
        ("n_anchors", 0),
        ("n_anchors", True),
        ("normal_after", 0),
        ("normal_after", 2.5),
        ("memory", 0),
        ("memory", 255),
        ("memory", float("nan")),
        ("memory", "long"),
        ("scaling", "minmax"),
        ("max_features", 0),
        ("seed", -1),
        ("seed", "x"),
    ],
)
def test_wrong_parameters_are_errors_that_name_them(parameter, value):
    with pytest.raises(ValueError, match=f"{parameter}="):
        StreamingSVEAD(**{parameter: value})


@pytest.mark.parametrize("X", [[1.0, 2.0], np.zeros((2, 2, 2)), 5.0])
def test_arrays_must_have_two_dimensions(X):
    with pytest.raises(ValueError, match="dimensions"):
        StreamingSVEAD().learn_many(X)


def test_column_names_must_be_distinct_and_as_many_as_columns():
    with pytest.raises(ValueError, match="not distinct"):
        StreamingSVEAD().learn_many(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="3 feature_names for 2 columns"):
        StreamingSVEAD().learn_many([[1.0, 2.0]], feature_names=["a", "b", "c"])
