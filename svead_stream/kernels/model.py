"""What a streaming model is to the kernels: its arrays, its parameters, its generator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svead_stream.kernels.search import F32, F64, I32, I64, U64
from svead_stream.kernels.simd import kernel

FIRST_BUILD = 8  # events learned when the first partitions are built
POINTS_PER_ANCHOR = 4  # at least, in the sample; a young model has fewer anchors
SMALLEST_SCALE = 1e-150  # a feature that spreads less is constant
TRIMMED = 0.1  # share of the sample, the most suspicious, that is left out of anchors, scales and cells
MOST_USUAL = 7.0  # a partition does not add an event that would score more than so many times the usual there
MEMORY = 64  # events over which surprise is averaged
TOO_MUCH = 0.5  # surprise at which a model starts anew: what it knows is not what comes
LATE = 128  # events that a model may start anew from
UNKNOWN = 1e300  # a cutoff that nothing exceeds
LOGS_TOGETHER = 8  # factors multiplied before a logarithm is taken
LARGEST_FACTOR = 1e30  # so many of them stay finite

# positions in the counters
SEEN, STORED, BORN, MISSING = 0, 1, 2, 3
# positions in the levels
CUTOFF, SURPRISE = 0, 1
LIMIT = 3  # in a cell, after COUNT, SUM and MAX
# scalings, the first four with a row of spreads; MIXED takes all in turn
NONE, STD, IQR, RANGE, LOG, MIXED = 0, 1, 2, 3, 4, 5


class Plan(NamedTuple):
    """The parameters that kernels need."""

    refresh: int
    scaling: int
    fade: float  # least probability of an event to enter the sample


class State(NamedTuple):
    """The arrays of a model. The second group follows from the first; only the first is saved."""

    counters: I64  # SEEN events, STORED points of the sample, BORN: events before it began, MISSING values
    rng: U64  # (1,)
    levels: F64  # (2,) CUTOFF: suspicion above which a point is left out; SURPRISE: share of late events above it
    centre: F64  # (d,) of the frame
    rate: F64  # (d,) frame units per unit; 0 where nothing is known of the feature
    warp_rate: F64  # (d,) the same for warped units
    spread: F64  # (4, d) none, std, iqr, range; 0 where nothing is known
    rows: F64  # (window, d) the sample, NaN where missing
    suspicion: F64  # (window,)
    arrived: I64  # (window,) which event each of them was
    anchors: F64  # (t, m, d)
    weight: F64  # (t, d) 0 where a partition does not use the feature
    metric: F64  # (t, 5) LENGTH, INVERSE_UNIT, USED, ANCHORS, WARPED
    cells: F64  # (t, m, 4) COUNT, SUM, MAX, and LIMIT, the largest distance that is added

    sample: F32  # (blocks, BLOCK, 2 * dp) the sample in frame units, then warped
    sample_t: F32  # (blocks, 2 * d, BLOCK)
    sample_gaps: I64  # (blocks, BLOCK) missing values of each
    product: F32  # (t, d, mp) weighted anchors, for the search: one row for each feature used
    bias: F32  # (t, mp)
    placed: F32  # (t, m, dp) anchors, for the distance
    scale: F32  # (t, dp)
    feature: I64  # (t, d) the features used

    values: F64  # (window, LANES) scratch from here on: kernels do not allocate
    order: I64  # (max(window, d),)
    cell_of: I32  # (blocks * BLOCK,)
    far: F64  # (blocks * BLOCK,)
    ratio: F64  # (m,)
    block: F32  # (BLOCK, 2 * dp) events in frame units, then warped
    block_t: F32  # (2 * d, BLOCK)
    block_gaps: I64  # (BLOCK,)
    source: I64  # (BLOCK,) their rows
    summed: F64  # (BLOCK,)
    factor: F64  # (BLOCK,)
    scored: I64  # (BLOCK,) partitions


@kernel
def draw(rng: U64) -> float:
    """A number in [0, 1): splitmix64."""
    rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53


@kernel
def choose(rng: U64, items: I64, n: int, wanted: int) -> None:
    """Move a uniform choice without replacement to the front of the first n items."""
    for i in range(wanted):
        j = i + int(draw(rng) * (n - i))
        items[i], items[j] = items[j], items[i]
