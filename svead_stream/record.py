"""What is said of an event and of an incident, in Python and in the records that every output writes.

The record of an event has the same fields everywhere: `score`, `p_value`, `alert` and, for alerts, `top_features` and
the number of the `incident`. Columns of a CSV or a Parquet file, members of a JSON line or of a Kafka message:
`record.schema.json` in this package describes it, `incident.schema.json` that of an incident.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svead_stream.clock import shown
from svead_stream.notebook import bars

Reasons = dict[Hashable, float]  # feature name: its share in the score, largest first


class Explanation(Reasons):
    """Shares of the features in a score, largest first: a dict, which a notebook draws as bars.

    Parameters
    ----------
    shares
        By the names of the features.
    event
        The numbers that the event has for them, as far as they are known.
    """

    def __init__(
        self,
        shares: Mapping[Hashable, float] | Iterable[tuple[Hashable, float]] = (),
        event: Mapping[Hashable, float] | None = None,
    ) -> None:
        super().__init__(shares)
        self.event = dict(event or {})

    def _repr_html_(self) -> str:
        return bars(self, self.event)


FIELDS = ("score", "p_value", "alert", "incident", "top_features")
OPEN, UPDATE, CLOSED = "open", "update", "closed"  # states of an incident
_DIGITS = 4  # of a share


class Incident(NamedTuple):
    """Alerts that belong together, as they were known at a moment."""

    number: int  # in the life of the model, from 1 on
    state: str  # "open": it has just begun; "update": it goes on; "closed": it is over
    first: int  # events of the first and the last alert, counted in the life of the model, from 1 on
    last: int
    start: float | None  # their times, in seconds, where events have one
    end: float | None
    alerts: int
    peak: float  # the highest score
    p_value: float  # the smallest
    reasons: Reasons | None  # the share of each feature over all alerts, largest first

    @property
    def events(self) -> int:
        """How many events it spans, from the first alert to the last."""
        return self.last - self.first + 1

    def record(self, top: int) -> dict[str, Any]:
        """The fields that are written, with so many of the features."""
        return {
            "incident": self.number,
            "state": self.state,
            "start": None if self.start is None else shown(self.start),
            "end": None if self.end is None else shown(self.end),
            "first": self.first,
            "last": self.last,
            "events": self.events,
            "alerts": self.alerts,
            "peak": self.peak,
            "p_value": self.p_value,
            "top_features": top_features(self.reasons or {}, top),
        }


class Verdict(NamedTuple):
    """What is said of one event."""

    score: float
    p_value: float
    alert: bool
    reasons: Reasons | None = None  # of alerts: the share of each feature in the score, largest first
    incident: int | None = None  # of alerts: the number of the incident that it belongs to
    changes: tuple[Incident, ...] = ()  # incidents that it ended, opened or went on with

    def record(self, top: int) -> dict[str, Any]:
        """The fields that are written, with so many of the features."""
        fields: dict[str, Any] = {"score": self.score, "p_value": self.p_value, "alert": self.alert}
        if self.incident is not None:
            fields["incident"] = self.incident
        if self.reasons is not None:
            fields["top_features"] = top_features(self.reasons, top)
        return fields


class Judged(NamedTuple):
    """What a detector and the ranks say of a mini-batch, before incidents are told from it."""

    scores: NDArray[np.float64]
    p_values: NDArray[np.float64]
    said: NDArray[np.uint8]
    thresholds: NDArray[np.float64]
    reasons: dict[int, Reasons]


@dataclass(frozen=True)
class Verdicts:
    """What is said of a mini-batch: arrays with one element an event, or one `Verdict` after the other."""

    scores: NDArray[np.float64]
    p_values: NDArray[np.float64]
    alerts: NDArray[np.bool_]
    thresholds: NDArray[np.float64]  # the score that each had to exceed to be an alert
    reasons: dict[int, Reasons]  # of the alerts, by the number of the row
    incidents: dict[int, int] = field(default_factory=dict)  # of the alerts that belong to one, by the row
    changes: dict[int, tuple[Incident, ...]] = field(default_factory=dict)  # incidents that changed, by the row

    @classmethod
    def of(cls, verdicts: Sequence[Verdict], thresholds: Sequence[float]) -> Verdicts:
        """What was said of one event after the other."""
        return cls(
            scores=np.array([verdict.score for verdict in verdicts], dtype=np.float64),
            p_values=np.array([verdict.p_value for verdict in verdicts], dtype=np.float64),
            alerts=np.array([verdict.alert for verdict in verdicts], dtype=np.bool_),
            thresholds=np.array(thresholds, dtype=np.float64),
            reasons={i: verdict.reasons for i, verdict in enumerate(verdicts) if verdict.reasons},
            incidents={i: verdict.incident for i, verdict in enumerate(verdicts) if verdict.incident is not None},
            changes={i: verdict.changes for i, verdict in enumerate(verdicts) if verdict.changes},
        )

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, i: int) -> Verdict:
        i = range(len(self))[index(i)]  # from the end, too
        return Verdict(float(self.scores[i]), float(self.p_values[i]), bool(self.alerts[i]), *self._of(i))

    def _of(self, i: int) -> tuple[Reasons | None, int | None, tuple[Incident, ...]]:
        return self.reasons.get(i), self.incidents.get(i), self.changes.get(i, ())

    def only_alerts(self) -> Verdicts:
        """What is said of the alerts alone, in their order."""
        rows = np.flatnonzero(self.alerts)
        at = {i: k for k, i in enumerate(rows.tolist())}
        reasons, incidents, changes = (
            {at[i]: one for i, one in said.items() if i in at} for said in (self.reasons, self.incidents, self.changes)
        )
        arrays = (self.scores[rows], self.p_values[rows], self.alerts[rows], self.thresholds[rows])
        return Verdicts(*arrays, reasons, incidents, changes)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Verdict]:
        columns = (self.scores.tolist(), self.p_values.tolist(), self.alerts.tolist())
        for i, (score, p_value, alert) in enumerate(zip(*columns, strict=True)):
            yield Verdict(score, p_value, alert, *self._of(i))


def top_features(reasons: Mapping[Hashable, float], top: int) -> list[dict[str, Any]]:
    """The first features of an alert, as they are written."""
    first = list(reasons.items())[:top]
    return [{"feature": str(name), "share": round(share, _DIGITS)} for name, share in first]


def schema(name: str = "record") -> dict[str, Any]:
    """The JSON Schema of a `record`, or of an `incident`."""
    text = files("svead_stream").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    described: dict[str, Any] = json.loads(text)
    return described
