"""The judge: what happens to an event after its score. Every path of an event leads through here.

Scores have no fixed scale and move with the data, so a threshold that was right yesterday is wrong today. Each score
is ranked among the recent ones instead (a conformal p-value), and the rank is what is compared with the alert rate that
was asked for. An alert is explained by the detector as it was when it scored the event.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from river import base

from svead_stream import parameters, snapshot
from svead_stream.errors import SnapshotError
from svead_stream.features import records, table
from svead_stream.protocols import Detector, Explains, JudgesMany, ScoresMany
from svead_stream.ranks import Ranks
from svead_stream.record import Reasons, Verdict, Verdicts

__all__ = ["ConformalFilter", "Verdict", "Verdicts"]


@snapshot.register
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

    Calls from several threads wait for each other.

    Examples
    --------
    >>> from svead_stream import ConformalFilter, StreamingSVEAD
    >>> model = ConformalFilter(StreamingSVEAD(seed=1), alert_rate=0.05)
    >>> for i in range(2_000):
    ...     verdict = model.judge_one({"level": 0.5 + 0.0001 * (i * 37 % 1000), "valve": i % 2})
    >>> verdict = model.judge_one({"level": 0.05, "valve": 1})
    >>> verdict.alert, verdict.reasons
    (True, {'level': 1.0})

    It takes river's detectors, and their calls:

    >>> from river import anomaly
    >>> model = ConformalFilter(anomaly.HalfSpaceTrees(seed=1), alert_rate=0.05)
    >>> for i in range(2_000):
    ...     model.learn_one({"level": 0.5 + 0.0001 * (i * 37 % 1000)})
    >>> score = model.score_one({"level": 0.05})
    >>> model.classify(score)
    True
    >>> round(model.p_value(score), 3)
    0.001

    """

    def __init__(
        self,
        detector: Detector,
        alert_rate: float = parameters.ALERT_RATE.default,
        window: int | None = parameters.ALERT_WINDOW.default,
        protect: bool = parameters.PROTECT.default,
    ) -> None:
        if not isinstance(detector, Detector) or isinstance(detector, type):
            raise TypeError(f"the detector {detector!r} has no score_one and learn_one: give an anomaly detector")
        parameters.check_alerts(alert_rate=alert_rate, alert_window=window, protect=protect)
        self.detector = detector
        self.protect = protect
        self._window = window
        self._ranks = Ranks(_capacity(alert_rate, window), alert_rate)
        self._lock = threading.Lock()

    @property
    def alert_rate(self) -> float:
        """The share of events to alert on; it can be changed on the way."""
        return self._ranks.alert_rate

    @alert_rate.setter
    def alert_rate(self, alert_rate: float) -> None:
        self.change(alert_rate, self._window)

    @property
    def window(self) -> int | None:
        """How many recent scores to rank among, if it was said."""
        return self._window

    @window.setter
    def window(self, window: int | None) -> None:
        self.change(self.alert_rate, window)

    def change(self, alert_rate: float, window: int | None) -> None:
        """Set both at once, where one alone would not go with the other."""
        parameters.check_alerts(alert_rate=alert_rate, alert_window=window)
        with self._lock:
            self._window = window
            self._ranks = self._ranks.changed(_capacity(alert_rate, window), alert_rate)

    # river's names for the two parameters that every filter of its own has

    @property
    def anomaly_detector(self) -> Detector:  # type: ignore[override]
        """The detector, under river's name for it."""
        return self.detector

    @property
    def protect_anomaly_detector(self) -> bool:  # type: ignore[override]
        """Whether alerts are kept from the detector, under river's name for it."""
        return self.protect

    @property
    def _wrapped_model(self) -> Detector:  # type: ignore[override]
        return self.detector

    # what is known

    @property
    def n_seen_(self) -> int:
        """Events judged and learned."""
        return self._ranks.n_judged

    @property
    def n_alerts_(self) -> int:
        """Alerts among them."""
        return self._ranks.n_alerts

    @property
    def capacity(self) -> int:
        """How many recent scores are kept: `window`, or what it is by default."""
        return len(self._ranks.window.recent)

    @property
    def threshold(self) -> float:
        """The score that an event has to exceed to be an alert; infinite while too few scores are known."""
        return self._ranks.threshold

    def p_value(self, score: float) -> float:
        """Rank a score among the recent ones: small is rare.

        Parameters
        ----------
        score
            What `score_one` returned for an event that has not been learned yet.

        """
        return self._ranks.p_value(score)

    def classify(self, score: float) -> bool:
        """Tell whether a score is an alert: whether its p-value is at most `alert_rate`."""
        return bool(score > self._ranks.threshold)

    # judging

    def judge_one(self, x: dict[Any, Any], learn: bool = True) -> Verdict:
        """Score and judge an event, explain it if it is an alert, then learn it.

        Parameters
        ----------
        x
            Feature names and values, as the detector takes them.
        learn
            Whether to learn the event and its score; without, nothing changes.

        Returns
        -------
        Verdict
            Its `reasons` are the shares of the features, largest first, if it is an alert and the detector explains.

        """
        with self._lock:
            detector, ranks = self.detector, self._ranks
            score = float(detector.score_one(x))
            alert = score > ranks.threshold
            reasons = self._explain(x) if alert else None
            if not learn:
                return Verdict(score, ranks.p_value(score), alert, reasons)
            withhold = alert and self._withholds()
            if not withhold:
                detector.learn_one(x)  # if it refuses the event nothing has changed
            return Verdict(score, ranks.judge(score, withhold), alert, reasons)

    def judge_many(
        self, X: Any, feature_names: Sequence[Hashable] | None = None, learn: bool = True, explain: bool = True
    ) -> Verdicts:
        """Judge events one after the other: the same as a loop of `judge_one` over them, only faster.

        Parameters
        ----------
        X
            A 2-D array, or a data frame (pandas, polars, pyarrow): one row an event. Detectors that take one
            event at a time get dictionaries without the missing values.
        feature_names
            Names of the columns of an array; 0, 1, 2 ... without.
        learn
            Whether to learn the events and their scores; without, all are judged against what is known now.
        explain
            Whether to explain alerts.

        """
        detector = self.detector
        if self.protect and learn:  # whether an event is learned depends on what is said of it
            return self._judge_in_a_loop(X, feature_names, learn, explain)
        if isinstance(detector, JudgesMany):
            with self._lock:
                ranks = self._ranks
                verdicts = detector.judge_many(X, feature_names, ranks.window, ranks.alert_rate, learn, explain)
                ranks.find_threshold()
                return verdicts
        if isinstance(detector, ScoresMany) and not (explain and isinstance(detector, Explains)):
            with self._lock:
                score = detector.score_learn_many if learn else detector.score_many
                scores = np.ascontiguousarray(score(X, feature_names), dtype=np.float64)
                p_values, thresholds = self._ranks.judge_many(scores, learn)
                return Verdicts(scores, p_values, p_values <= self.alert_rate, thresholds, {})
        return self._judge_in_a_loop(X, feature_names, learn, explain)

    def _judge_in_a_loop(
        self, X: Any, feature_names: Sequence[Hashable] | None, learn: bool, explain: bool
    ) -> Verdicts:
        verdicts, thresholds = [], []
        is_ours = isinstance(self.detector, JudgesMany)
        if is_ours:  # what is no number is refused before anything is learned, as without a loop
            feature_names, X = table(X, feature_names)
        for x in records(X, feature_names, keep_missing=is_ours):
            thresholds.append(self.threshold)
            verdicts.append(self.judge_one(x, learn))
        return Verdicts(
            scores=np.array([verdict.score for verdict in verdicts], dtype=np.float64),
            p_values=np.array([verdict.p_value for verdict in verdicts], dtype=np.float64),
            alerts=np.array([verdict.alert for verdict in verdicts], dtype=np.bool_),
            thresholds=np.array(thresholds, dtype=np.float64),
            reasons={i: verdict.reasons for i, verdict in enumerate(verdicts) if explain and verdict.reasons},
        )

    def _explain(self, x: dict[Any, Any]) -> Reasons | None:
        return self.detector.explain_one(x) if isinstance(self.detector, Explains) else None

    def _withholds(self) -> bool:
        """Whether the next alert is kept from the detector."""
        return self.protect and self._ranks.n_withheld + 1 <= 2 * self.alert_rate * (self.capacity + 1)

    def learn_one(self, *args: Any, **learn_kwargs: Any) -> None:
        """Learn an event: its score, and unless it is an alert to be protected from, the event itself."""
        with self._lock:
            score = float(self.detector.score_one(*args))
            withhold = self.classify(score) and self._withholds()
            if not withhold:
                self.detector.learn_one(*args, **learn_kwargs)
            self._ranks.judge(score, withhold)

    # snapshots

    def to_bytes(self) -> bytes:
        """Write the filter and its detector to bytes; the detector must be of a kind that can be restored."""
        snapshot.check_saveable(self.detector)
        with self._lock:
            fields = {
                "alert_rate": self.alert_rate,
                "window": self._window,
                "protect": self.protect,
                "n_seen": self.n_seen_,
                "n_alerts": self.n_alerts_,
            }
            arrays: snapshot.Arrays = {
                "recent": self._ranks.scores,
                "withheld": self._ranks.withheld,
                "detector": np.frombuffer(self.detector.to_bytes(), dtype=np.uint8),  # type: ignore[attr-defined]
            }
            return snapshot.pack(type(self).__name__, fields, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a filter back: it goes on exactly where the one that was written would have."""
        _, fields, arrays = snapshot.unpack(data, cls.__name__)
        detector = snapshot.from_bytes(arrays["detector"].tobytes() if "detector" in arrays else b"")
        try:
            model = cls(detector, fields["alert_rate"], fields["window"], bool(fields["protect"]))
            recent, withheld = arrays["recent"], arrays["withheld"]
            judged, alerts = int(fields["n_seen"]), int(fields["n_alerts"])
            sound = len(recent) == len(withheld) <= model.capacity and not np.isnan(recent).any()
            sound = sound and bool((withheld <= 1).all()) and 0 <= alerts <= judged < 2**63
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(f"the snapshot of the filter does not fit together: {error!r}") from None
        if not sound:
            raise SnapshotError("the snapshot of the filter does not fit together: its recent scores are impossible")
        model._ranks = Ranks(model.capacity, model.alert_rate, recent, withheld, judged, alerts)
        return model

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:  # a copy: filter and detector of one moment, whatever other threads do next
            return copy.deepcopy({name: value for name, value in vars(self).items() if name != "_lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import anomaly, preprocessing

        yield {"detector": preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=1), "alert_rate": 0.05}


def _capacity(alert_rate: float, window: int | None) -> int:
    if window is not None:
        return window
    # A whole number of alerts to a window, so that rounding does not bend the rate.
    alerts = max(5, math.ceil(1000 * alert_rate))
    return math.ceil(alerts / alert_rate) - 1
