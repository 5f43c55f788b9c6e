"""Whether rows come in the order of time: they are learned as they come, so a file from back to front means little."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from svead_stream.cli.cells import NEARLY_ALL

_ENOUGH = 20  # steps in time that tell the direction


class Order:
    """Looks at the times of rows, and tells when they are in the wrong order.

    Attributes
    ----------
    first, latest
        The times between which all rows so far are; NaN while none is known.
    """

    def __init__(self) -> None:
        self.first = self.latest = math.nan
        self._source: str | None = None
        self._begun: npt.NDArray[np.float64] | None = np.zeros(0)  # times of the source that is being looked at

    def look(self, name: str, times: npt.NDArray[np.float64]) -> str | None:
        """Take the times of some rows; returns what is wrong with their order, once for each source.

        Parameters
        ----------
        name
            Of the source.
        times
            In seconds, NaN where one is not known.

        """
        known = times[~np.isnan(times)]
        if not len(known):
            return None
        wrong = self._look(name, known)
        self.first, self.latest = float(np.fmin(self.first, known.min())), float(np.fmax(self.latest, known.max()))
        return wrong

    def _look(self, name: str, known: npt.NDArray[np.float64]) -> str | None:
        before, wrong = self._source, None
        if name != before:
            self._source, self._begun = name, np.zeros(0)
            if before is not None and known[0] < self.latest:
                wrong = f"{name} begins before the time at which {before} ends: give files in the order of time"
        if self._begun is None:
            return wrong
        self._begun = np.concatenate([self._begun, known])
        steps = np.diff(self._begun)
        steps = steps[steps != 0]
        if len(steps) < _ENOUGH:
            return wrong
        self._begun = None
        if (steps < 0).mean() >= NEARLY_ALL:
            return (
                f"{name}: times go back, the newest row comes first: sort the rows, since they are learned as they come"
            )
        return wrong
