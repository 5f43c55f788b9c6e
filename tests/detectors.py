"""Detectors whose scores a test can choose."""

from __future__ import annotations

from typing import Any

from river import base


class Echo(base.AnomalyDetector):
    """A detector whose score is the event's value, so that a test can choose the scores."""

    def __init__(self) -> None:
        self.learned: list[float] = []

    def learn_one(self, x: dict[Any, Any]) -> None:
        self.learned.append(x[0])

    def score_one(self, x: dict[Any, Any]) -> float:
        return float(x[0])


class BatchEcho(Echo):
    """The same, with a mini-batch method of its own."""

    def score_many(self, X: Any, feature_names: Any = None) -> Any:
        return X[:, 0]

    def score_learn_many(self, X: Any, feature_names: Any = None) -> Any:
        self.learned += X[:, 0].tolist()
        return X[:, 0]


class Level(base.AnomalyDetector):
    """A detector that follows the mean of what it learned: distance to it is the score."""

    def __init__(self) -> None:
        self.mean = 0.0

    def learn_one(self, x: dict[Any, Any]) -> None:
        self.mean += 0.1 * (x[0] - self.mean)

    def score_one(self, x: dict[Any, Any]) -> float:
        return float(abs(x[0] - self.mean))
