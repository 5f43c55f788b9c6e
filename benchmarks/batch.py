"""The batch detector on the paper's run-time data: fit and score beside Isolation Forest and iNNE, and its memory.

    python benchmarks/batch.py [--rows 500000] [--features 10] [--repetitions 3]

Every detector has 100 members and all cores. Contestants take turns; the figures are medians of wall-clock time.
Memory (Linux only) is what a fresh process holds at its peak beyond the input. PyOD's INNE comes with the extra
`bench`. Not measured: accuracy.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _timing import load_note, medians
from sklearn.ensemble import IsolationForest

from svead_stream import SVEAD


def contestants(X: np.ndarray) -> dict[str, Callable[[], object]]:
    runs: dict[str, Callable[[], object]] = {
        "SVEAD": lambda: SVEAD(n_partitions=100, random_state=0).fit(X),
        "IsolationForest": lambda: IsolationForest(n_estimators=100, n_jobs=-1, random_state=0).fit(X).score_samples(X),
    }
    try:
        from pyod.models.inne import INNE
    except ImportError:
        print("PyOD is not installed (extra `bench`): no INNE", file=sys.stderr)
    else:
        runs["INNE"] = lambda: INNE(n_estimators=100, random_state=0).fit(X).decision_scores_
    return runs


def data(rows: int, features: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, features), dtype=np.dtype(dtype).type)


def memory(rows: int, features: int, dtype: str) -> float:
    """Megabytes beyond the input at the peak of a fit, in a process of its own that has fitted a small one before."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from batch import data, resident; from svead_stream import SVEAD;"
        "SVEAD(random_state=0).fit(data(1000, int(sys.argv[3]), sys.argv[4]));"
        "X = data(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]);"
        "open('/proc/self/clear_refs', 'w').write('5');"  # the peak starts from here
        "before = resident('VmRSS'); SVEAD(random_state=0).fit(X); print(resident('VmHWM') - before)"
    )
    command = [sys.executable, "-c", code, sys.path[0], str(rows), str(features), dtype]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def resident(field: str) -> float:
    """Megabytes of this process: VmRSS now, VmHWM at the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    print(load_note(), file=sys.stderr)
    SVEAD(random_state=0).fit(data(1000, arguments.features))
    seconds = medians(contestants(data(arguments.rows, arguments.features)), arguments.repetitions)
    print(f"{arguments.rows:,} rows of {arguments.features} features, fit and score\n")
    print("| detector | seconds | times SVEAD's |")
    print("|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {value:.2f} | {value / seconds['SVEAD']:.1f} |")
    for dtype in ("float64", "float32"):
        size = arguments.rows * arguments.features * np.dtype(dtype).itemsize / 2**20
        beyond = memory(arguments.rows, arguments.features, dtype)
        print(f"\nMemory beyond the {dtype} input of {size:.0f} MB: {beyond:.0f} MB")


if __name__ == "__main__":
    main()
