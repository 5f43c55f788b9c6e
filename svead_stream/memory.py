"""One memory of a stream: a sample that fades at its own pace, and the partitions that are built from it.

A stream has several time scales: what became normal an hour ago, and what was normal last week. A detector keeps one
memory for each; they never look at each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svead_stream import state as states
from svead_stream.kernels import model as layout
from svead_stream.kernels import refresh as renewal
from svead_stream.kernels import search, stream
from svead_stream.snapshot import Arrays

Floats = NDArray[np.float64]


class Size(NamedTuple):
    """What a memory has room for: partitions, anchors of each, points of the sample."""

    n_partitions: int
    n_anchors: int
    window: int


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
    to_score, to_learn
        The arguments of `score_point` and `learn_point`.
    """

    def __init__(self, plan: layout.Plan, state: layout.State) -> None:
        s = state
        t, dp = s.scale.shape
        self.plan, self.state = plan, s
        x, found, apart = self._last = np.zeros(2 * dp, np.float32), np.zeros(t, np.int32), np.zeros(t)
        frame, search_for = (s.centre, s.rate, s.warp_rate), (s.product, s.bias, s.placed, s.scale, s.feature)
        self.to_score = (*frame, s.metric, s.cells, *search_for, x, found, apart)
        sample = (s.rows, s.suspicion, s.arrived)
        self.to_learn = (plan.fade, plan.share, s.counters, s.rng, *sample, s.metric, s.cells, found)

    @classmethod
    def new(cls, plan: layout.Plan, size: Size, seed: Any) -> Memory:
        """A memory of nothing, with a generator of its own."""
        state = states.empty(*size, 0)
        state.rng[:] = seed
        return cls(plan, state)

    def widened(self, d: int) -> Memory:
        """The same memory with room for d features."""
        return Memory(self.plan, states.widened(self.state, d))

    def refresh(self) -> None:
        """Renew what is due after the event learned last."""
        renewal.refresh(self.state, self.plan)

    def run(self, X: Floats, learn: bool) -> Floats:
        """How strange the rows are, NaN where they are empty; each is then learned if asked."""
        out = np.empty(len(X))
        stream.stream(X, self.state, self.plan, learn, out)
        return out

    def shares(self, d: int) -> Floats:
        """What each of d features contributed to the score of the row that was scored last."""
        shares = np.zeros(d)
        s = self.state
        relative = self.plan.scaling == layout.MIXED
        stream.share_out(relative, s.metric, s.cells, s.placed, s.scale, *self._last, shares)
        return shares

    def over_the_same_anchors(self, other: Memory) -> bool:
        """Whether the cells of both are about the same."""
        return all(np.array_equal(getattr(self.state, n), getattr(other.state, n)) for n in ("anchors", "weight"))

    def merge(self, other: Memory, base: Memory | None) -> None:
        """Add what another memory learned over the same anchors since it was the base; the sample stays."""
        added = {
            "cells": np.s_[..., [search.COUNT, search.SUM]],
            "metric": np.s_[:, [search.TOTAL]],
            "counters": np.s_[[layout.SEEN, layout.MISSING]],
        }
        for name, part in added.items():
            mine, theirs = getattr(self.state, name), getattr(other.state, name)
            mine[part] += theirs[part] - (0 if base is None else getattr(base.state, name)[part])
        largest = self.state.cells[..., search.MAX]
        np.maximum(largest, other.state.cells[..., search.MAX], out=largest)

    def saved(self) -> Arrays:
        """The arrays that all others follow from."""
        return {name: getattr(self.state, name) for name in states.SAVED}

    def take_batch(self, anchors: Floats, scales: Floats, cells: Floats, rows: Floats, columns: list[int]) -> None:
        """Start with the partitions of a batch model, and rows of its data as the sample."""
        s, n = self.state, min(len(rows), len(self.state.rows))
        s.rows[:n, columns] = np.where(np.abs(rows[:n]) <= search.LARGEST, rows[:n], np.nan)
        s.counters[layout.SEEN] = max(int(cells[0, :, search.COUNT].sum()), n)
        s.counters[layout.STORED] = n
        m = anchors.shape[1]
        s.anchors[:, :m, columns] = anchors
        s.weight[:, columns] = np.where(scales > 0, 1 / np.where(scales > 0, scales, 1), 0.0)
        s.metric[:, search.ANCHORS] = m
        s.metric[:, search.INVERSE_UNIT] = 1.0
        s.cells[:, :m] = cells
        s.metric[:, search.TOTAL] = cells[..., search.COUNT].sum(axis=1)
        renewal.take_cutoffs(s, self.plan)
        renewal.survey(s, self.plan)
        s.suspicion[:n] = np.nan_to_num(self.run(s.rows[:n], learn=False))

    @classmethod
    def restored(cls, plan: layout.Plan, size: Size, arrays: Arrays, d: int) -> Memory:
        """A memory from saved arrays, or a SnapshotError where they do not fit together."""
        return cls(plan, states.restored(arrays, *size, d))
