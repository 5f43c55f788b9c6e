"""The oracle: both detectors in plain NumPy and float64, slow and obviously right.

Kernels are compared with it after every update. It shares with them the generator (so that both take the same random
decisions) and nothing else.
"""

from __future__ import annotations

import math

import naive_answers
import numpy as np

BLOCK = 64
FIRST_BUILD = 8
YOUNG = 256
POINTS_PER_ANCHOR = 4
LARGEST = 1e100  # a larger number counts as this one
FARTHEST = 1e15  # deviations from the centre, or units of the warp: nothing lies further away
SCALINGS = ["none", "std", "iqr", "range"]
MIXED = [*SCALINGS, "log"]


class Generator:
    """splitmix64 in Python's integers."""

    def __init__(self, state):
        self.state = int(state)

    def draw(self):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z = z ^ (z >> 31)
        return (z >> 11) * 2.0**-53

    def choose(self, items, wanted):
        items = list(items)
        for i in range(wanted):
            j = i + int(self.draw() * (len(items) - i))
            items[i], items[j] = items[j], items[i]
        return items[:wanted]

    @staticmethod
    def fixed(seed, i, j):
        """The number that i and j always give with a seed."""
        return Generator(int(seed) + 0x9E3779B97F4A7C15 * (i * 2**32 + j - 1)).draw()


def warp(z):
    """log2(1 + |z|), interpolated linearly between powers of two, with the sign of z."""
    exponent = np.floor(np.log2(1 + np.abs(z)))
    low = 2.0**exponent
    return np.sign(z) * (exponent + (1 + np.abs(z) - low) / low)


