"""A uniform sample of rows without replacement that depends on the data and the seed, and on nothing else.

Rows of a distributed data set have no order and no number, only values. Equal rows are copies of one *value*; a
value v that occurs c(v) times must be drawn c(v) times as often. No task knows c(v), only how many copies it
has met.

**What is drawn.** Let every copy of every value ring once, after an exponential time of mean 1, independent of
the rest. The first R copies to ring are then R copies drawn uniformly without replacement, in random order. The
times at which the c copies of v ring can be had one after the other, without telling the copies apart (Rényi's
representation of order statistics): E1/c, then E2/(c-1) later, then E3/(c-2) later, and so on, with E1, E2, ...
independent exponentials. Here they come from a hash of the seed, the value and 1, 2, ...: the sample is a
function of the seed and of the numbers c(v).

**Finding it in two passes with little memory.** A value is in the sample only if its first copy rings early: if
its *loudness* c(v)/E1(v) is among the R largest. Loudness adds up over copies, wherever they are: each brings
1/E1(v). The loudest values of a stream, its heavy hitters, are found by the summary of Misra and Gries: it keeps
at most K values with a loudness that is too low by at most `error`, which is also the most that a forgotten value
can have; summaries of parts add up, errors too. The R-th largest loudness kept, r, is a lower bound of the true
one. So if error < r no forgotten value is in the sample, and none that is kept with loudness + error < r. The
first pass makes the summary, the second counts the remaining candidates exactly, and the sample follows from the
counts.

The error is at most the loudness of all values but the largest, divided by K. That is about (n/K) ln(n/K) where
r is n/R, so K > R ln(n/K) suffices. With K = 16 R, error / r was 0.14 at 10**6 different rows and grows by 0.12
with each factor of ten. Should the error ever reach r, this is noticed, and the pass is repeated with more
slots; the sample is the same.

Values are told apart by 64 bits of hash. Two different ones are taken for copies of one with a probability of
about n / 2**64 for each row of the sample.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]

SLOTS_PER_ROW = 16  # K / R
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MARGIN = 1 + 1e-9  # logarithms may differ in the last bit between machines


def _mixed(h: U64) -> U64:
    """A bijection in which every bit of the result depends on every bit given (the finaliser of splitmix64)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def fingerprints(X: F64, seed: int) -> U64:
    """64 bits of each row that depend on the seed; rows with equal values, or missing in the same places, are equal."""
    start = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
    h = np.full(len(X), int.from_bytes(start, "little"), np.uint64)
    for f in range(X.shape[1]):
        column = X[:, f] + 0.0  # -0.0 becomes 0.0
        column[np.isnan(column)] = np.nan  # of the many bit patterns, one
        h = _mixed((h ^ column.view(np.uint64)) + _STEP)
    return h


def waits(keys: U64, number: int) -> F64:
    """E1 (number 0), E2 (number 1), ... of the values with these fingerprints."""
    mixed = _mixed(keys + np.uint64((number + 1) * int(_STEP) % 2**64))
    uniform = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return -np.log1p(-uniform)


class HeavyHitters:
    """The summary of Misra and Gries with weights: the loudest values of all that were added.

    Parameters
    ----------
    slots
        The most values to keep.

    Attributes
    ----------
    error
        No loudness is too low by more than this, and no forgotten value is louder.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.error = 0.0
        self._keys: list[U64] = []
        self._loudness: list[F64] = []
        self._waiting = 0

    def add_rows(self, keys: U64) -> None:
        """One more copy of each of these values."""
        self.add(keys, 1 / waits(keys, 0))

    def add(self, keys: U64, loudness: F64, error: float = 0.0) -> None:
        """What another summary kept, and its error."""
        self.error += error
        self._keys.append(keys)
        self._loudness.append(loudness)
        self._waiting += len(keys)
        if self._waiting > 5 * self.slots:
            self._shrink()

    def kept(self) -> tuple[U64, F64]:
        """Fingerprints in ascending order, and the loudness of each."""
        self._shrink()
        return self._keys[0], self._loudness[0]

    def _shrink(self) -> None:
        keys, where = np.unique(np.concatenate([np.empty(0, np.uint64), *self._keys]), return_inverse=True)
        loudness: F64 = np.zeros(len(keys))
        np.add.at(loudness, where, np.concatenate([np.empty(0), *self._loudness]))
        if len(keys) > self.slots:
            place = len(keys) - self.slots - 1
            cut = float(np.partition(loudness, place)[place])
            stays = loudness > cut
            keys, loudness = keys[stays], loudness[stays] - cut
            self.error += cut
        self._keys, self._loudness, self._waiting = [keys], [loudness], len(keys)

    def candidates(self, size: int) -> U64 | None:
        """All values that can be in a sample of that size, in ascending order; None if the slots do not suffice."""
        keys, loudness = self.kept()
        if len(keys) <= size:
            return keys if self.error == 0 else None
        bound = np.partition(loudness, len(keys) - size)[len(keys) - size]
        if self.error * _MARGIN >= bound:
            return None
        possible: U64 = keys[(loudness + self.error) * _MARGIN >= bound]
        return possible


def first_to_ring(keys: U64, counts: NDArray[np.int64], size: int) -> NDArray[np.intp]:
    """Which values make the sample, in the order in which their copies ring.

    Parameters
    ----------
    keys
        Fingerprints of the candidates.
    counts
        How often each occurs.
    size
        Copies to draw; all of them if there are fewer.

    Returns
    -------
    ndarray
        Positions in `keys`, one per drawn copy.
    """
    which, times = np.empty(0, np.intp), np.empty(0)
    active, clock = np.arange(len(keys)), np.zeros(len(keys))
    latest = np.inf  # the size-th ring so far; later ones do not matter
    number = 0
    while len(active):
        clock = clock + waits(keys[active], number) / (counts[active] - number)
        which, times = np.concatenate([which, active]), np.concatenate([times, clock])
        if len(times) > size:
            first = np.lexsort((keys[which], times))[:size]
            which, times = which[first], times[first]
            latest = times[-1]
        number += 1
        on = (clock <= latest) & (counts[active] > number)
        active, clock = active[on], clock[on]
    return which[np.lexsort((keys[which], times))]
