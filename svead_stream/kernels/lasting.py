"""What an event after others that were strange is worth: surprise that lasts weighs more than one that passes.

Strangeness here is what a score is made from: with mixed scaling the mean logarithm, else the mean distance. A model
follows its mean over the last few events and over many. While the first is above the second, every event is raised by
half of the difference, up to the strangest of this spell; one that is stranger than that is raised as well, unless it
only repeats the event before it, so that what repeats itself never scores higher than it did at first. Among events in
random order there are no such spells to speak of, and scores stay what they are.
"""

from __future__ import annotations

import math

from svead_stream.kernels.compiled import kernel
from svead_stream.kernels.layout import F64

FEW, MANY = 10, 2000  # events in the two means
RAISED = 0.5  # by which part of their difference
GROWN_UP = 512  # events after which scores are what they are
DOUBT = 8.0  # before, after n events, none exceeds about n / (n + DOUBT): a young model says nothing strong

# positions in the levels: the means over few and over many events, the strangest of the present spell
RECENT, USUAL, PEAK = 0, 1, 2
N_LEVELS = 3


@kernel
def repeats(row: F64, last: F64) -> bool:
    """Whether an event is the one before it again, as far as features are known."""
    again = True
    for f in range(row.shape[0]):
        again &= row[f] == last[f] or (row[f] != row[f] and last[f] != last[f])
    return again


@kernel
def remember(row: F64, last: F64) -> None:
    for f in range(row.shape[0]):
        last[f] = row[f]


@kernel
def raised(strangeness: float, again: bool, levels: F64) -> float:
    """The strangeness of an event in the light of those before it."""
    extra = RAISED * (levels[RECENT] - levels[USUAL])
    if extra <= 0.0:
        return strangeness
    if strangeness > levels[PEAK] and not again:
        return strangeness + extra
    return min(strangeness + extra, levels[PEAK])


@kernel
def follow(strangeness: float, again: bool, seen: int, levels: F64) -> None:
    """Take note of an event that is learned, after as many as were seen."""
    if levels[RECENT] <= levels[USUAL]:
        levels[PEAK] = strangeness
    elif not again:
        levels[PEAK] = max(levels[PEAK], strangeness)
    levels[USUAL] += (strangeness - levels[USUAL]) / min(seen + 1, MANY)
    levels[RECENT] += (strangeness - levels[RECENT]) / min(seen + 1, FEW)


@kernel
def highest(seen: int) -> float:
    """What no score exceeds after so many events."""
    return min(seen * (1.0 + DOUBT / GROWN_UP) / (seen + DOUBT), 1.0)


@kernel
def to_score(strangeness: float, again: bool, seen: int, relative: bool, levels: F64) -> float:
    """The score that users see; 0 where there was nothing to judge (NaN)."""
    if math.isnan(strangeness):
        return 0.0
    final = raised(strangeness, again, levels)
    return min(1.0 - math.exp(-final), highest(seen)) if relative else final
