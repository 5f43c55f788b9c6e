"""The paper's batch detector as a scikit-learn estimator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from svead_stream import snapshot
from svead_stream.errors import MissingExtra, SnapshotError
from svead_stream.features import Features
from svead_stream.frames import collected, is_events, refuse_text, table
from svead_stream.geometry import FRAME_ROWS, bounded, frame_of, merge_cells, placed, score_table, shares_of, spreads
from svead_stream.kernels import batch as kernels
from svead_stream.parameters import BATCH, BatchScaling, check_int
from svead_stream.soundness import check_batch

try:
    from sklearn.base import BaseEstimator, OutlierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ModuleNotFoundError as error:
    raise MissingExtra("SVEAD needs scikit-learn, which is not installed: pip install 'svead-stream[batch]'") from error

F64 = NDArray[np.float64]
Part = TypeVar("Part")

CHUNK = 16_384  # rows of one task; the numbers do not depend on the number of threads, only on this
MOST_JOBS = 1024
_DEFAULT = {parameter.name: parameter.default for parameter in BATCH}
_SAVED = ("anchors", "scales", "centre", "rate", "cells")
_NO_CELLS = np.empty((0, 0, 3))
_NO_TABLE = np.empty((0, 0, 2))


@snapshot.register
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
        Seed, or a `RandomState` of NumPy, for the choice of anchors.
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
        n_partitions: int = _DEFAULT["n_partitions"],
        n_anchors: int = _DEFAULT["n_anchors"],
        scaling: BatchScaling = _DEFAULT["scaling"],
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
            Array or data frame of shape (n_samples, n_features), float32 or float64 without a copy, or a list of dicts.
            NaN is a missing value.
        y
            Ignored.
        """
        self.check_parameters()
        X = self._rows(X, reset=True)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        n, m = len(X), min(self.n_anchors, len(X))
        drawn = [X[rng.choice(n, m, replace=False)] for _ in range(self.n_partitions)]
        self.set_partitions(
            np.array(drawn, np.float64), spreads(X, self.scaling), X[rng.choice(n, min(n, FRAME_ROWS), False)]
        )
        for part in self._in_threads(len(X), "cells", lambda rows, room: self.cells_of(X[rows], room)):
            merge_cells(self.cells_, part)
        self.anomaly_scores_ = self.scores_of(X)
        self._set_offset(self.anomaly_scores_)
        return self

    def _rows(self, X: Any, reset: bool = False, dtype: Any = (np.float64, np.float32)) -> NDArray[Any]:
        """X as an array of floats; what holds text or dates is refused with the name of the column."""
        X = collected(X)
        options = {"dtype": dtype, "ensure_all_finite": "allow-nan"}
        if is_events(X) and len(X):
            return bounded(check_array(self._rows_of_events(X, reset), **options, input_name="X"))
        refuse_text(X)
        try:
            return bounded(validate_data(self, X, reset=reset, **options))
        except (TypeError, ValueError) as error:
            if not isinstance(X, np.ndarray) or "convert" in str(error):
                table(X)  # tells what is no number, and in which feature
            raise

    def _rows_of_events(self, events: Any, reset: bool) -> F64:
        """Dicts as rows in the order of the model's names; what one of them does not have is missing."""
        names, matrix = table(events)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"the events have the names {names!r}: features of an SVEAD are named by text")
        if reset:
            self.feature_names_in_ = np.array(names, dtype=object)
        known = getattr(self, "feature_names_in_", ())
        unknown = [name for name in names if name not in known]
        if unknown:
            fitted_to = ", ".join(map(repr, known)) or "an array without names"
            raise ValueError(f"feature {unknown[0]!r} is not known: the model was fitted to {fitted_to}")
        return Features(known).in_order(names, matrix)

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense; `fit` does it first.

        Raises
        ------
        ValueError
            That names the parameter and its value.
        """
        for parameter in BATCH:
            parameter.check(getattr(self, parameter.name))
        share = self.contamination
        if share != "auto" and not (isinstance(share, Real) and 0 < share <= 0.5):
            raise ValueError(f"contamination={share!r}: it must be 'auto' or a number above 0 and at most 0.5")
        if self.n_jobs is not None:
            check_int("n_jobs", self.n_jobs, -MOST_JOBS, MOST_JOBS)
        if not isinstance(self.verbose, (bool, np.bool_, Integral)):
            raise ValueError(f"verbose={self.verbose!r}: it must be True or False")

    # fitting by parts, for engines that draw anchors and gather cells elsewhere

    def set_partitions(
        self, anchors: F64, scales: F64, frame: NDArray[np.floating], names: Sequence[str] | None = None
    ) -> None:
        """Take these anchors, with features divided by these scales; the cells are empty.

        Parameters
        ----------
        anchors
            Shape (n_partitions, n_anchors, n_features); missing values are put at the centre of the frame.
        scales
            One per feature; 0 leaves a feature out.
        frame
            Some rows of the data, to centre and scale the arithmetic.
        names
            Of the features, if they have any.
        """
        self.n_features_in_ = anchors.shape[2]
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self.centre_, self.rate_ = frame_of(frame)
        self.anchors_ = np.where(np.isnan(anchors), self.centre_, bounded(anchors))
        self.scales_ = scales
        self._geometry = placed(self.anchors_, scales, self.centre_, self.rate_)
        self.cells_ = np.zeros((*anchors.shape[:2], 3))
        self.offset_ = 0.0

    def set_cells(self, cells: F64, sample: NDArray[np.floating]) -> None:
        """Take these cells, gathered by `cells_of`, and set `offset_` by what rows of a sample score in them.

        Parameters
        ----------
        cells
            As in `cells_`.
        sample
            Rows drawn from the data.
        """
        self.cells_ = cells
        self._set_offset(self.scores_of(sample))

    def cells_of(self, X: NDArray[np.floating], room: kernels.Scratch | None = None) -> F64:
        """Count, sum and maximum of distances in each cell over the rows of X; `merge_cells` adds such arrays up."""
        cells = np.zeros((*self.anchors_.shape[:2], 3))
        room = room or kernels.scratch_for(self._geometry)
        kernels.run(_in_rows(X), self._geometry, room, cells, _NO_TABLE, np.empty(0))
        return cells

    def scores_of(self, X: NDArray[np.floating], table: F64 | None = None) -> F64:
        """`anomaly_scores` of an array that needs no checks: floats, columns in the model's order, no infinities."""
        table = score_table(self.cells_) if table is None else table
        scores = np.empty(len(X))

        def score(rows: slice, room: kernels.Scratch) -> None:
            kernels.run(_in_rows(X[rows]), self._geometry, room, _NO_CELLS, table, scores[rows])

        for _ in self._in_threads(len(X), "scores", score):
            pass
        return scores

    def _in_threads(self, n_rows: int, what: str, work: Callable[[slice, kernels.Scratch], Part]) -> Iterator[Part]:
        """Results of the work on all rows, chunk by chunk, in order, with no more than two a thread waiting."""
        n = int(self.n_jobs) if self.n_jobs is not None and self.n_jobs > 0 else _cores()
        n = max(1, min(n, -(-n_rows // CHUNK)))
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

    def _set_offset(self, scores: F64) -> None:
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
        return self.scores_of(self._rows(X), table)

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
        return shares_of(self._rows(X, dtype=np.float64), self.anchors_, self.scales_, self.cells_)

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
            model.check_parameters()
            if model.random_state is not None:
                check_int("random_state", model.random_state, 0, 2**32 - 1)
            model.offset_ = snapshot.finite(fields["offset"])
            names = None if fields["features"] is None else snapshot.names_from_json(fields["features"])
            if names is not None:
                if not all(isinstance(name, str) for name in names):
                    raise ValueError("feature names are no text")
                model.feature_names_in_ = np.array(names, dtype=object)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(f"the snapshot's header is malformed: {error}") from None
        shape = arrays["anchors"].shape if "anchors" in arrays else ()
        fits = len(shape) == 3 and 0 not in shape and shape[0] == model.n_partitions and shape[1] <= model.n_anchors
        if not fits or (names is not None and len(names) != shape[2]):
            raise SnapshotError(f"the snapshot does not fit together: anchors of shape {list(shape)}")
        t, m, d = shape
        for name, expected in zip(_SAVED, [(t, m, d), (d,), (d,), (d,), (t, m, 3)], strict=True):
            setattr(model, name + "_", snapshot.expect(arrays, name, np.float64, expected))
        check_batch(arrays)
        model.n_features_in_ = d
        model._geometry = placed(model.anchors_, model.scales_, model.centre_, model.rate_)
        return model

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_geometry"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "anchors_" in state:
            self._geometry = placed(self.anchors_, self.scales_, self.centre_, self.rate_)


def _cores() -> int:
    """Cores that this process may use; all of them where the platform does not tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_rows(X: NDArray[np.floating]) -> NDArray[np.floating]:
    """The same row after row, a copy where it is not: to the compiler each order in memory is a type of its own."""
    return np.require(X, requirements=["C", "W"])
