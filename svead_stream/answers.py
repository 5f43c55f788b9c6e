"""Answers of people to whether events were anomalies, and what follows from them.

Two things follow. Partitions to which confirmed anomalies were stranger than usual events, and false alarms were not,
are trusted more: every partition keeps its memory, scaling and features for life, so what was learned of it stays true
when its anchors are renewed. And events that are like an answered one are judged by that answer
(`kernels/answers.py`). Both are derived from the newest answers of each kind, so that the influence of answers is
bounded, however many there are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from svead_stream import arrays
from svead_stream.errors import SnapshotError
from svead_stream.kernels import answers as kernels
from svead_stream.kernels import layout
from svead_stream.kernels.answers import ANOMALY, CLEARLY, FALSE_ALARM, KEPT, MOST_REPEATED, USUAL, USUAL_ANCHORS
from svead_stream.kernels.layout import BLOCK
from svead_stream.memory import Memory
from svead_stream.rescored import Rescored
from svead_stream.snapshot import Arrays, expect
from svead_stream.soundness import within

Floats = NDArray[np.float64]

_FALSE_ALARMS = 0.3  # what a false alarm says of a partition, where a confirmed anomaly says 1
_LEAST_TRUST = math.exp(-3.0)  # of a partition, as a share of the most trusted one's


class Answers:
    """The newest answers of each kind, in arrays that the kernels share; without room as long as there are none.

    Parameters
    ----------
    half_life
        Events in which an answer loses half of its strength; None if it never does.
    d
        Number of features.
    rows, strength, number
        What it begins with.
    """

    def __init__(
        self,
        half_life: float | None,
        d: int,
        rows: Floats | None = None,
        strength: Floats | None = None,
        number: NDArray[np.int64] | None = None,
    ) -> None:
        self._half_life = half_life = None if half_life is None else float(half_life)
        n = 0 if rows is None else KEPT
        m = USUAL_ANCHORS if n else 0
        self.state = layout.Answers(
            rows=np.full((2, n, d), np.nan),
            strength=np.zeros((2, n)) if strength is None else strength.copy(),
            number=np.zeros((2, n), np.int64) if number is None else number.copy(),
            keep=np.array([1.0 if half_life is None else 2.0 ** (-BLOCK / half_life)]),
            anchors=np.zeros((3, m, d)),
            force=np.zeros((2, max(m, 1))),
            weight=np.zeros((3, d)),
            partitions=arrays.empty_partitions(3, m, d),
            cell=np.zeros((3, BLOCK), np.int32),
            apart=np.zeros((3, BLOCK)),
            halves=np.zeros(m),
        )
        if rows is not None:
            self.state.rows[..., : rows.shape[2]] = rows
        self.to_score = (self.state.force, *self.state.partitions)

    def __bool__(self) -> bool:
        """Whether anybody has answered."""
        return len(self.state.rows[0]) > 0

    @property
    def count(self) -> int:
        """Answers ever given."""
        return int(self.state.number.max(axis=1, initial=0).sum())

    def widened(self, d: int) -> Answers:
        """The same answers with room for d features, of which the new ones are not known."""
        return Answers(self._half_life, d, **self.saved()) if self else Answers(self._half_life, d)

    def taken(self, event: Floats, is_anomaly: bool, short: Memory, long: Memory) -> tuple[Answers, Rescored] | None:
        """These answers and one more; the trust in partitions follows at once.

        Parameters
        ----------
        event
            Its row.
        is_anomaly
            What was said of it.
        short, long
            The memories of the detector.

        Returns
        -------
        tuple
            The answers, and how strangeness has moved; None where nothing is known that the event could be compared
            with.
        """
        row = arrays.numbers(event)
        sample = short.state.sample.rows[: short.state.counters[layout.STORED]]
        if np.isnan(row).all() or len(sample) == 0:
            return None
        answers = self._with(row, is_anomaly, short, long)
        usual = answers._usual(sample)
        there = answers.state.strength >= kernels.FAINT
        rows = np.concatenate([usual, answers.state.rows[there]])
        scores = [memory.member_scores(rows) for memory in (short, long)]
        by_usual = [own[:, : len(usual)] for own in scores]
        strength, kind = answers.state.strength[there], np.nonzero(there)[0]
        relative = short.plan.scaling == layout.MIXED

        def strangeness(answers: Answers) -> Floats:
            own = np.minimum(short.mean_of(by_usual[0]), long.mean_of(by_usual[1]))
            by = answers.shifts(usual, long.state)
            return np.asarray(np.maximum(own + by, 0.0) if relative else own * np.exp(by))

        before = strangeness(self)
        for memory, own, mine in zip((short, long), scores, by_usual, strict=True):
            memory.trust[:] = _trust(mine, own[:, len(usual) :], strength, kind == ANOMALY)
        return answers, Rescored.of(before, strangeness(answers), relative)

    def _with(self, row: Floats, is_anomaly: bool, short: Memory, long: Memory) -> Answers:
        """These answers and one more, in the place of one on the same event, or of the oldest of its kind."""
        if self:
            rows, strength, number = (self.saved()[name].copy() for name in ("rows", "strength", "number"))
        else:
            rows, strength, number = _nothing(len(row))
        own = 1.0
        if not is_anomaly and self and (like := self._like_it(row, long.state)).any():
            own = min(1.0 + strength[FALSE_ALARM, like].max(), MOST_REPEATED)
            strength[FALSE_ALARM, like] = own
        again = (rows == row) | (np.isnan(rows) & np.isnan(row))
        strength[again.all(axis=2)] = 0.0
        kind = ANOMALY if is_anomaly else FALSE_ALARM
        slot = int(np.argmin(np.where(strength[kind] > 0, number[kind], 0)))
        rows[kind, slot], strength[kind, slot], number[kind, slot] = row, own, number[kind].max() + 1
        answers = Answers(self._half_life, len(row), rows, strength, number)
        answers.place(short, long)
        return answers

    def _usual(self, sample: Floats) -> Floats:
        """The rows of a sample that nobody answered, which tell what answers do to others; all if there are none."""
        unanswered = np.zeros(len(sample), np.uint8)
        kernels.find_unanswered(sample, self.state, unanswered)
        return sample[unanswered > 0] if unanswered.any() else sample

    def _like_it(self, row: Floats, long: layout.State) -> NDArray[np.bool_]:
        """Which false alarms an event is nearer to than to any confirmed anomaly and anything usual."""
        self.shifts(row[None], long)
        p, d = self.state.partitions, len(row)
        there = self.state.strength[FALSE_ALARM] >= kernels.FAINT
        dp = p.placed.shape[2]
        gaps = p.placed[FALSE_ALARM, : there.sum(), :d] - long.block.x[0, dp : dp + d]
        known, used = ~np.isnan(gaps), p.scale[FALSE_ALARM, :d] > 0
        squares = (np.where(known, gaps, 0.0) ** 2) @ p.scale[FALSE_ALARM, :d]
        compared = (known & used).sum(axis=1)
        apart = p.metric[FALSE_ALARM, layout.LENGTH] * np.sqrt(squares * used.sum() / np.maximum(compared, 1))
        apart[compared == 0] = np.inf
        like = np.zeros(len(there), np.bool_)
        like[there] = apart < CLEARLY * min(self.state.apart[ANOMALY, 0], self.state.apart[USUAL, 0])
        return like

    def place(self, short: Memory, long: Memory) -> None:
        """Derive what scoring needs, from the memories as they are."""
        kernels.place_answers(self.state, short.state, long.state)

    def renew(self, short: Memory, long: Memory) -> None:
        """Follow a refresh of the memories."""
        kernels.renew(self.state, short.state, long.state)

    def shifts(self, rows: Floats, long: layout.State) -> Floats:
        """What answers add to the strangeness of rows."""
        shifts = np.zeros(len(rows))
        if self:
            kernels.shift_rows(rows, long, self.state, shifts)
        return shifts

    def saved(self) -> Arrays:
        """The arrays that all others follow from; none if there are no answers."""
        s = self.state
        return {"rows": s.rows, "strength": s.strength, "number": s.number} if self else {}

    @classmethod
    def restored(cls, half_life: float | None, saved: Arrays, d: int) -> Answers:
        """Answers from saved arrays, or a SnapshotError where they cannot be."""
        if not saved:
            return cls(half_life, d)
        rows = expect(saved, "rows", np.float64, (2, KEPT, d))
        strength = expect(saved, "strength", np.float64, (2, KEPT))
        number = expect(saved, "number", np.int64, (2, KEPT))
        sound = (strength >= 0) & (strength <= MOST_REPEATED) & (number >= (strength > 0)) & (number < 2**62)
        if not sound.all() or not within(rows[~np.isnan(rows)]):
            raise SnapshotError("the snapshot does not fit together: its answers are impossible")
        return cls(half_life, d, rows, strength, number)


def _nothing(d: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Room for answers: events, strengths, numbers."""
    return np.full((2, KEPT, d), np.nan), np.zeros((2, KEPT)), np.zeros((2, KEPT), np.int64)


def _trust(usual: Floats, answered: Floats, strength: Floats, is_anomaly: NDArray[np.bool_]) -> Floats:
    """How much to trust each partition, 1 on average.

    Parameters
    ----------
    usual
        What usual events score in each partition, a row a partition; NaN where one has no cell.
    answered
        The same for the answered events.
    strength, is_anomaly
        Of the answers.

    Notes
    -----
    An answer speaks by the rank of its event among the usual ones. False alarms count less, and all together no more
    than confirmed anomalies do: what is wrong says little of what is right.
    """
    ranks = np.empty(answered.shape)
    # in one piece, whatever it was cut from: other arrays would be of another type to the compiler
    kernels.rank(np.sort(usual, axis=1), np.ascontiguousarray(answered), ranks)
    real, false = (np.minimum(strength, 1.0) * kind for kind in (is_anomaly, ~is_anomaly))
    balance = min(1.0, real.sum() / max(false.sum(), 1e-9))
    evidence = ranks @ (real - _FALSE_ALARMS * balance * false)
    weights = np.maximum(np.exp(evidence - evidence.max()), _LEAST_TRUST)
    return np.asarray(weights / weights.mean())
