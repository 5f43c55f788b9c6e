"""Ranks of scores among the scores before them, for mini-batches of them."""

from __future__ import annotations

from svead_stream.kernels.search import F64
from svead_stream.kernels.simd import kernel


@kernel
def lower(ordered: F64, n: int, score: float) -> int:
    """How many of the first n, which are in order, are lower than the score."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < score:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def rank(scores: F64, recent: F64, ordered: F64, known: int, capacity: int, p_values: F64) -> tuple[int, int]:
    """The p-value of each score, which then enters the window.

    `recent` begins with the known scores as they came, at most `capacity`, and has room for the new ones; `ordered`
    begins with the same scores in order. Answers where in `recent` the window begins and ends afterwards.
    """
    begin, end = 0, known
    for i in range(scores.shape[0]):
        score = scores[i]
        if score != score:
            p_values[i] = 1.0
            continue
        at = lower(ordered, end - begin, score)
        p_values[i] = (end - begin - at + 1) / (end - begin + 1)
        if score == 0.0 and begin == end:
            continue
        hole = end - begin
        if hole == capacity:
            hole = lower(ordered, capacity, recent[begin])
            begin += 1
        if hole < at:
            at -= 1
            for j in range(hole, at):
                ordered[j] = ordered[j + 1]
        else:
            for j in range(hole, at, -1):
                ordered[j] = ordered[j - 1]
        ordered[at] = score
        recent[end] = score
        end += 1
    return begin, end
