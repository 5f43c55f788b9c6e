"""Rows per second and memory of `svead-stream score`, from file to file, by format and length, and for a wide table.

    python benchmarks/files.py [--rows 250000 1000000] [--columns 5000] [--folder DIR]

Each run is a process of its own, with the kernels compiled before. Seconds are processor time, so that other work on
the machine disturbs little: starting Python and importing take a second or two of them. Memory is the peak of what is
resident; it should not depend on the number of rows. Not measured: compressed files, pipes, the report.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from _timing import load_note

from svead_stream import warm_up

SUFFIXES = ("csv", "jsonl", "parquet")
_PART = 50_000  # rows that are made at once
_PROGRAM = (sys.executable, "-c", "import sys; from svead_stream.cli import main; main(sys.argv[1:])")


def write(path: Path, n_rows: int, n_columns: int) -> None:
    """Numbers with three decimals."""
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(n_columns)]
    typed = None
    with path.open("wb") as file:
        for start in range(0, n_rows, _PART):
            values = rng.normal(size=(min(_PART, n_rows - start), n_columns)).round(3)
            table = pa.table(dict(zip(names, values.T, strict=True)))
            if path.suffix == ".csv":
                pa.csv.write_csv(table, file, pa.csv.WriteOptions(include_header=start == 0))
            elif path.suffix == ".jsonl":
                line = "{" + ",".join(f'"{name}":%s' for name in names) + "}\n"
                file.write("".join(line % tuple(row) for row in values.tolist()).encode())
            else:
                typed = typed or pa.parquet.ParquetWriter(file, table.schema)
                typed.write_table(table)
        if typed is not None:
            typed.close()


def measure(path: Path, n_features: int) -> tuple[float, float]:
    """Seconds of processor time and megabytes that a run takes."""
    out = path.with_name(f"scored{path.suffix}")
    words = ["score", str(path), "-o", str(out), "--quiet", "--max-features", str(max(n_features, 4096))]
    process = subprocess.Popen([*_PROGRAM, *words])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"score {path.name} failed")
    out.unlink()
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024  # kilobytes on Linux


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[250_000, 1_000_000])
    parser.add_argument("--columns", type=int, default=5_000, help="of the wide table, which has 400 rows")
    parser.add_argument("--folder", type=Path, help="for the files [default: a temporary one]")
    args = parser.parse_args()
    warm_up()
    print(load_note().partition(";")[0])
    print("\n| file | rows | columns | seconds | rows/s | MB |\n|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for n_rows, n_columns in [*((n, 10) for n in args.rows), (400, args.columns)]:
            for suffix in SUFFIXES:
                path = Path(folder, f"rows.{suffix}")
                write(path, n_rows, n_columns)
                seconds, megabytes = measure(path, n_columns)
                path.unlink()
                print(
                    f"| {suffix} | {n_rows:,} | {n_columns:,} | {seconds:.1f} | {n_rows / seconds:,.0f} "
                    f"| {megabytes:,.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
