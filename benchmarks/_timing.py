"""Fair timing on a busy machine: contestants take turns, and the median of each is compared."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping


def medians(contestants: Mapping[str, Callable[[], object]], repetitions: int, cpu: bool = False) -> dict[str, float]:
    """Median seconds of each contestant over interleaved repetitions; of processor time if asked."""
    clock = time.process_time if cpu else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repetitions):
        for name, run in contestants.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def load_note() -> str:
    """What to know about the machine while the figures were taken."""
    one, _, _ = os.getloadavg()
    return f"{os.cpu_count()} cores, load average {one:.1f}; interleaved repetitions, medians"
