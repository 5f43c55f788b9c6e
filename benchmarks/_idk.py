"""The Isolation Distributional Kernel (IDK), the paper's strongest rival, written from its published definition.

Ting, Xu, Washio, Zhou: "Isolation Distributional Kernel: A New Tool for Kernel based Anomaly Detection" (KDD 2020).
A partition draws psi points; each isolates a cell around itself. A point's feature vector says, partition by
partition, which cell it lies in; the mean vector of the data stands for their distribution. A point is anomalous
where the kernel between it and the distribution, the inner product of the two divided by t, is small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class IDK:
    """IDK as a point anomaly detector.

    Parameters
    ----------
    psi
        Points that make a partition; at most as many as there are points.
    t
        Number of partitions.
    cells
        ``"sphere"``: around each drawn point a ball that reaches to the nearest other drawn point, and a point outside
        the ball of its nearest centre is in no cell. ``"voronoi"``: every point is in the cell of its nearest centre.
    seed
        Makes scores reproducible.
    """

    def __init__(self, psi: int, t: int = 100, cells: str = "sphere", seed: int = 0) -> None:
        if cells not in ("sphere", "voronoi"):
            raise ValueError(f"cells={cells!r}: it must be 'sphere' or 'voronoi'")
        self.psi, self.t, self.cells, self.seed = psi, t, cells, seed

    def fit(self, X: Floats) -> IDK:
        """Draw the partitions from X and take the mean of its feature vectors."""
        rng = np.random.default_rng(self.seed)
        psi = min(self.psi, len(X))
        self._middle = X.mean(axis=0)  # distances by products are exact enough only near the origin
        X = X - self._middle
        self._centres = [X[rng.choice(len(X), psi, replace=False)] for _ in range(self.t)]
        self._reach = [self._radii(centres) for centres in self._centres]
        cells = [self._cell_of(X, k) for k in range(self.t)]
        # A last bin for points in no cell: its share is set to 0, so that it adds nothing to any inner product.
        self._share = [np.bincount(cell, minlength=psi + 1) / len(X) for cell in cells]
        for share in self._share:
            share[psi] = 0.0
        self.similarity_ = np.mean([share[cell] for share, cell in zip(self._share, cells, strict=True)], axis=0)
        return self

    def similarity(self, X: Floats) -> Floats:
        """The kernel between each row of X and the distribution of the data: low for anomalies."""
        X = X - self._middle
        result: Floats = np.mean([self._share[k][self._cell_of(X, k)] for k in range(self.t)], axis=0)
        return result

    def _radii(self, centres: Floats) -> Floats:
        if self.cells == "voronoi" or len(centres) < 2:
            return np.full(len(centres), np.inf)
        apart = _squares(centres, centres)
        np.fill_diagonal(apart, np.inf)
        radii: Floats = apart.min(axis=1)
        return radii

    def _cell_of(self, X: Floats, k: int) -> NDArray[np.intp]:
        """The cell of each row in a partition; psi stands for none."""
        apart = _squares(X, self._centres[k])
        nearest = apart.argmin(axis=1)
        inside = apart[np.arange(len(X)), nearest] <= self._reach[k][nearest]
        return np.where(inside, nearest, len(self._centres[k]))


def _squares(X: Floats, centres: Floats) -> Floats:
    """Squared distances, row by row."""
    result = X @ (-2.0 * centres.T)
    result += np.einsum("ij,ij->i", X, X)[:, None]
    result += np.einsum("ij,ij->i", centres, centres)
    return np.maximum(result, 0.0, out=result)
