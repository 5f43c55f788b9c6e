"""The streaming detector: a river estimator around two memories of the stream."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river import base

from svead_stream import snapshot
from svead_stream.errors import SnapshotError, whole
from svead_stream.features import Features, number, table
from svead_stream.kernels import lasting, search, stream
from svead_stream.kernels import model as layout
from svead_stream.memory import Memory, Size

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

_NAMES = ("short", "long")  # of the memories, in snapshots


class StreamingSVEAD(base.AnomalyDetector):
    """Anomaly detection in a stream with stochastic Voronoi ensembles.

    Many random Voronoi partitions of a sample of the stream, each made by a few of its points, the anchors. An event
    is anomalous where it lies far from its anchor, in a cell that is itself wide and rarely visited.

    Two thirds of the partitions have a short memory, one third a long one, and what is strange to both counts: what was
    normal last week is still normal today, and what became normal an hour ago is normal now. Strange events in a row
    weigh more than single ones. Memory is constant; an event costs about `1.3 * n_partitions * n_anchors` distances.

    Larger scores are more anomalous. With `scaling="mixed"` they lie between 0 and 1 whatever the data, those of usual
    events mostly between 0.2 and 0.6; with a single scaling they are distances, 0 or more.

    Parameters
    ----------
    n_partitions
        Number of partitions. More give steadier scores and cost proportionally more.
    n_anchors
        Anchors of each partition with the short memory; those with the long one have twice as many. More look closer
        at local structure, fewer forgive more.
    normal_after
        How many events something new has to last before it starts to count as normal. A fault that lasts longer becomes
        normal; a change that is for good is an anomaly until then.
    memory
        The long memory forgets half of what was normal in so many events; `None` never forgets.
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
        n_partitions: int = 24,
        n_anchors: int = 16,
        normal_after: int = 256,
        memory: float | None = 20_000,
        scaling: str = "mixed",
        max_features: int = 4096,
        seed: int | None = None,
    ) -> None:
        self._set_parameters(n_partitions, n_anchors, normal_after, memory, scaling, max_features, seed)
        seeds = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        memories = [Memory.new(*drawn, seed) for drawn, seed in zip(self._drawn(), seeds, strict=True)]
        self._adopt(Features(), memories, np.zeros(lasting.N_LEVELS), np.zeros(0))

    def _set_parameters(
        self,
        n_partitions: int,
        n_anchors: int,
        normal_after: int,
        memory: float | None,
        scaling: str,
        max_features: int,
        seed: int | None,
    ) -> None:
        whole("n_partitions", n_partitions, 2, 100_000)
        whole("n_anchors", n_anchors, 1, 65_536)
        whole("normal_after", normal_after, 1, 2**48)
        whole("max_features", max_features, 1, 2**24)
        if seed is not None:
            whole("seed", seed, 0, 2**128)
        if scaling not in SCALINGS:
            raise ValueError(f"scaling={scaling!r}: it must be one of {', '.join(map(repr, SCALINGS))}")
        if memory is not None and not (
            isinstance(memory, (int, float, np.number)) and normal_after <= memory < math.inf
        ):
            raise ValueError(
                f"memory={memory!r}: it must be None or a number of events, at least normal_after ({normal_after})"
            )
        self.n_partitions = n_partitions
        self.n_anchors = n_anchors
        self.normal_after = normal_after
        self.memory = memory
        self.scaling = scaling
        self.max_features = max_features
        self.seed = seed

    def _drawn(self) -> tuple[tuple[layout.Plan, Size], tuple[layout.Plan, Size]]:
        """What the two memories are: a short one, which is soon renewed, and a long one, which is finer."""

        def drawn(size: Size, refresh: int, half_life: float | None) -> tuple[layout.Plan, Size]:
            fade = 0.0 if half_life is None else min(1.0, size.window * (1 - 2 ** (-1 / half_life)))
            share = min(1.0, size.window / refresh)  # events between two refreshes weigh no more than the sample
            return layout.Plan(refresh, SCALINGS[self.scaling], fade, share, self.normal_after), size

        t, m = self.n_partitions, self.n_anchors
        t_long = max(t // 3, 1)
        return (
            drawn(Size(t - t_long, m, 12 * m), self.normal_after, self.normal_after),
            drawn(Size(t_long, 2 * m, 24 * m), 64 * m, self.memory),
        )

    def _adopt(
        self, features: Features, memories: Iterable[Memory], levels: NDArray[np.float64], last: NDArray[np.float64]
    ) -> None:
        """Take these as the state of the model; `last` is the row learned last."""
        short, long = memories
        self._features = features
        self._memories = (short, long)
        self._levels, self._last = levels, last
        self._scored: bytes | None = None  # the row scored last, whose strangeness to both memories is:
        self._strangeness = np.zeros(2)
        relative = self.scaling == "mixed"
        counters = short.state.counters
        self._to_score = (short.to_score, long.to_score, counters, relative, levels, last, self._strangeness)
        self._to_learn = (short.to_learn, long.to_learn, counters, levels, last, self._strangeness)

    @property
    def n_seen_(self) -> int:
        """Events learned."""
        return int(self._memories[0].state.counters[layout.SEEN])

    @property
    def n_missing_(self) -> int:
        """Missing values met in the events learned."""
        return int(self._memories[0].state.counters[layout.MISSING])

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
        score: float = stream.score_event(self._features.row, *self._to_score)
        self._scored = self._features.key()
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
        if self._scored != self._features.key():
            self._score_row()
        self._scored = None
        if stream.learn_event(self._features.row, *self._to_learn):
            for memory in self._memories:
                memory.refresh()

    def _widen(self, new: Iterable[Hashable]) -> None:
        features = self._features.with_new(new, self.max_features)
        d = len(features.names)
        last = np.append(self._last, np.full(d - len(self._last), np.nan))
        self._adopt(features, [memory.widened(d) for memory in self._memories], self._levels, last)

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
        self._scored = None
        seen = self.n_seen_
        short, long = (memory.run(matrix, learn) for memory in self._memories)
        scores = np.minimum(short, long)
        lasting.to_scores(matrix, scores, seen, self.scaling == "mixed", learn, self._levels, self._last)
        return scores

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
        self._features.fill(x)
        self._score_row()
        present = np.abs(self._features.row) <= search.LARGEST
        names = [name for name, here in zip(self._features.names, present, strict=True) if here]
        if not names:
            return {}
        shares = self._memories[int(np.argmin(self._strangeness))].shares(len(present))
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
            if self._features.names != model._features.names or not all(
                mine.over_the_same_anchors(theirs) for mine, theirs in zip(self._memories, model._memories, strict=True)
            ):
                raise ValueError(
                    "models merge exactly only over the same anchors: copy one model, and merge before a refresh"
                )
        bases = (None, None) if base is None else base._memories
        for mine, theirs, since in zip(self._memories, other._memories, bases, strict=True):
            mine.merge(theirs, since)
        self._scored = None

    def to_bytes(self) -> bytes:
        """The whole model as bytes: parameters, features, arrays, generator."""
        fields = {
            "parameters": self._get_params(),
            "features": [snapshot.name_to_json(n) for n in self._features.names],
        }
        return snapshot.pack("StreamingSVEAD", fields, self._saved())

    def _saved(self) -> snapshot.Arrays:
        named = zip(_NAMES, self._memories, strict=True)
        arrays = {f"{name}.{key}": array for name, memory in named for key, array in memory.saved().items()}
        return {"levels": self._levels, "last": self._last, **arrays}

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
            if "half_life" in fields["parameters"]:
                raise ValueError("it is of release 0.1, whose models had one memory; make a new model and let it learn")
            model._set_parameters(**fields["parameters"])
            if len(set(names)) != len(names) or len(names) > model.max_features:
                raise ValueError("feature names are not distinct, or too many")
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"the snapshot's header is malformed: {error}") from None
        model._restore(names, arrays)
        return model

    def _restore(self, names: list[Hashable], arrays: snapshot.Arrays) -> None:
        levels = snapshot.expect(arrays, "levels", np.float64, (lasting.N_LEVELS,))
        if not (np.isfinite(levels) & (levels >= 0)).all():
            raise SnapshotError("the snapshot does not fit together: array 'levels' has impossible values")
        last = snapshot.expect(arrays, "last", np.float64, (len(names),))
        memories = []
        for name, (plan, size) in zip(_NAMES, self._drawn(), strict=True):
            prefix = f"{name}."
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            memories.append(Memory.restored(plan, size, own, len(names)))
        self._adopt(Features(names), memories, levels, last)

    @classmethod
    def from_batch(cls, model: SVEAD, sample: Any, **parameters: Any) -> StreamingSVEAD:
        """A streaming model that starts warm: with the partitions and cells of a fitted batch model.

        Its first scores are those of the batch model's partitions, some in either memory, for an event that is not in
        its cell yet. From then on it learns, and its partitions are replaced in turn by ones of the stream.

        Parameters
        ----------
        model
            A fitted `SVEAD`; number of partitions, of anchors, and scaling are taken from it.
        sample
            Rows of the data it was fitted to, drawn uniformly: 2-D array or data frame. As many as fit are used, 24
            for each anchor.
        parameters
            Other parameters of the constructor, such as `normal_after`, `memory`, `seed`.
        """
        t, m, d = model.anchors_.shape
        streaming = cls(n_partitions=t, n_anchors=m, scaling=model.scaling, **parameters)
        names = list(getattr(model, "feature_names_in_", range(d)))
        given, rows = table(sample)
        if set(names) - set(given):
            raise ValueError(
                f"the sample has the columns {given!r}, the model wants {names!r}: give it the same columns"
            )
        rows = rows[:, [given.index(name) for name in names]]
        if len(rows) == 0:
            raise ValueError("the sample is empty: give some rows of the data that the model was fitted to")
        streaming._widen(names)
        columns = [streaming._features.index[name] for name in names]
        first = 0
        for memory in streaming._memories:
            own = slice(first, first + len(memory.state.metric))
            memory.take_batch(model.anchors_[own], model.scales_, model.cells_[own], rows, columns)
            first = own.stop
        return streaming

    def __getstate__(self) -> dict[str, Any]:
        return {"parameters": self._get_params(), "features": self._features.names, "arrays": self._saved()}

    def __setstate__(self, pickled: dict[str, Any]) -> None:
        self._set_parameters(**pickled["parameters"])
        self._restore(pickled["features"], {name: array.copy() for name, array in pickled["arrays"].items()})
