"""What a detector must offer to be judged, and what it may offer beside.

`Detector` is all that is needed: any river anomaly detector has it, and a pipeline that ends in one. The others are
found out by `isinstance`; who offers them is explained, runs in mini-batches, or is saved.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from river import compose

from svead_stream.errors import brief
from svead_stream.kernels.layout import Rules, Window
from svead_stream.record import Judged, Reasons
from svead_stream.rescored import Rescored


@runtime_checkable
class Detector(Protocol):
    """Scores events, larger is more anomalous, and learns them."""

    def score_one(self, x: dict[Any, Any], /) -> float:
        """The score of an event, which is not learned."""
        ...

    def learn_one(self, x: dict[Any, Any], /) -> None:
        """Learn an event."""
        ...


@runtime_checkable
class Explains(Protocol):
    """Tells which features a score is due to."""

    def explain_one(self, x: Mapping[Any, Any], /) -> Reasons:
        """The share of each feature in the score of an event, largest first."""
        ...


@runtime_checkable
class TakesAnswers(Protocol):
    """Learns from people which of its alerts were real."""

    def feedback_one(self, x: Mapping[Any, Any], is_anomaly: bool | None, teach: bool = False, /) -> Rescored | None:
        """Take an answer, and tell how scores have moved by it."""
        ...


@runtime_checkable
class ScoresMany(Protocol):
    """Scores and learns mini-batches, with the numbers of a loop over their rows."""

    def score_many(self, X: Any, feature_names: Sequence[Hashable] | None = None, /) -> Any:
        """Scores of the rows of X, none of which is learned."""
        ...

    def score_learn_many(self, X: Any, feature_names: Sequence[Hashable] | None = None, /) -> Any:
        """Scores of the rows of X, each of which is then learned."""
        ...


@runtime_checkable
class JudgesMany(Protocol):
    """Scores, ranks, explains and learns mini-batches, with the numbers of a loop over their rows."""

    @property
    def feature_names_(self) -> list[Hashable]:
        """Names of the features met so far, in the order of the model's columns."""
        ...

    @property
    def n_missing_(self) -> int:
        """Missing values met in the events learned."""
        ...

    def judge_many(
        self,
        X: Any,
        feature_names: Sequence[Hashable] | None,
        times: NDArray[np.float64],
        rules: Rules,
        window: Window,
        learn: bool,
    ) -> Judged:
        """Judge the rows of X one after the other; each is then learned, and its score entered, if asked."""
        ...


@runtime_checkable
class Saveable(Protocol):
    """Goes to bytes and comes back the same."""

    def to_bytes(self) -> bytes:
        """The whole model."""
        ...

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The model that was written."""
        ...


def check_is_detector(detector: Any) -> None:
    """Raise a TypeError that says what to give in the place of what cannot be judged."""
    is_class = isinstance(detector, type)
    name = detector.__name__ if is_class else type(detector).__name__
    if hasattr(detector, "fit") and not hasattr(detector, "learn_one"):
        raise TypeError(
            f"{name} is fitted to a data set and cannot follow a stream: use StreamingSVEAD(), or "
            "StreamingSVEAD.from_batch(model, sample) to start from a fitted SVEAD"
        )
    if is_class:
        raise TypeError(f"the detector is the class {name} itself: give an object of it, such as {name}()")
    if not isinstance(detector, Detector):
        raise TypeError(
            f"the detector {brief(detector)} has no score_one and learn_one: "
            "give StreamingSVEAD(), or a detector of river"
        )


def taking_answers(detector: Any, x: dict[Any, Any]) -> tuple[TakesAnswers, dict[Any, Any]]:
    """The part of a detector that takes answers, the last step of a pipeline, and an event as that part sees it."""
    while isinstance(detector, compose.Pipeline):
        *transformers, detector = detector.steps.values()
        for transformer in transformers:
            x = transformer.transform_one(x)
    if not isinstance(detector, TakesAnswers):
        raise TypeError(
            f"{type(detector).__name__} takes no answers: StreamingSVEAD does, alone or behind transformers"
        )
    return detector, x
