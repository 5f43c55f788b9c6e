"""How the arrays of a memory, and of partitions in general, are laid out; named groups, as kernels hand them on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
U64 = NDArray[np.uint64]

BLOCK = 64  # points searched together; partitions are refreshed at multiples of it

# positions in the counters
SEEN, STORED, MISSING = 0, 1, 2
# rows of the frame: in its units a value is its distance from the centre, times the rate; warped units have their own
CENTRE, RATE, WARP_RATE = 0, 1, 2
# positions in the cutoffs
TRIM, WAIT = 0, 1
# positions in a partition's metric, and in its shape
LENGTH, INVERSE_UNIT, TOTAL, TRUST = 0, 1, 2, 3
USED, ANCHORS, WARPED = 0, 1, 2
# positions in a cell
COUNT, SUM, MAX = 0, 1, 2
# scalings, each with a row of spreads; MIXED takes all in turn
NONE, STD, IQR, RANGE, LOG, MIXED = 0, 1, 2, 3, 4, 5


class Partitions(NamedTuple):
    """Partitions as the search needs them; LENGTH, USED and the rest follow from anchors, weights and the frame."""

    metric: F64  # (t, 4) LENGTH of a unit, INVERSE_UNIT of scores, TOTAL count of all cells, TRUST that answers gave it
    shape: I64  # (t, 3) features USED, ANCHORS, whether it is WARPED
    product: F32  # (t, 1 + d, mp) of each anchor minus half its squared length, then one weighted row a feature used
    placed: F32  # (t, m, dp) anchors, for the distance
    scale: F32  # (t, dp)
    feature: I64  # (t, d) the features used


class Points(NamedTuple):
    """Up to BLOCK points in frame units and, behind these, in warped units; the sample has several blocks of them."""

    x: F32  # (BLOCK, 2 * dp)
    xt: F32  # (2 * d, BLOCK)
    gaps: I64  # (BLOCK,) missing values of each


class Found(NamedTuple):
    """What the search found of some points in every partition."""

    cell: I32  # (t, n) -1 where there is none
    score: F64  # (t, n) what the point scores in its cell


class Sample(NamedTuple):
    """A reservoir sample of the stream."""

    rows: F64  # (window, d) NaN where missing
    suspicion: F64  # (window,) how strange they were when they arrived
    arrived: I64  # (window,) events seen by then


class Sums(NamedTuple):
    """What the scores of a block add up to, partition after partition."""

    summed: F64  # (BLOCK,)
    factor: F64  # (BLOCK,)
    trusted: F64  # (BLOCK,) of the partitions that scored it


class Scratch(NamedTuple):
    """Room to work in: kernels do not allocate."""

    values: F64  # (window, LANES)
    order: I64  # (max(window, d),)
    draws: F64  # (d,)
    counts: I64  # (LANES,)
    source: I64  # (BLOCK,) rows of a mini-batch that are in the block
    cell_of: I32  # (blocks * BLOCK,)
    far: F64  # (blocks * BLOCK,)
    halves: F64  # (m,)


class State(NamedTuple):
    """The arrays of a memory. The second group follows from the first; only the first is saved."""

    counters: I64  # SEEN events, STORED points of the sample, MISSING values
    rng: U64  # (1,)
    kind: U64  # (1,) what decides for life which features each partition uses
    cutoff: F64  # (2,) TRIM, WAIT: suspicion above which points of the sample are left out, and left out until settled
    spread: F64  # (5, d) none, std, iqr, range, log; 0 where nothing was ever known
    frame: F64  # (3, d) CENTRE, RATE, WARP_RATE; rates are 0 where nothing is known of the feature
    sample: Sample
    anchors: F64  # (t, m, d)
    weight: F64  # (t, d) 0 where a partition does not use the feature
    cells: F64  # (t, m, 3) COUNT, SUM, MAX
    partitions: Partitions

    points: Points  # the sample, with one more dimension for its blocks
    block: Points  # of events
    found: Found
    sums: Sums
    scratch: Scratch


class Answers(NamedTuple):
    """What people said of events, anomalies first, then false alarms; the second group follows from the first."""

    rows: F64  # (2, KEPT, d) the events; KEPT is 0 as long as nobody has answered
    strength: F64  # (2, KEPT) 1 or, of repeated false alarms, more; less where answers fade, 0 where there is none
    number: I64  # (2, KEPT) the first answer of a kind is 1, the next 2, and so on
    keep: F64  # (1,) of the strength, from one refresh to the next

    anchors: F64  # (3, m, d) anomalies, false alarms, and what is usual
    force: F64  # (2, m) strength of the first two
    weight: F64  # (3, d)
    partitions: Partitions
    cell: I32  # (3, BLOCK)
    apart: F64  # (3, BLOCK)
    halves: F64  # (m,)


class Plan(NamedTuple):
    """The parameters that kernels need."""

    refresh: int
    scaling: int
    fade: float  # least probability of an event to enter the sample
    share: float  # of a point of the sample that an event counts as in its cell, until the next refresh
    normal_after: int  # events for which a surprising point of the sample counts for nothing


class Window(NamedTuple):
    """The recent scores that a new one is ranked among, and where the stream stands between two incidents."""

    recent: F64  # (capacity,) a ring: as they came
    ordered: F64  # (capacity,) the same, lowest first
    withheld: U8  # (capacity,) whether the event of each was kept from the detector
    counters: I64  # see ranks.py
    pace: F64  # see ranks.py


class Rules(NamedTuple):
    """What makes an alert, and what an incident; in the unit of `in_time` spans are seconds, else events."""

    alert_rate: float
    least: int  # scores that the window holds before it forgets any
    rate: float  # incidents an event, or a second
    rate_in_time: bool
    hold_off: float  # without alerts, after which an incident is over
    hold_off_in_time: bool
    hold_off_share: float  # at most this share of the time between two incidents asked for; 0 for any
    burn_in: float  # at first, without alerts
    burn_in_in_time: bool
