"""What the first pass learns about every column: how much is known of it, its mean, spread and range.

The summaries of two parts merge to the summary of both (Chan, Golub and LeVeque), without the cancellation that
sums of squares suffer from.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from svead_stream.geometry import spreads

F64 = NDArray[np.float64]
_KNOWN, _INFINITE, _MEAN, _SQUARES, _LOW, _HIGH = range(6)


class ColumnStats:
    """Number of rows, and of every column the count, mean, squared deviations and extremes of its known values."""

    def __init__(self, n_columns: int) -> None:
        self.rows = 0
        self._table = np.zeros((6, n_columns))
        self._table[_LOW], self._table[_HIGH] = np.inf, -np.inf

    def add(self, X: F64) -> None:
        """Take in some rows."""
        part = ColumnStats(X.shape[1])
        part.rows = len(X)
        t = part._table
        known = np.isfinite(X)
        all_known = bool(known.all())  # the usual case, and twice as fast

        def but(X: F64, unknown: float) -> F64:
            return X if all_known else np.where(known, X, unknown)

        t[_KNOWN] = known.sum(axis=0)
        t[_INFINITE] = 0 if all_known else np.isinf(X).sum(axis=0)
        t[_MEAN] = but(X, 0.0).sum(axis=0) / np.maximum(t[_KNOWN], 1)
        t[_SQUARES] = (but(X - t[_MEAN], 0.0) ** 2).sum(axis=0)
        t[_LOW] = but(X, np.inf).min(axis=0, initial=np.inf)
        t[_HIGH] = but(X, -np.inf).max(axis=0, initial=-np.inf)
        self.merge(part)

    def merge(self, other: ColumnStats) -> None:
        """Take in what is known of other rows."""
        self.rows += other.rows
        a, b = self._table, other._table
        share = b[_KNOWN] / np.maximum(a[_KNOWN] + b[_KNOWN], 1)
        gap = b[_MEAN] - a[_MEAN]
        a[_SQUARES] += b[_SQUARES] + gap**2 * a[_KNOWN] * share
        a[_MEAN] += gap * share
        a[_KNOWN] += b[_KNOWN]
        a[_INFINITE] += b[_INFINITE]
        a[_LOW] = np.minimum(a[_LOW], b[_LOW])
        a[_HIGH] = np.maximum(a[_HIGH], b[_HIGH])

    @property
    def infinite(self) -> NDArray[np.bool_]:
        """Which columns have infinite values."""
        infinite: NDArray[np.bool_] = self._table[_INFINITE] > 0
        return infinite

    def scales(self, scaling: str, sample: F64) -> F64:
        """The scale of each column, by the rules of `svead_stream.geometry.spreads`; the iqr is that of the sample."""
        known = self._table[_KNOWN] > 0
        if scaling == "iqr":
            result = spreads(sample, scaling)
            result[known & (result == 0)] = 1.0  # known, though not in the sample
            return result
        result = np.ones(len(known))
        if scaling == "std":
            result = np.sqrt(self._table[_SQUARES] / np.maximum(self._table[_KNOWN], 1))
        elif scaling == "range":
            result = np.where(known, self._table[_HIGH] - self._table[_LOW], 0.0)
        return np.where(known, np.where(result > 0, result, 1.0), 0.0)

    def completed(self, sample: F64) -> F64:
        """The sample, with two more rows that give columns it knows nothing of their mean and spread over all rows."""
        unknown = np.isnan(sample).all(axis=0) & (self._table[_KNOWN] > 0)
        if not unknown.any():
            return sample
        spread = np.sqrt(self._table[_SQUARES] / np.maximum(self._table[_KNOWN], 1))
        more = np.where(unknown, self._table[_MEAN] + np.array([[-1.0], [1.0]]) * spread, np.nan)
        return np.concatenate([sample, more])

    def to_bytes(self) -> bytes:
        return np.int64(self.rows).tobytes() + self._table.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        table = np.frombuffer(data, np.float64, offset=8).reshape(6, -1)
        stats = cls(table.shape[1])
        stats.rows = int(np.frombuffer(data, np.int64, 1)[0])
        stats._table = table.copy()
        return stats
