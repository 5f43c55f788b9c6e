"""Events per second of score and learn, beside river's detectors, in one run.

    python benchmarks/speed.py [--events 20000] [--repetitions 5] [--pysad]

Every detector has its library's defaults; HalfSpaceTrees gets values between 0 and 1, as it asks for. Processor time of
one thread is counted, so that other work on the machine disturbs little. Judged events have p-values and alerts, on 1 %
of them, explained ones also their reasons; the loop over judged events is the README's. Not measured: accuracy, and the
time that a pipeline in front of the detector takes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _timing import load_note, medians
from river import anomaly

from svead_stream import ConformalFilter, StreamingSVEAD, warm_up

FEATURES = (3, 10, 50, 200)


def loop(make: Callable[[], Any], events: list[dict[str, float]]) -> Callable[[], None]:
    def run() -> None:
        model = make()
        score, learn = model.score_one, model.learn_one
        for x in events:
            score(x)
            learn(x)

    return run


def judged_loop(events: list[dict[str, float]]) -> Callable[[], None]:
    """The README's loop."""

    def run() -> None:
        model = ConformalFilter(StreamingSVEAD(seed=0), alert_rate=0.01)
        for x in events:
            model.judge_one(x)

    return run


def judged_batch(X: np.ndarray) -> Callable[[], Any]:
    return lambda: ConformalFilter(StreamingSVEAD(seed=0), alert_rate=0.01).judge_many(X)


def pysad_loop(X: np.ndarray) -> Callable[[], None]:
    from pysad.models import xStream

    def run() -> None:
        model = xStream()
        for x in X:
            model.fit_score_partial(x)

    return run


def rates(d: int, n: int, repetitions: int, pysad: bool) -> dict[str, float]:
    """Events per second of each contestant; slow ones get fewer events."""
    X = np.random.default_rng(0).normal(size=(n, d))
    names = [f"feature_{i}" for i in range(d)]
    events = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    unit = [dict(zip(names, row, strict=True)) for row in (1 / (1 + np.exp(-X))).tolist()]
    few = max(n // 10, 300)
    contestants = {
        "mini-batch": (lambda: StreamingSVEAD(seed=0).score_learn_many(X), n),
        "judged mini-batch": (judged_batch(X), n),
        "one event": (loop(lambda: StreamingSVEAD(seed=0), events), n),
        "judged event": (judged_loop(events), n),
        "HalfSpaceTrees": (loop(lambda: anomaly.HalfSpaceTrees(seed=0), unit[:few]), few),
        "LODA": (loop(lambda: anomaly.LODA(seed=0), events[:few]), few),
    }
    if pysad:
        contestants["xStream"] = (pysad_loop(X[:300]), 300)
    seconds = medians({name: run for name, (run, _) in contestants.items()}, repetitions, cpu=True)
    return {name: count / seconds[name] for name, (_, count) in contestants.items()}


def start_up() -> tuple[float, float]:
    """Seconds to import the detector and then to the first score, with a warm cache, in a fresh interpreter."""
    code = (
        "import time; a = time.perf_counter();"
        "from svead_stream import StreamingSVEAD; b = time.perf_counter();"
        "m = StreamingSVEAD();"
        "[m.learn_one({'a': i, 'b': -i}) for i in range(8)]; m.score_one({'a': 1, 'b': 1});"
        "print(b - a, time.perf_counter() - b)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    first, second = out.split()
    return float(first), float(second)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--pysad", action="store_true", help="add PySAD's xStream, where it is installed")
    arguments = parser.parse_args()
    start = time.perf_counter()
    warm_up()
    print(f"kernels ready after {time.perf_counter() - start:.1f} s; {load_note()}", file=sys.stderr)

    header = None
    for d in FEATURES:
        rate = rates(d, arguments.events, arguments.repetitions, arguments.pysad)
        base = rate["HalfSpaceTrees"]
        if header is None:
            header = ["features", *(f"{name}, events/s" for name in rate), "one event ÷ HST", "mini-batch ÷ HST"]
            header += ["time of a judged event", "time of an explained mini-batch"]
            header += ["one event ÷ xStream"] if "xStream" in rate else []
            print("| " + " | ".join(header) + " |")
            print("|---" * len(header) + "|")
        cells = [str(d), *(f"{value:,.0f}" for value in rate.values())]
        cells += [f"{rate['one event'] / base:.1f}", f"{rate['mini-batch'] / base:.1f}"]
        cells += [f"{rate['one event'] / rate['judged event']:.2f} of one event's"]
        cells += [f"{rate['judged mini-batch'] / rate['explained mini-batch']:.2f} of a judged one's"]
        cells += [f"{rate['one event'] / rate['xStream']:.0f}"] if "xStream" in rate else []
        print("| " + " | ".join(cells) + " |", flush=True)
    imported, scored = start_up()
    print(f"\nImport of the detector: {imported:.2f} s; first score with a warm cache after another {scored:.2f} s.")


if __name__ == "__main__":
    main()
