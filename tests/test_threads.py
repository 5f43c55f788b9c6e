"""One model in several threads: their calls wait for each other."""

import copy
import pickle
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from svead_stream import ConformalFilter, StreamingSVEAD
from svead_stream.record import Judged


def rows(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4)) * [1, 10, 100, 1000] + 1000


def as_events(X):
    return [dict(enumerate(row)) for row in X.tolist()]


def in_threads(work):
    """What four threads that take turns as often as they can return."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(work, range(4)))
    finally:
        sys.setswitchinterval(interval)


def events_with_new_features(k, n=400):
    rng = np.random.default_rng(k)
    return [{"a": rng.normal(), "b": rng.normal(), f"own{k}.{i // 100}": rng.normal()} for i in range(n)]


def test_threads_lose_no_event_of_a_detector():
    model = StreamingSVEAD(n_partitions=4, n_anchors=4, seed=1)

    def work(k):
        scores = []
        for event in events_with_new_features(k):
            scores.append(model.score_one(event))
            model.learn_one(event)
            scores += model.score_learn_many(np.array([[1.0, 2.0]]), ["a", "b"]).tolist()
        return scores

    scores = np.concatenate(in_threads(work))
    assert len(scores) == model.n_seen_ == 4 * 2 * 400
    assert ((scores >= 0) & (scores <= 1)).all()
    assert len(model.feature_names_) == 2 + 4 * 4
    StreamingSVEAD.from_bytes(model.to_bytes())  # whose checks would find what does not fit together


def test_threads_that_score_see_their_own_events_only():
    model = StreamingSVEAD(n_partitions=4, n_anchors=4, seed=1)
    model.learn_many(rows(300))
    events = as_events(rows(4, seed=1) * [[1], [2], [3], [4]])

    def said(k):
        return model.score_one(events[k]), tuple(model.explain_one(events[k]).items())

    expected = [{said(k)} for k in range(4)]
    assert in_threads(lambda k: {said(k) for _ in range(2000)}) == expected


def test_threads_lose_no_event_of_a_filter():
    model = ConformalFilter(StreamingSVEAD(n_partitions=4, n_anchors=4, seed=1), alert_rate=0.05)
    X = rows(600)
    events = as_events(X)

    def work(k):  # some by mini-batches, which let others run meanwhile, some one by one
        for _ in range(5):
            if k % 2:
                model.judge_many(X)
            else:
                for event in events:
                    model.judge_one(event)

    in_threads(work)
    assert model.n_seen_ == model.detector.n_seen_ == 4 * 5 * 600
    np.testing.assert_array_equal(
        np.sort(model._standing.ranks.saved()["recent"]), model._standing.ranks.window.ordered
    )


def test_copies_that_are_made_while_others_judge_are_of_one_moment():
    model = ConformalFilter(StreamingSVEAD(n_partitions=4, n_anchors=4, seed=1), alert_rate=0.05)
    X = rows(200)
    judged = []

    def work(k):
        if k:
            while len(judged) < 60:
                model.judge_many(X)
                judged.append(k)
            return
        while len(judged) < 60:
            for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
                assert copied.n_seen_ == copied.detector.n_seen_
                recent = copied._standing.ranks.saved()["recent"]
                np.testing.assert_array_equal(np.sort(recent), copied._standing.ranks.window.ordered[: len(recent)])

    in_threads(work)


class Diary:
    """A detector that writes down whose event each call is about, and lets other threads go first."""

    def __init__(self):
        self.calls = []

    def note(self, what, who):
        self.calls.append((what, int(who)))
        time.sleep(1e-4)

    def score_one(self, x):
        self.note("score", x[0])
        return 1.0

    def learn_one(self, x):
        self.note("learn", x[0])


class ScoringDiary(Diary):
    """The same, with mini-batches of scores."""

    def score_many(self, X, feature_names=None):
        return np.ones(len(X))

    def score_learn_many(self, X, feature_names=None):
        self.note("score", X[0, 0])
        self.note("learn", X[0, 0])
        return np.ones(len(X))


class JudgingDiary(Diary):
    """The same, with mini-batches of verdicts."""

    max_features, feature_names_, n_missing_ = 1, (0,), 0

    def judge_many(self, X, feature_names, times, rules, window, learn):
        self.note("score", X[0, 0])
        self.note("learn", X[0, 0])
        return Judged(np.ones(len(X)), np.ones(len(X)), np.zeros(len(X), np.uint8), np.ones(len(X)), {})


@pytest.mark.parametrize(
    ("detector", "call"),
    [(Diary, "judge_one"), (Diary, "learn_one"), (ScoringDiary, "judge_many"), (JudgingDiary, "judge_many")],
)
def test_no_event_begins_before_the_one_of_another_thread_is_learned(detector, call):
    model = ConformalFilter(detector())
    in_threads(lambda k: [getattr(model, call)(np.array([[k]]) if "many" in call else {0: k}) for _ in range(50)])
    calls = model.detector.calls
    assert [what for what, _ in calls] == ["score", "learn"] * 200
    assert [who for _, who in calls[::2]] == [who for _, who in calls[1::2]]