def fourth_root(x):
    """Doubles with every factor of 16, by the same amount with every doubling between, linearly between those."""
    doublings = np.floor(np.log2(x))
    steps = doublings % 4 + x / 2**doublings - 1
    return 2 ** (doublings // 4) * (1 + steps / 4)


class Partition:
    """Anchors, weights, and shares and distances of the points in each cell; a warped one sees other coordinates."""

    def __init__(self, anchors, weight, warped):
        self.anchors = anchors
        self.weight = weight
        self.warped = warped
        self.cells = [[] for _ in anchors]

    def locate(self, x, survey):
        """Cell and distance over the features present, rescaled to those used; None if there are none."""
        used = (self.weight > 0) & survey.known
        present = used & ~np.isnan(x)
        if not present.any():
            return (None, 0.0) if used.any() else (0, 0.0)
        squares = (self.gaps(x, survey)[:, present] ** 2).sum(axis=1) * used.sum() / present.sum()
        j = int(squares.argmin())
        return j, math.sqrt(squares[j])

    def gaps(self, x, survey):
        """Differences to all anchors in each feature, in the partition's own units; 0 where it is not used.

        In a feature that never varied, whatever differs from its one value is one unit away.
        """
        if not self.warped:
            reach = FARTHEST * survey.deviation
            # Which anchor is nearest to a point 1e15 away is more than the digits of float64 can tell.
            at = [np.clip(np.longdouble(p), survey.centre - reach, survey.centre + reach) for p in (self.anchors, x)]
            gaps = (at[0] - at[1]) * np.where(survey.known, self.weight, 0.0)
        else:
            at = [warp(np.clip((p - survey.centre) / survey.warp, -FARTHEST, FARTHEST)) for p in (self.anchors, x)]
            gaps = (at[0] - at[1]) * ((self.weight > 0) & survey.known)
        sides = np.sign(self.anchors - survey.centre) - np.sign(x - survey.centre)
        return np.where(survey.never_varied & survey.known & (self.weight > 0), sides, gaps)

    def score(self, j, d):
        """The distance and a quarter of the cell's mean one, times the fourth root of one over the cell's share."""
        total, own = sum(map(self.count, self.cells)), max(self.count(self.cells[j]), 1)
        return (d + self.sum(self.cells[j]) / own / 4) * fourth_root(total / own)

    def learn(self, j):
        """A later event counts as part of a point, as far away as the points of its cell are on average."""
        self.cells[j].append((self.share, self.sum(self.cells[j]) / max(self.count(self.cells[j]), 1)))

    @staticmethod
    def count(cell):
        return sum(share for share, _ in cell)

    @staticmethod
    def sum(cell):
        return sum(share * d for share, d in cell)


def is_due(n):
    """Whether something is refreshed after the n-th event: as a young stream doubles, then regularly."""
    return n % BLOCK == 0 if n > YOUNG else n >= FIRST_BUILD and (n & (n - 1)) == 0


class NaiveStream:
    """The streaming detector, one event at a time: two memories, and what is strange to both counts."""

    def __init__(self, rng_states, t, m, normal_after, memory, scaling, answer_memory=None):
        t_long = max(t // 3, 1)
        short, long = rng_states
        self.memories = [
            NaiveMemory(short, t - t_long, m, 12 * m, normal_after, normal_after, normal_after, scaling),
            NaiveMemory(long, t_long, 2 * m, 24 * m, 64 * m, memory, normal_after, scaling),
        ]
        self.relative = scaling == "mixed"
        self.recent = self.usual = self.peak = 0.0
        self.last = {}
        self.answers = naive_answers.Answers(self, answer_memory)

    def strangeness(self, event):
        return self.strangeness_of(self.memories[0].row(event, self.memories[0].names))

    def strangeness_of(self, x):
        own, by = min(memory.strangeness_of(x) for memory in self.memories), self.answers.shift(x)
        if np.isnan(own):
            return own
        return max(own + by, 0.0) if self.relative else own * math.exp(by)

    def score(self, event):
        own = self.strangeness(event)
        if np.isnan(own):
            return 0.0
        extra = max(self.recent - self.usual, 0) / 2
        raised = own + extra
        if extra > 0 and (own <= self.peak or self.repeats(event)):
            raised = min(raised, self.peak)
        seen = self.memories[0].seen
        most = min(1.0, seen / (seen + 8) / (512 / (512 + 8)))  # a young model says nothing strong
        return min(1 - math.exp(-raised), most) if self.relative else raised

    def repeats(self, event):
        """Whether it has the same values, and the same ones missing, of known features as the event before it."""
        known = self.memories[0].names
        before, now = ({k: e[k] for k in known if e.get(k) is not None and e[k] == e[k]} for e in (self.last, event))
        return before == now

    def feedback(self, event, is_anomaly, teach=False):
        self.answers.take(event, is_anomaly, teach)

    def shares(self, event):
        return min(self.memories, key=lambda memory: memory.strangeness(event)).shares(event)

    def learn(self, event):
        own, n, again = self.strangeness(event), self.memories[0].seen + 1, self.repeats(event)
        if np.isnan(own):
            own = 0.0  # all that it has is new
        for memory in self.memories:
            memory.learn(event)
        if self.memories[0].seen < n:
            return  # there was nothing to learn
        if is_due(n):
            self.answers.fade()
        if self.recent <= self.usual:
            self.peak = own
        elif not again:
            self.peak = max(self.peak, own)
        self.last = event
        self.usual += (own - self.usual) / min(n, 2000)
        self.recent += (own - self.recent) / min(n, 10)


class NaiveMemory:
    """A sample that fades at its own pace, and the partitions built from it."""

    def __init__(self, rng_state, t, m, window, refresh, half_life, normal_after, scaling):
        self.rng = Generator(rng_state)
        self.kind, self.trust = rng_state, np.ones(t)
        self.t, self.m, self.window, self.refresh, self.scaling = t, m, window, refresh, scaling
        self.normal_after = normal_after
        self.fade = 0.0 if half_life is None else min(1.0, window * (1 - 2 ** (-1 / half_life)))
        self.names, self.seen, self.rows, self.suspicion, self.arrived = [], 0, [], [], []
        self.partitions = []
        self.ever_known = set()
        self.missing = 0

    def row(self, event, names):
        def value(name):
            v = event.get(name)
            return np.clip(v, -LARGEST, LARGEST) if v is not None and math.isfinite(v) else np.nan

        return np.array([value(name) for name in names], float)

    def strangeness(self, event):
        return self.strangeness_of(self.row(event, self.names))

    def strangeness_of(self, x):
        if np.isnan(x).all():
            return np.nan
        scores = self.scores(x)
        known = ~np.isnan(scores)
        return float(np.average(scores[known], weights=self.trust[: len(scores)][known])) if known.any() else 0.0

    def drawn(self, k, i):
        """The i-th number that partition k has for life: in each of t equal intervals lies that of one partition."""
        numbers = [Generator.fixed(self.kind, other, i) for other in range(self.t)]
        return (sorted(numbers).index(numbers[k]) + numbers[k]) / self.t

    def scores(self, x):
        """What a row scores in each partition; NaN where it has no cell."""
        scores = []
        for p in self.partitions:
            j, d = p.locate(x, self)
            score = np.nan if j is None else p.score(j, d)
            scores.append(math.log(1 + score / p.unit) if self.scaling == "mixed" else score)
        return np.array(scores)

    def shares(self, event):
        """What each feature present has of the squared distances, weighted by what each partition adds to the score."""
        x, shares = self.row(event, self.names), np.zeros(len(self.names))
        for p, worth, trust in zip(self.partitions, self.scores(x), self.trust, strict=False):
            j, d = p.locate(x, self)
            if d > 0:
                worth *= trust
                squares = np.nan_to_num(p.gaps(x, self)[j]) ** 2
                shares += worth * squares / squares.sum()
        total = shares.sum()
        here = {name: share for name, share, v in zip(self.names, shares, x, strict=True) if not np.isnan(v)}
        return {name: share / total if total > 0 else 1 / len(here) for name, share in here.items()}

    def learn(self, event):
        if np.isnan(self.row(event, event)).all():
            return
        numbers = {name for name, v in zip(event, self.row(event, event), strict=True) if not np.isnan(v)}
        new = sorted(numbers - set(self.names))
        self.names += new
        self.rows = [np.append(r, [np.nan] * len(new)) for r in self.rows]
        for p in self.partitions:
            p.weight = np.append(p.weight, np.zeros(len(new)))
            p.anchors = np.hstack([p.anchors, np.zeros((len(p.anchors), len(new)))])
        if self.partitions:
            self.known = np.append(self.known, np.zeros(len(new), bool))
            self.never_varied = np.append(self.never_varied, np.zeros(len(new), bool))
            self.last_range = np.append(self.last_range, np.zeros(len(new)))
            self.centre = np.append(self.centre, np.zeros(len(new)))
            self.warp, self.deviation = (np.append(units, np.ones(len(new))) for units in (self.warp, self.deviation))
        x = self.row(event, self.names)
        strangeness = self.strangeness(event)
        self.missing += int(np.isnan(x).sum())
        for p in self.partitions:
            j, _ = p.locate(x, self)
            if j is not None:
                p.learn(j)
        self.seen += 1
        self.offer(x, strangeness)
        self.refresh_what_is_due()

    def offer(self, x, strangeness):
        if len(self.rows) < self.window:
            slot = len(self.rows)
            for values in (self.rows, self.suspicion, self.arrived):
                values.append(None)
        elif self.rng.draw() < max(self.window / self.seen, self.fade):
            slot = int(self.rng.draw() * self.window)
        else:
            return
        self.rows[slot], self.suspicion[slot], self.arrived[slot] = x, strangeness, self.seen

    def refresh_what_is_due(self):
        n, t, young = self.seen, self.t, self.seen <= YOUNG
        if not is_due(n):
            return
        due = range(t) if young else range((n - BLOCK) * t // self.refresh, n * t // self.refresh)[-t:]
        if len(due):
            self.decide_what_counts()
        every = max(self.refresh, 512)
        if young or n // every > (n - BLOCK) // every:
            self.survey()
        for i in due:
            built = self.build(i % t)
            if len(self.partitions) < t:
                self.partitions.append(built)
            else:
                self.partitions[i % t] = built

    def decide_what_counts(self):
        """Settled points are old or not surprising; of these the tenth that was strangest is left out as well."""
        suspicion = np.array(self.suspicion)
        old = np.array(self.arrived) <= self.seen - self.normal_after
        trim, usual = np.quantile(suspicion, [0.9, 0.5])
        trim = suspicion.max() if trim == usual else trim
        young = self.seen < 2 * self.normal_after or not old.any()
        wait = suspicion.max() if young else np.quantile(suspicion[old], 0.5)
        settled = old | (suspicion <= wait)
        self.settled = np.flatnonzero(settled)
        self.kept = np.flatnonzero(settled & (suspicion <= trim))

    def survey(self):
        """Centre and spreads of each feature over the kept sample."""
        kept = np.array([self.rows[i] for i in self.kept])
        d = kept.shape[1]
        if not self.partitions:
            self.never_varied, self.last_range = np.zeros(d, bool), np.zeros(d)
        self.known, self.centre, self.warp, self.deviation = np.zeros(d, bool), np.zeros(d), np.ones(d), np.ones(d)
        self.spread = {s: np.zeros(d) for s in SCALINGS}
        for f in range(d):
            column = kept[:, f][~np.isnan(kept[:, f])]
            if len(column):
                self.known[f], self.centre[f] = True, np.median(column)
                if f not in self.ever_known:
                    self.ever_known.add(f)
                    for p in self.partitions:
                        p.anchors[:, f] = self.centre[f]
                low, high = np.quantile(column, [0.25, 0.75])
                values = {"none": 1.0, "std": np.std(column), "iqr": high - low, "range": np.ptp(column)}
                if np.ptp(column) == 0 and self.last_range[f] > 0:  # as when it last varied
                    values.update(std=self.last_range[f], range=self.last_range[f])
                elif np.ptp(column) == 0:  # see gaps()
                    values.update(std=1.0, range=1.0)
                    self.never_varied[f] = True
                else:
                    self.last_range[f] = values["range"]
                    if self.never_varied[f]:
                        self.never_varied[f] = False
                        for p in self.partitions:
                            p.weight[f] = (p.weight[f] > 0) * (1.0 if p.warped else 1 / self.last_range[f])
                for s, value in values.items():
                    self.spread[s][f] = value
                self.warp[f], self.deviation[f] = values["iqr"] or values["range"], values["std"]

    def build(self, k):
        kept = self.kept
        own = max(1, self.m // 2 if k // 5 % 2 else self.m)
        m = min(own, max(1, len(kept) // POINTS_PER_ANCHOR))
        chosen = self.rng.choose(kept, m)
        anchors = np.array([np.where(np.isnan(self.rows[i]), self.centre, self.rows[i]) for i in chosen])
        known = np.flatnonzero(self.known)
        least = (len(known) + 1) // 2
        taken = least + int(self.drawn(k, 0) * (len(known) - least + 1))
        features = sorted(known, key=lambda f: self.drawn(k, int(f) + 1))[:taken]
        scaling = MIXED[k % 5] if self.scaling == "mixed" else self.scaling
        spread = self.spread["none" if scaling == "log" else scaling]
        if not spread[features].any():
            spread = self.spread["std"]
        weight = np.zeros(len(self.known))
        for f in features:
            if spread[f] > 0:
                weight[f] = 1 / spread[f]
        p = Partition(anchors, weight, scaling == "log")
        located = [p.locate(self.rows[i], self) for i in self.settled]
        located = [(j, d) for j, d in located if j is not None]
        for j, d in located:
            p.cells[j].append((1.0, d))
        p.farthest = [max((d for _, d in cell), default=0.0) for cell in p.cells]
        p.share = min(1.0, self.window / self.refresh)
        p.unit = (np.mean([p.score(j, d) for j, d in located]) if located else 0.0) or 0.25
        return p


def naive_batch(X, anchors):
    """Algorithm 1 of the paper for given anchors."""
    summed, scored = np.zeros(len(X)), np.zeros(len(X))
    for partition in anchors:
        distances = np.sqrt(((X[:, None, :] - partition[None]) ** 2).sum(axis=2))
        cell, d = distances.argmin(axis=1), distances.min(axis=1)
        for j in range(len(partition)):
            members = cell == j
            if members.sum() > 1:
                largest = d[members].max()
                summed[members] += d[members] / largest * d[members].mean() if largest > 0 else 0.0
                scored[members] += 1
    return summed / np.maximum(scored, 1)
