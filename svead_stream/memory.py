"""One memory of a stream: a sample that fades at its own pace, and the partitions that are built from it.

A stream has several time scales: what became normal an hour ago, and what was normal last week. A detector keeps one
memory for each; they never look at each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svead_stream import arrays
from svead_stream.kernels import layout, mini_batch, online
from svead_stream.kernels import refresh as renewal
from svead_stream.kernels.rng import draw
from svead_stream.snapshot import Arrays

Floats = NDArray[np.float64]

_TAUGHT = 32  # an event that is taught as normal takes one in so many places of the sample
_MOST_TAUGHT = 8  # all of them together one in so many


class Size(NamedTuple):
    """What a memory has room for: partitions, anchors of each, points of the sample."""

    n_partitions: int
    n_anchors: int
    window: int


def short_and_long(
    t: int, m: int, normal_after: int, memory: float | None, scaling: int
) -> tuple[tuple[layout.Plan, Size], tuple[layout.Plan, Size]]:
    """What the two memories of a detector are: a short one, which is soon renewed, and a long one, which is finer.

    Parameters
    ----------
    t, m
        Partitions of both together, and anchors of each with the short memory.
    normal_after, memory, scaling
        As the detector has them.
    """

    def drawn(size: Size, refresh: int, half_life: float | None) -> tuple[layout.Plan, Size]:
        fade = 0.0 if half_life is None else min(1.0, size.window * (1 - 2 ** (-1 / half_life)))
        share = min(1.0, size.window / refresh)  # events between two refreshes weigh no more than the sample
        return layout.Plan(refresh, scaling, fade, share, normal_after), size

    t_long = max(t // 3, 1)
    return (
        drawn(Size(t - t_long, m, 12 * m), normal_after, normal_after),
        drawn(Size(t_long, 2 * m, 24 * m), 64 * m, memory),
    )


class Memory:
    """Arrays, and what the one-event kernels are given of them.

    Parameters
    ----------
    plan
        What the kernels are told.
    state
        The arrays.

    Attributes
    ----------
    x
        Coordinates of the row that was scored last.
    to_score, to_learn
        Its part of the arguments of `score_event` and `learn_event`.
    """

    def __init__(self, plan: layout.Plan, state: layout.State) -> None:
        self.plan, self.state = plan, state
        t, dp = state.partitions.scale.shape
        self.x = np.zeros(2 * dp, np.float32)
        self._found = layout.Found(np.zeros((t, 1), np.int32), np.zeros((t, 1)))
        self.to_score = (state.frame, *state.partitions, state.cells, self.x, *self._found)
        learned = (state.partitions.metric, state.cells, self._found.cell)
        self.to_learn = (plan.fade, plan.share, state.counters, state.rng, *state.sample, *learned)

    @classmethod
    def new(cls, plan: layout.Plan, size: Size, seed: Any) -> Memory:
        """A memory of nothing, with a generator of its own."""
        state = arrays.empty(*size, 0)
        state.rng[:] = state.kind[:] = seed
        return cls(plan, state)

    def widened(self, d: int) -> Memory:
        """The same memory with room for d features."""
        return Memory(self.plan, arrays.widened(self.state, d))

    def refresh(self) -> None:
        """Renew what is due after the event learned last."""
        renewal.refresh(self.state, self.plan)

    def shares(self, d: int) -> Floats:
        """What each of d features contributed to the score of the row that was scored last."""
        shares = np.zeros(d)
        relative = self.plan.scaling == layout.MIXED
        online.attribute(0, self.x, relative, self.state.partitions, self._found, shares)
        return shares

    def member_scores(self, rows: Floats) -> Floats:
        """What each row scores in each partition; NaN where it has no cell."""
        scores = np.empty((len(self.state.cells), len(rows)))
        mini_batch.member_scores(rows, self.state, self.plan, scores)
        return scores

    @property
    def trust(self) -> Floats:
        """How much each partition is trusted, 1 on average; it can be set in place."""
        return self.state.partitions.metric[:, layout.TRUST]

    def mean_of(self, scores: Floats) -> Floats:
        """How strange rows are to all partitions, from what they score in each."""
        known = ~np.isnan(scores)
        trusted = self.trust @ known
        return np.asarray(self.trust @ np.where(known, scores, 0.0) / np.where(trusted > 0, trusted, 1.0))

    def teach(self, row: Floats) -> None:
        """Put an event into a few places of the sample, as one that has long been normal.

        Those that were taught before make room for it as soon as they take an eighth of the sample.
        """
        sample, counters = self.state.sample, self.state.counters
        stored = int(counters[layout.STORED])
        places = np.flatnonzero(sample.suspicion[:stored] == 0.0)  # of those that were taught before
        if len(places) < stored // _MOST_TAUGHT:
            places = np.arange(stored)
        for _ in range(max(1, stored // _TAUGHT)):
            slot = places[int(draw(self.state.rng) * len(places))]
            sample.rows[slot] = arrays.numbers(row)
            sample.suspicion[slot] = 0.0
            sample.arrived[slot] = max(int(counters[layout.SEEN]) - self.plan.normal_after, 0)
        renewal.place_sample(self.state, -1)  # a refresh only looks for points that have arrived since the last one

    def over_the_same_anchors(self, other: Memory) -> bool:
        """Whether the cells of both are about the same."""
        return all(np.array_equal(getattr(self.state, n), getattr(other.state, n)) for n in ("anchors", "weight"))

    def merge(self, other: Memory, base: Memory | None) -> None:
        """Add what another memory learned over the same anchors since it was the base; the sample stays."""
        added: dict[str, Any] = {
            "cells": np.s_[..., [layout.COUNT, layout.SUM]],
            "partitions.metric": np.s_[:, [layout.TOTAL]],
            "counters": np.s_[[layout.SEEN, layout.MISSING]],
        }
        for name, part in added.items():
            mine, theirs = (arrays.array(memory.state, name) for memory in (self, other))
            mine[part] += theirs[part] - (0 if base is None else arrays.array(base.state, name)[part])
        largest = self.state.cells[..., layout.MAX]
        np.maximum(largest, other.state.cells[..., layout.MAX], out=largest)

    def saved(self) -> Arrays:
        """The arrays that all others follow from."""
        return {name: arrays.array(self.state, name) for name in arrays.SAVED}

    def take_batch(self, anchors: Floats, scales: Floats, cells: Floats, rows: Floats, columns: list[int]) -> None:
        """Start with the partitions of a batch model, and rows of its data as the sample."""
        s, n = self.state, min(len(rows), len(self.state.sample.rows))
        s.sample.rows[:n, columns] = arrays.numbers(rows[:n])
        s.counters[layout.SEEN] = max(int(cells[0, :, layout.COUNT].sum()), n)
        s.counters[layout.STORED] = n
        m = anchors.shape[1]
        s.anchors[:, :m, columns] = anchors
        s.spread[layout.NONE, columns] = 1.0  # these features are known: the anchors have them
        s.weight[:, columns] = np.where(scales > 0, 1 / np.where(scales > 0, scales, 1), 0.0)
        s.partitions.shape[:, layout.ANCHORS] = m
        s.partitions.metric[:, layout.INVERSE_UNIT] = 1.0
        s.cells[:, :m] = cells
        s.partitions.metric[:, layout.TOTAL] = cells[..., layout.COUNT].sum(axis=1)
        renewal.survey(s, self.plan)
        mini_batch.score_sample(s.sample.rows[:n], s, self.plan, s.sample.suspicion)
        renewal.take_cutoffs(s, self.plan)

    @classmethod
    def restored(cls, plan: layout.Plan, size: Size, saved: Arrays, d: int) -> Memory:
        """A memory from saved arrays, or a SnapshotError where they do not fit together."""
        return cls(plan, arrays.restored(saved, *size, d))
