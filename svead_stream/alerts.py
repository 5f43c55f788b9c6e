"""From scores to alerts: a score says how strange an event is, an alert rate how often to hear of it.

Scores have no fixed scale and move with the data, so a threshold that was right yesterday is wrong today.
Each score is ranked among the recent ones instead (a conformal p-value), and the rank is what is compared
with the alert rate that was asked for.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from river import base

from svead_stream import snapshot
from svead_stream.errors import SnapshotError
from svead_stream.kernels.ranks import rank

__all__ = ["ConformalFilter", "Judged"]

_KIND = "ConformalFilter"


class Judged(NamedTuple):
    """What a filter says of a mini-batch, one element an event."""

    scores: npt.NDArray[np.float64]
    p_values: npt.NDArray[np.float64]
    alerts: npt.NDArray[np.bool_]

    def only(self, chosen: npt.NDArray[np.bool_]) -> Judged:
        """The chosen events of the batch."""
        return Judged(self.scores[chosen], self.p_values[chosen], self.alerts[chosen])


class ConformalFilter(base.AnomalyFilter):
    """Alert on a given share of the stream: the events that score highest among the recent ones.

    The p-value of a score is its rank among the last `window` scores, itself included: (1 + how many of
    them are as high or higher) / (1 + how many there are). An event is an alert when its p-value is at most
    `alert_rate`. As long as the stream is stable, every rank is equally likely and the rate of alerts is
    the rate that was asked for, whatever the detector and the shape of its scores. When scores move to
    another level the rate is wrong for a while, and right again at the latest when `window` scores of the
    new level have been seen.

    Every score enters the window, those of alerts too, so that a change of regime cannot lock the filter.
    Equal scores count against an alert: an event like many before it is never one, and where scores are
    tied a lot (a detector with few distinct scores, constant data) there are fewer alerts than asked for,
    not more. There are none before 1 / `alert_rate` - 1 scores are known: an earlier one could not be that
    rare. Zeros before the first other score are taken for a detector that is warming up and are left out,
    and so is NaN, whose p-value is 1.

    Parameters
    ----------
    detector
        Any river anomaly detector, or a pipeline that ends in one.
    alert_rate
        The share of events to alert on, between 0 and 1.
    window
        How many recent scores to rank among. More hold the rate more evenly, fewer follow a change sooner. By
        default 1,000 or 5 / `alert_rate`, whichever is larger.
    protect
        Whether to keep alerts from the detector, so that it does not learn them. At most twice the asked
        share of the last `window` events is withheld: more of them are no accident but the way the stream
        is now, and are learned.

    Attributes
    ----------
    n_seen_ : int
        Events judged and learned.
    n_alerts_ : int
        Alerts among them.

    Examples
    --------
    >>> from river import anomaly
    >>> from svead_stream import ConformalFilter
    >>> model = ConformalFilter(anomaly.HalfSpaceTrees(seed=1), alert_rate=0.05)
    >>> for i in range(2_000):
    ...     x = {"level": 0.5 + 0.0001 * (i * 37 % 1000)}
    ...     model.learn_one(x)
    >>> score = model.score_one({"level": 0.05})
    >>> model.classify(score)
    True
    >>> round(model.p_value(score), 3)
    0.001

    """

    def __init__(
        self,
        detector: base.AnomalyDetector,
        alert_rate: float = 0.01,
        window: int | None = None,
        protect: bool = False,
    ) -> None:
        if not 0 < alert_rate < 1:
            raise ValueError(f"alert_rate must lie between 0 and 1, not {alert_rate!r}; 0.01 alerts on 1 %")
        if window is not None and (window + 1) * alert_rate < 1:
            least = math.ceil(1 / alert_rate) - 1
            raise ValueError(f"window={window} is too short to tell events of rate {alert_rate}: give at least {least}")
        self.detector = detector
        self.alert_rate = alert_rate
        self.window = window
        self.protect = protect

        self.n_seen_ = 0
        self.n_alerts_ = 0
        self._recent: deque[float] = deque()  # scores as they came
        self._sorted: list[float] = []  # the same scores, lowest first
        self._withheld: deque[bool] = deque()  # whether the event of each score was kept from the detector
        self._n_withheld = 0

    # river's names for the two parameters that every filter of its own has

    @property
    def anomaly_detector(self) -> base.AnomalyDetector:  # type: ignore[override]
        """The detector, under river's name for it."""
        return self.detector

    @property
    def protect_anomaly_detector(self) -> bool:  # type: ignore[override]
        """Whether alerts are kept from the detector, under river's name for it."""
        return self.protect

    @property
    def _wrapped_model(self) -> base.AnomalyDetector:
        return self.detector

    # judging: changes nothing

    @property
    def capacity(self) -> int:
        """How many recent scores are kept: `window`, or what it is by default."""
        if self.window is not None:
            return self.window
        # A whole number of alerts to a window, so that rounding does not bend the rate.
        alerts = max(5, math.ceil(1000 * self.alert_rate))
        return math.ceil(alerts / self.alert_rate) - 1

    @property
    def threshold(self) -> float:
        """The score that an event has to exceed to be an alert; infinite while too few scores are known."""
        known = len(self._sorted)
        allowed = int(self.alert_rate * (known + 1))
        if (allowed + 1) / (known + 1) <= self.alert_rate:  # the product was rounded down past a whole number
            allowed += 1
        return self._sorted[known - allowed] if allowed else math.inf

    def p_value(self, score: float) -> float:
        """Rank a score among the recent ones: small is rare.

        Parameters
        ----------
        score
            What `score_one` returned for an event that has not been learned yet.

        """
        if math.isnan(score):
            return 1.0
        known = len(self._sorted)
        return (known - bisect_left(self._sorted, score) + 1) / (known + 1)

    def classify(self, score: float) -> bool:
        """Tell whether a score is an alert: whether its p-value is at most `alert_rate`."""
        return self.p_value(score) <= self.alert_rate

    def score_many(self, X: Any, feature_names: Sequence[Hashable] | None = None) -> Judged:
        """Score and judge a mini-batch against what is known now; learns nothing.

        Parameters
        ----------
        X
            A 2-D array, or a pandas, polars or pyarrow table: one row an event.
        feature_names
            Names of the columns of an array; 0, 1, 2 ... without.

        """
        if hasattr(self.detector, "score_many"):
            scores = np.asarray(self.detector.score_many(X, feature_names), dtype=np.float64)
        else:
            scores = np.array([self.detector.score_one(x) for x in _events(X, feature_names)], dtype=np.float64)
        p_values = np.array([self.p_value(score) for score in scores.tolist()], dtype=np.float64)
        return Judged(scores, p_values, p_values <= self.alert_rate)

    # learning

    def learn_one(self, *args: Any, **learn_kwargs: Any) -> None:
        """Learn an event: its score, and unless it is an alert to be protected from, the event itself."""
        score = float(self.detector.score_one(*args))
        if not self._take(score, self.p_value(score)):
            self.detector.learn_one(*args, **learn_kwargs)

    def score_learn_many(self, X: Any, feature_names: Sequence[Hashable] | None = None) -> Judged:
        """Score, judge and learn events one after the other: the same as a loop over them, only faster.

        Parameters
        ----------
        X
            A 2-D array, or a pandas, polars or pyarrow table: one row an event. Detectors that take one
            event at a time get dictionaries without the missing values.
        feature_names
            Names of the columns of an array; 0, 1, 2 ... without.

        """
        in_batches = getattr(self.detector, "score_learn_many", None)
        if in_batches is not None and not self.protect:
            scores = np.ascontiguousarray(in_batches(X, feature_names), dtype=np.float64)
            p_values = self._take_many(scores)
        else:
            judged: list[tuple[float, float]] = []
            for x in _events(X, feature_names, keep_missing=in_batches is not None):
                score = float(self.detector.score_one(x))
                judged.append((score, self.p_value(score)))
                if not self._take(*judged[-1]):
                    self.detector.learn_one(x)
            scores, p_values = np.array(judged, dtype=np.float64).reshape(-1, 2).T
        return Judged(scores, p_values, p_values <= self.alert_rate)

    def _take(self, score: float, p_value: float) -> bool:
        """Add a judged score to the window; return whether its event is to be kept from the detector."""
        alert = p_value <= self.alert_rate
        self.n_seen_ += 1
        self.n_alerts_ += alert
        if math.isnan(score) or (score == 0.0 and not self._sorted):
            return False
        capacity = self.capacity
        self._forget(capacity - 1)
        self._sorted.insert(bisect_left(self._sorted, score), score)
        self._recent.append(score)
        withhold = self.protect and alert and self._n_withheld < 2 * self.alert_rate * (capacity + 1)
        self._withheld.append(withhold)
        self._n_withheld += withhold
        return withhold

    def _forget(self, most: int) -> None:
        """Let the oldest scores go: one, or more after `alert_rate` was raised."""
        while len(self._recent) > most:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
            self._n_withheld -= self._withheld.popleft()

    def _take_many(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """`p_value` and `_take` for score after score, nothing withheld: the hot loop."""
        p_values = np.empty(len(scores))
        capacity = self.capacity
        self._forget(capacity)
        known = len(self._recent)
        if len(scores) < known // 16:  # not worth the moving of the window into arrays and back
            for i, score in enumerate(scores.tolist()):
                p = self.p_value(score)
                self._take(score, p)
                p_values[i] = p
            return p_values
        recent, ordered = np.empty(known + len(scores)), np.empty(capacity)
        recent[:known], ordered[:known] = self._recent, self._sorted
        begin, end = rank(scores, recent, ordered, known, capacity, p_values)
        self._recent = deque(recent[begin:end].tolist())
        self._sorted = ordered[: end - begin].tolist()
        withheld = [*self._withheld, *[False] * (end - known)][begin:]
        self._withheld, self._n_withheld = deque(withheld), sum(withheld)
        self.n_seen_ += len(scores)
        self.n_alerts_ += int(np.count_nonzero(p_values <= self.alert_rate))
        return p_values

    # snapshots

    def to_bytes(self) -> bytes:
        """Write the filter and its detector to bytes; the detector must have `to_bytes` too."""
        if not hasattr(self.detector, "to_bytes"):
            raise TypeError(
                f"{type(self.detector).__name__} has no to_bytes, so a filter around it has none; "
                "use StreamingSVEAD, or pickle the filter as any river model"
            )
        fields = {
            "alert_rate": self.alert_rate,
            "window": self.window,
            "protect": self.protect,
            "n_seen": self.n_seen_,
            "n_alerts": self.n_alerts_,
        }
        arrays: snapshot.Arrays = {
            "recent": np.array(self._recent, dtype=np.float64),
            "withheld": np.array(self._withheld, dtype=np.uint8),
            "detector": np.frombuffer(self.detector.to_bytes(), dtype=np.uint8),
        }
        return snapshot.pack(_KIND, fields, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a filter back: it goes on exactly where the one that was written would have."""
        from svead_stream.streaming import StreamingSVEAD

        _, fields, arrays = snapshot.unpack(data, _KIND)
        detector = StreamingSVEAD.from_bytes(arrays["detector"].tobytes() if "detector" in arrays else b"")
        try:
            model = cls(detector, fields["alert_rate"], fields["window"], bool(fields["protect"]))
            recent, withheld = arrays["recent"].tolist(), arrays["withheld"].tolist()
            model.n_seen_, model.n_alerts_ = int(fields["n_seen"]), int(fields["n_alerts"])
            sound = len(recent) == len(withheld) <= model.capacity and not any(map(math.isnan, recent))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(f"the snapshot of the filter does not fit together: {error!r}") from None
        if not sound:
            raise SnapshotError("the snapshot of the filter does not fit together: its recent scores are impossible")
        model._recent = deque(recent)
        model._sorted = sorted(recent)
        model._withheld = deque(map(bool, withheld))
        model._n_withheld = sum(model._withheld)
        return model

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import anomaly, preprocessing

        yield {"detector": preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=1), "alert_rate": 0.05}


def _events(X: Any, feature_names: Sequence[Hashable] | None, keep_missing: bool = False) -> Iterator[dict[Any, Any]]:
    """Rows of a table as dictionaries, for detectors that take one event at a time."""
    rows: Any
    if hasattr(X, "iter_rows"):  # polars
        rows = X.iter_rows(named=True)
    elif hasattr(X, "to_pylist"):  # pyarrow
        rows = X.to_pylist()
    elif hasattr(X, "to_dict"):  # pandas
        rows = X.astype(object).where(X.notna(), None).to_dict("records")
    else:
        array = np.asarray(X)
        names = range(array.shape[1]) if feature_names is None else feature_names
        rows = (dict(zip(names, row, strict=True)) for row in array.tolist())
    for row in rows:
        # river's detectors know a missing value by its absence; one NaN spoils a scaler for good.
        yield row if keep_missing else {name: v for name, v in row.items() if v is not None and v == v}
