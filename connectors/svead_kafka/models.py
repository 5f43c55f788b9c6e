"""A model at work: a detector in its alert filter, fed with decoded events.

The numbers must not depend on how the stream was cut into batches, or a replay would come to other scores. Three
things could make them depend on it, and each is dealt with here:

- Feature names. An event that brings a new name changes the model at that event and not earlier, so a mini-batch
  only spans events whose names the model knows already; the others go one by one.
- Explanations. An alert is explained by the model as it was when the event came, not as it is when the batch is done:
  a copy from before the batch learns up to the alert and is asked there.
- Seeds. Each model's seed follows from the names of group, topic, partition and key unless one is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_kafka.events import Event, Names, Verdict
from svead_kafka.options import Options
from svead_stream.alerts import ConformalFilter

MakeDetector = Callable[[int], Any]
_SHORT = 4  # up to here a mini-batch costs more than it saves


class Table:
    """Column names over a matrix: as much of a data frame as the detector asks for."""

    def __init__(self, columns: list[Any], matrix: NDArray[np.float64]) -> None:
        self.columns = columns
        self.matrix = matrix
        self._at = {name: i for i, name in enumerate(columns)}

    def __len__(self) -> int:
        return len(self.matrix)

    def __getitem__(self, name: Any) -> NDArray[np.float64]:
        return self.matrix[:, self._at[name]]


class Model:
    """One model: scores, judges, explains and learns events in their order.

    Parameters
    ----------
    judge
        The detector in its filter.
    top_features
        How many features an alert names.
    """

    def __init__(self, judge: ConformalFilter, top_features: int = 5) -> None:
        self.judge = judge
        self.detector: Any = judge.detector
        self.top_features = top_features
        self._fast = hasattr(self.detector, "score_learn_many") and hasattr(self.detector, "feature_names_")
        self._columns: dict[Names, NDArray[np.intp] | None] = {}  # None: some name is not known yet
        self._known: list[Any] = []
        self._at: dict[Any, int] = {}

    @property
    def n_missing(self) -> int:
        """Missing values met so far, where the detector counts them."""
        return int(getattr(self.detector, "n_missing_", 0))

    def take(self, events: Sequence[Event], explain: bool = True) -> list[Verdict | str]:
        """Score and learn events; a string in place of a verdict says why the model could not take an event."""
        if not self._fast:
            return [self._take_one(event, explain) for event in events]
        self._look_at_names()
        verdicts: list[Verdict | str] = []
        run: list[Event] = []
        last: Names | None = None  # names that are known; mostly the next event has the very same
        for event in events:
            if event.names is last or self._columns_of(event.names) is not None:
                last = event.names
                run.append(event)
                continue
            verdicts += self._take_run(run, explain)
            run = []
            verdicts.append(self._take_one(event, explain))
            self._look_at_names()
        return verdicts + self._take_run(run, explain)

    def _look_at_names(self) -> None:
        """Learn which feature names the detector knows now; it only ever adds some."""
        names = self.detector.feature_names_
        if len(names) != len(self._known):
            self._known = names
            self._at = {name: i for i, name in enumerate(names)}
            self._columns.clear()

    def _columns_of(self, names: Names) -> NDArray[np.intp] | None:
        """Where the model has the features of these names, if it knows them all."""
        try:
            return self._columns[names]
        except KeyError:
            found = [self._at[name] for name in names if name in self._at]
            columns = np.array(found, dtype=np.intp) if len(found) == len(names) else None
            if len(self._columns) < 4096:  # a stream of ever new shapes must not fill the memory
                self._columns[names] = columns
            return columns

    def _take_run(self, run: list[Event], explain: bool) -> list[Verdict | str]:
        if len(run) <= _SHORT:
            return [self._take_one(event, explain) for event in run]
        detector = self.detector
        table = self._table(run)
        explain = explain and self.top_features > 0 and hasattr(detector, "explain_one")
        before = detector.to_bytes() if explain else b""
        scores, p_values, alerts = self.judge.score_learn_many(table)
        tops: list[list[dict[str, Any]] | None] = [None] * len(run)
        if explain and alerts.any():
            then = type(detector).from_bytes(before)
            done = 0
            for i in np.flatnonzero(alerts).tolist():
                then.learn_many(Table(table.columns, table.matrix[done:i]))
                tops[i] = self._top(then, run[i])
                done = i
        return list(map(Verdict, scores.tolist(), p_values.tolist(), alerts.tolist(), tops))

    def _table(self, run: list[Event]) -> Table:
        """The events of a run as rows in the model's own order of features; NaN where an event lacks one."""
        matrix = np.full((len(run), len(self._known)), np.nan)
        by_shape: dict[int, list[int]] = {}  # by identity: names of one shape are mostly one object
        for i, event in enumerate(run):
            by_shape.setdefault(id(event.names), []).append(i)
        for rows in by_shape.values():
            columns = self._columns_of(run[rows[0]].names)
            assert columns is not None, "a run has known names only"
            values = np.array([run[i].values for i in rows], dtype=np.float64)
            matrix[np.array(rows)[:, None], columns] = values
        return Table(self._known, matrix)

    def _take_one(self, event: Event, explain: bool) -> Verdict | str:
        judge = self.judge
        x = dict(zip(event.names, event.values, strict=True))
        limit = getattr(self.detector, "max_features", None)
        if limit is not None and self._fast:
            known = self.detector.feature_names_
            if len(known) + len(x.keys() - set(known)) > limit:
                return f"too many features: the model has {len(known)} and takes {limit} at most"
        try:
            score = float(judge.score_one(x))
            p_value = judge.p_value(score)
            alert = p_value <= judge.alert_rate
            top = None
            if explain and alert and self.top_features and hasattr(self.detector, "explain_one"):
                top = self._top(self.detector, event)
            judge.learn_one(x)
        except ValueError as error:
            return f"the detector refused it: {error}"
        return Verdict(score, p_value, alert, top)

    def _top(self, detector: Any, event: Event) -> list[dict[str, Any]]:
        shares = detector.explain_one(dict(zip(event.names, event.values, strict=True)))
        first = list(shares.items())[: self.top_features]
        return [{"feature": name, "share": float(share)} for name, share in first]


