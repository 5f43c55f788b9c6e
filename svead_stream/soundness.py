"""What arrays of unknown origin must be, so that no kernel is led astray by them and every score is finite.

Kernels check nothing: an index beyond an array would be read all the same. The limits here are far beyond what a model
learns from numbers of any size, and near enough that sums and products of what they allow stay finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from svead_stream.errors import SnapshotError
from svead_stream.kernels.layout import (
    ANCHORS,
    CENTRE,
    COUNT,
    INVERSE_UNIT,
    IQR,
    RATE,
    SEEN,
    STORED,
    SUM,
    TOTAL,
    TRUST,
    WARP_RATE,
)
from svead_stream.kernels.search import SATURATED

Arrays = dict[str, NDArray[Any]]

MOST = 10**18  # events, or points of a cell
_FARTHEST = 1.35e154  # a value of an event; models were made that have some beyond 1e100
LARGEST_SCORE = 1e280  # a score in a partition: those of all, each trusted, add up
_SMALLEST_SPREAD = 1e-286
_LARGEST_RATE = 1.01e300
_RAREST = 1e5  # by which the rarest cell of `MOST` points raises a score, at most


def refuse_unsound(sound: dict[str, Any]) -> None:
    """Raise a SnapshotError that names the first array that is not sound."""
    for name, fine in sound.items():
        if not fine:
            raise SnapshotError(f"the snapshot does not fit together: array {name!r} has impossible values")


def between(values: NDArray[Any], low: float, high: float) -> bool:
    """Whether all are; NaN is not."""
    return bool(((values >= low) & (values <= high)).all())


def within(values: NDArray[Any], most: float = _FARTHEST) -> bool:
    """Whether all are numbers of at most that size."""
    return between(values, -most, most)


def nothing_or_between(values: NDArray[Any], low: float, high: float) -> bool:
    """Whether all are 0 or in between."""
    return between(values[values != 0], low, high)


def check_memory(a: Arrays, m: int, window: int, d: int) -> None:
    """Refuse what the memory of a stream cannot be."""
    counters, shape, metric, cells = a["counters"], a["partitions.shape"], a["partitions.metric"], a["cells"]
    seen, stored = int(counters[SEEN]), int(counters[STORED])
    rows, weight, rates = a["sample.rows"], a["weight"], a["frame"][[RATE, WARP_RATE]]
    trust, known = metric[:, TRUST], rates[0] > 0
    sound = {
        "counters": between(counters, 0, MOST) and min(seen, 1) <= stored <= min(window, seen),
        "cutoff": between(a["cutoff"], 0, LARGEST_SCORE),
        "frame": within(a["frame"][CENTRE])
        and nothing_or_between(rates, 0.5 / _FARTHEST, _LARGEST_RATE)
        and (known == (rates[1] > 0)).all(),
        "spread": nothing_or_between(a["spread"], _SMALLEST_SPREAD, 2 * _FARTHEST)
        and (np.delete(a["spread"], IQR, axis=0)[:, known] > 0).all(),
        "sample.rows": within(rows[~np.isnan(rows)]),
        "sample.suspicion": between(a["sample.suspicion"], 0, LARGEST_SCORE),
        "sample.arrived": between(a["sample.arrived"], 0, seen),
        "anchors": within(a["anchors"]),
        "weight": nothing_or_between(weight, 0.5 / _FARTHEST, 1 / _SMALLEST_SPREAD),
        "cells": between(cells, 0, LARGEST_SCORE) and between(cells[..., COUNT], 0, MOST),
        "partitions.shape": ((shape >= 0) & (shape <= [d, m, 1])).all()
        and (shape[:, ANCHORS] > 0)[(weight != 0).any(axis=1)].all(),
        "partitions.metric": between(metric, 0, LARGEST_SCORE)
        and between(metric[:, TOTAL], 0, MOST)
        and ((trust > 0) & (trust <= len(trust))).all(),
    }
    refuse_unsound(sound)
    with np.errstate(over="ignore"):
        lengths = (weight[:, known] / rates[0, known]).max(axis=1, initial=0.0)
        highest = (lengths * float(SATURATED) * (d + 1) ** 0.5 + cells[..., SUM].max(axis=1)) * _RAREST
        fine = between(highest * np.maximum(metric[:, INVERSE_UNIT], 1.0), 0, LARGEST_SCORE)
    refuse_unsound({"weight": fine})


def check_batch(a: Arrays) -> None:
    """Refuse what the partitions of a data set cannot be."""
    count, total, largest = np.moveaxis(a["cells"], -1, 0)
    sound = {
        "anchors": within(a["anchors"]),
        "scales": nothing_or_between(a["scales"], 1e-300, 2 * _FARTHEST),
        "centre": within(a["centre"]),
        "rate": nothing_or_between(a["rate"], 1 / _FARTHEST, 1e150),
        "cells": between(a["cells"], 0, LARGEST_SCORE)
        and between(count, 0, MOST)
        and (total <= count * largest * (1 + 1e-6)).all(),
    }
    refuse_unsound(sound)
    used = (a["scales"] > 0) & (a["rate"] > 0)
    with np.errstate(over="ignore"):
        lengths = 1 / a["scales"][used] / a["rate"][used]
        fine = between(lengths * float(SATURATED) * (len(used) + 1) ** 0.5, 0, LARGEST_SCORE)
    refuse_unsound({"scales": fine})
