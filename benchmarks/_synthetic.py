"""Three small data sets in the plane, one for each kind of anomaly that the paper tells apart.

Shared by the paper's benchmark, the tests and the examples; nothing here knows a detector. The paper describes
these sets in words only, so the constants below are ours: anomalies of S1 and S2 keep a distance from
the normal points, those of S3 may fall where the two lines cross, where nobody could tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

KINDS = {"S1": "global", "S2": "local", "S3": "dependency"}
HALF_WIDTH = 6.0  # S1: half the side of the square that anomalies are scattered over
CORE = 3.5  # S1: no anomaly nearer to the origin, in deviations of the normal points
MOON_NOISE = 0.05  # S2: deviation of normal points from their moon
GAP = 0.2  # S2: no anomaly nearer to a moon
LINE_NOISE = 0.3  # S3: deviation from the line


def synthetic(name: str, n: int = 300, rate: float = 0.1, seed: int = 0) -> tuple[Floats, Labels]:
    """Points in a random order and their labels, 1 for an anomaly.

    Parameters
    ----------
    name
        ``"S1"`` (global), ``"S2"`` (local) or ``"S3"`` (dependency).
    n, rate
        Number of points, and the share of anomalies among them.
    seed
        The same seed gives the same points.
    """
    if name not in _MAKERS:
        raise ValueError(f"synthetic data set {name!r} is unknown; known are {', '.join(_MAKERS)}")
    if not 0 < rate < 1:
        raise ValueError(f"rate={rate!r}: the share of anomalies must be between 0 and 1")
    rng = np.random.default_rng([seed, list(_MAKERS).index(name)])
    anomalies = max(1, round(rate * n))
    X = np.concatenate(_MAKERS[name](n - anomalies, anomalies, rng))
    y = np.repeat([0, 1], [n - anomalies, anomalies])
    order = rng.permutation(n)
    return X[order], y[order]


def _global(normal: int, anomalies: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A Gaussian at the origin, and points scattered evenly over the rest of a square around it."""

    def draw(k: int) -> Floats:
        return rng.uniform(-HALF_WIDTH, HALF_WIDTH, (k, 2))

    far = _accepted(draw, lambda X: np.hypot(*X.T) > CORE, anomalies)
    return rng.normal(size=(normal, 2)), far


def _moons(angle: Floats, upper: NDArray[np.bool_]) -> Floats:
    """Points on two interleaved half circles of radius 1."""
    x = np.where(upper, np.cos(angle), 1.0 - np.cos(angle))
    y = np.where(upper, np.sin(angle), 0.5 - np.sin(angle))
    return np.stack([x, y], axis=1)


def _local(normal: int, anomalies: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Two dense moons, and points between one and the other, off both."""
    angles = np.linspace(0.0, np.pi, 200)
    curves = np.concatenate([_moons(angles, np.full(200, up)) for up in (True, False)])

    def draw(k: int) -> Floats:
        one, other = (_moons(rng.uniform(0.0, np.pi, k), np.full(k, up)) for up in (True, False))
        share = rng.uniform(size=(k, 1))
        return share * one + (1.0 - share) * other

    def off_both(X: Floats) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = np.linalg.norm(X[:, None] - curves, axis=2).min(axis=1) > GAP
        return kept

    moons = _moons(rng.uniform(0.0, np.pi, normal), np.arange(normal) % 2 == 0)
    return moons + rng.normal(scale=MOON_NOISE, size=(normal, 2)), _accepted(draw, off_both, anomalies)


def _dependency(normal: int, anomalies: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A rising line, and a falling one with the same range of both features."""
    x = rng.uniform(-3.0, 3.0, normal + anomalies)
    slope = np.repeat([1.0, -1.0], [normal, anomalies])
    X = np.stack([x, slope * x + rng.normal(scale=LINE_NOISE, size=len(x))], axis=1)
    return X[:normal], X[normal:]


def _accepted(draw: Callable[[int], Floats], keep: Callable[[Floats], NDArray[np.bool_]], n: int) -> Floats:
    """The first n points of the draws that are kept."""
    kept = np.empty((0, 2))
    while len(kept) < n:
        X = draw(max(2 * n, 64))
        kept = np.concatenate([kept, X[keep(X)]])
    return kept[:n]


_MAKERS = {"S1": _global, "S2": _local, "S3": _dependency}
