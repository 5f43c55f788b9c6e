"""Random numbers whose whole state is one number of the model."""

from __future__ import annotations

import numpy as np

from svead_stream.kernels.compiled import kernel
from svead_stream.kernels.layout import I64, U64

_STEP = np.uint64(0x9E3779B97F4A7C15)


@kernel
def mixed(z: np.uint64) -> float:
    """A number in [0, 1) from all bits of another: the last step of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53


@kernel
def draw(rng: U64) -> float:
    """A number in [0, 1): splitmix64."""
    rng[0] += _STEP
    return mixed(rng[0])


@kernel
def fixed(seed: U64, i: int, j: int) -> float:
    """A number in [0, 1) that i and j always give with this seed."""
    return mixed(seed[0] + _STEP * (np.uint64(i) * np.uint64(2**32) + np.uint64(j)))


@kernel
def choose(rng: U64, items: I64, n: int, wanted: int) -> None:
    """Move a uniform choice without replacement to the front of the first n items."""
    for i in range(wanted):
        j = i + int(draw(rng) * (n - i))
        items[i], items[j] = items[j], items[i]
