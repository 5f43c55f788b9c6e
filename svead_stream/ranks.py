"""The recent scores, and where a new one stands among them: a conformal p-value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream.kernels import ranks
from svead_stream.kernels.layout import Window

Floats = NDArray[np.float64]


class Ranks:
    """A window of recent scores, in arrays that the kernels share.

    Parameters
    ----------
    capacity
        How many scores are kept.
    alert_rate
        The p-value up to which a score is an alert.
    scores, withheld
        What it begins with, oldest first: scores, and whether their events were kept from the detector.
    judged, alerts
        How many were judged so far, and how many of them were alerts.

    Attributes
    ----------
    window
        The arrays.
    threshold
        The score that an event has to exceed to be an alert; infinite while too few scores are known.
    """

    def __init__(
        self,
        capacity: int,
        alert_rate: float,
        scores: Any = (),
        withheld: Any = (),
        judged: int = 0,
        alerts: int = 0,
    ) -> None:
        scores, withheld = (np.asarray(given)[-capacity:] for given in (scores, withheld))
        known = len(scores)
        counters = np.zeros(ranks.N_COUNTERS, np.int64)
        self.alert_rate = float(alert_rate)
        self.window = Window(np.zeros(capacity), np.zeros(capacity), np.zeros(capacity, np.uint8), counters)
        self.window.recent[:known] = scores
        self.window.ordered[:known] = np.sort(scores)
        self.window.withheld[:known] = withheld
        counters[ranks.KNOWN], counters[ranks.WITHHELD] = known, np.count_nonzero(withheld)
        counters[ranks.JUDGED], counters[ranks.ALERTS] = judged, alerts
        self._to_judge = (self.alert_rate, *self.window)
        self.find_threshold()

    def find_threshold(self) -> None:
        """To be called after kernels have entered scores into the window."""
        known = int(self.window.counters[ranks.KNOWN])
        self.threshold: float = ranks.threshold(self.window.ordered, known, ranks.allowed(self.alert_rate, known))

    def changed(self, capacity: int, alert_rate: float) -> Ranks:
        """The same scores for another rate, the newest of them if there is no room for all."""
        return Ranks(capacity, alert_rate, self.scores, self.withheld, self.n_judged, self.n_alerts)

    @property
    def n_judged(self) -> int:
        """Scores that were ever entered."""
        return int(self.window.counters[ranks.JUDGED])

    @property
    def n_alerts(self) -> int:
        """Alerts among them."""
        return int(self.window.counters[ranks.ALERTS])

    @property
    def n_withheld(self) -> int:
        """Events of the window that were kept from the detector."""
        return int(self.window.counters[ranks.WITHHELD])

    @property
    def scores(self) -> Floats:
        """The recent scores, oldest first."""
        return self._in_order(self.window.recent)

    @property
    def withheld(self) -> NDArray[np.uint8]:
        """Whether the event of each was kept from the detector."""
        return self._in_order(self.window.withheld)

    def _in_order(self, ring: NDArray[Any]) -> NDArray[Any]:
        oldest, known = self.window.counters[[ranks.OLDEST, ranks.KNOWN]]
        return np.roll(ring, -oldest)[:known]

    def p_value(self, score: float) -> float:
        """(1 + how many are as high or higher) / (1 + how many there are); 1 for NaN."""
        return ranks.p_value(score, self.window.ordered, self.window.counters)

    def judge(self, score: float, withhold: bool) -> float:
        """The p-value of a score, which is then entered."""
        p_value, self.threshold = ranks.judge_event(score, withhold, *self._to_judge)
        return p_value

    def judge_many(self, scores: Floats, learn: bool) -> tuple[Floats, Floats]:
        """P-values and thresholds of scores one after the other, each of which is then entered if asked."""
        p_values, thresholds = np.empty(len(scores)), np.empty(len(scores))
        ranks.judge_scores(scores, self.alert_rate, learn, self.window, p_values, thresholds)
        self.find_threshold()
        return p_values, thresholds
