"""A model at work: a detector in its alert filter, fed with decoded events and their times.

The numbers must not depend on how the stream was cut into batches, or a replay would come to other scores. The judge
sees to that for rows with the same names; two things are left to do here:

- Feature names. An event that brings a new name changes the model at that event and not earlier, so a mini-batch
  only spans events whose names the model knows already; the others go one by one.
- Seeds. Each model's seed follows from the names of group, topic, partition and key unless one is given.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from river import compose

from svead_kafka.errors import ConfigurationError
from svead_kafka.events import Event, Names
from svead_kafka.options import Options
from svead_stream.judging import ConformalFilter
from svead_stream.protocols import Detector, JudgesMany, TakesAnswers
from svead_stream.record import Verdict
from svead_stream.snapshot import check_saveable
from svead_stream.streaming import StreamingSVEAD

MakeDetector = Callable[[int], Detector]
_SHORT = 6  # up to here a mini-batch costs more than it saves


class Model:
    """One model: judges and learns events in their order.

    Parameters
    ----------
    judge
        The detector in its filter.
    """

    def __init__(self, judge: ConformalFilter) -> None:
        self.judge = judge
        self._in_batches = judge.detector if isinstance(judge.detector, JudgesMany) else None
        self._columns: dict[Names, NDArray[np.intp] | None] = {}  # None: some name is not known yet
        self._known: list[Hashable] = []
        self._at: dict[Hashable, int] = {}

    @property
    def odd(self) -> Counter[str]:
        """Values that were missing so far, where the detector counts them, and times that were missing or went back."""
        missing, clock = 0 if self._in_batches is None else self._in_batches.n_missing_, self.judge.clock_
        return Counter(missing_values=missing, missing_times=clock.n_missing, backward_times=clock.n_backward)

    def take(self, events: Sequence[Event]) -> list[Verdict | str]:
        """Judge and learn events; a string in place of a verdict says why the model could not take an event."""
        if self._in_batches is None:
            return list(map(self._take_one, events))
        self._look_at_names(self._in_batches)
        verdicts: list[Verdict | str] = []
        run: list[Event] = []
        last: Names | None = None  # names that are known; mostly the next event has the very same
        for event in events:
            if event.names is last or self._columns_of(event.names) is not None:
                last = event.names
                run.append(event)
                continue
            verdicts += self._take_run(run)
            run = []
            verdicts.append(self._take_one(event))
            self._look_at_names(self._in_batches)
        return verdicts + self._take_run(run)

    def _look_at_names(self, detector: JudgesMany) -> None:
        """Learn which feature names the detector knows now; it only ever adds some."""
        names = detector.feature_names_
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

    def _take_run(self, run: list[Event]) -> list[Verdict | str]:
        if len(run) <= _SHORT:
            return list(map(self._take_one, run))
        times = np.array([event.time for event in run], dtype=np.float64)
        return list(self.judge.judge_many(self._matrix(run), self._known, times))

    def _matrix(self, run: list[Event]) -> NDArray[np.float64]:
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
        return matrix

    def _take_one(self, event: Event) -> Verdict | str:
        try:
            return self.judge.judge_one(dict(zip(event.names, event.values, strict=True)), event.time)
        except ValueError as error:
            return f"the detector refused it: {error}"

    def answer(self, names: Names, values: Sequence[float], is_anomaly: bool, teach: bool) -> str | None:
        """Take a person's answer to an event; returns why the model could not, in which case it has not changed."""
        try:
            self.judge.feedback_one(dict(zip(names, values, strict=True)), is_anomaly, teach)
        except ValueError as error:
            return f"the detector refused it: {error}"
        except TypeError as error:  # a pipeline around a detector that has no ear for answers
            raise ConfigurationError(f"--feedback needs a detector that learns from answers: {error}") from error
        return None


class Maker:
    """Makes new models, and turns models into bytes and back.

    Parameters
    ----------
    options
        The worker's options.
    detector
        Called with a seed, returns a new detector; StreamingSVEAD with the options' parameters by default.
    dumps, loads
        A filter to bytes and back. Needed for detectors of a kind that cannot be restored; `pickle` will do where
        nobody else can write to the state topic.

    Attributes
    ----------
    fingerprint
        What the numbers in a model depend on; of a detector that is given, only its class is known.

    Raises
    ------
    ConfigurationError
        If answers are to be taken, and the detector has no use for them.
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
        self.fingerprint = options.fingerprint
        self._detector = detector or self._default
        if detector is not None:  # its parameters are its maker's secret
            self.fingerprint |= {"detector": {"class": type(detector(0)).__name__}}
        self._dumps = dumps or ConformalFilter.to_bytes
        self._loads = loads or ConformalFilter.from_bytes
        if dumps is None:  # better now than at the first restart
            try:
                check_saveable(self._detector(0))
            except TypeError as error:
                where = "with dumps=pickle.dumps and loads=pickle.loads, if nobody else can write to the state topic"
                raise TypeError(f"{error}, {where}") from None
        if options.feedback is not None:
            self._check_answers()

    def _check_answers(self) -> None:
        """Refuse a detector that surely takes no answers; what a pipeline does with them is for the filter to say."""
        made = self._detector(0)
        if not isinstance(made, TakesAnswers | compose.Pipeline):
            raise ConfigurationError(
                f"{type(made).__name__} does not learn from answers: leave out --feedback, or take StreamingSVEAD"
            )

    def _default(self, seed: int) -> Detector:
        given = dict(self.options.detector)
        if given.get("seed") is None:  # None would be another seed each time, and a replay would come to other scores
            given["seed"] = seed
        return StreamingSVEAD(**given)

    def new(self, topic: str, partition: int, key: bytes | None) -> Model:
        """A model that has seen nothing."""
        detector = self._detector(seed_for(self.options.group, topic, partition, key))
        options = self.options
        judge = ConformalFilter(
            detector,
            alert_rate=options.alert_rate,
            window=options.alert_window,
            protect=options.protect,
            incident_rate=options.incident_rate,
            hold_off=options.hold_off,
            burn_in=options.burn_in,
        )
        return Model(judge)

    def dump(self, model: Model) -> bytes:
        """All that the model knows."""
        return self._dumps(model.judge)

    def load(self, data: bytes) -> Model:
        """The model that was dumped."""
        return Model(self._loads(data))


def seed_for(group: str, topic: str, partition: int, key: bytes | None) -> int:
    """A seed that the next process will find again, and that differs from model to model."""
    text = b"\0".join([group.encode(), topic.encode(), str(partition).encode(), b"" if key is None else b"k" + key])
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")
