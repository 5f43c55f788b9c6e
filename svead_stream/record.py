"""What is said of an event, in Python and in the one record that every output writes.

The record has the same fields everywhere: `score`, `p_value`, `alert` and, for alerts, `top_features`. Columns of a CSV
or a Parquet file, members of a JSON line or of a Kafka message: `record.schema.json` in this package describes it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Reasons = dict[Hashable, float]  # feature name: its share in the score, largest first

FIELDS = ("score", "p_value", "alert", "top_features")
_DIGITS = 4  # of a share


class Verdict(NamedTuple):
    """What is said of one event."""

    score: float
    p_value: float
    alert: bool
    reasons: Reasons | None = None  # of alerts: the share of each feature in the score, largest first

    def record(self, top: int) -> dict[str, Any]:
        """The fields that are written, with so many of the features."""
        fields: dict[str, Any] = {"score": self.score, "p_value": self.p_value, "alert": self.alert}
        if self.reasons is not None:
            fields["top_features"] = top_features(self.reasons, top)
        return fields


@dataclass(frozen=True)
class Verdicts:
    """What is said of a mini-batch: arrays with one element an event, or one `Verdict` after the other."""

    scores: NDArray[np.float64]
    p_values: NDArray[np.float64]
    alerts: NDArray[np.bool_]
    thresholds: NDArray[np.float64]  # the score that each had to exceed to be an alert
    reasons: dict[int, Reasons]  # of the alerts, by the number of the row

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, i: int) -> Verdict:
        i = range(len(self))[index(i)]  # from the end, too
        return Verdict(float(self.scores[i]), float(self.p_values[i]), bool(self.alerts[i]), self.reasons.get(i))

    def only_alerts(self) -> Verdicts:
        """What is said of the alerts alone, in their order."""
        rows = np.flatnonzero(self.alerts)
        reasons = {k: self.reasons[i] for k, i in enumerate(rows.tolist()) if i in self.reasons}
        return Verdicts(self.scores[rows], self.p_values[rows], self.alerts[rows], self.thresholds[rows], reasons)

    def __iter__(self) -> Iterator[Verdict]:
        columns = (self.scores.tolist(), self.p_values.tolist(), self.alerts.tolist())
        for i, (score, p_value, alert) in enumerate(zip(*columns, strict=True)):
            yield Verdict(score, p_value, alert, self.reasons.get(i))


def top_features(reasons: Mapping[Hashable, float], top: int) -> list[dict[str, Any]]:
    """The first features of an alert, as they are written."""
    first = list(reasons.items())[:top]
    return [{"feature": str(name), "share": round(share, _DIGITS)} for name, share in first]


def schema() -> dict[str, Any]:
    """The JSON Schema of the record."""
    text = files("svead_stream").joinpath("record.schema.json").read_text(encoding="utf-8")
    described: dict[str, Any] = json.loads(text)
    return described
