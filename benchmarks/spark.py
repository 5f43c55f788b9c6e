"""Time of `svead_spark.fit` and `score` against rows, on one and two executors, beside `SVEAD` on one machine.

    python benchmarks/spark.py [--rows 200000,400000,800000] [--columns 50] [--memory-rows 3000000]

The cluster is this machine: executors with one core each, in processes of their own. Python workers are started and
kernels compiled before the clock runs. CPU seconds are those of the executors, JVM and Python: they tell more than
the clock on a machine that has other things to do. Networks, object stores and many executors are not measured.
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


def on_one_machine(folder: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of SVEAD with one thread, fitting and scoring; data is read before."""
    from svead_stream import SVEAD

    table = pq.read_table(folder)
    X = np.column_stack([column.to_numpy() for column in table.columns])
    SVEAD(2, 2, n_jobs=1).fit(X[:1000])
    start, cpu = time.perf_counter(), time.process_time()
    SVEAD(N_PARTITIONS, N_ANCHORS, random_state=0, n_jobs=1).fit(X)
    return time.perf_counter() - start, time.process_time() - cpu


def cpu_seconds(driver: int) -> float:
    """Time that all processes below the driver's JVM have had, those that have ended included."""
    parents, spent = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(name)], spent[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below: set[int] = set()
    more = {driver}
    while more:
        more = {process for process, parent in parents.items() if parent in more}
        below |= more
    return sum(spent[process] for process in below) / os.sysconf("SC_CLK_TCK")


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
    driver = spark.sparkContext._gateway.proc.pid
    passes: dict[str, float] = {}

    def timed(name: str) -> None:
        function = getattr(fitting, name)

        def wrapped(*args: Any) -> Any:
            cpu, start = cpu_seconds(driver), time.perf_counter()
            result = function(*args)
            passes[name], passes["cpu" + name] = time.perf_counter() - start, cpu_seconds(driver) - cpu
            return result

        setattr(fitting, name, wrapped)

    for name in ("_first_pass", "_second_pass", "_third_pass"):
        timed(name)
    results: dict[str, Any] = {"times": []}
    for n in [rows[0], *rows]:  # the first is to warm up
        data = spark.read.parquet(str(work / str(n)))
        start = time.perf_counter()
        model = svead_spark.fit(data, n_partitions=N_PARTITIONS, n_anchors=N_ANCHORS, seed=0)
        cpu, fitted = cpu_seconds(driver), time.perf_counter()
        svead_spark.score(data, model).select("score").write.format("noop").mode("overwrite").save()
        spent = {"fit": fitted - start, "_score": time.perf_counter() - fitted, "cpu_score": cpu_seconds(driver) - cpu}
        results["times"].append({"rows": n, **spent, **passes})
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
    parser.add_argument("--rows", default="200000,400000,800000")
    parser.add_argument("--columns", type=int, default=50)
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


PARTS = {"pass 1": "_first_pass", "pass 2": "_second_pass", "pass 3": "_third_pass", "score": "_score"}


def report(
    args: argparse.Namespace, rows: list[int], alone: list[tuple[float, float]], runs: dict[int, dict[str, Any]]
) -> None:
    print(f"{args.columns} columns, {N_PARTITIONS} partitions of {N_ANCHORS} anchors; seconds on the clock / of CPU")
    heads = ["SVEAD", *PARTS, "all", "over SVEAD"]
    print(f"{'rows':>10} {'executors':>9} " + " ".join(f"{head:>13}" for head in heads))
    for i, n in enumerate(rows):
        for executors, run in runs.items():
            t = run["times"][i]
            pairs = [(t[part], t["cpu" + part]) for part in PARTS.values()]
            total = (t["fit"] + t["_score"], sum(cpu for _, cpu in pairs))
            pairs = [alone[i], *pairs, total, (total[0] / alone[i][0], total[1] / alone[i][1])]
            print(f"{n:>10,} {executors:>9} " + " ".join(f"{clock:>6.2f}/{cpu:>6.2f}" for clock, cpu in pairs))
    step = (rows[-1] - rows[0]) / 1e6
    if step:
        first, last = runs[1]["times"][0], runs[1]["times"][-1]
        each = [f"{name} {(last['cpu' + part] - first['cpu' + part]) / step:.1f}" for name, part in PARTS.items()]
        each.insert(0, f"SVEAD {(alone[-1][1] - alone[0][1]) / step:.1f}")
        print(f"\nmicroseconds of CPU for one more row: {', '.join(each)}")
    if args.memory_rows:
        size = args.memory_rows * 50 * 8 / 2**20
        print(
            f"\n{args.memory_rows:,} rows of 50 columns ({size:,.0f} MiB) on executors of 1024 MiB: fitted in "
            f"{runs[2]['memory_seconds']:.0f} s, at most {runs[2]['memory'] / 2**20:.0f} MiB in a Python worker"
        )


if __name__ == "__main__":
    main()
