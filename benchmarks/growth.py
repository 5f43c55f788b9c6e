"""How cost grows: events per second and bytes against the length of the stream, features, partitions, anchors.

    python benchmarks/growth.py [--events 10000000] [--results results/growth]

Prints tables and draws them on log-log axes. Length should cost nothing; the rest should cost in proportion, once there
is enough of it for the fixed costs not to show. Processor time of one thread is counted. The speed of a machine moves
over minutes, so a young model runs in turns with the one that grows old. Not measured: the one-event loop (speed.py).
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from svead_stream import StreamingSVEAD, warm_up

CHUNK = 100_000


def seconds_for(model: StreamingSVEAD, X: np.ndarray) -> float:
    start = time.process_time()
    model.score_learn_many(X)
    return time.process_time() - start


def length(events: int) -> list[tuple[int, float, float, int, float]]:
    """Events so far, events/s since the last line and over a young model's, bytes of the model, MB of the process."""
    rng = np.random.default_rng(0)
    chunks = [rng.normal(size=(CHUNK, 10)) for _ in range(5)]
    model, rows, done, last = StreamingSVEAD(seed=0), [], 0, 0
    for mark in [10**4, *range(10**5, 10**6, 3 * 10**5), *range(10**6, events + 1, 10**6)]:
        spent = young = 0.0
        while done < mark:
            part = chunks[(done // CHUNK) % 5][: min(CHUNK, mark - done)]
            spent += seconds_for(model, part)
            young += seconds_for(StreamingSVEAD(seed=0), part)
            done += len(part)
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append((done, (done - last) / spent, young / spent, len(model.to_bytes()), resident))
        last = done
    return rows


def sizes() -> dict[str, list[tuple[int, float, int]]]:
    """For features, partitions and anchors: the size, microseconds per event, bytes of the model."""
    rng = np.random.default_rng(0)
    settings = {
        "features": [(d, {}, d) for d in (3, 10, 30, 100, 300)],
        "partitions": [(t, {"n_partitions": t}, 10) for t in (8, 16, 32, 64, 128, 256)],
        "anchors": [(m, {"n_anchors": m}, 10) for m in (4, 8, 16, 32, 64, 128, 256)],
    }
    results = {}
    for name, cases in settings.items():
        results[name] = []
        for size, parameters, d in cases:
            X = rng.normal(size=(8192, d))
            model = StreamingSVEAD(seed=0, **parameters)
            model.learn_many(X)
            spent = min(seconds_for(model, X) for _ in range(5))
            results[name].append((size, spent / len(X) * 1e6, len(model.to_bytes())))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--results", type=Path, default=Path("results/growth"))
    arguments = parser.parse_args()
    warm_up()
    arguments.results.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 4, figsize=(16, 3.6), constrained_layout=True)

    print(
        "| events so far | events/s since the line before | ÷ a young model | bytes of the model | MB of the process |"
    )
    print("|---|---|---|---|---|")
    rows = length(arguments.events)
    for done, rate, beside, size, resident in rows:
        print(f"| {done:,} | {rate:,.0f} | {beside:.2f} | {size:,} | {resident:.0f} |")
    axes[0].loglog([row[0] for row in rows], [row[1] for row in rows], marker="o")
    axes[0].set(title="length of the stream", xlabel="events", ylabel="events/s", ylim=(1e4, 1e7))

    for axis, (name, cases) in zip(axes[1:], sizes().items(), strict=True):
        print(f"\n| {name} | µs an event | bytes of the model |")
        print("|---|---|---|")
        for size, spent, bytes_ in cases:
            print(f"| {size} | {spent:.2f} | {bytes_:,} |")
        axis.loglog([case[0] for case in cases], [case[1] for case in cases], marker="o")
        axis.set(title=name, xlabel=name, ylabel="µs an event")
    figure.savefig(arguments.results / "growth.svg")
    print(f"\nPicture: {arguments.results / 'growth.svg'}")


if __name__ == "__main__":
    main()
