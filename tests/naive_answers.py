"""Answers of people, written for clarity: what the newest of each kind make of partitions and of events like them."""

from __future__ import annotations

import math

import naive
import numpy as np

KEPT = 64
USUAL, OF_LONG = 192, 128


class Answer:
    def __init__(self, event, strength):
        self.event, self.strength = event, strength


class Answers:
    """Answers in the places of their kind, and in the order in which they came."""

    def __init__(self, stream, half_life):
        self.stream, self.half_life = stream, half_life
        self.places = {True: [None] * KEPT, False: [None] * KEPT}
        self.in_order = {True: [], False: []}

    def kept(self, is_anomaly):
        """Those of a kind that have not faded away."""
        return [answer for answer in self.places[is_anomaly] if answer and answer.strength >= 0.05]

    def take(self, event, is_anomaly, teach):
        short, long = self.stream.memories
        row = zip(short.names, short.row(event, short.names), strict=True)
        event = {name: value for name, value in row if not np.isnan(value)}
        if not event or not short.rows:
            return
        strange_before = {id(x): self.stream.strangeness_of(x) for x in short.rows}
        new = Answer(event, 1.0)
        like = [] if is_anomaly else self.like_it(long.row(event, long.names))
        if like:
            new.strength = min(3.0, 1.0 + max(answer.strength for answer in like))
            for answer in like:
                answer.strength = new.strength
        for places in self.places.values():
            places[:] = [None if answer and answer.event == event else answer for answer in places]
        own, order = self.places[is_anomaly], self.in_order[is_anomaly]
        oldest = next(answer for answer in [*order, None] if answer is None or answer in own)
        own[own.index(None) if None in own else own.index(oldest)] = new
        order.append(new)
        usual = [x for x in short.rows if not self.is_answered(x)] or short.rows
        for memory in self.stream.memories:
            self.weigh(memory, usual)
        before = in_groups([strange_before[id(x)] for x in usual])
        after = in_groups([self.stream.strangeness_of(x) for x in usual])
        for name in ("recent", "usual", "peak"):
            setattr(self.stream, name, moved(getattr(self.stream, name), before, after))
        if teach and not is_anomaly:
            places = [i for i, suspicion in enumerate(long.suspicion) if suspicion == 0]
            if len(places) < len(long.rows) // 8:
                places = range(len(long.rows))
            for _ in range(max(1, len(long.rows) // 32)):
                slot = places[int(long.rng.draw() * len(places))]
                long.rows[slot], long.suspicion[slot] = long.row(event, long.names), 0.0
                long.arrived[slot] = max(long.seen - long.normal_after, 0)

    def is_answered(self, x):
        """Whether somebody answered an event whose values are all here."""
        row = dict(zip(self.stream.memories[0].names, x, strict=True))
        answers = self.kept(True) + self.kept(False)
        return any(all(row[name] == value for name, value in answer.event.items()) for answer in answers)

    def weigh(self, memory, usual):
        """Partitions are trusted by the ranks of the answered events among usual ones."""
        if not memory.partitions:
            return
        among = np.array([memory.scores(x) for x in usual])
        evidence = np.zeros(memory.t)
        real, false = self.kept(True), self.kept(False)
        n_real, n_false = (sum(min(answer.strength, 1) for answer in kind) for kind in (real, false))
        for kind, sign in ((real, 1.0), (false, -0.3 * min(1.0, n_real / max(n_false, 1e-9)))):
            for answer in kind:
                own = memory.scores(memory.row(answer.event, memory.names))
                for k in range(memory.t):
                    known = among[:, k][~np.isnan(among[:, k])]
                    middle = np.isnan(own[k]) or len(known) == 0
                    rank = 0.5 if middle else (np.mean(known < own[k]) + np.mean(known <= own[k])) / 2
                    evidence[k] += sign * min(answer.strength, 1) * rank
        weights = np.maximum(np.exp(evidence - evidence.max()), math.exp(-3))
        memory.trust = weights / weights.mean()

    def fade(self):
        """Answers, and the trust that came from them, lose some of their strength at every refresh."""
        if self.half_life is None:
            return
        keep = 2 ** (-naive.BLOCK / self.half_life)
        for answer in filter(None, [*self.places[True], *self.places[False]]):
            answer.strength *= keep
        for memory in self.stream.memories:
            memory.trust = 1 + (memory.trust - 1) * keep
            memory.trust[np.abs(memory.trust - 1) < 1e-3] = 1.0

    def shift(self, x):
        """Up near confirmed anomalies, down near false alarms, each compared with what else is near."""
        long = self.stream.memories[1]
        if not long.partitions or np.isnan(x).all():
            return 0.0
        (anomaly, raising), (false_alarm, lowering), (usual, _) = self.near(x)
        up = raising * nearness(anomaly, min(usual, false_alarm))
        down = 0.5 * lowering * nearness(false_alarm, min(usual, anomaly))
        if not self.kept(True):  # nothing raises what is far from everything: then nothing may lower it, either
            down = max(2 * down - 0.5 * lowering, 0.0)
        return up - down

    def like_it(self, x):
        """The false alarms that are nearer than any anomaly and anything usual."""
        if not self.stream.memories[1].partitions:
            return []
        (anomaly, _), _, (usual, _) = self.near(x)
        return [answer for answer in self.kept(False) if self.nearest(x, [answer])[0] < 0.99 * min(anomaly, usual)]

    def near(self, x):
        """Distance and strength of the nearest anomaly, false alarm and usual event."""
        long = self.stream.memories[1]
        short, old = (
            [anchor for p in memory.partitions for anchor in p.anchors if not self.is_answered(anchor)]
            for memory in self.stream.memories
        )
        usual = (old[:OF_LONG] + short)[:USUAL]
        usual = [Answer(dict(zip(long.names, anchor, strict=True)), 1.0) for anchor in usual]
        return [self.nearest(x, events) for events in (self.kept(True), self.kept(False), usual)]

    def nearest(self, x, events):
        """Distance, in the long memory's warped units, from the nearest of some events, and its strength."""
        long = self.stream.memories[1]
        if not events:
            return math.inf, 0.0
        rows = np.array([long.row(answer.event, long.names) for answer in events])
        rows = np.where(np.isnan(rows), long.centre, rows)
        j, d = naive.Partition(rows, np.ones(len(long.names)), warped=True).locate(x, long)
        return (math.inf, 0.0) if j is None else (d, events[j].strength)


def nearness(near, far):
    if math.isinf(near) or (far == 0 and near > 0):
        return 0.0
    return 0.5 if near == far else 1 / (1 + (near / far) ** 2)


def in_groups(values):
    """The means of sixteen groups of about the same size, in increasing order."""
    values, n = sorted(values), min(16, len(values))
    return [np.mean(values[i * len(values) // n : (i + 1) * len(values) // n]) for i in range(n)]


def moved(value, before, after):
    if value > before[-1]:
        return max(after[-1] + value - before[-1], 0.0)
    return max(float(np.interp(value, before, after)) + min(value - before[0], 0.0), 0.0)
