"""Bins of consecutive rows that double in width when there are too many of them: bounded, however long the run is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


class Bins:
    """Sums and extremes of consecutive rows.

    Parameters
    ----------
    joins
        What is known of a bin, and how it is joined: `np.add`, or `np.fmin` and `np.fmax`, which pass over NaN.
    size
        Most bins, a power of two; there are at least half as many as soon as there are so many rows.
    n_series
        How many series there are; each is a row of the arrays.
    """

    def __init__(self, joins: Mapping[str, np.ufunc], size: int, n_series: int = 1) -> None:
        self.width = 1  # in rows
        self.n = 0  # rows
        self.size = size
        self._joins = joins
        self._bins = {name: np.full((n_series, size), _empty(join)) for name, join in joins.items()}

    def parts(self, n: int) -> Iterator[slice]:
        """Cut the next rows into those that fit and those that need wider bins; add each before asking for more."""
        start = 0
        while start < n:
            if self.n == self.size * self.width:
                self._double()
            end = min(n, start + self.size * self.width - self.n)
            yield slice(start, end)
            start = end

    def add(self, n: int, **values: npt.NDArray[np.generic]) -> None:
        """Append so many rows, which fit; one array a name, of shape (n_series, n) or (n,)."""
        first = self.n // self.width
        last = (self.n + n - 1) // self.width
        starts = np.maximum(np.arange(first, last + 1) * self.width - self.n, 0)
        for name, given in values.items():
            join, bins = self._joins[name], self._bins[name][:, first : last + 1]
            join(bins, join.reduceat(np.atleast_2d(given), starts, axis=1), out=bins)
        self.n += n

    def extend(self, n_series: int) -> None:
        """Make room for series that were not there before."""
        for name, join in self._joins.items():
            new = np.full((n_series - len(self._bins[name]), self.size), _empty(join))
            self._bins[name] = np.concatenate([self._bins[name], new])

    def shrink(self, size: int) -> None:
        """Make do with fewer bins."""
        while self.size > size:
            if self.n > self.size // 2 * self.width:
                self._double()
            self.size //= 2
            self._bins = {name: bins[:, : self.size].copy() for name, bins in self._bins.items()}

    def _double(self) -> None:
        for name, join in self._joins.items():
            bins = self._bins[name]
            bins[:, : self.size // 2] = join(bins[:, ::2], bins[:, 1::2])
            bins[:, self.size // 2 :] = _empty(join)
        self.width *= 2

    def __getitem__(self, name: str) -> Numbers:
        """What is known of the bins that have rows."""
        return self._bins[name][:, : -(-self.n // self.width)]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each bin."""
        starts = np.arange(0, self.n, self.width)
        return np.minimum(self.n - starts, self.width)


def _empty(join: np.ufunc) -> float:
    return 0.0 if join is np.add else np.nan


def digits(values: Numbers, n: int = 5) -> list[float | None]:
    """Numbers of so many digits, since a screen shows no more; NaN and infinity are not JSON."""
    with np.errstate(all="ignore"):
        places = n - 1 - np.floor(np.log10(np.abs(values)))
        up, down = 10.0 ** np.clip(places, 0, 300), 10.0 ** np.clip(-places, 0, 300)
        rounded = np.where(places > 0, np.rint(values * up) / up, np.rint(values / down) * down)
    rounded = np.where(np.abs(places) < 300, rounded, values)  # zeros, and those at the ends of what is a number
    return [value if finite else None for value, finite in zip(rounded.tolist(), np.isfinite(rounded), strict=True)]
