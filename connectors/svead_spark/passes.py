"""What tasks do in the three passes of fitting: batches of Arrow in, one small summary out.

Each function here makes the function that Spark runs over the batches of a task. None remembers a row for longer than
its batch, except those that are candidates for the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from svead_spark.column_stats import ColumnStats
from svead_spark.columns import matrix
from svead_spark.draw import HeavyHitters, fingerprints
from svead_stream.batch import SVEAD
from svead_stream.geometry import merge_cells

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches], Batches]

FIRST = "key long, loudness double, stats binary"
SECOND = "key long, copies long, row binary"
THIRD = "cell int, count double, sum double, max double"


def looking(names: Sequence[str], seed: int, slots: int) -> Work:
    """First pass: statistics of the columns, and the loudest values."""

    def look(batches: Batches) -> Batches:
        hitters, stats = HeavyHitters(slots), ColumnStats(len(names))
        for batch in batches:
            X = matrix(batch.columns, names)
            hitters.add_rows(fingerprints(X, seed))
            stats.add(X)
        if stats.rows:
            yield _packed(hitters, stats)

    return look


def merging(width: int, slots: int) -> Work:
    """The summaries of several tasks of the first pass become one."""

    def merge(batches: Batches) -> Batches:
        hitters, stats = merged(batches, width, slots)
        if stats.rows or len(hitters.kept()[0]):
            yield _packed(hitters, stats)

    return merge


def _packed(hitters: HeavyHitters, stats: ColumnStats) -> pa.RecordBatch:
    """One row per value, and one for the statistics of columns with the error of the loudness."""
    keys, loudness = hitters.kept()
    context = TaskContext.get()
    place = 0 if context is None else context.partitionId()  # spreads the statistics over the tasks that merge
    columns = {
        "key": pa.array(np.append(keys.view(np.int64), place)),
        "loudness": pa.array(np.append(loudness, hitters.error)),
        "stats": pa.concat_arrays([pa.nulls(len(keys), pa.binary()), pa.array([stats.to_bytes()], pa.binary())]),
    }
    return pa.RecordBatch.from_pydict(columns)


def merged(batches: Batches, width: int, slots: int) -> tuple[HeavyHitters, ColumnStats]:
    """What `looking` or `merging` has put into batches, together."""
    hitters, stats = HeavyHitters(slots), ColumnStats(width)
    for batch in batches:
        about = batch.column("stats")
        is_value = np.asarray(about.is_null())
        numbers = batch.column("loudness").to_numpy()
        keys = batch.column("key").to_numpy().view(np.uint64)
        hitters.add(keys[is_value], numbers[is_value], float(numbers[~is_value].sum()))
        for data in about.drop_null().to_pylist():
            stats.merge(ColumnStats.from_bytes(data))
    return hitters, stats


def counting(names: Sequence[str], seed: int, load: Callable[[], NDArray[np.uint64]]) -> Work:
    """Second pass: how often each of some fingerprints, in ascending order, occurs, and a row that has it."""

    def count(batches: Batches) -> Batches:
        wanted = load()
        copies = np.zeros(len(wanted), np.int64)
        rows: dict[int, bytes] = {}
        for batch in batches:
            X = matrix(batch.columns, names)
            found = fingerprints(X, seed)
            at = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
            hits = np.flatnonzero(wanted[at] == found)
            copies += np.bincount(at[hits], minlength=len(wanted))
            which, first = np.unique(at[hits], return_index=True)
            for i, row in zip(which.tolist(), hits[first].tolist(), strict=True):
                if i not in rows:
                    rows[i] = (X[row] + 0.0).tobytes()  # -0.0 is 0.0, whichever comes first
        met = np.array(sorted(rows), np.int64)
        columns = {
            "key": pa.array(wanted[met].view(np.int64)),
            "copies": pa.array(copies[met]),
            "row": pa.array([rows[i] for i in met.tolist()], pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(columns)

    return count


def gathering(names: Sequence[str], load: Callable[[], SVEAD]) -> Work:
    """Third pass: the cells that are not empty, numbered through all partitions."""

    def gather(batches: Batches) -> Batches:
        model = load()
        cells = np.zeros_like(model.cells_)
        for batch in batches:
            merge_cells(cells, model.cells_of(matrix(batch.columns, names)))
        flat = cells.reshape(-1, 3)
        used = np.flatnonzero(flat[:, 0])
        columns = [pa.array(used.astype(np.int32)), *(pa.array(flat[used, i]) for i in range(3))]
        yield pa.RecordBatch.from_arrays(columns, names=["cell", "count", "sum", "max"])

    return gather
