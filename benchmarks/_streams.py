"""The streams that the streaming benchmark feeds to every detector, made from labelled data sets.

Kept apart from the benchmark because what a stream is (order, drift, where measuring starts) decides what the
figures mean: everything here depends on the data set, the kind and the seed alone, never on a detector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

DRIFTS = ("abrupt", "gradual", "bursts", "new_cluster", "scale", "recurring")  # the place is part of a stream's seed
WARM_UP = 256  # points that every detector may learn from before it is judged
TURN = 400  # normal points of a regime before the next one takes over
DRIFT_NEEDS = 3_000  # points a data set must have for a drifting stream: enough before and after the change


@dataclass(frozen=True)
class Stream:
    """Points in the order of arrival, their labels (1 is an anomaly), and where judging starts."""

    dataset: str
    kind: str
    seed: int
    X: Floats
    y: Labels
    warm_up: int
    change: int | None = None
    settled: Floats | None = None  # the same points, had they been from the start as they are after the change

    @property
    def name(self) -> str:
        """A key that is unique among streams, used for caching results."""
        return f"{self.dataset}/{self.kind}/{self.seed}/{len(self.y)}"


def warm_up(n: int) -> int:
    """Points before judging starts: 256, or a quarter of a stream that is shorter than 1,024."""
    return min(WARM_UP, n // 4)


def load(path: Path) -> tuple[Floats, Labels]:
    """Points and labels of an ``.npz`` file with the keys X and y."""
    with np.load(path, allow_pickle=False) as data:
        if "X" not in data or "y" not in data:
            raise ValueError(f"{path} has the keys {sorted(data)}; X (points) and y (0/1 labels) are needed")
        return data["X"].astype(np.float64), data["y"].astype(np.int64).ravel()


def _shuffled(X: Floats, y: Labels, cap: int, rng: np.random.Generator) -> tuple[Floats, Labels]:
    order = rng.permutation(len(y))[:cap]
    return X[order], y[order]


def _standardised(X: Floats) -> Floats:
    deviation = X.std(axis=0)
    centred: Floats = X - X.mean(axis=0)
    return centred / np.where(deviation > 0, deviation, 1.0)


def _moved(X: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The standardised points, and the same points turned by a random rotation and shifted by 3 deviations."""
    d = X.shape[1]
    before = _standardised(X)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    shift = rng.normal(size=d)
    shift *= 3.0 * np.sqrt(d) / np.linalg.norm(shift)
    return before, before @ rotation + shift


def _bursts(y: Labels, rng: np.random.Generator, size: int = 20) -> NDArray[np.intp]:
    """An order in which the anomalies arrive in runs of ``size`` at random moments after the warm-up."""
    normal, anomalies = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    runs = [anomalies[k : k + size] for k in range(0, len(anomalies), size)]
    moments = np.sort(rng.integers(warm_up(len(normal)), len(normal), len(runs)))
    pieces, start = [], 0
    for moment, run in zip(moments, runs, strict=True):
        pieces += [normal[start:moment], run]
        start = moment
    return np.concatenate([*pieces, normal[start:]])


def _three_clusters(X: Floats, normal: NDArray[np.intp]) -> NDArray[np.int32]:
    clusters: NDArray[np.int32] = KMeans(3, n_init=2, random_state=0).fit_predict(_standardised(X)[normal])
    return clusters


def _late_cluster(X: Floats, y: Labels, rng: np.random.Generator) -> tuple[NDArray[np.intp], int]:
    """An order in which about a third of the normal points, one cluster of them, come in the second part only."""
    normal = np.flatnonzero(y == 0)
    cluster = _three_clusters(X, normal)
    sizes = np.bincount(cluster, minlength=3)
    late = normal[cluster == np.argmin(np.abs(sizes - len(normal) / 3))]
    early = rng.permutation(np.setdiff1d(np.arange(len(y)), late))
    half = len(early) // 2
    return np.concatenate([early[:half], rng.permutation(np.concatenate([early[half:], late]))]), half


