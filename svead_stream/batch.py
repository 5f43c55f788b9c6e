"""The paper's batch detector as a scikit-learn estimator, and the parts of it that other engines reuse."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from svead_stream import snapshot
from svead_stream.errors import SnapshotError
from svead_stream.kernels import batch as kernels
from svead_stream.kernels import search
from svead_stream.kernels.simd import LANES

F64 = NDArray[np.float64]
Part = TypeVar("Part")

CHUNK = 16_384  # rows of one task; the numbers do not depend on the number of threads, only on this
FRAME_ROWS = 4_096  # enough to centre and scale the arithmetic; the results do not hang on it
SCALINGS = ("none", "std", "iqr", "range")
_SAVED = ("anchors", "scales", "centre", "rate", "cells")
_NO_CELLS = np.empty((0, 0, 3))
_NO_TABLE = np.empty((0, 0, 2))


class SVEAD(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """Stochastic Voronoi ensembles for a data set: Algorithm 1 of the paper.

    Each of many partitions is made by a few points of the data, the anchors; each point belongs to the cell of its
    nearest anchor and scores its distance relative to the largest in the cell, times the mean distance of the cell.

    Parameters
    ----------
    n_partitions
        Number of partitions, the paper's t.
    n_anchors
        Anchors of each partition, the paper's m; it matters most of all parameters. At most as many as there are
        points.
    scaling
        `"none"` as in the paper, or division of each feature by its `"std"`, `"iqr"` or `"range"`.
    contamination
        Share of the data that `predict` calls outliers; `"auto"` takes those above the third quartile of the scores
        by more than one and a half interquartile ranges.
    random_state
        Seed or generator for the choice of anchors.
    n_jobs
        Threads; all cores by default. The numbers do not depend on it.
    verbose
        Whether to show progress on stderr.

    Attributes
    ----------
    anomaly_scores_
        The paper's score of each point it was fitted to: larger is more anomalous.
    offset_
        `decision_function` is `score_samples` minus this.
    anchors_
        Array of shape (n_partitions, n_anchors, n_features).
    cells_
        Count, sum and maximum of the distances in each cell: shape (n_partitions, n_anchors, 3).

    Examples
    --------
    >>> import numpy as np
    >>> from svead_stream import SVEAD
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> X[7] = 6, -6
    >>> int(SVEAD(random_state=0).fit(X).anomaly_scores_.argmax())
    7
    """

    def __init__(
        self,
        n_partitions: int = 100,
        n_anchors: int = 16,
        scaling: str = "none",
        contamination: float | str = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_partitions = n_partitions
        self.n_anchors = n_anchors
        self.scaling = scaling
        self.contamination = contamination
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the partitions from X, gather their cells, and score X.

        Parameters
        ----------
        X
            Array or data frame of shape (n_samples, n_features), float32 or float64 without a copy. NaN is a missing
            value.
        y
            Ignored.
        """
        self._check_parameters()
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        n, m = len(X), min(self.n_anchors, len(X))
        drawn = [X[rng.choice(n, m, replace=False)] for _ in range(self.n_partitions)]
        self.set_partitions(
            np.array(drawn, np.float64), spreads(X, self.scaling), X[rng.choice(n, min(n, FRAME_ROWS), False)]
        )
        self.cells_ = np.zeros((*self.anchors_.shape[:2], 3))
        for part in self._in_threads(len(X), "cells", lambda rows, room: self.cells_of(X[rows], room)):
            merge_cells(self.cells_, part)
        self.anomaly_scores_ = self._scores(X, score_table(self.cells_), "scores")
        self._set_offset()
        return self

    def _check_parameters(self) -> None:
        for name in ("n_partitions", "n_anchors"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}={value!r}: it must be a whole number of 1 or more")
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling={self.scaling!r}: it must be one of {', '.join(map(repr, SCALINGS))}")
        share = self.contamination
        if share != "auto" and not (isinstance(share, Real) and 0 < share <= 0.5):
            raise ValueError(f"contamination={share!r}: it must be 'auto' or a number above 0 and at most 0.5")

    def set_partitions(self, anchors: F64, scales: F64, frame: NDArray[np.floating]) -> None:
        """Take these anchors, with features divided by these scales.

        Parameters
        ----------
        anchors
            Shape (n_partitions, n_anchors, n_features); missing values are put at the centre of the frame.
        scales
            One per feature; 0 leaves a feature out.
        frame
            Some rows of the data, to centre and scale the arithmetic.
        """
        self.centre_, self.rate_ = _frame(frame)
        self.anchors_ = np.where(np.isnan(anchors), self.centre_, anchors)
        self.scales_ = scales
        self._geometry = _place(self.anchors_, scales, self.centre_, self.rate_)

    def cells_of(self, X: NDArray[np.floating], room: kernels.Scratch | None = None) -> F64:
        """Count, sum and maximum of distances in each cell over the rows of X; `merge_cells` adds such arrays up."""
        cells = np.zeros((*self.anchors_.shape[:2], 3))
        kernels.run(X, self._geometry, room or kernels.scratch_for(self._geometry), cells, _NO_TABLE, np.empty(0))
        return cells

    def _scores(self, X: NDArray[np.floating], table: F64, what: str) -> F64:
        scores = np.empty(len(X))

        def score(rows: slice, room: kernels.Scratch) -> None:
            kernels.run(X[rows], self._geometry, room, _NO_CELLS, table, scores[rows])

        for _ in self._in_threads(len(X), what, score):
            pass
        return scores

    def _in_threads(self, n_rows: int, what: str, work: Callable[[slice, kernels.Scratch], Part]) -> Iterator[Part]:
        """Results of the work on all rows, chunk by chunk, in order, with no more than two a thread waiting."""
        n = self.n_jobs if self.n_jobs is not None and self.n_jobs > 0 else len(os.sched_getaffinity(0))
        waiting: list[Future[Part]] = []
        rooms = [kernels.scratch_for(self._geometry) for _ in range(2 * n)]
        with ThreadPoolExecutor(n) as pool:
            try:
                for i, start in enumerate(range(0, n_rows, CHUNK)):
                    if len(waiting) == 2 * n:
                        yield waiting.pop(0).result()
                    waiting.append(pool.submit(work, slice(start, start + CHUNK), rooms[i % (2 * n)]))
                    self._show(what, start, n_rows)
                while waiting:
                    yield waiting.pop(0).result()
            finally:
                for future in waiting:
                    future.cancel()
        self._show(what, n_rows, n_rows)

    def _show(self, what: str, done: int, total: int) -> None:
        if self.verbose:
            print(
                f"\rSVEAD {what}: {done:,} of {total:,}", end="\n" if done == total else "", file=sys.stderr, flush=True
            )

    def _set_offset(self) -> None:
        scores = self.anomaly_scores_
        if self.contamination == "auto":
            low, high = np.percentile(scores, [25, 75])
            self.offset_ = -float(high + 1.5 * (high - low))
        else:
            self.offset_ = -float(np.percentile(scores, 100 * (1 - float(self.contamination))))

    def score_samples(self, X: Any) -> F64:
        """The negated paper's score of each row of X in the fitted cells: lower is more anomalous."""
        return -self.anomaly_scores(X)

    def anomaly_scores(self, X: Any, table: F64 | None = None) -> F64:
        """The paper's score of each row of X in the fitted cells, or what another `score_table` makes of them."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=False)
        return self._scores(X, score_table(self.cells_) if table is None else table, "scores")

    def decision_function(self, X: Any) -> F64:
        """`score_samples` minus `offset_`: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers, 1 for the rest."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> NDArray[np.int64]:
        """Fit to X and call its outliers -1, the rest 1."""
        self.fit(X)
        return np.where(-self.anomaly_scores_ - self.offset_ < 0, -1, 1)

    def explain(self, X: Any) -> F64:
        """Share of each feature in the squared distances that make the score of each row; rows sum to 1."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        weight = np.where(self.scales_ > 0, 1 / np.where(self.scales_ > 0, self.scales_, 1), 0.0)
        shares = np.zeros(X.shape)
        for k, anchors in enumerate(self.anchors_):
            slope = score_table(self.cells_)[k, :, kernels.SLOPE]
            gaps = ((X[:, None, :] - anchors) * weight) ** 2
            squares = np.nansum(gaps, axis=2)
            nearest = squares.argmin(axis=1)
            rows = np.arange(len(X))
            far = squares[rows, nearest]
            worth = np.nan_to_num(slope[nearest]) * np.sqrt(far) / np.where(far > 0, far, 1)
            shares += worth[:, None] * np.nan_to_num(gaps[rows, nearest])
        total = shares.sum(axis=1, keepdims=True)
        return np.where(total > 0, shares / np.where(total > 0, total, 1), 1 / X.shape[1])

    def to_bytes(self) -> bytes:
        """The fitted model as bytes, without the scores of the points it was fitted to."""
        check_is_fitted(self)
        parameters = self.get_params()
        if not isinstance(parameters["random_state"], Integral):
            parameters["random_state"] = None
        fields = {"parameters": parameters, "offset": self.offset_, "features": None}
        if hasattr(self, "feature_names_in_"):
            fields["features"] = [snapshot.name_to_json(name) for name in self.feature_names_in_]
        return snapshot.pack("SVEAD", fields, {name: getattr(self, name + "_") for name in _SAVED})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The model that `to_bytes` wrote: it scores alike, to the bit.

        Raises
        ------
        SnapshotError
            If the bytes are no snapshot of such a model, damaged, or of a newer version.
        """
        _, fields, arrays = snapshot.unpack(data, "SVEAD")
        try:
            model = cls(**fields["parameters"])
            model._check_parameters()
            model.offset_ = float(fields["offset"])
            names = fields["features"]
            if names is not None:
                model.feature_names_in_ = np.array([snapshot.name_from_json(name) for name in names], dtype=object)
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"the snapshot's header is malformed: {error}") from None
        shape = arrays["anchors"].shape if "anchors" in arrays else ()
        if len(shape) != 3 or 0 in shape or (names is not None and len(names) != shape[2]):
            raise SnapshotError(f"the snapshot does not fit together: anchors of shape {list(shape)}")
        t, m, d = shape
        for name, expected in zip(_SAVED, [(t, m, d), (d,), (d,), (d,), (t, m, 3)], strict=True):
            array = snapshot.expect(arrays, name, np.float64, expected)
            if not np.isfinite(array).all() or (name not in ("anchors", "centre") and (array < 0).any()):
                raise SnapshotError(f"the snapshot does not fit together: array {name!r} has impossible values")
            setattr(model, name + "_", array)
        model.n_features_in_ = d
        model._geometry = _place(model.anchors_, model.scales_, model.centre_, model.rate_)
        return model

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_geometry"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "anchors_" in state:
            self._geometry = _place(self.anchors_, self.scales_, self.centre_, self.rate_)


