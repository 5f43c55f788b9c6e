"""How good the scores and the incidents are, where the truth is known: without keeping them all."""

from __future__ import annotations

from typing import Any

import numpy as np

from svead_stream.cli.words import counted
from svead_stream.record import Verdicts


class LabelMeasures:
    """ROC AUC and average precision of a stream of any length, and what its incidents found, in constant memory.

    Scores are counted in bins as wide as the last digit of a number with 13 binary digits, so that scores
    which agree to about 1 part in 8,000 count as equal. Labelled rows in a row are one anomaly.
    """

    _SHIFT = 11

    def __init__(self) -> None:
        n_bins = 1 << (32 - self._SHIFT)
        self._counts = np.zeros((2, n_bins), dtype=np.int64)
        self.alerts = np.zeros(2, dtype=np.int64)  # without, with an anomaly
        self.n_anomalies = 0  # runs of labelled rows
        self.n_found = 0  # of them, with an alert of an incident
        self.n_incidents = 0
        self.true_incidents: set[int] = set()  # those with a labelled alert, of the last rows and the one before them
        self._n_true = 0
        self._in_anomaly = False
        self._last_found = self._last_incident = self._last_true = 0

    def add(self, labels: Any, verdicts: Verdicts, burn_in: int = 0) -> None:
        """Count labelled rows; those without a label, and the first ones, which could be no alerts, are left out."""
        known = ~np.isnan(labels)
        known[:burn_in] = False
        truth = labels[known].astype(np.int64)
        bits = verdicts.scores[known].astype(np.float32).view(np.uint32)
        # As unsigned numbers floats are in order once negative ones are turned round.
        ordered = np.where(bits >> 31 == 1, ~bits, bits | np.uint32(1 << 31))
        np.add.at(self._counts, (truth, ordered >> self._SHIFT), 1)
        np.add.at(self.alerts, truth[verdicts.alerts[known]], 1)
        self._add_incidents((labels == 1) & known, verdicts)

    def _add_incidents(self, anomalous: Any, verdicts: Verdicts) -> None:
        begins = anomalous & ~np.concatenate([[self._in_anomaly], anomalous[:-1]])
        self.true_incidents = {self._last_true}  # it may still be open
        number = self.n_anomalies + np.cumsum(begins)  # of the anomaly that each row belongs to
        for i, incident in verdicts.incidents.items():
            self.n_incidents += incident != self._last_incident
            self._last_incident = incident
            if anomalous[i]:
                self.n_found += int(number[i]) != self._last_found
                self._last_found = int(number[i])
                self._n_true += incident != self._last_true
                self._last_true = incident
                self.true_incidents.add(incident)
        if len(anomalous):
            self.n_anomalies, self._in_anomaly = int(number[-1]), bool(anomalous[-1])

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
        return {
            "roc_auc": auc,
            "average_precision": ap,
            "anomalies": a,
            "found": int(self.alerts[1]),
            "rows": n + a,
            "faults": self.n_anomalies,
            "faults_found": self.n_found,
            "incidents": self.n_incidents,
            "false_incidents": self.n_incidents - self._n_true,
        }

    def summary(self, learn: bool = True) -> list[str]:
        """Lines for people; without learning there are no incidents to measure."""
        n_alerts, measured = int(self.alerts.sum()), self.result()
        if measured is None:
            return [self._nothing()]
        lines = [
            f"found {self.n_found:,} of {counted(self.n_anomalies, 'labelled stretch')} "
            f"in {counted(self.n_incidents, 'incident')}, {measured['false_incidents']:,} of them false",
            f"ROC AUC {measured['roc_auc']:.4f}, average precision {measured['average_precision']:.4f}; "
            f"{measured['found']:,} of {counted(int(measured['anomalies']), 'labelled row')} "
            f"among {counted(n_alerts, 'alert')}",
        ]
        return lines if learn else lines[1:]

    def _nothing(self) -> str:
        """Why there is nothing to measure."""
        normal, anomalous = self._counts.sum(axis=1).tolist()
        if not normal and not anomalous:
            return "no row that could be an alert has a label: nothing to measure"
        if not anomalous:
            false = f"{counted(self.n_incidents, 'incident')}, all false" if self.n_incidents else "nothing to measure"
            return f"no row that could be an alert is labelled as an anomaly: {false}"
        return "all rows that could be alerts are labelled as anomalies: nothing to measure"
