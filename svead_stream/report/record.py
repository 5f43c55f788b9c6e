"""What a report remembers of a run: every row is counted, but only so much is kept, however long the run is."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from svead_stream.record import OPEN, Incident
from svead_stream.report.bins import digits
from svead_stream.report.series import Series
from svead_stream.report.timeline import Timeline

N_ALERTS = 1000  # kept in full, the strongest
N_INCIDENTS = 1000  # likewise
N_FEATURES = 24  # of an alert, those with the largest shares
N_VALUES = 200  # of an alert, for answers about it
N_BLAMED = 8  # features of an incident, likewise
N_CHARTS = 200  # features whose course is shown: those to blame first, then those that moved most
_DISTRIBUTION_BINS = 64
_SHIFT = 16  # of the bits of a score: bins of 1 part in 128

_Kept = TypeVar("_Kept")


@dataclass
class Alert:
    """One alert with all that is shown of it."""

    row: int
    where: str  # file and line
    score: float
    p_value: float
    threshold: float
    label: int | None
    context: dict[str, str]  # columns that are not features, such as a name
    features: list[dict[str, Any]]  # name, value, share, and the usual range (low, middle, high)
    time: float | None = None  # in seconds since 1970
    incident: int | None = None  # the number of the one that it belongs to
    values: dict[str, float] = field(default_factory=dict)  # of all features that are there, for answers about it

    @property
    def strength(self) -> float:
        """How many times the score is what an alert had to exceed."""
        return self.score / self.threshold if 0 < self.threshold < math.inf else math.inf


class Strongest(Generic[_Kept]):
    """The strongest of those that were added; of equals, the first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._n = 0
        self._heap: list[tuple[Any, int, _Kept]] = []  # the weakest is first

    def wants(self, strength: Any) -> bool:
        """Whether one of that strength would be kept."""
        return len(self._heap) < self.size or bool(strength > self._heap[0][0])

    def add(self, strength: Any, one: _Kept) -> None:
        """Keep one if it is strong enough; strengths are numbers, or tuples of them."""
        self._n += 1
        entry = (strength, -self._n, one)
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def copy(self) -> Strongest[_Kept]:
        """The same ones, to be added to apart from these."""
        other = copy(self)
        other._heap = list(self._heap)
        return other

    def kept(self) -> list[_Kept]:
        """Those that are kept, in the order in which they were added."""
        return [one for _, _, one in sorted(self._heap, key=lambda entry: -entry[1])]