def score_table(cells: F64, keep: str = "both") -> F64:
    """What a distance is worth in each cell: the paper's score, or one of its two factors alone.

    Parameters
    ----------
    cells
        Count, sum and maximum of distances, as in `SVEAD.cells_`.
    keep
        `"both"` factors, only the relative `"position"` d / d_max, or only the `"scale"` d_mean.
    """
    count, total, largest = np.moveaxis(cells, -1, 0)
    mean = total / np.maximum(count, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        position = np.where(largest > 0, 1 / largest, 1.0)
    if keep == "both":
        slope, constant = np.where(largest > 0, position * mean, 1.0), np.zeros_like(mean)
    elif keep == "position":
        slope, constant = position, np.zeros_like(mean)
    elif keep == "scale":
        slope, constant = np.zeros_like(mean), mean
    else:
        raise ValueError(f"keep={keep!r}: it must be 'both', 'position' or 'scale'")
    return np.stack([np.where(count > 1, slope, np.nan), constant], axis=-1)


def merge_cells(into: F64, other: F64) -> None:
    """Add the statistics of other points in the same cells: counts and sums add up, maxima are kept."""
    into[..., : search.MAX] += other[..., : search.MAX]
    np.maximum(into[..., search.MAX], other[..., search.MAX], out=into[..., search.MAX])


def spreads(X: NDArray[np.floating], scaling: str) -> F64:
    """The scale of each feature over all of X, a column at a time; 1 where it is constant, 0 where nothing is known."""
    result = np.ones(X.shape[1])
    for f in range(X.shape[1]):
        column = X[:, f]
        if np.isnan(column[:FRAME_ROWS]).all() and np.isnan(column).all():
            result[f] = 0.0
        elif scaling != "none":
            result[f] = _spread(column[~np.isnan(column)] if np.isnan(column).any() else column, scaling) or 1.0
    return result


def _spread(column: NDArray[np.floating], scaling: str) -> float:
    if scaling == "iqr":
        low, high = np.percentile(column, [25, 75])
        return float(high - low)
    reach = float(np.ptp(column))
    # The deviation of equal numbers may not be 0.
    return float(np.std(column, dtype=np.float64)) if scaling == "std" and reach > 0 else reach


def _frame(rows: NDArray[np.floating]) -> tuple[F64, F64]:
    centre, rate = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for f in range(rows.shape[1]):
        column = rows[:, f][~np.isnan(rows[:, f])].astype(np.float64)
        if len(column):
            centre[f] = np.median(column)
            scale = np.std(column) if np.ptp(column) > 0 else 1.0
            rate[f] = 1 / scale if scale > 1e-150 else 1.0
    return centre, rate


def _place(anchors: F64, scales: F64, centre: F64, rate: F64) -> kernels.Geometry:
    t, m, d = anchors.shape
    dp, mp = search.padded(d, LANES), search.padded(m, 2 * LANES)
    geometry = kernels.Geometry(
        centre,
        rate,
        np.zeros((t, d, mp), np.float32),
        np.zeros((t, mp), np.float32),
        np.zeros((t, m, dp), np.float32),
        np.zeros((t, dp), np.float32),
        np.zeros((t, d), np.int64),
        np.zeros((t, 5)),
    )
    geometry.metric[:, search.ANCHORS] = m
    weight = np.repeat(np.where(scales > 0, 1 / np.where(scales > 0, scales, 1), 0.0)[None], t, axis=0)
    g, halves = geometry, np.zeros(m)
    derived = (g.metric, g.product, g.bias, g.placed, g.scale, g.feature, halves)
    for k in range(t):
        search.place(k, anchors, weight, centre, rate, rate, *derived)
    return geometry