class Maker:
    """Makes new models, and turns models into bytes and back.

    Parameters
    ----------
    options
        The worker's options.
    detector
        Called with a seed, answers a new detector; StreamingSVEAD with the options' parameters by default.
    dumps, loads
        A filter to bytes and back. Needed for detectors without ``to_bytes``; `pickle` will do where nobody
        else can write to the state topic.
    """

    def __init__(
        self,
        options: Options,
        detector: MakeDetector | None = None,
        dumps: Callable[[ConformalFilter], bytes] | None = None,
        loads: Callable[[bytes], ConformalFilter] | None = None,
    ) -> None:
        if (dumps is None) != (loads is None):
            raise TypeError("dumps and loads come together: give both or none")
        self.options = options
        self._detector = detector or self._default
        self._dumps = dumps or ConformalFilter.to_bytes
        self._loads = loads or ConformalFilter.from_bytes
        if detector is not None and dumps is None and not hasattr(detector(0), "to_bytes"):
            raise TypeError(
                f"{type(detector(0)).__name__} has no to_bytes, so its state cannot be saved; "
                "give dumps=pickle.dumps and loads=pickle.loads if nobody else can write to the state topic"
            )

    def _default(self, seed: int) -> Any:
        from svead_stream import StreamingSVEAD

        return StreamingSVEAD(**({"seed": seed} | dict(self.options.detector)))

    def new(self, topic: str, partition: int, key: bytes | None) -> Model:
        """A model that has seen nothing."""
        seed = seed_for(self.options.group, topic, partition, key)
        judge = ConformalFilter(self._detector(seed), alert_rate=self.options.alert_rate)
        return Model(judge, self.options.top_features)

    def dump(self, model: Model) -> bytes:
        """All that the model knows."""
        return self._dumps(model.judge)

    def load(self, data: bytes) -> Model:
        """The model that was dumped."""
        return Model(self._loads(data), self.options.top_features)


def seed_for(group: str, topic: str, partition: int, key: bytes | None) -> int:
    """A seed that the next process will find again, and that differs from model to model."""
    text = b"\0".join([group.encode(), topic.encode(), str(partition).encode(), b"" if key is None else b"k" + key])
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")
