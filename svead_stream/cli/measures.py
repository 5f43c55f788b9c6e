"""How good the scores are, where the truth is known: without keeping them all."""

from __future__ import annotations

from typing import Any

import numpy as np

from svead_stream.record import Verdicts


class LabelMeasures:
    """ROC AUC and average precision of a stream of any length, in constant memory.

    Scores are counted in bins as wide as the last digit of a number with 13 binary digits, so that scores
    which agree to about 1 part in 8,000 count as equal.
    """

    _SHIFT = 11

    def __init__(self) -> None:
        n_bins = 1 << (32 - self._SHIFT)
        self._counts = np.zeros((2, n_bins), dtype=np.int64)
        self.alerts = np.zeros(2, dtype=np.int64)  # without, with an anomaly

    def add(self, labels: Any, verdicts: Verdicts) -> None:
        """Count labelled rows; those without a label are left out."""
        known = ~np.isnan(labels)
        truth = labels[known].astype(np.int64)
        bits = verdicts.scores[known].astype(np.float32).view(np.uint32)
        # As unsigned numbers floats are in order once negative ones are turned round.
        ordered = np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))
        np.add.at(self._counts, (truth, ordered >> self._SHIFT), 1)
        np.add.at(self.alerts, truth[verdicts.alerts[known]], 1)

    def result(self) -> dict[str, float] | None:
        """The figures, or nothing where there are only anomalies or none."""
        normal, anomalous = self._counts[:, self._counts.any(axis=0)][:, ::-1]  # highest scores first
        n, a = int(normal.sum()), int(anomalous.sum())
        if not n or not a:
            return None
        hits, false = np.cumsum(anomalous), np.cumsum(normal)
        auc = float(((hits - anomalous / 2) * normal).sum() / (n * a))
        precision = hits / (hits + false)
        ap = float((precision * anomalous).sum() / a)
        found = int(self.alerts[1])
        return {"roc_auc": auc, "average_precision": ap, "anomalies": a, "found": found, "rows": n + a}

    def summary(self) -> str:
        """One line for people."""
        measured = self.result()
        if measured is None:
            return "the label is the same everywhere: nothing to measure"
        alerts = int(self.alerts.sum())
        return (
            f"ROC AUC {measured['roc_auc']:.4f}, average precision {measured['average_precision']:.4f}; "
            f"{measured['found']:,} of {measured['anomalies']:,} anomalies among {alerts:,} alerts"
        )
