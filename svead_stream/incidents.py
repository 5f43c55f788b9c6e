"""Incidents: alerts that belong together are one message to a person, with a start, an end and what it was due to.

Which alerts belong together is decided with the ranks (`kernels/ranks.py`). Here they are gathered: an incident is what
was said of its alerts, in constant memory.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from svead_stream import snapshot
from svead_stream.kernels.ranks import CLOSES, MEMBER, OPENS
from svead_stream.record import CLOSED, OPEN, UPDATE, Explanation, Incident, Reasons

_HIGHEST = 1e100  # score that weighs in the blame: sums stay finite, whatever a detector says


@dataclass
class _Current:
    """The incident that is open."""

    number: int
    first: int
    start: float
    last: int = 0
    end: float = math.nan
    alerts: int = 0
    peak: float = -math.inf
    p_value: float = 1.0
    blame: dict[Hashable, float] = field(default_factory=dict)  # shares of the features, each times its event's score

    def add(self, event: int, time: float, score: float, p_value: float, reasons: Reasons | None) -> None:
        self.last, self.end = event, time
        self.alerts += 1
        self.peak, self.p_value = max(self.peak, score), min(self.p_value, p_value)
        for name, share in (reasons or {}).items():
            self.blame[name] = self.blame.get(name, 0.0) + share * min(score, _HIGHEST)

    def seen(self, state: str) -> Incident:
        """What is known of it now."""
        total = sum(self.blame.values())
        shares = {name: blame / total for name, blame in self.blame.items()} if total > 0 else None
        return Incident(
            number=self.number,
            state=state,
            first=self.first,
            last=self.last,
            start=None if math.isnan(self.start) else self.start,
            end=None if math.isnan(self.end) else self.end,
            alerts=self.alerts,
            peak=self.peak,
            p_value=self.p_value,
            reasons=None if shares is None else Explanation(sorted(shares.items(), key=lambda item: -item[1])),
        )


class Incidents:
    """Gathers the alerts of incidents as they come."""

    def __init__(self) -> None:
        self.count = 0
        self._current: _Current | None = None

    @property
    def open(self) -> Incident | None:
        """The incident that has not ended yet."""
        return None if self._current is None else self._current.seen(OPEN)

    def follow(
        self, said: int, event: int, time: float, score: float, p_value: float, reasons: Reasons | None
    ) -> tuple[int | None, tuple[Incident, ...]]:
        """Take an event of which something was said.

        Parameters
        ----------
        said
            What the ranks say of it.
        event
            Its number in the life of the model, from 1 on.
        time
            When it happened; NaN if that is not known.
        score, p_value, reasons
            The verdict on it.

        Returns
        -------
        tuple
            The number of the incident that it belongs to, and the incidents that changed: one that it shows to be over,
            one that it opens, or one that has twice as many alerts as when it was last told of.
        """
        changes = []
        if said & CLOSES and self._current is not None:
            changes.append(self._current.seen(CLOSED))
            self._current = None
        if said & OPENS:
            self.count += 1
            self._current = _Current(self.count, event, time)
        current = self._current
        if not said & MEMBER or current is None:
            return None, tuple(changes)
        current.add(event, time, score, p_value, reasons)
        if current.alerts & (current.alerts - 1) == 0:  # 1, 2, 4, 8 ...
            changes.append(current.seen(OPEN if said & OPENS else UPDATE))
        return current.number, tuple(changes)

    def saved(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        if self._current is None:
            return {"count": self.count, "current": None}
        fields = asdict(self._current)
        fields["blame"] = [[snapshot.name_to_json(name), blame] for name, blame in self._current.blame.items()]
        return {"count": self.count, "current": {k: None if v != v else v for k, v in fields.items()}}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Incidents:
        """What was saved; a ValueError, TypeError or KeyError if that cannot be."""
        incidents = cls()
        incidents.count = snapshot.count(saved["count"])
        given = saved["current"]
        if given is None:
            return incidents
        names = snapshot.names_from_json([name for name, _ in given["blame"]])
        blame = dict(zip(names, [snapshot.finite(amount) for _, amount in given["blame"]], strict=True))
        number, first, last, alerts = (snapshot.count(given[name]) for name in ("number", "first", "last", "alerts"))
        start, end = (math.nan if given[name] is None else snapshot.finite(given[name]) for name in ("start", "end"))
        peak, p_value = given["peak"], snapshot.finite(given["p_value"])
        if type(peak) not in (int, float) or math.isnan(peak):  # a foreign detector's may be infinite
            raise ValueError("the open incident is impossible")
        most = _HIGHEST * (alerts + 1)
        if not all(0 <= amount <= most for amount in blame.values()):
            raise ValueError("the blame of the open incident is impossible")
        current = _Current(number, first, start, last, end, alerts, float(peak), p_value, blame)
        if not 0 < current.first <= current.last or not 0 < current.alerts <= current.last - current.first + 1:
            raise ValueError("the open incident is impossible")
        if current.number != incidents.count or not 0 < current.p_value <= 1:
            raise ValueError("the open incident is impossible")
        incidents._current = current
        return incidents
