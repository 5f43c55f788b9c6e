"""Time of `svead_spark.fit` and `score` against rows, on one and two executors, beside `SVEAD` on one machine.

    python benchmarks/spark.py [--rows 100000,200000,400000] [--columns 20] [--memory-rows 3000000]

The cluster is this machine: executors with one core each, in processes of their own. Python workers are started and
kernels compiled before the clock runs. It does not measure networks, object stores, or many executors at once.
The last line fits to rows that are made on the fly and would not fit into an executor, and shows the most memory
that a Python worker has used.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _local_cluster import environment, settings

N_PARTITIONS, N_ANCHORS = 100, 16


def write_rows(folder: Path, rows: int, columns: int, files: int = 8) -> None:
    folder.mkdir()
    for i in range(files):
        X = np.random.default_rng(i).normal(size=(rows // files, columns))
        table = pa.table({f"x{f}": X[:, f] for f in range(columns)})
        pq.write_table(table, folder / f"{i}.parquet", compression="none")


def on_one_machine(folder: Path) -> float:
    """Seconds of SVEAD with one thread, fitting and scoring; data is read before."""
    from svead_stream import SVEAD

    table = pq.read_table(folder)
    X = np.column_stack([column.to_numpy() for column in table.columns])
    SVEAD(2, 2, n_jobs=1).fit(X[:1000])
    start = time.perf_counter()
    SVEAD(N_PARTITIONS, N_ANCHORS, random_state=0, n_jobs=1).fit(X)
    return time.perf_counter() - start


def on_executors(executors: int, work: Path, rows: list[int], memory_rows: int, columns: int) -> dict[str, Any]:
    """Seconds of each pass and of scoring for each number of rows."""
    import svead_spark
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F
    from svead_spark import fitting

    builder = SparkSession.builder
    for name, value in settings(executors, work / f"session{executors}").items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    passes: dict[str, float] = {}

    def timed(name: str) -> None:
        function = getattr(fitting, name)

        def wrapped(*args: Any) -> Any:
            start = time.perf_counter()
            result = function(*args)
            passes[name] = time.perf_counter() - start
            return result

        setattr(fitting, name, wrapped)

    for name in ("_first_pass", "_second_pass", "_third_pass"):
        timed(name)
    results: dict[str, Any] = {"times": []}
    for n in [rows[0], *rows]:  # the first is to warm up
        data = spark.read.parquet(str(work / str(n)))
        start = time.perf_counter()
        model = svead_spark.fit(data, n_partitions=N_PARTITIONS, n_anchors=N_ANCHORS, seed=0)
        fitted = time.perf_counter()
        svead_spark.score(data, model).select("score").write.format("noop").mode("overwrite").save()
        scored = time.perf_counter()
        results["times"].append({"rows": n, "fit": fitted - start, "score": scored - fitted, **passes})
    del results["times"][0]
    if memory_rows:
        made = spark.range(0, memory_rows, 1, 4).select(*[F.randn(f).alias(f"x{f}") for f in range(50)])
        start = time.perf_counter()
        svead_spark.fit(made, n_partitions=10, n_anchors=16, seed=0)
        results["memory_seconds"] = time.perf_counter() - start
        results["memory"] = max(
            row["peak"] for row in spark.range(8).repartition(8).mapInArrow(_peak, "peak long").collect()
        )
    spark.stop()
    return results


def _peak(batches: Any) -> Any:
    import resource

    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"peak": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,200000,400000")
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--memory-rows", type=int, default=3_000_000)
    parser.add_argument("--executors", type=int, help=argparse.SUPPRESS)  # a run within a run
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    rows = [int(n) for n in args.rows.split(",")]
    if args.executors:
        print(json.dumps(on_executors(args.executors, args.work, rows, args.memory_rows, args.columns)))
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for n in rows:
            write_rows(work / str(n), n, args.columns)
        alone = [on_one_machine(work / str(n)) for n in rows]
        variables = {**os.environ, **environment(work)}
        runs = {}
        for executors in (1, 2):
            command = [sys.executable, __file__, "--rows", args.rows, "--columns", str(args.columns)]
            command += ["--memory-rows", str(args.memory_rows if executors == 2 else 0)]
            command += ["--executors", str(executors), "--work", folder]
            done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True)
            runs[executors] = json.loads(done.stdout.splitlines()[-1])
    report(args, rows, alone, runs)


def report(args: argparse.Namespace, rows: list[int], alone: list[float], runs: dict[int, dict[str, Any]]) -> None:
    print(f"{args.columns} columns, {N_PARTITIONS} partitions of {N_ANCHORS} anchors; seconds")
    heads = ["pass 1", "pass 2", "pass 3", "fit", "score", "/ SVEAD"]
    print(f"{'rows':>10} {'SVEAD':>8} | {'executors':>9} " + " ".join(f"{head:>8}" for head in heads))
    for i, n in enumerate(rows):
        for executors, run in runs.items():
            t = run["times"][i]
            ours = t["fit"] + t["score"]
            print(
                f"{n:>10,} {alone[i]:>8.2f} | {executors:>9} {t['_first_pass']:>8.2f} {t['_second_pass']:>8.2f} "
                f"{t['_third_pass']:>8.2f} {t['fit']:>8.2f} {t['score']:>8.2f} {ours / alone[i]:>8.2f}"
            )
    print("\nmicroseconds for one more row, from the smallest to the largest, on one core")
    step = (rows[-1] - rows[0]) / 1e6
    if step:
        slope = {
            name: (runs[1]["times"][-1][name] - runs[1]["times"][0][name]) / step
            for name in runs[1]["times"][0]
            if name != "rows"
        }
        print(
            f"SVEAD {(alone[-1] - alone[0]) / step:.1f}; Spark: pass 1 {slope['_first_pass']:.1f}, "
            f"pass 2 {slope['_second_pass']:.1f}, pass 3 {slope['_third_pass']:.1f}, score {slope['score']:.1f}"
        )
    if args.memory_rows:
        size = args.memory_rows * 50 * 8 / 2**20
        print(
            f"\n{args.memory_rows:,} rows of 50 columns ({size:,.0f} MiB) on executors of 1024 MiB: fitted in "
            f"{runs[2]['memory_seconds']:.0f} s, at most {runs[2]['memory'] / 2**20:.0f} MiB in a Python worker"
        )


if __name__ == "__main__":
    main()
