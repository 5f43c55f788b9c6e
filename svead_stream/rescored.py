"""How scores move when an answer changes a detector."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Rescored(NamedTuple):
    """The strangeness of the same usual events before and after an answer, both in increasing order.

    With its help older scores can be compared with new ones.
    """

    before: Floats
    after: Floats
    relative: bool  # whether scores are 1 - exp(-strangeness), or strangeness itself

    def moved(self, strangeness: Floats) -> Floats:
        """What strangeness from before the answer would be about now; its order stays.

        It falls no further than that of usual events does: a false alarm must not make all else strange by comparison.
        """
        before, after = self.before, self.after
        inside = np.interp(strangeness, before, after)
        beyond = np.maximum(strangeness - before[-1], 0.0) + np.minimum(strangeness - before[0], 0.0)
        least = strangeness + np.median(after - before)
        return np.asarray(np.maximum(np.maximum(inside + beyond, least), 0.0))

    def moved_scores(self, scores: Floats) -> Floats:
        """The same for scores; infinite ones stay what they are."""
        if not self.relative:
            return np.where(np.isfinite(scores), self.moved(scores), scores)
        return -np.expm1(-self.moved(-np.log1p(-np.minimum(scores, 1.0 - 1e-16))))
