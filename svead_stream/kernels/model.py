"""What one memory of a streaming model is to the kernels: its arrays, its parameters, its generator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from svead_stream.kernels.search import F32, F64, I32, I64, U64
from svead_stream.kernels.simd import kernel

FIRST_BUILD = 8  # events learned when the first partitions are built
YOUNG = 256  # events up to which all partitions are rebuilt whenever the stream has doubled
POINTS_PER_ANCHOR = 4  # at least, in the sample; a young model has fewer anchors
SMALLEST_SCALE = 1e-150  # a feature that spreads less is constant
CONSTANT_RATE = 1e300  # of a feature that never varied: whatever differs lies at the end of the frame, one spread away
NO_UNIT = 0.25  # the unit of a partition whose points all lie on anchors
TRIMMED = 0.1  # share of the sample, the most suspicious, that is left out of anchors and scales
SURPRISING = 0.5  # share of settled points that an event has to be stranger than, to wait before it is settled itself
SURVEYED = 512  # events at least between two looks at centres and spreads
LOGS_TOGETHER = 8  # factors multiplied before a logarithm is taken
LARGEST_FACTOR = 1e30  # so many of them stay finite

# positions in the counters
SEEN, STORED, MISSING = 0, 1, 2
# positions in the cutoffs
TRIM, WAIT = 0, 1
# scalings, each with a row of spreads; MIXED takes all in turn
NONE, STD, IQR, RANGE, LOG, MIXED = 0, 1, 2, 3, 4, 5


class Plan(NamedTuple):
    """The parameters that kernels need."""

    refresh: int
    scaling: int
    fade: float  # least probability of an event to enter the sample
    share: float  # of a point of the sample that an event counts as in its cell, until the next refresh
    normal_after: int  # events for which a surprising point of the sample counts for nothing


class State(NamedTuple):
    """The arrays of a memory. The second group follows from the first; only the first is saved."""

    counters: I64  # SEEN events, STORED points of the sample, MISSING values
    rng: U64  # (1,)
    cutoff: F64  # (2,) TRIM, WAIT: suspicion above which points of the sample are left out, and left out until settled
    centre: F64  # (d,) of the frame
    rate: F64  # (d,) frame units per unit; 0 where nothing is known of the feature
    warp_rate: F64  # (d,) the same for warped units
    spread: F64  # (5, d) none, std, iqr, range, log; 0 where nothing was ever known
    rows: F64  # (window, d) the sample, NaN where missing
    suspicion: F64  # (window,) how strange they were when they arrived
    arrived: I64  # (window,) events seen by then
    anchors: F64  # (t, m, d)
    weight: F64  # (t, d) 0 where a partition does not use the feature
    metric: F64  # (t, 6) LENGTH, INVERSE_UNIT, USED, ANCHORS, WARPED, TOTAL
    cells: F64  # (t, m, 3) COUNT, SUM, MAX

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
    halves: F64  # (m,)
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
