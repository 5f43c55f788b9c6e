"""The ensemble: two memories of a stream, how strange its last events were, and what people said of events.

It knows rows of numbers; events and the names of their features are the detector's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream import snapshot
from svead_stream.answers import Answers
from svead_stream.kernels import answers as answered
from svead_stream.kernels import lasting, layout, mini_batch, online
from svead_stream.memory import Memory, Size
from svead_stream.rescored import Rescored
from svead_stream.soundness import LARGEST_SCORE, between, refuse_unsound

Floats = NDArray[np.float64]
Drawn = Iterable[tuple[layout.Plan, Size]]

_NAMES = ("short", "long")  # of the memories, in snapshots


class Ensemble:
    """All that a detector has learned; the methods that change what it has room for return another one.

    Parameters
    ----------
    memories
        The short one and the long one.
    levels
        How strange the last events were (`kernels/lasting.py`).
    last
        The row learned last.
    answers
        Of people; they are to be placed in the long memory already.
    """

    def __init__(self, memories: Iterable[Memory], levels: Floats, last: Floats, answers: Answers) -> None:
        short, long = memories
        self.memories = (short, long)
        self.levels, self.last, self.answers = levels, last, answers
        self._strangeness = np.zeros(3)  # of the row scored last: to each memory, and in all
        told = (levels, last, self._strangeness)
        relative = short.plan.scaling == layout.MIXED
        self._to_score = (relative, short.state.counters, *told, *short.to_score, *long.to_score)
        self._is_answered = bool(answers)
        self._to_score_answered: tuple[Any, ...] = (relative, short.state.counters, *told, long.x, *answers.to_score)
        self._to_learn = (*told, *short.to_learn, *long.to_learn)
        room = np.zeros((3, layout.BLOCK))
        self._to_run = (short.state, short.plan, long.state, long.plan, answers.state, levels, last, room)

    @classmethod
    def new(cls, drawn: Drawn, seed: int | None, answer_memory: float | None) -> Ensemble:
        """One that knows nothing, not even how many features there are."""
        seeds = np.random.SeedSequence(seed).generate_state(2, np.uint64)
        memories = [Memory.new(*one, own) for one, own in zip(drawn, seeds, strict=True)]
        return cls(memories, np.zeros(lasting.N_LEVELS), np.zeros(0), Answers(answer_memory, 0))

    def count(self, which: int) -> int:
        """A counter: SEEN events, or MISSING values."""
        return int(self.memories[0].state.counters[which])

    # events

    def score(self, row: Floats) -> float:
        """The score of a row; 0 where nothing is known that it could be compared with."""
        score: float = online.score_event(row, *self._to_score)
        if self._is_answered:
            score = answered.score_answered(row, *self._to_score_answered)
        return score

    def learn(self, row: Floats) -> None:
        """Learn the row that was scored last."""
        if online.learn_event(row, *self._to_learn):
            for memory in self.memories:
                memory.refresh()
            if self._is_answered:
                self.answers.renew(*self.memories)

    def run(self, rows: Floats, *arguments: Any) -> int:
        """Score and learn many rows: the rest of the arguments of `mini_batch.run`."""
        alerts: int = mini_batch.run(rows, *self._to_run, *arguments)
        return alerts

    def shares(self) -> Floats | None:
        """What each feature contributed to the score of the row scored last; None if there was nothing to compare."""
        by_short, by_long, _ = self._strangeness.tolist()
        short, long = self.memories
        if math.isnan(by_short):
            return None
        return (short if by_short <= by_long else long).shares(len(self.last))

    # what changes its shape

    def widened(self, new: list[float]) -> Ensemble:
        """The same with room for more features, of which an event has these numbers.

        Whether that event repeats the last one does not depend on them.
        """
        last = np.append(self.last, new)
        memories, answers = [memory.widened(len(last)) for memory in self.memories], self.answers.widened(len(last))
        return _placed(memories, self.levels, last, answers)

    def taking(self, row: Floats, is_anomaly: bool, teach: bool) -> tuple[Ensemble, Rescored] | None:
        """The same after one more answer, and how scores have moved; None where there is nothing to compare it with."""
        taken = self.answers.taken(row, is_anomaly, *self.memories)
        if taken is None:
            return None
        answers, rescored = taken
        if teach and not is_anomaly:
            self.memories[1].teach(row)
        return Ensemble(self.memories, rescored.moved(self.levels), self.last, answers), rescored

    # other models

    def has_the_anchors_of(self, other: Ensemble) -> bool:
        """Whether the cells of both are about the same."""
        return all(
            mine.over_the_same_anchors(theirs) for mine, theirs in zip(self.memories, other.memories, strict=True)
        )

    def merge(self, other: Ensemble, base: Ensemble | None) -> None:
        """Add to the cells what another one learned over the same anchors since it was the base."""
        bases = (None, None) if base is None else base.memories
        for mine, theirs, since in zip(self.memories, other.memories, bases, strict=True):
            mine.merge(theirs, since)

    def take_batch(self, anchors: Floats, scales: Floats, cells: Floats, rows: Floats, columns: list[int]) -> None:
        """Start with the partitions of a batch model, some for either memory, and rows of its data as the samples."""
        first = 0
        for memory in self.memories:
            own = slice(first, first + len(memory.state.anchors))
            memory.take_batch(anchors[own], scales, cells[own], rows, columns)
            first = own.stop

    # snapshots

    def saved(self) -> snapshot.Arrays:
        """Copies of the arrays that all others follow from."""
        named = zip(_NAMES, self.memories, strict=True)
        arrays = {f"{name}.{key}": array for name, memory in named for key, array in memory.saved().items()}
        arrays |= {f"answers.{key}": array for key, array in self.answers.saved().items()}
        arrays |= {"levels": self.levels, "last": self.last}
        return {name: array.copy() for name, array in arrays.items()}

    @classmethod
    def restored(cls, drawn: Drawn, answer_memory: float | None, arrays: snapshot.Arrays, d: int) -> Ensemble:
        """One of d features from saved arrays, or a SnapshotError where they do not fit together."""
        levels = snapshot.expect(arrays, "levels", np.float64, (lasting.N_LEVELS,))
        refuse_unsound({"levels": between(levels, 0, LARGEST_SCORE)})
        last = snapshot.expect(arrays, "last", np.float64, (d,))
        memories = [Memory.restored(*one, _own(arrays, name), d) for name, one in zip(_NAMES, drawn, strict=True)]
        return _placed(memories, levels, last, Answers.restored(answer_memory, _own(arrays, "answers"), d))


def _placed(memories: list[Memory], levels: Floats, last: Floats, answers: Answers) -> Ensemble:
    """An ensemble whose answers are yet to be placed."""
    if answers:
        answers.place(*memories)
    return Ensemble(memories, levels, last, answers)


def _own(arrays: snapshot.Arrays, name: str) -> snapshot.Arrays:
    """The arrays of one part, by their names in it."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
