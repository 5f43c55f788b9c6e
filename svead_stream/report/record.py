"""What a report remembers of a run: every row is counted, but only so much is kept, however long the run is."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

N_BINS = 1024  # of the timeline: about the pixels of a wide screen
N_ALERTS = 1000  # kept in full, the strongest
N_FEATURES = 24  # of an alert, those with the largest shares
_DISTRIBUTION_BINS = 64
_SHIFT = 16  # of the bits of a score: bins of 1 part in 128


@dataclass
class Alert:
    """One alert with all that is shown of it."""

    row: int
    where: str  # file and line
    score: float
    p_value: float
    threshold: float
    label: int | None
    context: dict[str, str]  # columns that are not features, such as a time or a name
    features: list[dict[str, Any]]  # name, value, share, and the usual range (low, middle, high)

    @property
    def strength(self) -> float:
        """How many times the score is what an alert had to exceed."""
        return self.score / self.threshold if 0 < self.threshold < math.inf else math.inf


class Timeline:
    """Counts and extremes of consecutive rows, in bins that double in width when there are too many of them."""

    def __init__(self) -> None:
        self.width = 1
        self.n = 0
        shape = 2 * N_BINS
        self.low = np.full(shape, np.inf)
        self.high = np.full(shape, -np.inf)
        self.total = np.zeros(shape)
        self.count = np.zeros(shape, dtype=np.int64)
        self.alerts = np.zeros(shape, dtype=np.int64)
        self.threshold = np.full(shape, np.nan)

    def add(
        self,
        scores: npt.NDArray[np.float64],
        alerts: npt.NDArray[np.bool_],
        thresholds: npt.NDArray[np.float64],
    ) -> None:
        """Append rows."""
        start = 0
        while start < len(scores):
            if self.n == 2 * N_BINS * self.width:
                self._halve()
            part = slice(start, start + 2 * N_BINS * self.width - self.n)
            s, a, threshold = scores[part], alerts[part], thresholds[part]
            at = (self.n + np.arange(len(s))) // self.width
            np.minimum.at(self.low, at, s)
            np.maximum.at(self.high, at, s)
            np.add.at(self.total, at, s)
            np.add.at(self.count, at, 1)
            np.add.at(self.alerts, at, a)
            known = np.isfinite(threshold)
            self.threshold[at[known]] = threshold[known]
            self.n += len(s)
            start += len(s)

    def _halve(self) -> None:
        for name, join, empty in (
            ("low", np.minimum, np.inf),
            ("high", np.maximum, -np.inf),
            ("total", np.add, 0),
            ("count", np.add, 0),
            ("alerts", np.add, 0),
            ("threshold", np.fmax, np.nan),
        ):
            bins = getattr(self, name)
            bins[:N_BINS] = join(bins[::2], bins[1::2])
            bins[N_BINS:] = empty
        self.width *= 2

    def to_json(self) -> dict[str, Any]:
        """Lists for drawing, one element a bin."""
        filled = slice(0, -(-self.n // self.width))
        return {
            "width": self.width,
            "low": _digits(self.low[filled]),
            "high": _digits(self.high[filled]),
            "mean": _digits(self.total[filled] / np.maximum(self.count[filled], 1)),
            "alerts": self.alerts[filled].tolist(),
            "threshold": _digits(self.threshold[filled]),
        }


@dataclass
class Recorder:
    """Takes everything that a run produces and holds on to what the report shows."""

    n_rows: int = 0
    n_alerts: int = 0
    n_rejected: int = 0
    n_true_alerts: int = 0
    n_true: int = 0
    labelled: bool = False
    timeline: Timeline = field(default_factory=Timeline)
    shares: dict[str, float] = field(default_factory=dict)  # summed over all alerts
    firsts: dict[str, int] = field(default_factory=dict)  # how often a feature had the largest share
    _counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 1 << (32 - _SHIFT)), dtype=np.int64))
    _kept: list[tuple[float, int, Alert]] = field(default_factory=list)  # a heap: the weakest is first

    def add_rows(
        self,
        scores: npt.NDArray[np.float64],
        alerts: npt.NDArray[np.bool_],
        thresholds: npt.NDArray[np.float64],
        labels: npt.NDArray[np.float64] | None = None,
    ) -> None:
        """Count rows; thresholds are what each score had to exceed to be an alert."""
        self.n_rows += len(scores)
        self.n_alerts += int(alerts.sum())
        self.timeline.add(scores, alerts, thresholds)
        bits = np.maximum(scores, 0.0).astype(np.float32).view(np.uint32) >> _SHIFT
        np.add.at(self._counts, (alerts.astype(np.intp), bits), 1)
        if labels is not None:
            self.labelled = True
            self.n_true += int(np.nansum(labels))
            self.n_true_alerts += int(np.nansum(labels[alerts]))

    def wants(self, strength: float) -> bool:
        """Whether an alert of that strength would be kept in full: worked out only then."""
        return len(self._kept) < N_ALERTS or strength > self._kept[0][0]

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
        entry = (alert.strength, -alert.row, alert)
        if len(self._kept) < N_ALERTS:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain lists and numbers."""
        alerts = sorted((alert for _, _, alert in self._kept), key=lambda alert: alert.row)
        shares = sorted(self.shares.items(), key=lambda item: -item[1])[:N_FEATURES]
        total = max(sum(self.shares.values()), 1e-300)
        return {
            "rows": self.n_rows,
            "alerts": self.n_alerts,
            "rejected": self.n_rejected,
            "truth": {"anomalies": self.n_true, "found": self.n_true_alerts} if self.labelled else None,
            "timeline": self.timeline.to_json(),
            "distribution": self._distribution(),
            "shares": [{"name": n, "share": s / total, "first": self.firsts.get(n, 0)} for n, s in shares],
            "table": [asdict(alert) | {"strength": alert.strength} for alert in alerts],
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
        return {"edges": _digits(edges), "rows": binned.sum(axis=0).tolist(), "alerts": binned[1].tolist()}


def _digits(values: npt.NDArray[np.float64]) -> list[float | None]:
    """Five digits are more than a screen shows; NaN and infinity are not JSON."""
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values.tolist()]
