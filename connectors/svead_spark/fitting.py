"""Fitting on a cluster, in three passes over the data.

1. Of every column what scaling needs, and which values can be in the sample (`draw` says how and why).
2. How often each of these occurs, and its row. The driver draws the sample: anchors, and rows to centre the arithmetic.
3. Count, sum and maximum of distances in every cell, by the kernels that work on one machine.

A task reads batches of Arrow and remembers no row; what it hands on is as long as the model, not as the data. These
summaries are merged by Spark before the driver sees them, which holds O(t m d) numbers.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from svead_spark import passes
from svead_spark.column_stats import ColumnStats
from svead_spark.columns import features, infinity_in, numbers
from svead_spark.draw import SLOTS_PER_ROW, HeavyHitters, first_to_ring
from svead_spark.workers import check_workers
from svead_stream.batch import SVEAD
from svead_stream.errors import SveadError
from svead_stream.parameters import BatchScaling, check_int

F64 = NDArray[np.float64]

FRAME_ROWS = 1_024  # enough to centre and scale the arithmetic, and for the threshold of `predict`
IQR_ROWS = 4_096  # the standard error of the iqr of so many normal values is 1.8 %
_MERGERS = 16  # tasks that merge the summaries of the first pass


class Drawn(NamedTuple):
    rows: F64  # in random order
    stats: ColumnStats


def fit(
    df: DataFrame,
    columns: Sequence[str] | None = None,
    n_partitions: int = 100,
    n_anchors: int = 16,
    scaling: str = "none",
    contamination: float | str = "auto",
    seed: int | None = None,
) -> SVEAD:
    """Fit SVEAD to a Spark DataFrame where it is.

    The anchors of all partitions together are one uniform sample of the rows without replacement, the same for a seed
    however the rows are partitioned and ordered. (Of fewer rows than anchors each partition draws its own.)

    Parameters
    ----------
    df
        The data; it is read three times. Null and NaN are missing values.
    columns
        The features, which must be numbers or booleans; all columns by default.
    n_partitions, n_anchors, scaling, contamination
        As in `svead_stream.SVEAD`. `"std"` and `"range"` are exact, `"iqr"` is that of a sample of at least 4096 rows.
    seed
        Makes the model reproducible; drawn by default.

    Returns
    -------
    SVEAD
        The same class as on one machine, without `anomaly_scores_`; the threshold of `predict` is estimated from a
        sample of at least 1024 rows.
    """
    seed = secrets.randbits(31) if seed is None else seed
    check_int("seed", seed, 0, 2**32 - 1)
    model = SVEAD(n_partitions, n_anchors, cast(BatchScaling, scaling), contamination, seed)
    model.check_parameters()
    names = features(df, columns)
    check_workers(df.sparkSession)
    table = numbers(df, names)
    drawn = _draw(table, names, max(n_partitions * n_anchors, IQR_ROWS if scaling == "iqr" else FRAME_ROWS), seed)
    scales = drawn.stats.scales(scaling, drawn.rows)
    if not np.isfinite(scales).all():
        name = names[int((~np.isfinite(scales)).argmax())]
        raise ValueError(
            f"column {name!r} has values too large to compute its {scaling}: use another unit, or scaling='none'"
        )
    anchors = _anchors(drawn.rows, n_partitions, n_anchors, seed)
    model.set_partitions(anchors, scales, drawn.stats.completed(drawn.rows), names)
    model.set_cells(_third_pass(table, model), drawn.rows)
    return model


def sample(df: DataFrame, size: int, columns: Sequence[str] | None = None, seed: int = 0) -> pd.DataFrame:
    """Rows drawn uniformly without replacement, the same for a seed however the data is partitioned.

    Unlike `DataFrame.sample` it gives the exact number of rows (all, if there are fewer), at the price of two passes.
    `StreamingSVEAD.from_batch` takes it to start from history.

    Parameters
    ----------
    df
        The data.
    size
        Number of rows; they are collected.
    columns
        Columns of numbers; all by default.
    seed
        Another seed gives another sample.
    """
    check_int("size", size, 1)
    names = features(df, columns)
    check_workers(df.sparkSession)
    return pd.DataFrame(_draw(numbers(df, names), names, size, seed).rows, columns=names)


def _draw(table: DataFrame, names: Sequence[str], size: int, seed: int) -> Drawn:
    slots = SLOTS_PER_ROW * size
    while True:
        hitters, stats = _first_pass(table, seed, slots)
        if stats.rows == 0:
            raise ValueError("the data has no rows: there is nothing to draw from")
        if stats.infinite.any():
            raise ValueError(infinity_in(names[int(stats.infinite.argmax())]))
        keys = hitters.candidates(min(size, stats.rows))
        if keys is not None:
            break
        slots *= 2
    found = _second_pass(table, seed, keys)
    key = found["key"].to_numpy().view(np.uint64)
    order = np.argsort(key)
    if not np.array_equal(key[order], keys):
        raise SveadError(
            "the rows changed between two passes over the data: write the DataFrame to a table, or persist it, "
            "and fit to that"
        )
    rows = np.frombuffer(b"".join(found["row"].to_pylist()), np.float64).reshape(-1, len(names))
    which = first_to_ring(keys, found["copies"].to_numpy()[order], min(size, stats.rows))
    return Drawn(rows[order][which], stats)


def _first_pass(table: DataFrame, seed: int, slots: int) -> tuple[HeavyHitters, ColumnStats]:
    width = len(table.columns)
    looked = table.mapInArrow(passes.looking(table.columns, seed, slots), passes.FIRST)
    mergers = min(_MERGERS, table.sparkSession.sparkContext.defaultParallelism)
    merged = looked.repartition(mergers, "key").mapInArrow(passes.merging(width, slots), passes.FIRST)
    return passes.merged(iter(merged.toArrow().to_batches()), width, slots)


def _second_pass(table: DataFrame, seed: int, keys: NDArray[np.uint64]) -> pa.Table:
    shared = table.sparkSession.sparkContext.broadcast(keys.tobytes())
    work = passes.counting(table.columns, seed, lambda: np.frombuffer(shared.value, np.uint64))
    counted = table.mapInArrow(work, passes.SECOND).groupBy("key")
    found = counted.agg(F.sum("copies").alias("copies"), F.min("row").alias("row")).toArrow()
    shared.unpersist()
    return found


def _third_pass(table: DataFrame, model: SVEAD) -> F64:
    shared = table.sparkSession.sparkContext.broadcast(model.to_bytes())
    work = passes.gathering(table.columns, lambda: SVEAD.from_bytes(shared.value))
    gathered = table.mapInArrow(work, passes.THIRD).groupBy("cell")
    found = gathered.agg(F.sum("count").alias("count"), F.sum("sum").alias("sum"), F.max("max").alias("max")).toArrow()
    shared.unpersist()
    statistics = np.stack([found[name].to_numpy() for name in ("count", "sum", "max")], axis=1)
    cells = np.zeros_like(model.cells_)
    cells.reshape(-1, 3)[found["cell"].to_numpy()] = statistics
    return cells


def _anchors(rows: F64, t: int, m: int, seed: int) -> F64:
    """The sample cut into partitions, each of which is a uniform sample too; of too few rows each draws its own."""
    if len(rows) >= t * m:
        return rows[: t * m].reshape(t, m, -1)
    rng = np.random.default_rng(seed)
    return np.array([rows[rng.choice(len(rows), min(m, len(rows)), replace=False)] for _ in range(t)])
