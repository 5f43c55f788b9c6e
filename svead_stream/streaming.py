"""The streaming detector: a river estimator around the arrays and kernels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river import base

from svead_stream import snapshot
from svead_stream import state as states
from svead_stream.errors import SnapshotError, whole
from svead_stream.features import Features, number, table
from svead_stream.kernels import model as layout
from svead_stream.kernels import refresh as renewal
from svead_stream.kernels import search, stream

if TYPE_CHECKING:
    from svead_stream.batch import SVEAD

SCALINGS = {
    "none": layout.NONE,
    "std": layout.STD,
    "iqr": layout.IQR,
    "range": layout.RANGE,
    "log": layout.LOG,
    "mixed": layout.MIXED,
}


class StreamingSVEAD(base.AnomalyDetector):
    """Anomaly detection in a stream with stochastic Voronoi ensembles.

    Many random Voronoi partitions of a sample of the stream, each made by a few of its points, the anchors. An event
    is anomalous where it lies far from its anchor relative to its cell, in a cell that is itself wide. Memory is
    constant; an event costs about `n_partitions * n_anchors` distances.

    Larger scores are more anomalous. With `scaling="mixed"` they lie between 0 and 1 whatever the data, those of usual
    events mostly between 0.2 and 0.6; with a single scaling they are distances, 0 or more.

    Parameters
    ----------
    n_partitions
        Number of partitions. More give steadier scores and cost proportionally more.
    n_anchors
        Anchors of each partition. More look closer at local structure, fewer forgive more.
    window
        Points of the stream that are kept as the sample from which partitions are built.
    refresh
        Every partition is rebuilt once in so many events, in turn.
    half_life
        After so many events half of the sample has been replaced, so that the model follows drift. `None` keeps a
        uniform sample of everything seen.
    scaling
        How features are made comparable: `"none"`; division by `"std"`, `"iqr"` or `"range"` of the sample; `"log"`,
        linear within one interquartile range of the median and logarithmic beyond; or `"mixed"`, where partitions
        take all of these in turn. No scaler is needed in front of the detector.
    max_features
        Most feature names that the model accepts over its life.
    seed
        Makes scores reproducible.

    Examples
    --------
    >>> import random
    >>> from svead_stream import StreamingSVEAD
    >>> rng = random.Random(42)
    >>> detector = StreamingSVEAD(seed=42)
    >>> for _ in range(500):
    ...     detector.learn_one({"load": rng.gauss(0, 1), "heat": rng.gauss(50, 5)})
    >>> usual = detector.score_one({"load": 0.3, "heat": 52})
    >>> odd = detector.score_one({"load": 0.3, "heat": 90})
    >>> usual < 0.6 < odd
    True
    >>> list(detector.explain_one({"load": 0.3, "heat": 90}))
    ['heat', 'load']
    """

    def __init__(
        self,
        n_partitions: int = 32,
        n_anchors: int = 16,
        window: int = 256,
        refresh: int = 512,
        half_life: float | None = 256,
        scaling: str = "mixed",
        max_features: int = 4096,
        seed: int | None = None,
    ) -> None:
        self._set_parameters(n_partitions, n_anchors, window, refresh, half_life, scaling, max_features, seed)
        state = states.empty(n_partitions, n_anchors, window, 0)
        state.rng[:] = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        self._adopt(Features(), state)

    def _set_parameters(
        self,
        n_partitions: int,
        n_anchors: int,
        window: int,
        refresh: int,
        half_life: float | None,
        scaling: str,
        max_features: int,
        seed: int | None,
    ) -> None:
        whole("n_partitions", n_partitions, 1, 100_000)
        whole("n_anchors", n_anchors, 1, 65_536)
        whole("window", window, layout.POINTS_PER_ANCHOR * n_anchors, 2**24, f"{layout.POINTS_PER_ANCHOR} * n_anchors")
        whole("refresh", refresh, 1, 2**48)
        whole("max_features", max_features, 1, 2**24)
        if seed is not None:
            whole("seed", seed, 0, 2**128)
        if scaling not in SCALINGS:
            raise ValueError(f"scaling={scaling!r}: it must be one of {', '.join(map(repr, SCALINGS))}")
        shortest = -1 / math.log2(1 - 1 / window)
        if half_life is not None and not (
            isinstance(half_life, (int, float, np.number)) and shortest <= half_life < math.inf
        ):
            raise ValueError(
                f"half_life={half_life!r}: it must be None or a number of events of at least {shortest:.0f}, "
                f"the half-life of a sample of {window} that every event enters"
            )
        self.n_partitions = n_partitions
        self.n_anchors = n_anchors
        self.window = window
        self.refresh = refresh
        self.half_life = half_life
        self.scaling = scaling
        self.max_features = max_features
        self.seed = seed
        fade = 0.0 if half_life is None else window * (1 - 2 ** (-1 / half_life))
        self._plan = layout.Plan(refresh, SCALINGS[scaling], fade)

    def _adopt(self, features: Features, state: layout.State) -> None:
        """Take features and arrays as this model's state, and prepare what the one-event path needs at hand."""
        t, dp = state.scale.shape
        s = self._state = state
        self._features = features
        self._scored: tuple[bytes, float] | None = None  # the row scored last and its score
        last = (np.zeros(2 * dp, np.float32), np.zeros(t, np.int32), np.zeros(t))
        frame = (s.centre, s.rate, s.warp_rate)
        partitions = (s.metric, s.cells, s.product, s.bias, s.placed, s.scale, s.feature)
        self._score_arguments = (*frame, *partitions, self.scaling == "mixed", *last)
        sample = (s.sample, s.sample_t, s.sample_gaps)
        points = (s.levels, s.rows, s.suspicion, s.arrived)
        self._learn_arguments = (self._plan.fade, s.counters, s.rng, *points, s.cells, *sample, *last)

    @property
    def n_seen_(self) -> int:
        """Events learned."""
        return int(self._state.counters[layout.SEEN])

    @property
    def n_missing_(self) -> int:
        """Missing values met in the events learned."""
        return int(self._state.counters[layout.MISSING])

    @property
    def feature_names_(self) -> list[Hashable]:
        """Names of the features met so far, in the order of the model's columns."""
        return list(self._features.names)

    def score_one(self, x: Mapping[Hashable, Any]) -> float:
        """Anomaly score of an event, which is not learned; 0.0 while nothing is known.

        Parameters
        ----------
        x
            Feature names and numbers. None, NaN and infinities are missing values.
        """
        self._features.fill(x)
        return self._score_row()

    def _score_row(self) -> float:
        score: float = stream.score_point(self._features.row, *self._score_arguments)
        self._scored = self._features.key(), score
        return score

    def learn_one(self, x: Mapping[Hashable, Any]) -> None:
        """Learn an event. Directly after `score_one` of the same event the search is not repeated.

        Parameters
        ----------
        x
            Feature names and numbers, as for `score_one`.
        """
        new = self._features.fill(x)
        if new:
            if all(math.isnan(number(name, value)) for name, value in x.items()):
                return
            self._widen(new)
            self._features.fill(x)
        if self._scored is not None and self._scored[0] == self._features.key():
            score = self._scored[1]
        else:
            score = self._score_row()
        self._scored = None
        if stream.learn_point(self._features.row, score, *self._learn_arguments):
            renewal.refresh(self._state, self._plan)

    def _widen(self, new: Iterable[Hashable]) -> None:
        features = self._features.with_new(new, self.max_features)
        self._adopt(features, states.widened(self._state, len(features.names)))

    def score_many(self, X: Any, feature_names: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Scores of the rows of X, none of which is learned.

        Parameters
        ----------
        X
            2-D array or data frame (pandas, polars, pyarrow), one row per event.
        feature_names
            Names of the columns of an array; 0, 1, 2 ... without.
        """
        return self._run(X, feature_names, learn=False)

    def learn_many(self, X: Any, feature_names: Sequence[Hashable] | None = None) -> None:
        """Learn the rows of X in order, as `learn_one` would; takes what `score_many` takes."""
        self._run(X, feature_names, learn=True)

    def score_learn_many(self, X: Any, feature_names: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Score each row of X, then learn it: the numbers of the loop, much faster; takes what `score_many` takes."""
        return self._run(X, feature_names, learn=True)

    def _run(self, X: Any, feature_names: Sequence[Hashable] | None, learn: bool) -> NDArray[np.float64]:
        names, given = table(X, feature_names)
        if learn:
            new = [name for name in names if name not in self._features.index]
            if new and (np.abs(given) <= search.LARGEST).any():
                self._widen(new)
        known = self._features.index
        matrix = given
        if names != self._features.names:
            matrix = np.full((len(given), len(known)), np.nan)
            for i, name in enumerate(names):
                if name in known:
                    matrix[:, known[name]] = given[:, i]
        out = np.zeros(len(matrix))
        self._scored = None
        stream.stream(matrix, self._state, self._plan, learn, out)
        return out

    def explain_one(self, x: Mapping[Hashable, Any]) -> dict[Hashable, float]:
        """How much each feature of an event contributes to the distances that make its score.

        Parameters
        ----------
        x
            Feature names and numbers, as for `score_one`.

        Returns
        -------
        dict
            Shares of the features present, largest first, with sum 1; equal shares where the score is 0.
        """
        self.score_one(x)
        s, present = self._state, np.abs(self._features.row) <= search.LARGEST
        names = [name for name, here in zip(self._features.names, present, strict=True) if here]
        if not names:
            return {}
        shares = np.zeros(len(present))
        stream.share_out(s.metric, s.cells, s.placed, s.scale, *self._score_arguments[-4:], shares)
        total = shares.sum()
        shares = shares[present] / total if total > 0 else np.full(len(names), 1 / len(names))
        order = np.argsort(-shares, kind="stable")
        return {names[i]: float(shares[i]) for i in order}

    def merge(self, other: StreamingSVEAD, base: StreamingSVEAD | None = None) -> None:
        """Add to the cells what another model learned over the same anchors: counts and sums add up, maxima are kept.

        Exact for the cells, in any order and grouping. The sample stays this model's own.

        Parameters
        ----------
        other
            A model with the same partitions, for example a copy that learned other events since.
        base
            The model of which both are copies, as it was then, so that what they share is not counted twice.
        """
        for model in (other,) if base is None else (other, base):
            same = self._features.names == model._features.names and all(
                np.array_equal(getattr(self._state, name), getattr(model._state, name))
                for name in ("anchors", "weight")
            )
            if not same:
                raise ValueError(
                    "models merge exactly only over the same anchors: copy one model, and merge before a refresh"
                )
        mine, theirs = self._state, other._state
        for name in ("cells", "counters"):
            a, b = getattr(mine, name), getattr(theirs, name)
            part = np.s_[..., [search.COUNT, search.SUM]] if name == "cells" else np.s_[[layout.SEEN, layout.MISSING]]
            a[part] += b[part] - (0 if base is None else getattr(base._state, name)[part])
        mine.cells[..., search.MAX] = np.maximum(mine.cells[..., search.MAX], theirs.cells[..., search.MAX])
        self._scored = None

    def to_bytes(self) -> bytes:
        """The whole model as bytes: parameters, features, arrays, generator."""
        fields = {
            "parameters": self._get_params(),
            "features": [snapshot.name_to_json(n) for n in self._features.names],
        }
        return snapshot.pack("StreamingSVEAD", fields, {name: getattr(self._state, name) for name in states.SAVED})

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamingSVEAD:
        """The model that `to_bytes` wrote; it goes on with exactly the scores that the original would give.

        Raises
        ------
        SnapshotError
            If the bytes are no snapshot of such a model, damaged, or of a newer version.
        """
        _, fields, arrays = snapshot.unpack(data, "StreamingSVEAD")
        try:
            names = [snapshot.name_from_json(name) for name in fields["features"]]
            model = cls.__new__(cls)
            model._set_parameters(**fields["parameters"])
            if len(set(names)) != len(names) or len(names) > model.max_features:
                raise ValueError("feature names are not distinct, or too many")
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"the snapshot's header is malformed: {error}") from None
        state = states.restored(arrays, model.n_partitions, model.n_anchors, model.window, len(names))
        model._adopt(Features(names), state)
        return model

    @classmethod
    def from_batch(cls, model: SVEAD, sample: Any, **parameters: Any) -> StreamingSVEAD:
        """A streaming model that starts warm: with the partitions and cells of a fitted batch model.

        Its first scores are those of the batch model with the event counted in its cell. From then on it learns, and
        its partitions are replaced in turn by ones drawn from the stream.

        Parameters
        ----------
        model
            A fitted `SVEAD`; number of partitions, of anchors, and scaling are taken from it.
        sample
            Rows of the data it was fitted to, drawn uniformly: 2-D array or data frame. As many as fit the window are
            used.
        parameters
            Other parameters of the constructor, such as `window`, `half_life`, `seed`.
        """
        t, m, d = model.anchors_.shape
        streaming = cls(n_partitions=t, n_anchors=m, scaling=model.scaling, **parameters)
        names = list(getattr(model, "feature_names_in_", range(d)))
        given, rows = table(sample)
        if set(names) - set(given):
            raise ValueError(
                f"the sample has the columns {given!r}, the model wants {names!r}: give it the same columns"
            )
        rows = rows[: streaming.window, [given.index(name) for name in names]]
        if len(rows) == 0:
            raise ValueError("the sample is empty: give some rows of the data that the model was fitted to")
        streaming._widen(names)
        s = streaming._state
        columns = [streaming._features.index[name] for name in names]
        s.rows[: len(rows), columns] = np.where(np.abs(rows) <= search.LARGEST, rows, np.nan)
        s.counters[layout.SEEN] = max(int(model.cells_[0, :, search.COUNT].sum()), len(rows))
        s.counters[layout.STORED] = len(rows)
        s.anchors[:, :, columns] = model.anchors_
        s.weight[:, columns] = np.where(model.scales_ > 0, 1 / np.where(model.scales_ > 0, model.scales_, 1), 0.0)
        s.metric[:, search.ANCHORS] = m
        s.metric[:, search.INVERSE_UNIT] = 1.0
        s.cells[..., : layout.LIMIT] = model.cells_
        s.cells[..., layout.LIMIT] = np.finfo(np.float64).max
        renewal.take_cutoff(s)
        renewal.survey(s)
        s.suspicion[: len(rows)] = streaming.score_many(s.rows[: len(rows)], streaming.feature_names_)
        return streaming

    def __getstate__(self) -> dict[str, Any]:
        saved = {name: getattr(self._state, name) for name in states.SAVED}
        return {"parameters": self._get_params(), "features": self._features.names, "arrays": saved}

    def __setstate__(self, pickled: dict[str, Any]) -> None:
        self._set_parameters(**pickled["parameters"])
        arrays = {name: array.copy() for name, array in pickled["arrays"].items()}
        names = pickled["features"]
        self._adopt(
            Features(names), states.restored(arrays, self.n_partitions, self.n_anchors, self.window, len(names))
        )
