"""The recent scores, where a new one stands among them (a conformal p-value), and what is said of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream.kernels import ranks
from svead_stream.kernels.layout import Rules, Window
from svead_stream.record import Judged
from svead_stream.rescored import Rescored
from svead_stream.spans import Span, rate, span

Floats = NDArray[np.float64]

_LEAST = 256  # recent scores that are ranked among, however young the stream


def rules_for(
    alert_rate: float,
    window: int | None,
    incident_rate: float | str | None,
    hold_off: float | str | None,
    burn_in: float | str,
) -> tuple[Rules, int]:
    """The rules by which alerts and incidents are told, and how many recent scores they need."""
    alert_rate = float(alert_rate)
    # By default a whole number of alerts to a window, so that rounding does not bend the rate.
    capacity = math.ceil(max(5, math.ceil(2500 * alert_rate)) / alert_rate) - 1 if window is None else int(window)
    incidents = Span(alert_rate / 2, False) if incident_rate is None else rate(incident_rate)
    # Alerts by chance come every 1 / alert_rate events: a quarter of them are closer than this. But as many incidents
    # as were asked for must have room beside each other.
    quiet = Span(math.ceil(0.3 / alert_rate), False) if hold_off is None else span(hold_off)
    first = span(burn_in)
    rules = Rules(
        alert_rate=alert_rate,
        least=max(_LEAST, math.ceil(2 / alert_rate)),
        rate=float(incidents.amount),
        rate_in_time=incidents.in_time,
        hold_off=float(quiet.amount),
        hold_off_in_time=quiet.in_time,
        hold_off_share=0.15 if hold_off is None else 0.0,
        burn_in=float(first.amount),
        burn_in_in_time=first.in_time,
    )
    return rules, capacity


class Ranks:
    """A window of recent scores, in arrays that the kernels share.

    Parameters
    ----------
    rules
        What makes an alert, and what an incident.
    capacity
        How many scores are kept.
    recent, withheld
        What it begins with, oldest first: scores, and whether their events were kept from the detector.
    counters, pace
        Where the stream stands; at its start without.

    Attributes
    ----------
    window
        The arrays.
    needs_time
        Whether the rules are given in time.
    threshold
        The score that an event has to exceed to be an alert; infinite where none can be.
    """

    def __init__(
        self, rules: Rules, capacity: int, recent: Any = (), withheld: Any = (), counters: Any = None, pace: Any = None
    ) -> None:
        recent, withheld = (np.asarray(given)[-capacity:] for given in (recent, withheld))
        known = len(recent)
        self.rules = rules
        self.window = Window(
            np.zeros(capacity),
            np.zeros(capacity),
            np.zeros(capacity, np.uint8),
            np.zeros(ranks.N_COUNTERS, np.int64) if counters is None else counters.copy(),
            np.array([0.0, 0.0, math.nan, math.nan]) if pace is None else pace.copy(),
        )
        self.window.recent[:known] = recent
        self.window.ordered[:known] = np.sort(recent)
        self.window.withheld[:known] = withheld
        own = self.window.counters
        own[ranks.OLDEST], own[ranks.KNOWN], own[ranks.WITHHELD] = 0, known, np.count_nonzero(withheld)
        self.needs_time = rules.rate_in_time or rules.hold_off_in_time or rules.burn_in_in_time
        self._to_judge = (np.array(rules, dtype=np.float64), *self.window)
        self.find_threshold()

    def find_threshold(self) -> None:
        """To be called after kernels have entered scores into the window."""
        self.threshold: float = ranks.next_threshold(self.rules, self.window)

    def changed(self, rules: Rules, capacity: int) -> Ranks:
        """The same scores for other rules, the newest of them if there is no room for all."""
        return Ranks(rules, capacity, **self.saved())

    def move(self, rescored: Rescored) -> None:
        """Put the scores where they would be now that answers have changed the detector."""
        known, window = self.window.counters[ranks.KNOWN], self.window
        window.ordered[:known] = rescored.moved_scores(window.ordered[:known])
        window.recent[:] = rescored.moved_scores(window.recent)
        self.find_threshold()

    @property
    def n_judged(self) -> int:
        """Events that were ever judged."""
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
    def burns_in(self) -> bool:
        """Whether the next event is among the first, of which none is an alert."""
        return bool(ranks.burns_in(self.rules, self.window.counters, self.window.pace))

    def saved(self) -> dict[str, NDArray[Any]]:
        """The arrays from which it can be made again; scores are in the order in which they came."""
        window = self.window
        oldest, known = window.counters[[ranks.OLDEST, ranks.KNOWN]]
        recent, withheld = (np.roll(ring, -oldest)[:known] for ring in (window.recent, window.withheld))
        counters = window.counters.copy()
        counters[ranks.OLDEST] = 0
        return {"recent": recent, "withheld": withheld, "counters": counters, "pace": window.pace.copy()}

    def p_value(self, score: float) -> float:
        """(1 + how many are as high or higher) / (1 + how many there are); 1 for NaN."""
        return ranks.p_value(score, self.window.ordered, self.window.counters)

    def judge(self, score: float, time: float, withhold: bool) -> tuple[float, int]:
        """The p-value of a score and what is said of it; it is then entered."""
        p_value, said, self.threshold = ranks.judge_event(score, time, withhold, *self._to_judge)
        return p_value, said

    def judge_many(self, scores: Floats, times: Floats, learn: bool) -> Judged:
        """What is said of scores one after the other, each of which is then entered if asked."""
        n = len(scores)
        judged = Judged(scores, np.empty(n), np.zeros(n, np.uint8), np.empty(n), {})
        ranks.judge_scores(scores, times, learn, self.rules, self.window, *judged[1:4])
        self.find_threshold()
        return judged

    def check(self) -> None:
        """Raise a ValueError if a stream cannot stand where the counters and the pace say."""
        counters = self.window.counters.tolist()
        credit, elapsed, latest, alert_time = self.window.pace.tolist()
        judged, alerts, incidents, is_open = (
            counters[at] for at in (ranks.JUDGED, ranks.ALERTS, ranks.INCIDENTS, ranks.OPEN)
        )
        if not all(0 <= count < 2**62 for count in counters) or not (
            is_open <= min(incidents, 1) and incidents <= alerts <= judged and counters[ranks.ENTERED] <= judged
        ):
            raise ValueError("its numbers of events, alerts and incidents are impossible")
        if not counters[ranks.OWN_ALERTS] <= alerts or not counters[ranks.ALERT_AT] <= judged:
            raise ValueError("its last alert is impossible")
        if (
            not elapsed >= 0
            or alert_time > latest
            or (elapsed > 0 and math.isnan(latest))
            or not abs(credit) <= ranks.MOST_CREDIT
            or np.isinf(self.window.pace).any()
        ):
            raise ValueError("its times are impossible")
