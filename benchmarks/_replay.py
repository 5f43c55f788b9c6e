"""Scores that are known already, for filters to judge: only the decision differs from one filter to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base


class Replay(base.AnomalyDetector):
    """A detector whose events are their own scores."""

    def learn_one(self, x: Any) -> None:
        pass

    def score_one(self, x: Any) -> float:
        return float(x)

    def score_many(self, X: Any, feature_names: object = None) -> Any:
        return X

    score_learn_many = score_many


def alerts_of(model: Any, scores: list[float]) -> NDArray[np.bool_]:
    """Whether a filter around a Replay alerts on each score before it learns it."""
    alerts = np.zeros(len(scores), dtype=bool)
    for i, score in enumerate(scores):
        alerts[i] = model.classify(score)
        model.learn_one(score)
    return alerts
