"""How scores move when an answer changes a detector."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


_GROUPS = 16  # of usual events, so that no single one decides where the highest scores move


class Rescored(NamedTuple):
    """How strange the same usual events are before and after an answer: means of groups, both in increasing order.

    With its help older scores can be compared with new ones.
    """

    before: Floats
    after: Floats
    relative: bool  # whether scores are 1 - exp(-strangeness), or strangeness itself

    @classmethod
    def of(cls, before: Floats, after: Floats, relative: bool) -> Rescored:
        """From the strangeness of single events, in any order."""
        starts = np.arange(min(_GROUPS, len(before))) * len(before) // min(_GROUPS, len(before))
        sizes = np.diff(starts, append=len(before))
        means = [np.add.reduceat(np.sort(one), starts) / sizes for one in (before, after)]
        return cls(means[0], means[1], relative)

    def moved(self, strangeness: Floats) -> Floats:
        """What strangeness from before the answer would be about now; its order stays."""
        before, after = self.before, self.after
        inside = np.interp(strangeness, before, after)
        beyond = np.maximum(strangeness - before[-1], 0.0) + np.minimum(strangeness - before[0], 0.0)
        return np.asarray(np.maximum(inside + beyond, 0.0))

    def moved_scores(self, scores: Floats) -> Floats:
        """The same for scores; infinite ones stay what they are."""
        if not self.relative:
            return np.where(np.isfinite(scores), self.moved(scores), scores)
        return -np.expm1(-self.moved(-np.log1p(-np.minimum(scores, 1.0 - 1e-16))))
