"""The judge: what happens to an event after its score. Every path of an event leads through here.

Scores have no fixed scale and move with the data, so a threshold that was right yesterday is wrong today. Each score
is ranked among the recent ones instead (a conformal p-value), and the rank is what is compared with the alert rate that
was asked for. An alert is explained by the detector as it was when it scored the event. Alerts that belong together are
one incident.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from river import base

from svead_stream import notebook, parameters, snapshot
from svead_stream.clock import Clock, seconds_of, seconds_of_many
from svead_stream.errors import SnapshotError, brief
from svead_stream.features import check_event
from svead_stream.frames import collected, records, table
from svead_stream.protocols import Detector, Explains, JudgesMany, ScoresMany, check_is_detector, taking_answers
from svead_stream.ranks import Ranks, rules_for
from svead_stream.record import Incident, Reasons, Verdict, Verdicts
from svead_stream.spans import rate, span
from svead_stream.standing import Standing

_DEFAULT = {
    "alert_rate": parameters.ALERT_RATE.default,
    "window": parameters.ALERT_WINDOW.default,
    "incident_rate": parameters.INCIDENT_RATE.default,
    "hold_off": parameters.HOLD_OFF.default,
    "burn_in": parameters.BURN_IN.default,
    "protect": parameters.PROTECT.default,
}

__all__ = ["ConformalFilter", "Incident", "Verdict", "Verdicts"]


@snapshot.register
class ConformalFilter(base.AnomalyFilter):
    """Alert on a given share of the stream, the events that score highest among the recent ones, and tell of incidents.

    The p-value of a score is its rank among the recent scores, itself included: (1 + how many of them are as
    high or higher) / (1 + how many there are). Recent are the newer half of all, at most `window`. An event is
    an alert when its p-value is at most `alert_rate`. As long as the stream is stable, every rank is equally
    likely and the rate of alerts is the rate that was asked for, whatever the detector and the shape of its
    scores.

    An alert that is rare enough opens an incident, and all alerts belong to it until there was none for
    `hold_off`. How rare is enough follows from `incident_rate`: each incident makes the next one harder to
    open, each time without makes it easier, so that the rate is held on streams of any kind. Where incidents
    are due, an event that is rare enough to open one is an alert even above `alert_rate`. An incident is as long
    as it lasts, whatever the rate: from its third alert on, up to the thousandth, its scores are not ranked
    among, so that a fault does not become usual by itself. After that they are, and what has come to stay ends
    its incident.

    Equal scores count against an alert: an event like many before it is never one, and where scores are
    tied a lot (a detector with few distinct scores, constant data) there are fewer alerts than asked for,
    not more. The first events are no alerts: see `burn_in`. Zeros before the first other score are taken
    for a detector that is warming up and are left out, and so is NaN, whose p-value is 1.

    Parameters
    ----------
    detector
        Any river anomaly detector, or a pipeline that ends in one.
    alert_rate
        The share of events to alert on, between 0 and 1.
    window
        How many recent scores to rank among, at most. More hold the rate more evenly, fewer follow a change sooner.
        By default 2,500 or 5 / `alert_rate`, whichever is larger.
    protect
        Whether to keep alerts from the detector, so that it does not learn them. At most twice the asked
        share of the last `window` events is withheld: more of them are no accident but the way the stream
        is now, and are learned.
    incident_rate
        Incidents to tell of: their number for each event, such as 0.005, or in time, such as `"5/day"`. By
        default half of `alert_rate`.
    hold_off
        Events, or time such as `"15m"`, without alerts after which an incident is over. By default 0.3 / `alert_rate`
        events, 30 for 1 %, but at most 15 % of the time between two incidents that were asked for.
    burn_in
        How many events, or how much time such as `"1d"`, are learned without alerts at first.

    Attributes
    ----------
    n_seen_ : int
        Events judged and learned.
    n_alerts_ : int
        Alerts among them.
    n_incidents_ : int
        Incidents so far, the open one included.
    clock_ : Clock
        The latest time, and how many were missing, went back or repeated the one before.

    Parameters that are given in time need the time of every event: `judge_one(x, t)`.

    Calls from several threads wait for each other.

    Examples
    --------
    >>> import random
    >>> from svead_stream import ConformalFilter, StreamingSVEAD
    >>> rng = random.Random(42)
    >>> model = ConformalFilter(StreamingSVEAD(seed=1), incident_rate=0.001)
    >>> for i in range(2_000):
    ...     verdict = model.judge_one({"level": rng.gauss(0.5, 0.03), "valve": i % 2})
    >>> verdict = model.judge_one({"level": 0.05, "valve": 1})
    >>> verdict.alert, list(verdict.reasons)
    (True, ['level', 'valve'])
    >>> [(incident.state, incident.first) for incident in verdict.changes]
    [('open', 2001)]

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
        incident_rate: float | str | None = parameters.INCIDENT_RATE.default,
        hold_off: float | str | None = parameters.HOLD_OFF.default,
        burn_in: float | str = parameters.BURN_IN.default,
    ) -> None:
        check_is_detector(detector)
        if isinstance(detector, ConformalFilter):  # each has a window; a snapshot could hold many in a few bytes
            raise TypeError("the detector is a ConformalFilter itself: give the detector in it, or change its settings")
        self.detector = detector
        self.protect = protect
        self._settings: dict[str, Any] = {
            "alert_rate": alert_rate,
            "window": window,
            "incident_rate": incident_rate,
            "hold_off": hold_off,
            "burn_in": burn_in,
        }
        parameters.check_alerts(protect=protect, **self._named())
        self._standing = Standing(Ranks(*rules_for(**self._settings)))
        self._lock = threading.Lock()

    def _named(self, **others: Any) -> dict[str, Any]:
        """The settings, and others in their place, by the names that parameters have outside."""
        return {"alert_window" if name == "window" else name: one for name, one in (self._settings | others).items()}

    def change(self, **settings: Any) -> None:
        """Set some of `alert_rate`, `window`, `incident_rate`, `hold_off` and `burn_in` on the way, together."""
        unknown = settings.keys() - self._settings.keys()
        if unknown:
            raise ValueError(f"{min(unknown)} cannot be changed: there are {', '.join(self._settings)}")
        parameters.check_alerts(**self._named(**settings))
        with self._lock:
            self._standing.ranks = self._standing.ranks.changed(*rules_for(**self._settings | settings))
            self._settings |= settings

    @property
    def alert_rate(self) -> float:
        """The share of events to alert on; it can be changed on the way."""
        return self._standing.ranks.rules.alert_rate

    @alert_rate.setter
    def alert_rate(self, alert_rate: float) -> None:
        self.change(alert_rate=alert_rate)

    @property
    def window(self) -> int | None:
        """How many recent scores to rank among, if it was said."""
        window: int | None = self._settings["window"]
        return window

    @window.setter
    def window(self, window: int | None) -> None:
        self.change(window=window)

    @property
    def incident_rate(self) -> float | str | None:
        """Incidents to tell of, if it was said; `change` sets it."""
        incident_rate: float | str | None = self._settings["incident_rate"]
        return incident_rate

    @property
    def hold_off(self) -> float | str | None:
        """Events or time without alerts after which an incident is over, if it was said; `change` sets it."""
        hold_off: float | str | None = self._settings["hold_off"]
        return hold_off

    @property
    def burn_in(self) -> float | str:
        """Events or time without alerts at first; `change` sets it."""
        burn_in: float | str = self._settings["burn_in"]
        return burn_in

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

    # how it looks

    def _made(self) -> str:
        return notebook.made(self, self._settings | {"protect": self.protect}, _DEFAULT)

    def __repr__(self) -> str:
        known = {"event": self.n_seen_, "alert": self.n_alerts_, "incident": self.n_incidents_}
        counts = ", ".join(notebook.counted(n, what) for what, n in known.items())
        return f"{self._made()}: {counts}; {brief(self.detector, 200)}"

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"events": self.n_seen_, "alerts": self.n_alerts_, "incidents": self.n_incidents_}
        if self.open_incident is not None:
            alerts = notebook.counted(self.open_incident.alerts, "alert")
            facts["open"] = f"incident {self.open_incident.number:,}, {alerts}"
        facts["alert above"] = "nothing yet" if math.isinf(self.threshold) else f"{self.threshold:.4g}"
        if isinstance(self.detector, JudgesMany) and hasattr(self.detector, "_repr_html_"):
            return notebook.card(self._made(), facts) + str(self.detector._repr_html_())
        return notebook.card(self._made(), facts | {"detector": brief(self.detector, 200)})

    # what is known

    @property
    def n_seen_(self) -> int:
        """Events judged and learned."""
        return self._standing.ranks.n_judged

    @property
    def n_alerts_(self) -> int:
        """Alerts among them."""
        return self._standing.ranks.n_alerts

    @property
    def clock_(self) -> Clock:
        """The latest time, and how many times were missing, went back or repeated the one before."""
        return self._standing.clock

    @property
    def n_incidents_(self) -> int:
        """Incidents so far, the open one included."""
        return self._standing.incidents.count

    @property
    def open_incident(self) -> Incident | None:
        """The incident that has not ended yet."""
        return self._standing.incidents.open

    @property
    def burns_in(self) -> bool:
        """Whether the next event is still learned without an alert."""
        return self._standing.ranks.burns_in

    @property
    def capacity(self) -> int:
        """How many recent scores are kept: `window`, or what it is by default."""
        return len(self._standing.ranks.window.recent)

    @property
    def threshold(self) -> float:
        """The score that an event has to exceed to be an alert; infinite while too few scores are known."""
        return self._standing.ranks.threshold

    def p_value(self, score: float) -> float:
        """Rank a score among the recent ones: small is rare.

        Parameters
        ----------
        score
            What `score_one` returned for an event that has not been learned yet.

        """
        return self._standing.ranks.p_value(float(score))

    def classify(self, score: float) -> bool:
        """Tell whether a score is an alert."""
        return bool(score > self._standing.ranks.threshold)

    # judging

    def judge_one(self, x: dict[Any, Any], t: Any = None, learn: bool = True) -> Verdict:
        """Score and judge an event, explain it if it is an alert, then learn it.

        Parameters
        ----------
        x
            Feature names and values, as the detector takes them.
        t
            When it happened: seconds, a datetime or a datetime64. Only needed where parameters are given in time.
        learn
            Whether to learn the event and its score; without, nothing changes, and no incident is told.

        Returns
        -------
        Verdict
            Its `reasons` are the shares of the features, largest first, if it is an alert and the detector explains.

        """
        if type(x) is not dict:
            check_event(x)
        with self._lock:
            detector, ranks = self.detector, self._standing.ranks
            if t is None and ranks.needs_time:
                self._refuse_without_time()
            time = None if t is None else seconds_of(t)
            score = float(detector.score_one(x))
            alert = score > ranks.threshold
            reasons = self._explain(x) if alert else None
            if not learn:
                return Verdict(score, ranks.p_value(score), alert, reasons)
            withhold = alert and self._withholds()
            if not withhold:
                detector.learn_one(x)  # if it refuses the event nothing has changed
            return self._standing.follow(score, time, withhold, reasons)

    def _refuse_without_time(self) -> None:
        """Raise a ValueError that names what is given in time."""
        for name, parse in (("incident_rate", rate), ("hold_off", span), ("burn_in", span)):
            value = self._settings[name]
            if isinstance(value, str) and parse(value).in_time:
                raise ValueError(f"{name}={value!r} is given in time: say when each event happened (t=...)")

    def judge_many(
        self, X: Any, feature_names: Sequence[Hashable] | None = None, t: Any = None, learn: bool = True
    ) -> Verdicts:
        """Judge events one after the other: the same as a loop of `judge_one` over them, only faster.

        Parameters
        ----------
        X
            A 2-D array, or a data frame (pandas, polars, pyarrow; a lazy one is collected): one row an event; or a
            list of dicts. Detectors that take one event at a time get dictionaries without the missing values.
        feature_names
            Names of the columns of an array; 0, 1, 2 ... without.
        t
            When they happened, one time for each row: see `judge_one`.
        learn
            Whether to learn the events and their scores; without, all are judged against what is known now.

        """
        detector, X = self.detector, collected(X)
        if t is None and self._standing.ranks.needs_time:
            self._refuse_without_time()
        is_ours = isinstance(detector, JudgesMany)
        if is_ours:  # what is no number is refused before anything is learned
            feature_names, X = table(X, feature_names)
        in_batches = is_ours or (isinstance(detector, ScoresMany) and not isinstance(detector, Explains))
        times = None if t is None else seconds_of_many(collected(t))
        if times is not None and len(times) != len(X):
            raise ValueError(f"t has {len(times)} times for {len(X)} events: give one for each")
        if not in_batches or (self.protect and learn):  # whether an event is learned depends on what is said of it
            return self._judge_in_a_loop(records(X, feature_names, keep_missing=is_ours), times, learn)
        with self._lock:
            ranks, n_before, clock = self._standing.ranks, self.n_seen_, copy.copy(self.clock_)
            if isinstance(detector, JudgesMany):
                now = _monotone(times, len(X), clock)
                judged = detector.judge_many(X, feature_names, now, ranks.rules, ranks.window, learn)
                ranks.find_threshold()
            else:
                assert isinstance(detector, ScoresMany)
                score = detector.score_learn_many if learn else detector.score_many
                scores = np.ascontiguousarray(score(X, feature_names), dtype=np.float64)
                now = _monotone(times, len(scores), clock)
                judged = ranks.judge_many(scores, now, learn)
            if learn:
                self._standing.clock = clock
            return self._standing.told(judged, now, n_before)

    def _judge_in_a_loop(
        self, events: Iterable[dict[Any, Any]], times: NDArray[np.float64] | None, learn: bool
    ) -> Verdicts:
        verdicts, thresholds = [], []
        for i, x in enumerate(events):
            thresholds.append(self.threshold)
            verdicts.append(self.judge_one(x, None if times is None else times[i], learn))
        return Verdicts.of(verdicts, thresholds)

    def _explain(self, x: dict[Any, Any]) -> Reasons | None:
        return self.detector.explain_one(x) if isinstance(self.detector, Explains) else None

    def _withholds(self) -> bool:
        """Whether the next alert is kept from the detector."""
        return self.protect and self._standing.ranks.n_withheld + 1 <= 2 * self.alert_rate * (self.capacity + 1)

    def feedback_one(self, x: dict[Any, Any], is_anomaly: bool | None, teach: bool = False) -> bool:
        """Take an answer: whether an event was an anomaly. Alerts keep their rate.

        Parameters
        ----------
        x
            The event, as it was judged.
        is_anomaly
            True for an anomaly, found or missed; False for a false alarm; None if that is not known, which changes
            nothing.
        teach
            Whether a false alarm is also learned as normal, so that its like stops coming.

        Returns
        -------
        bool
            Whether scores have changed, as far as the detector tells: not where it knows nothing that the event has.

        """
        with self._lock:
            answered, seen = taking_answers(self.detector, x)
            rescored = answered.feedback_one(seen, is_anomaly, teach)
            if rescored is not None:
                self._standing.ranks.move(rescored)
            return rescored is not None

    def learn_one(self, *args: Any, **learn_kwargs: Any) -> None:
        """Learn an event: its score, and unless it is an alert to be protected from, the event itself."""
        if self._standing.ranks.needs_time:
            self._refuse_without_time()
        with self._lock:
            score = float(self.detector.score_one(*args))
            withhold = self.classify(score) and self._withholds()
            reasons = self._explain(args[0]) if self.classify(score) else None
            if not withhold:
                self.detector.learn_one(*args, **learn_kwargs)
            self._standing.follow(score, None, withhold, reasons)

    # snapshots

    def to_bytes(self) -> bytes:
        """Write the filter and its detector to bytes; the detector must be of a kind that can be restored."""
        snapshot.check_saveable(self.detector)
        with self._lock:
            fields, arrays = self._standing.saved()
            fields |= self._settings | {"protect": self.protect}
            detector = np.frombuffer(self.detector.to_bytes(), dtype=np.uint8)  # type: ignore[attr-defined]
            return snapshot.pack(type(self).__name__, fields, arrays | {"detector": detector})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a filter back: it goes on exactly where the one that was written would have."""
        _, fields, arrays = snapshot.unpack(data, cls.__name__)
        try:
            detector = snapshot.from_bytes(arrays["detector"].tobytes() if "detector" in arrays else b"")
            settings = ("alert_rate", "window", "protect", "incident_rate", "hold_off", "burn_in")
            model = cls(detector, **{name: fields[name] for name in settings})
            model._standing = model._standing.restored(fields, arrays)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SnapshotError(f"the snapshot of the filter does not fit together: {error}") from None
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


def _monotone(times: NDArray[np.float64] | None, n: int, clock: Clock) -> NDArray[np.float64]:
    """The times of n events, none earlier than the one before; the clock moves on."""
    return np.full(n, clock.latest) if times is None else clock.advance_many(times)
