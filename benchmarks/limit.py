"""How far from the machine's limit: our time over that of BLAS for the same multiply-adds.

    python benchmarks/limit.py [--points 4096] [--repetitions 7]

A mini-batch of points against t partitions of m anchors (twice as many in the third with the long memory) is, at
the least, the matrix product of all anchors by the points. `sgemm` (NumPy's BLAS, float32) does that product and
nothing else; we also find the nearest anchor, its exact distance and the score, and for score+learn keep cells, sample
and partitions up to date. The batch detector passes over the data twice and is compared with two products. On all
threads, as many models run at once as there are cores, and BLAS uses all cores. Figures below 1 mean faster than BLAS.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from _timing import load_note, medians
from threadpoolctl import threadpool_limits

from svead_stream import SVEAD, StreamingSVEAD, warm_up

DIMENSIONS = (3, 10, 36, 100)
ANCHORS = (4, 16, 64, 256)
PARTITIONS = 32


def ratios(d: int, m: int, points: int, repetitions: int, threads: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(points, d))
    models = []
    for seed in range(threads):
        model = StreamingSVEAD(PARTITIONS, m, seed=seed)
        model.learn_many(rng.normal(size=(64 * m, d)))
        models.append(model)
    long = PARTITIONS // 3  # partitions with twice as many anchors
    searched = (PARTITIONS + long) * m
    anchors = rng.normal(size=(searched, d)).astype(np.float32)
    columns = np.ascontiguousarray(X.T.astype(np.float32).repeat(threads, axis=1))
    out = np.empty((len(anchors), columns.shape[1]), np.float32)
    batch = SVEAD(PARTITIONS, m, random_state=0, n_jobs=threads)
    with threadpool_limits(threads), ThreadPoolExecutor(threads) as pool:
        contestants = {
            "sgemm": lambda: np.matmul(anchors, columns, out=out),
            "score": lambda: list(pool.map(lambda model: model.score_many(X), models)),
            "score+learn": lambda: list(pool.map(lambda model: model.score_learn_many(X), models)),
            "batch fit": lambda: batch.fit(X),
        }
        for run in contestants.values():
            run()
        seconds = medians(contestants, repetitions, cpu=threads == 1)
    product = seconds["sgemm"]
    return {
        "score": seconds["score"] / product,
        "score+learn": seconds["score+learn"] / product,
        "batch fit": seconds["batch fit"] / (2 * product * PARTITIONS * m / searched / threads),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=4096)
    parser.add_argument("--repetitions", type=int, default=7)
    arguments = parser.parse_args()
    warm_up()
    print(load_note(), file=sys.stderr)
    cores = len(os.sched_getaffinity(0))
    kinds = ("score", "score+learn", "batch fit")
    print("Time over sgemm's, t = 32. One thread, then all.\n")
    print(
        "| d | m | "
        + " | ".join(f"{kind}, 1 thread" for kind in kinds)
        + " | "
        + " | ".join(f"{kind}, all" for kind in kinds)
        + " |"
    )
    print("|---" * (2 + 2 * len(kinds)) + "|")
    for d in DIMENSIONS:
        for m in ANCHORS:
            one = ratios(d, m, arguments.points, arguments.repetitions, 1)
            every = ratios(d, m, arguments.points, arguments.repetitions, cores)
            cells = [str(d), str(m), *(f"{one[k]:.2f}" for k in kinds), *(f"{every[k]:.2f}" for k in kinds)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
