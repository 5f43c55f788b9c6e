"""The streaming detector: a river estimator around two memories of the stream."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river import base

from svead_stream import notebook, parameters, snapshot
from svead_stream.ensemble import Ensemble
from svead_stream.errors import SnapshotError, brief
from svead_stream.features import Features
from svead_stream.frames import table
from svead_stream.kernels import layout
from svead_stream.kernels.ranks import ALERT
from svead_stream.memory import Size, short_and_long
from svead_stream.parameters import values_of
from svead_stream.record import Explanation, Judged, Reasons
from svead_stream.rescored import Rescored

if TYPE_CHECKING:
    from svead_stream.batch import SVEAD

_DEFAULT = {parameter.name: parameter.default for parameter in parameters.DETECTOR}
_SCALINGS = {name: getattr(layout, name.upper()) for name in parameters.SCALING.choices}
_NO_TIMES = np.zeros(0)
_NO_RULES = layout.Rules(0.0, 0, 0.0, False, 0.0, False, 0.0, 0.0, False)
_NO_WINDOW = layout.Window(np.zeros(0), np.zeros(0), np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0))
_TOGETHER = 1024  # rows whose alerts are explained together


@snapshot.register
class StreamingSVEAD(base.AnomalyDetector):
    """Anomaly detection in a stream with stochastic Voronoi ensembles.

    Many random Voronoi partitions of a sample of the stream, each made by a few of its points, the anchors. An event
    is anomalous where it lies far from its anchor, in a cell that is itself wide and rarely visited.

    Two thirds of the partitions have a short memory, one third a long one, and what is strange to both counts: what was
    normal last week is still normal today, and what became normal an hour ago is normal now. Strange events in a row
    weigh more than single ones. Memory is constant; an event costs up to `1.3 * n_partitions * n_anchors` distances.

    Larger scores are more anomalous. With `scaling="mixed"` they lie between 0 and 1 whatever the data, those of usual
    events mostly between 0.2 and 0.6; with a single scaling they are distances, 0 or more.

    A model may be used by several threads: their calls wait for each other.

    Parameters
    ----------
    n_partitions
        Number of partitions. More give steadier scores and cost proportionally more.
    n_anchors
        Anchors of a partition with the short memory; those with the long one have twice as many, and some of both
        half as many. More look closer at local structure, fewer forgive more.
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
    answer_memory
        Answers (`feedback_one`) lose half of their influence in so many events; `None` never.
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
        n_partitions: int = _DEFAULT["n_partitions"],
        n_anchors: int = _DEFAULT["n_anchors"],
        normal_after: int = _DEFAULT["normal_after"],
        memory: float | None = _DEFAULT["memory"],
        scaling: parameters.Scaling = _DEFAULT["scaling"],
        max_features: int = _DEFAULT["max_features"],
        answer_memory: float | None = _DEFAULT["answer_memory"],
        seed: int | None = _DEFAULT["seed"],
    ) -> None:
        self._set_parameters(n_partitions, n_anchors, normal_after, memory, scaling, max_features, answer_memory, seed)
        self._adopt(Features(), Ensemble.new(self._drawn(), seed, answer_memory))

    def _set_parameters(
        self,
        n_partitions: int,
        n_anchors: int,
        normal_after: int,
        memory: float | None,
        scaling: parameters.Scaling,
        max_features: int,
        answer_memory: float | None,
        seed: int | None,
    ) -> None:
        """What every new object begins with, whichever way it is made."""
        self._lock = threading.Lock()
        self.n_partitions = n_partitions
        self.n_anchors = n_anchors
        self.normal_after = normal_after
        self.memory = memory
        self.scaling = scaling
        self.max_features = max_features
        self.answer_memory = answer_memory
        self.seed = seed
        parameters.check_detector(**values_of(self))

    def _drawn(self) -> tuple[tuple[layout.Plan, Size], tuple[layout.Plan, Size]]:
        # as Python's own: NumPy's short types overflow, and are types of their own to the compiler
        counts = int(self.n_partitions), int(self.n_anchors), int(self.normal_after)
        memory = None if self.memory is None else float(self.memory)
        return short_and_long(*counts, memory, _SCALINGS[self.scaling])

    def _adopt(self, features: Features, ensemble: Ensemble) -> None:
        """Take these as the state of the model."""
        self._features, self._ensemble = features, ensemble
        self._scored: bytes | None = None  # the row scored last
        self._score = 0.0

    def _made(self) -> str:
        return notebook.made(self, values_of(self), _DEFAULT)

    def __repr__(self) -> str:
        names, seen = self._features.names, notebook.counted(self.n_seen_, "event")
        return f"{self._made()}: {seen}, {notebook.counted(len(names), 'feature')}"

    def _repr_html_(self) -> str:
        facts = {
            "events": self.n_seen_,
            "features": notebook.few(self._features.names) or "none yet",
            "missing values": self.n_missing_,
            "answers": self.n_answers_,
            "partitions": self.n_partitions,
        }
        return notebook.card(self._made(), facts)

    @property
    def n_seen_(self) -> int:
        """Events learned."""
        return self._ensemble.count(layout.SEEN)

    @property
    def n_missing_(self) -> int:
        """Missing values met in the events learned."""
        return self._ensemble.count(layout.MISSING)

    @property
    def n_answers_(self) -> int:
        """Answers taken."""
        return self._ensemble.answers.count

    @property
    def feature_names_(self) -> list[Hashable]:
        """Names of the features met so far, in the order of the model's columns."""
        return list(self._features.names)

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Anomaly score of an event, which is not learned; 0.0 while nothing is known.

        Parameters
        ----------
        x
            Feature names and numbers. None, NaN and infinities are missing values.
        """
        with self._lock:
            return self._score_packed(self._features.pack(x))

    def _score_packed(self, packed: bytes) -> float:
        """The score of a packed event; for the one that was scored last the search is not repeated."""
        if packed != self._scored:
            self._features.set_row(packed)
            self._score = self._ensemble.score(self._features.row)
            self._scored = packed
        return self._score

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn an event. After `score_one` of the same event the search is not repeated.

        Parameters
        ----------
        x
            Feature names and numbers, as for `score_one`.
        """
        with self._lock:
            packed = self._features.pack(x)
            if self._features.unknown:
                self._widen(self._features.unknown)
                packed = self._features.pack(x)
            self._score_packed(packed)
            self._scored = None
            self._ensemble.learn(self._features.row)

    def _widen(self, new: Mapping[Hashable, float]) -> None:
        """Make room for features that an event brings with these numbers."""
        features = self._features.with_new(new, self.max_features)
        added = features.names[len(self._features.names) :]
        self._adopt(features, self._ensemble.widened([new[name] for name in added]))

    def score_many(self, X: Any, feature_names: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Scores of the rows of X, none of which is learned.

        Parameters
        ----------
        X
            2-D array or data frame (pandas, polars, pyarrow; a lazy one is collected), one row per event, or a list of
            dicts.
        feature_names
            Names of the columns of an array; 0, 1, 2 ... without.
        """
        return self._run(X, feature_names, learn=False).scores

    def learn_many(self, X: Any, feature_names: Sequence[Hashable] | None = None) -> None:
        """Learn the rows of X in order, as `learn_one` would; takes what `score_many` takes."""
        self._run(X, feature_names, learn=True)

    def score_learn_many(self, X: Any, feature_names: Sequence[Hashable] | None = None) -> NDArray[np.float64]:
        """Score each row of X, then learn it: the numbers of the loop, much faster; takes what `score_many` takes."""
        return self._run(X, feature_names, learn=True).scores

    def judge_many(
        self,
        X: Any,
        feature_names: Sequence[Hashable] | None,
        times: NDArray[np.float64],
        rules: layout.Rules,
        window: layout.Window,
        learn: bool,
    ) -> Judged:
        """Score each row of X, rank it in a window of scores and explain alerts: `ConformalFilter.judge_many` calls it.

        Parameters
        ----------
        X, feature_names
            As for `score_many`.
        times
            When the rows happened, in seconds that never go back; NaN if that is not known.
        rules
            What makes an alert, and what an incident.
        window
            The recent scores.
        learn
            Whether each row is then learned and its score entered into the window.
        """
        return self._run(X, feature_names, learn, times, rules, window)

    def _run(
        self,
        X: Any,
        feature_names: Sequence[Hashable] | None,
        learn: bool,
        times: NDArray[np.float64] = _NO_TIMES,
        rules: layout.Rules = _NO_RULES,
        window: layout.Window = _NO_WINDOW,
    ) -> Judged:
        names, given = table(X, feature_names)
        judges = len(window.recent) > 0
        n, n_judged = len(given), len(given) if judges else 0
        scores, p_values, thresholds = np.empty(n), np.empty(n_judged), np.empty(n_judged)
        said = np.zeros(n_judged, np.uint8)
        reasons: dict[int, Reasons] = {}
        with self._lock:
            if learn:
                self._scored = None
            most = _TOGETHER if judges else max(n, 1)
            for start, end, new in self._features.runs(names, given, learn, most, self.max_features):
                n_before = len(self._features.names)
                if new:
                    self._widen(new)
                matrix, part = self._features.in_order(names, given[start:end]), slice(start, end)
                brand_new = bool(new) and not np.isfinite(matrix[0, :n_before]).any()
                shares = np.zeros(matrix.shape if judges else (0, 0))
                judged = (times[part], rules, window, p_values[part], said[part], thresholds[part], shares)
                alerts = self._ensemble.run(matrix, learn, brand_new, scores[part], *judged)
                if alerts:
                    for k, i in enumerate(np.flatnonzero(said[part] & ALERT).tolist()):
                        reasons[start + i] = self._features.named(matrix[i], shares[k])
        return Judged(scores, p_values, said, thresholds, reasons)

    def explain_one(self, x: Mapping[Any, Any]) -> Explanation:
        """How much each feature of an event contributes to the distances that make its score.

        Parameters
        ----------
        x
            Feature names and numbers, as for `score_one`.

        Returns
        -------
        Explanation
            A dict: shares of the features that contributed, largest first, with sum 1; where none did, equal shares of
            all that are present. Notebooks draw it.
        """
        with self._lock:
            self._score_packed(self._features.pack(x))
            shares = self._ensemble.shares()
            return Explanation() if shares is None else self._features.named(self._features.row, shares)

    def feedback_one(self, x: Mapping[Any, Any], is_anomaly: bool | None, teach: bool = False) -> Rescored | None:
        """Take an answer: whether an event was an anomaly.

        Partitions that told it are trusted more from now on, and events like it are judged by the answer. The event may
        be long past, and need not have been an alert: its values count, not when it came. A later answer on the same
        values replaces an earlier one; a false alarm that comes again counts for more. All answers together never count
        for more than the newest 64 of each kind.

        Parameters
        ----------
        x
            The event, as for `score_one`.
        is_anomaly
            True for an anomaly, found or missed; False for a false alarm; None if that is not known, which changes
            nothing.
        teach
            Whether a false alarm is also learned as something that has long been normal, so that its like stops coming.

        Returns
        -------
        Rescored
            How the strangeness of usual events has moved, so that older scores can be compared with new ones; None if
            nothing has.
        """
        if is_anomaly is None:
            return None
        if not isinstance(is_anomaly, (np.bool_, Real)) or is_anomaly not in (False, True):
            raise ValueError(f"is_anomaly={is_anomaly!r}: it must be True, False or None")
        with self._lock:
            self._features.set_row(self._features.pack(x))
            self._scored = None
            taken = self._ensemble.taking(self._features.row, bool(is_anomaly), teach)
            if taken is None:
                return None
            ensemble, rescored = taken
            self._adopt(self._features, ensemble)
            return rescored

    def merge(self, other: StreamingSVEAD, base: StreamingSVEAD | None = None) -> None:
        """Add to the cells what another model learned over the same anchors: counts and sums add up, maxima are kept.

        Exact for the cells, in any order and grouping. Sample and answers stay this model's own.

        Parameters
        ----------
        other
            A model with the same partitions, for example a copy that learned other events since. No thread may be
            teaching it meanwhile.
        base
            The model of which both are copies, as it was then, so that what they share is not counted twice.
        """
        for model in (other,) if base is None else (other, base):
            if not isinstance(model, StreamingSVEAD):
                raise TypeError(f"only a StreamingSVEAD can be merged, not {brief(model)}")
            same_names = self._features.names == model._features.names
            if not (same_names and self._ensemble.has_the_anchors_of(model._ensemble)):
                raise ValueError(
                    "models merge exactly only over the same anchors: copy one model, and merge before a refresh"
                )
        with self._lock:
            self._ensemble.merge(other._ensemble, None if base is None else base._ensemble)
            self._scored = None

    def to_bytes(self) -> bytes:
        """The whole model as bytes: parameters, features, arrays, generator."""
        names, arrays = self._saved()
        fields = {"parameters": values_of(self), "features": [snapshot.name_to_json(name) for name in names]}
        return snapshot.pack("StreamingSVEAD", fields, arrays)

    def _saved(self) -> tuple[list[Hashable], snapshot.Arrays]:
        """Names of the features and copies of all arrays, of one moment."""
        with self._lock:
            return self.feature_names_, self._ensemble.saved()

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
            names = snapshot.names_from_json(fields["features"])
            model = cls.__new__(cls)
            if "half_life" in fields["parameters"]:
                raise ValueError("it is of release 0.1, whose models had one memory; make a new model and let it learn")
            model._set_parameters(**fields["parameters"])
            if len(names) > model.max_features:
                raise ValueError(f"{len(names)} feature names are too many for max_features={model.max_features}")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise SnapshotError(f"the snapshot's header is malformed: {error}") from None
        model._restore(names, arrays)
        return model

    def _restore(self, names: list[Hashable], arrays: snapshot.Arrays) -> None:
        self._adopt(Features(names), Ensemble.restored(self._drawn(), self.answer_memory, arrays, len(names)))

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
        if not hasattr(model, "anchors_"):
            raise TypeError(f"the model is {brief(model)}: give an SVEAD that was fitted, such as SVEAD().fit(X)")
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
        streaming._widen(dict.fromkeys(names, math.nan))
        columns = [streaming._features.index[name] for name in names]
        streaming._ensemble.take_batch(model.anchors_, model.scales_, model.cells_, rows, columns)
        return streaming

    def __getstate__(self) -> dict[str, Any]:
        names, arrays = self._saved()
        return {"parameters": values_of(self), "features": names, "arrays": arrays}

    def __setstate__(self, pickled: dict[str, Any]) -> None:
        self._set_parameters(**pickled["parameters"])
        self._restore(pickled["features"], pickled["arrays"])
