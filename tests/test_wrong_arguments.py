"""What is given in the place of an event, a table, a detector or a model says what was wrong with it and what to do."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from river import anomaly

import svead_stream
from svead_stream import SVEAD, ConformalFilter, StreamingSVEAD

X = np.random.default_rng(0).normal(size=(60, 2))
EVENTS = [{"a": a, "b": b} for a, b in X.tolist()]
DATES = pd.to_datetime(["2020-01-01", "2020-01-02"])


def detector() -> StreamingSVEAD:
    model = StreamingSVEAD(3, 2, seed=1)
    model.learn_many(X)
    return model


def judge() -> ConformalFilter:
    return ConformalFilter(detector())


def batch() -> SVEAD:
    return SVEAD(3, 2, random_state=1).fit(X)


NO_EVENTS = [[1, 2], (1.0, 2.0), X[0], "ab", None, 5, pd.DataFrame(X)]


@pytest.mark.parametrize("x", NO_EVENTS, ids=lambda x: type(x).__name__)
def test_what_is_no_event_is_an_error_that_shows_one_and_changes_nothing(x: Any) -> None:
    for make, calls in (
        (detector, ("score_one", "learn_one", "explain_one")),
        (judge, ("score_one", "learn_one", "judge_one")),
        (lambda: ConformalFilter(anomaly.HalfSpaceTrees()), ("judge_one",)),
    ):
        model = make()
        for call in calls:
            with pytest.raises(TypeError, match=r"the event is .*: give a dict of feature names and numbers, such as"):
                getattr(model, call)(x)
        assert getattr(model, "n_seen_", 0) in (0, 60)
    with pytest.raises(TypeError, match="give a dict"):
        detector().feedback_one(x, True)


def test_a_row_of_pandas_is_an_event() -> None:
    row = pd.DataFrame(X).iloc[3]
    assert detector().score_one(row) == detector().score_one(row.to_dict())


@pytest.mark.parametrize("answer", [pd.NA, np.array([1, 0]), pd.NaT])
def test_an_answer_that_is_missing_or_several_is_refused(answer: Any) -> None:
    for model in (detector(), judge()):
        with pytest.raises(ValueError, match=r"is_anomaly=.*: it must be True, False or None"):
            model.feedback_one({0: 1.0}, answer)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (StreamingSVEAD, r"the class StreamingSVEAD itself: .*such as StreamingSVEAD\(\)"),
        (SVEAD(), r"SVEAD is fitted to a data set .*: use StreamingSVEAD\(\)"),
        (SVEAD, r"SVEAD is fitted to a data set"),
        (ConformalFilter(StreamingSVEAD()), "the detector is a ConformalFilter itself: give the detector in it"),
        (None, r"the detector None has no score_one and learn_one: give StreamingSVEAD\(\)"),
        ("x", "the detector 'x' has no score_one"),
    ],
)
def test_what_cannot_be_judged_says_what_can(given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ConformalFilter(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (anomaly.HalfSpaceTrees(), "a HalfSpaceTrees cannot be saved and restored: use StreamingSVEAD, or .*pickle it"),
        (StreamingSVEAD, "StreamingSVEAD is a class: save an object of it"),
        ("model.svead", r"'model.svead' is no model: the model comes first, save\(model, path\)"),
        (None, "a NoneType cannot be saved"),
    ],
)
def test_what_cannot_be_saved_says_what_can(given: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=words):
        svead_stream.save(given, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_place_where_nothing_can_be_saved_is_named_itself(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such folder, create it first: '.*/no/such'"):
        svead_stream.save(StreamingSVEAD(), tmp_path / "no" / "such" / "x.svead")
    with pytest.raises(IsADirectoryError, match=f"this is a folder, name a file in it: '{tmp_path}'"):
        svead_stream.save(StreamingSVEAD(), tmp_path)
    with pytest.raises(TypeError, match=r"a snapshot is bytes, not a str: load\(path\)"):
        svead_stream.from_bytes("model.svead")  # type: ignore[arg-type]
    for place in (None, io.BytesIO(), b"x.svead"):
        with pytest.raises(TypeError, match=r"the path is .*: give the name of a file; without one, to_bytes"):
            svead_stream.save(StreamingSVEAD(), place)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"the path is .*: give the name of a file; without one, to_bytes"):
            svead_stream.load(place)  # type: ignore[call-overload]


def test_a_snapshot_may_be_any_bytes_and_its_class_must_be_one() -> None:
    model = detector()
    data = model.to_bytes()
    for given in (bytearray(data), memoryview(data)):
        assert svead_stream.from_bytes(given).to_bytes() == data  # type: ignore[call-overload]
    for kind in ("StreamingSVEAD", model):
        with pytest.raises(TypeError, match=r"kind=.*: give a class, such as ConformalFilter"):
            svead_stream.from_bytes(data, kind)  # type: ignore[call-overload]


DEEP: Any = functools.reduce(lambda inner, _: (inner,), range(17), "a")


@pytest.mark.parametrize("name", [float("nan"), ("a", float("inf")), b"a", frozenset("a"), DEEP])
def test_a_name_that_could_not_be_read_again_is_not_saved(name: Any) -> None:
    model = StreamingSVEAD(3, 2)
    model.learn_one({name: 1.0})
    with pytest.raises(svead_stream.SnapshotError, match="cannot be saved: use strings, numbers, or tuples"):
        model.to_bytes()
    model = StreamingSVEAD(3, 2)
    model.learn_one({DEEP[0]: 1.0})
    assert svead_stream.from_bytes(model.to_bytes()).feature_names_ == [DEEP[0]]


NO_NUMBERS = [
    ({"b": [1.0, 2.0], "a": ["x", "y"]}, "feature 'a' has the value 'x'"),
    ({"b": [1.0, 2.0], "a": DATES}, "feature 'a' has the value .*2020"),
    ({"a": DATES}, "feature 'a' has the value .*2020"),
    ({"a": ["1", "2"]}, "feature 'a' has the value '1'"),
]


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table, pl.LazyFrame])
@pytest.mark.parametrize(("columns", "words"), NO_NUMBERS)
def test_text_and_dates_in_a_data_set_are_named(kind: Callable[..., Any], columns: dict[str, Any], words: str) -> None:
    fitted = SVEAD(3, 2).fit([{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 4.0}])
    for call in (SVEAD().fit, fitted.score_samples, fitted.explain):
        with pytest.raises(ValueError, match=f"{words}.*, which is not a number: encode it"):
            call(kind(columns))


@pytest.mark.parametrize("given", [[["x", 1.0]], np.array([["x", 1.0]], dtype=object), np.array([["x", "y"]])])
def test_text_in_an_array_is_named(given: Any) -> None:
    for call in (SVEAD().fit, batch().score_samples):
        with pytest.raises(ValueError, match="feature 0 has the value 'x', which is not a number"):
            call(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (scipy.sparse.csr_matrix(X), r"X is a sparse csr_matrix: give X.toarray\(\)"),
        ({"a": [1.0]}, "X is a dict: one event goes to score_one"),
        (None, "X, None, has 0 dimensions: it must be a 2-D array or a data frame.* or a list of dicts"),
        ("abc", "X, 'abc', has 0 dimensions"),
        ([[1.0], [1.0, 2.0]], "the rows of X differ in length"),
    ],
    ids=str,
)
def test_what_is_no_table_says_what_is_one(given: Any, words: str) -> None:
    for call in (detector().score_many, detector().learn_many, judge().judge_many):
        with pytest.raises((TypeError, ValueError), match=words):
            call(given)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("ab", "feature_names='ab': give a list of names"),
        ({"a", "b"}, "feature_names={.*}: give a list of names"),  # in no order
        (5, "feature_names=5: give a list of names"),
        (np.zeros(60), "60 feature_names for 2 columns: give one name per column"),  # labels
        (["a", "a"], "column names are not distinct"),
    ],
    ids=["text", "set", "number", "labels", "twice"],
)
def test_names_that_do_not_name_the_columns_are_refused(names: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        detector().learn_many(X, names)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (({"a": 1.0} for _ in X), "X, <generator .*, has 0 dimensions: it must be a 2-D array"),
        ([{"a": 1.0}, None], "has 1 dimensions: it must be a 2-D array"),
        (Path("x.csv"), r"X, PosixPath\('x.csv'\), has 0 dimensions"),
        (pl.DataFrame({"b": [1.0], "a": [[1.0]]}), r"feature 'a' has the value \[1.0\], which is not a number"),
        (pl.DataFrame({"b": [1.0], "a": [{"x": 1.0}]}), "feature 'a' has the value {'x': 1.0}, which is not a number"),
        (pd.DataFrame({"a": pd.period_range("2020", periods=2)}), "feature 'a' has the value Period"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_data_set_that_is_none_says_why(given: Any, words: str) -> None:
    for call in (SVEAD().fit, detector().learn_many):
        with pytest.raises(ValueError, match=words):
            call(given)


def test_what_an_array_masks_is_missing() -> None:
    masked = np.ma.masked_array(np.where(X > 1, 1e9, X), mask=X > 1)
    gaps = np.where(X > 1, np.nan, X)
    one, other = StreamingSVEAD(3, 2, seed=1), StreamingSVEAD(3, 2, seed=1)
    one.learn_many(masked)
    other.learn_many(gaps)
    assert one.to_bytes() == other.to_bytes()
    one.learn_one({0: np.ma.masked, "new": np.array(1.0)})
    other.learn_one({0: None, "new": 1.0})
    assert one.to_bytes() == other.to_bytes()
    assert SVEAD(3, 2, random_state=1).fit(masked).to_bytes() == SVEAD(3, 2, random_state=1).fit(gaps).to_bytes()
    model = judge()
    model.judge_many(X, t=np.ma.masked_array(np.arange(60), mask=np.arange(60) > 9))
    assert (model.clock_.latest, model.clock_.n_missing) == (9, 50)


def test_a_batch_of_arrow_keeps_its_names() -> None:
    batch = pa.RecordBatch.from_pandas(pd.DataFrame(EVENTS))
    assert list(SVEAD(3, 2).fit(batch).feature_names_in_) == ["a", "b"]


def test_only_models_of_the_right_kind_are_taken() -> None:
    with pytest.raises(TypeError, match="only a StreamingSVEAD can be merged, not 5"):
        detector().merge(5)  # type: ignore[arg-type]
    for model in (5, SVEAD()):
        with pytest.raises(TypeError, match=r"give an SVEAD that was fitted, such as SVEAD\(\).fit\(X\)"):
            StreamingSVEAD.from_batch(model, X)  # type: ignore[arg-type]


# lists of dicts, and lazy frames, wherever there are frames

FORMS = [EVENTS, pl.DataFrame(EVENTS).lazy()]


@pytest.mark.parametrize("given", FORMS, ids=["dicts", "lazy"])
def test_lists_of_dicts_and_lazy_frames_are_the_same_events(given: Any) -> None:
    frame = pd.DataFrame(EVENTS)
    one, other = StreamingSVEAD(3, 2, seed=1), StreamingSVEAD(3, 2, seed=1)
    assert one.score_learn_many(given).tolist() == other.score_learn_many(frame).tolist()
    one.learn_many(given)
    other.learn_many(frame)
    assert one.to_bytes() == other.to_bytes()
    assert one.score_many(given).tolist() == other.score_many(frame).tolist()
    for protect in (False, True):
        filters = [ConformalFilter(StreamingSVEAD(3, 2, seed=1), 0.1, burn_in=9, protect=protect) for _ in range(2)]
        assert list(filters[0].judge_many(given, t=range(60))) == list(filters[1].judge_many(frame, t=range(60)))
    foreign = [ConformalFilter(anomaly.HalfSpaceTrees(seed=1), 0.1) for _ in range(2)]
    assert list(foreign[0].judge_many(given)) == list(foreign[1].judge_many(frame))


@pytest.mark.parametrize("given", FORMS, ids=["dicts", "lazy"])
def test_they_are_the_same_data_set(given: Any) -> None:
    frame = pd.DataFrame(EVENTS)
    one, other = (SVEAD(3, 2, "std", random_state=1).fit(data) for data in (given, frame))
    assert one.to_bytes() == other.to_bytes()
    assert one.score_samples(given).tolist() == other.score_samples(frame).tolist()
    assert one.explain(given).tolist() == other.explain(frame).tolist()
    assert StreamingSVEAD.from_batch(one, given).n_seen_ == 60


def test_dicts_are_ordered_by_the_names_of_the_model() -> None:
    model = SVEAD(3, 2, random_state=1).fit(pd.DataFrame(EVENTS))
    [given] = model.score_samples([{"b": 0.5, "a": 0.1}])
    assert given == model.score_samples(pd.DataFrame({"a": [0.1], "b": [0.5]}))[0]
    assert np.isfinite(model.score_samples([{"b": 0.5}, {}])).all()
    with pytest.raises(ValueError, match="feature 'c' is not known: the model was fitted to 'a', 'b'"):
        model.score_samples([{"c": 1.0}])
    with pytest.raises(ValueError, match="feature 'a' is not known: the model was fitted to an array without names"):
        batch().score_samples([{"a": 1.0}])
    with pytest.raises(ValueError, match="named by text"):
        SVEAD().fit([{1: 1.0}])


def test_an_event_that_brings_a_feature_is_the_same_in_a_list_and_in_a_loop() -> None:
    events = [*EVENTS, *({**event, "c": event["a"], 7: 1.0} for event in EVENTS)]
    loop, many = StreamingSVEAD(3, 2, seed=1), StreamingSVEAD(3, 2, seed=1)
    for event in events:
        loop.learn_one(event)
    many.learn_many(events)
    assert many.to_bytes() == loop.to_bytes()
