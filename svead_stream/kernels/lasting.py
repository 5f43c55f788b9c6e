"""What an event after others that were strange is worth: surprise that lasts weighs more than one that passes.

Strangeness here is what a score is made from: with mixed scaling the mean logarithm, else the mean distance. A model
follows its mean over the last few events and over many. While the first is above the second, an event that is stranger
than all before it in this spell is raised by half of the difference; any other one too, but not above the mean of the
last few, so that what merely repeats itself never scores higher than it did at first. Events in random order are strange
or not whatever came before them, and keep their scores.
"""

from __future__ import annotations

import math

from svead_stream.kernels.search import F64
from svead_stream.kernels.simd import kernel

FEW, MANY = 10, 2000  # events in the two means
RAISED = 0.5  # by which part of their difference
DOUBT = 32.0  # after n events no score exceeds n / (n + DOUBT): nothing is stranger than what is known allows to say

# positions in the levels: the means over few and over many events, the strangest of the present spell
RECENT, USUAL, PEAK = 0, 1, 2
N_LEVELS = 3


@kernel
def raised(strangeness: float, levels: F64) -> float:
    """The strangeness of an event in the light of those before it."""
    extra = RAISED * max(levels[RECENT] - levels[USUAL], 0.0)
    if extra == 0.0 or strangeness > levels[PEAK]:
        return strangeness + extra
    return max(strangeness, min(strangeness + extra, levels[RECENT]))


@kernel
def follow(strangeness: float, seen: int, levels: F64) -> None:
    """Take note of an event that is learned, after as many as were seen."""
    if levels[RECENT] <= levels[USUAL]:
        levels[PEAK] = 0.0
    levels[PEAK] = max(levels[PEAK], strangeness)
    levels[USUAL] += (strangeness - levels[USUAL]) / min(seen + 1, MANY)
    levels[RECENT] += (strangeness - levels[RECENT]) / min(seen + 1, FEW)


@kernel
def to_score(strangeness: float, seen: int, relative: bool, levels: F64) -> float:
    """The score that users see; 0 where there was nothing to judge (NaN)."""
    if math.isnan(strangeness):
        return 0.0
    final = raised(strangeness, levels)
    return min(1.0 - math.exp(-final), seen / (seen + DOUBT)) if relative else final


@kernel
def to_scores(strangeness: F64, seen: int, relative: bool, learn: bool, levels: F64) -> None:
    """The same for events in order, in place, each followed after it was scored if asked."""
    for i in range(strangeness.shape[0]):
        own = strangeness[i]
        strangeness[i] = to_score(own, seen, relative, levels)
        if learn and not math.isnan(own):
            follow(own, seen, levels)
            seen += 1
