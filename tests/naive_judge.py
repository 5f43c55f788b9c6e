"""The judge in plain Python, slow and obviously right: what is said of scores, one after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class NaiveJudge:
    """Lists of everything; spans are (amount, whether it is in time)."""

    alert_rate: float = 0.01
    window: int = 2_499
    rate: tuple[float, bool] = (0.005, False)
    hold_off: tuple[float, bool] | None = None
    burn_in: tuple[float, bool] = (256, False)
    recent: list[float] = field(default_factory=list)  # scores
    entered: int = 0
    times: list[float] = field(default_factory=list)  # of all events, none earlier than the one before
    credit: float = 0.0
    incidents: list[dict[str, Any]] = field(default_factory=list)
    is_open: bool = False

    def judge(self, score: float, time: float = math.nan) -> dict[str, Any]:
        """The verdict on the next score."""
        n = len(self.times)
        opening, belonging, burning = self.opening_level(), self.member_level(), self.burns_in()
        level = 0.0 if burning else self.alert_rate if self.is_open else max(self.alert_rate, opening)
        p = 1.0
        if not math.isnan(score):
            p = (1 + sum(other >= score for other in self.recent)) / (1 + len(self.recent))
        alert = p <= level and not math.isnan(score)

        before = self.times[-1] if n else math.nan
        self.times.append(time)
        closes = self.is_open and self.is_over(n, time)
        if closes:
            self.is_open = False
        opens = alert and not self.is_open and self.rarity(p, score) <= opening
        if opens:
            self.is_open = True
            self.incidents.append({"events": [], "times": [], "scores": [], "p_values": []})
            self.credit = max(-5.0, self.credit - 1.0)
        number = None
        if self.is_open and alert and (opens or p <= belonging):
            own = self.incidents[-1]
            for name, value in (("events", n), ("times", time), ("scores", score), ("p_values", p)):
                own[name].append(value)
            number = len(self.incidents)
        if not burning:
            amount, in_time = self.rate
            passed = time - before if time > before else 0.0
            self.credit = min(5.0, self.credit + amount * (passed if in_time else 1.0))

        lasts = number is not None and 2 < len(self.incidents[-1]["events"]) <= 1000
        if not math.isnan(score) and (score != 0.0 or self.recent) and not lasts:
            keep = min(self.window, max(256, math.ceil(2 / self.alert_rate), self.entered // 2))
            if len(self.recent) >= keep:
                del self.recent[0]
            self.recent.append(score)
            self.entered += 1
        return {"p_value": p, "alert": alert, "incident": number, "opens": opens, "closes": closes}

    def passed(self) -> float:
        """Seconds from event to event; more than a day between two counts as one."""
        steps = [after - before for before, after in itertools.pairwise(self.times)]
        return sum(min(step, 86_400.0) for step in steps if step > 0)

    def rate_an_event(self, n: int) -> float:
        amount, in_time = self.rate
        return amount * self.passed() / max(n, 1) if in_time else amount

    def opening_level(self) -> float:
        level = min(0.5, self.rate_an_event(len(self.times)) * 2.0**self.credit)
        return max(level, min(0.5, 1 / (len(self.recent) + 1))) if self.credit >= 1 else level

    def member_level(self) -> float:
        """Alerts by chance, 0.3 in a hold-off at most, must not keep an incident open."""
        amount, in_time = self.hold_off or (math.ceil(0.3 / self.alert_rate), False)
        quiet = amount * max(len(self.times), 1) / max(self.passed(), 1e-9) if in_time else amount
        return max(min(self.alert_rate, 0.3001 / max(quiet, 1e-9)), 1 / (len(self.recent) + 1))

    def rarity(self, p: float, score: float) -> float:
        """The p-value of a score above all others falls on, as fast as the highest twentieth of them thin out."""
        if len(self.recent) <= 20 or score <= max(self.recent):
            return p
        highest = sorted(self.recent)[-math.ceil(len(self.recent) / 20) :]
        mean = sum(one - highest[0] for one in highest) / len(highest)
        return p * math.exp(-(score - highest[-1]) / mean) if mean > 0 else 0.0

    def burns_in(self) -> bool:
        amount, in_time = self.burn_in
        return (self.passed() if in_time else len(self.times)) < amount

    def is_over(self, n: int, time: float) -> bool:
        own = self.incidents[-1]
        if self.hold_off is None:
            quiet = n - own["events"][-1]
            return quiet > math.ceil(0.3 / self.alert_rate) or quiet * self.rate_an_event(n) > 0.15
        amount, in_time = self.hold_off
        return (
            time - min(own["times"][-1], *self.times[own["events"][-1] :]) > amount
            if in_time
            else n - own["events"][-1] > amount
        )


def judge_all(judge: NaiveJudge, scores: Sequence[float], times: Sequence[float] | None = None) -> list[dict[str, Any]]:
    """Verdicts on scores, whose times may go back, repeat and miss."""
    verdicts, latest, behind = [], math.nan, 0
    for i, score in enumerate(scores):
        time = math.nan if times is None else times[i]
        behind = behind + 1 if time < latest else behind if math.isnan(time) else 0
        if not math.isnan(time) and (behind == 0 or behind == 100):
            latest, behind = time, 0
        verdicts.append(judge.judge(score, latest))
    return verdicts
