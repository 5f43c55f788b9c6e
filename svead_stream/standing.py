"""Where a stream stands between two events: the recent scores, the open incident, the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream import snapshot
from svead_stream.clock import Clock
from svead_stream.incidents import Incidents
from svead_stream.kernels.ranks import ALERT, CLOSES, INCIDENTS, LATEST, MEMBER, N_COUNTERS, N_PACE, OPEN
from svead_stream.ranks import Ranks
from svead_stream.record import Incident, Judged, Reasons, Verdict, Verdicts

_CLOCK = ("n_missing", "n_backward", "n_duplicate", "behind")  # what is saved of the clock beside its time


class Standing:
    """Follows a stream of scores, and tells verdicts and incidents.

    Parameters
    ----------
    ranks
        The recent scores.
    incidents
        The incidents so far; none without.
    clock
        Where the time stands; at no time without.
    """

    def __init__(self, ranks: Ranks, incidents: Incidents | None = None, clock: Clock | None = None) -> None:
        self.ranks = ranks
        self.incidents = Incidents() if incidents is None else incidents
        self.clock = Clock() if clock is None else clock

    def follow(self, score: float, time: float | None, withhold: bool, reasons: Reasons | None) -> Verdict:
        """Enter a score, and tell the verdict."""
        now = self.clock.latest if time is None else self.clock.advance(time)
        p_value, said = self.ranks.judge(score, now, withhold)
        if not said:
            return Verdict(score, p_value, False, reasons)
        told = self.incidents.follow(said, self.ranks.n_judged, now, score, p_value, reasons)
        return Verdict(score, p_value, bool(said & ALERT), reasons, *told)

    def told(self, judged: Judged, times: NDArray[np.float64], n_before: int) -> Verdicts:
        """Verdicts on a mini-batch that was judged after as many events, and the incidents in it."""
        scores, p_values, said, thresholds, reasons = judged
        incidents: dict[int, int] = {}
        changes: dict[int, tuple[Incident, ...]] = {}
        for i in np.flatnonzero(said & (MEMBER | CLOSES)).tolist():
            verdict = (float(scores[i]), float(p_values[i]), reasons.get(i))
            number, changed = self.incidents.follow(int(said[i]), n_before + i + 1, float(times[i]), *verdict)
            if number is not None:
                incidents[i] = number
            if changed:
                changes[i] = changed
        return Verdicts(scores, p_values, (said & ALERT).astype(np.bool_), thresholds, reasons, incidents, changes)

    def saved(self) -> tuple[dict[str, Any], snapshot.Arrays]:
        """All of it: what JSON can hold, and arrays."""
        fields = {"clock": [getattr(self.clock, name) for name in _CLOCK], "incidents": self.incidents.saved()}
        return fields, self.ranks.saved()

    def restored(self, fields: Mapping[str, Any], arrays: snapshot.Arrays) -> Standing:
        """What was saved by one with the same rules; a ValueError, TypeError or KeyError if that cannot be."""
        capacity = len(self.ranks.window.recent)
        recent = snapshot.expect(arrays, "recent", np.float64, arrays["recent"].shape[:1])
        withheld = snapshot.expect(arrays, "withheld", np.uint8, recent.shape)
        sound = len(recent) <= capacity and not np.isnan(recent).any()
        if not sound or not (withheld <= 1).all():
            raise ValueError("its recent scores are impossible")
        counters = snapshot.expect(arrays, "counters", np.int64, (N_COUNTERS,))
        pace = snapshot.expect(arrays, "pace", np.float64, (N_PACE,))
        ranks = Ranks(self.ranks.rules, capacity, recent, withheld, counters, pace)
        ranks.check()
        counts = dict(zip(_CLOCK, map(snapshot.count, fields["clock"]), strict=True))
        incidents = Incidents.restored(fields["incidents"])
        if (incidents.open is not None) != bool(counters[OPEN]) or incidents.count != counters[INCIDENTS]:
            raise ValueError("its incidents are impossible")
        return Standing(ranks, incidents, Clock(float(pace[LATEST]), **counts))