def _recurring(X: Floats, y: Labels) -> NDArray[np.intp]:
    """An order in which three clusters of normal points take turns, with anomalies at equal distances in between.

    A cluster that has no points left drops out: the others go on taking turns.
    """
    normal, anomalies = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    cluster = _three_clusters(X, normal)
    turns = [
        (k, c, normal[cluster == c][k : k + TURN])
        for c in range(3)
        for k in range(0, np.count_nonzero(cluster == c), TURN)
    ]
    in_turn = np.concatenate([points for _, _, points in sorted(turns, key=lambda turn: turn[:2])])
    moments = [(np.arange(len(points)) + 0.5) / max(len(points), 1) for points in (in_turn, anomalies)]
    return np.concatenate([in_turn, anomalies])[np.argsort(np.concatenate(moments), kind="stable")]


def drifting(dataset: str, X: Floats, y: Labels, kind: str, seed: int, cap: int) -> Stream:
    """A stream of one of the kinds in ``DRIFTS``, at most ``cap`` points long."""
    rng = np.random.default_rng([seed, DRIFTS.index(kind), 1])
    X, y = _shuffled(X, y, cap, rng)
    n, d = X.shape
    time = np.arange(n) / n
    change: int | None = n // 2
    settled = None
    if kind == "abrupt":
        before, settled = _moved(X, rng)
        X = np.where((time >= 0.5)[:, None], settled, before)
    elif kind == "gradual":  # from one to the other on a straight line, over the middle third
        before, after = _moved(X, rng)
        share = np.clip(3.0 * time - 1.0, 0.0, 1.0)[:, None]
        X = (1.0 - share) * before + share * after
        change = n // 3
    elif kind == "bursts":
        order = _bursts(y, rng)
        X, y, change = X[order], y[order], None
    elif kind == "new_cluster":
        order, change = _late_cluster(X, y, rng)
        X, y = X[order], y[order]
    elif kind == "recurring":
        order = _recurring(X, y)
        X, y, change = X[order], y[order], None
    elif kind == "scale":  # each feature grows or shrinks steadily, by up to a factor of 10
        X, change = X * 10.0 ** (rng.uniform(-1.0, 1.0, d) * time[:, None]), None
    else:
        raise ValueError(f"kind of drift {kind!r} is unknown; known are {', '.join(DRIFTS)}")
    return Stream(dataset, kind, seed, X, y, warm_up(n), change, settled)


def stationary(dataset: str, X: Floats, y: Labels, seed: int, cap: int) -> Stream:
    """The data set in a random order, at most ``cap`` points of it."""
    X, y = _shuffled(X, y, cap, np.random.default_rng([seed, 0]))
    return Stream(dataset, "stationary", seed, X, y, warm_up(len(y)))


def _spread(items: list[Path], wanted: int) -> set[Path]:
    """At most ``wanted`` of the items, evenly spread over their order."""
    places = np.linspace(0, len(items) - 1, min(wanted, len(items))).round().astype(int)
    return {items[place] for place in places}


def streams(
    folder: Path, seed: int, cap: int, drift_cap: int, drift_sets: int = 6, wide: int = 1_000_000
) -> Iterator[Stream]:
    """All streams for one seed: every data set in ``folder``, and ``drift_sets`` of the large ones drifting.

    ``wide`` bounds the numbers in one stream (points times features), so that a data set of thousands of features
    does not take the time of all others together. A stream without both labels to judge is left out.
    """
    sets = {path: load(path) for path in sorted(folder.glob("*.npz"))}
    if not sets:
        raise ValueError(f"no .npz files in {folder}; each data set is one, with the keys X and y")
    drift = _spread([path for path, (_, y) in sets.items() if len(y) >= DRIFT_NEEDS], drift_sets)
    for path, (X, y) in sets.items():
        limit = max(wide // X.shape[1], 1_000)
        made = [stationary(path.stem, X, y, seed, min(cap, limit))]
        if path in drift:
            made += [drifting(path.stem, X, y, kind, seed, min(drift_cap, limit)) for kind in DRIFTS]
        for stream in made:
            if 0 < stream.y[stream.warm_up :].mean() < 1:
                yield stream