@dataclass
class Recorder:
    """Takes everything that a run produces and holds on to what the report shows."""

    n_rows: int = 0
    n_burn_in: int = 0
    n_alerts: int = 0
    n_rejected: int = 0
    n_true_alerts: int = 0
    n_true: int = 0
    labelled: bool = False
    n_incidents: int = 0
    n_open_incidents: int = 0
    n_true_incidents: int = 0
    timeline: Timeline = field(default_factory=Timeline)
    series: Series = field(default_factory=Series)
    shares: dict[str, float] = field(default_factory=dict)  # summed over all alerts
    firsts: dict[str, int] = field(default_factory=dict)  # how often a feature had the largest share
    _counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 1 << (32 - _SHIFT)), dtype=np.int64))
    _alerts: Strongest[Alert] = field(default_factory=lambda: Strongest(N_ALERTS))
    _incidents: Strongest[dict[str, Any]] = field(default_factory=lambda: Strongest(N_INCIDENTS))

    def add_rows(
        self,
        scores: npt.NDArray[np.float64],
        alerts: npt.NDArray[np.bool_],
        thresholds: npt.NDArray[np.float64],
        labels: npt.NDArray[np.float64] | None = None,
        times: npt.NDArray[np.float64] | None = None,
        burn_in: int = 0,
        values: Mapping[str, npt.NDArray[np.float64]] | None = None,
    ) -> None:
        """Count rows.

        Parameters
        ----------
        scores, alerts
            What was said of them.
        thresholds
            What each score had to exceed to be an alert.
        labels
            1 for an anomaly, 0 for none, NaN where that is not known.
        times
            Seconds since 1970 that do not go back, NaN where one is not known.
        burn_in
            How many of them were learned without alerts: the first ones. Their labels do not count, since none of them
            could be found.
        values
            Of the features, by their names; NaN where one is missing.
        """
        self.n_rows += len(scores)
        self.n_burn_in += burn_in
        self.n_alerts += int(alerts.sum())
        self.timeline.add(scores, alerts, thresholds, times)
        self.series.add(values or {}, len(scores))
        bits = np.maximum(scores, 0.0).astype(np.float32).view(np.uint32) >> _SHIFT
        np.add.at(self._counts, (alerts.astype(np.intp), bits), 1)
        if labels is not None:
            self.labelled = True
            self.n_true += int(np.nansum(labels[burn_in:]))
            self.n_true_alerts += int(np.nansum(labels[burn_in:][alerts[burn_in:]]))

    def usual(self, row: int, name: str) -> list[float] | None:
        """The range in which nine of ten values of a feature lay just before a row.

        Parameters
        ----------
        row
            Counted from 1, as of an alert; one of those that were added last.
        name
            Of the feature.

        Returns
        -------
        list
            The low end, the middle and the high end; None where that is not known.
        """
        return self.series.usual(row - 1, name)

    def wants(self, strength: float) -> bool:
        """Whether an alert of that strength would be kept in full: worked out only then."""
        return self._alerts.wants(strength)

    def add_shares(self, shares: Mapping[Hashable, float]) -> None:
        """Count what an alert was due to; for all alerts, kept or not."""
        for name, share in ((str(name), share) for name, share in shares.items()):
            self.shares[name] = self.shares.get(name, 0.0) + share
        first = next(map(str, shares), None)
        if first is not None:
            self.firsts[first] = self.firsts.get(first, 0) + 1

    def add_alert(self, alert: Alert) -> None:
        """Keep an alert if it is among the strongest."""
        alert.features = alert.features[:N_FEATURES]
        self._alerts.add(alert.strength, alert)

    def add_incident(
        self, incident: Incident, row: int, where: str, truth: bool | None = None, last: int | None = None
    ) -> None:
        """Count an incident that is over, or still open at the end, and keep it if it is among the strongest.

        Parameters
        ----------
        incident
            What is known of it.
        row
            Its first row in this run, from 1 on; less if it began before the run, with a model that was loaded.
        where
            File and line of that row.
        truth
            Whether a labelled anomaly lies in it; None where there are no labels.
        last
            Its last row; needed where rows of other models lie between.
        """
        self.n_incidents += 1
        self.n_open_incidents += incident.state == OPEN
        self.n_true_incidents += truth is True
        strength = (-incident.p_value, incident.peak)  # the smallest p-value is that of many: the peak tells them apart
        if not self._incidents.wants(strength):
            return
        shown = {
            "number": incident.number,
            "open": incident.state == OPEN,
            "row": row,
            "last": row + incident.events - 1 if last is None else last,
            "where": where,
            "start": incident.start,
            "end": incident.end,
            "alerts": incident.alerts,
            "peak": incident.peak,
            "p_value": incident.p_value,
            "truth": truth,
            "features": [{"name": str(n), "share": s} for n, s in list((incident.reasons or {}).items())[:N_BLAMED]],
        }
        self._incidents.add(strength, shown)

    def apart(self) -> Recorder:
        """The same, to be given incidents that are still open without keeping them."""
        other = copy(self)
        other._incidents = self._incidents.copy()
        return other

    def to_json(self) -> dict[str, Any]:
        """All of it as plain lists and numbers."""
        alerts = sorted(self._alerts.kept(), key=lambda alert: alert.row)
        shares = sorted(self.shares.items(), key=lambda item: -item[1])[:N_FEATURES]
        total = max(sum(self.shares.values()), 1e-300)
        columns = {name: i for i, name in enumerate(dict.fromkeys(name for a in alerts for name in a.values))}
        return {
            "rows": self.n_rows,
            "burn_in": self.n_burn_in,
            "alerts": self.n_alerts,
            "rejected": self.n_rejected,
            "truth": {"anomalies": self.n_true, "found": self.n_true_alerts} if self.labelled else None,
            "incidents": {
                "total": self.n_incidents,
                "open": self.n_open_incidents,
                "true": self.n_true_incidents,
                "kept": sorted(self._incidents.kept(), key=lambda incident: incident["row"]),
            },
            "timeline": self.timeline.to_json(),
            "features": self._features(),
            "distribution": self._distribution(),
            "shares": [{"name": n, "share": s / total, "first": self.firsts.get(n, 0)} for n, s in shares],
            "columns": list(columns),
            "table": [
                # Names may be long: each is written once. Values are whole, for answers; what is only shown is short.
                vars(alert)
                | {"strength": _short(alert.strength), "values": {columns[n]: v for n, v in alert.values.items()}}
                | {"features": [{name: _short(item) for name, item in one.items()} for one in alert.features]}
                for alert in alerts
            ],
        }

    def _features(self) -> dict[str, Any]:
        """How the features went: all that are shown, the ones to blame first."""
        drift = self.series.drift()

        def rank(name: str) -> tuple[float, float]:
            return -self.shares.get(name, 0.0), -abs(drift[name]["change"] or 0.0)

        chosen = sorted(drift, key=rank)[:N_CHARTS]
        shown = self.series.to_json(chosen)
        return {
            "total": len(drift),
            "width": shown["width"],
            "kept": [one | drift[name] for name, one in zip(chosen, shown["features"], strict=True)],
        }

    def _distribution(self) -> dict[str, Any]:
        """Rows by score in bins of equal ratio, from the lowest score but zero to the highest."""
        filled = np.flatnonzero(self._counts.any(axis=0))
        values = (filled.astype(np.uint32) << _SHIFT).view(np.float32).astype(np.float64)
        counts = self._counts[:, filled]
        finite = np.isfinite(values) & (values > 0)
        if not finite.any():
            return {"edges": [], "rows": [], "alerts": []}
        values, counts = values[finite], counts[:, finite]
        last = values[-1] * (1 + 2.0**-7)
        edges = np.geomspace(values[0], last, _DISTRIBUTION_BINS + 1)
        at = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _DISTRIBUTION_BINS - 1)
        binned = np.zeros((2, _DISTRIBUTION_BINS), dtype=np.int64)
        for row in (0, 1):
            np.add.at(binned[row], at, counts[row])
        return {"edges": digits(edges), "rows": binned.sum(axis=0).tolist(), "alerts": binned[1].tolist()}


def _short(item: Any) -> Any:
    """Numbers with no more digits than are shown."""
    if isinstance(item, float):
        return float(f"{item:.7g}")
    return [_short(one) for one in item] if isinstance(item, list) else item
