"""Saving and resuming: a model that was saved goes on as if it had never stopped."""

import tempfile
from pathlib import Path

import numpy as np

import svead_stream
from svead_stream import ConformalFilter, StreamingSVEAD

X = np.random.default_rng(5).normal(size=(10_000, 6))

never_stopped = ConformalFilter(StreamingSVEAD(seed=5), alert_rate=0.01)
expected = never_stopped.judge_many(X).scores

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.svead"
    model = ConformalFilter(StreamingSVEAD(seed=5), alert_rate=0.01)
    first = model.judge_many(X[:6_000]).scores
    svead_stream.save(model, path)
    del model  # the process ends here, and another one begins
    model = svead_stream.load(path)
    second = model.judge_many(X[6_000:]).scores
    print(f"{path.name}: {path.stat().st_size // 1024} KiB for a model that has seen {model.detector.n_seen_:,} events")

print("same scores, to the last bit:", bool(np.array_equal(np.concatenate([first, second]), expected)))
