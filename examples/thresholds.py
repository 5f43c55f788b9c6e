"""Thresholds: ask for a rate of alerts, and keep it when the stream changes its character."""

import numpy as np

from svead_stream import ConformalFilter, StreamingSVEAD

rng = np.random.default_rng(3)
calm, wild = rng.normal(0, 1, (80_000, 4)), rng.standard_t(3, (80_000, 4)) * 20 + 100

for rate in (0.001, 0.01, 0.05):
    model = ConformalFilter(StreamingSVEAD(seed=3), alert_rate=rate)
    before = model.judge_many(calm).alerts
    change = model.judge_many(wild[:5_000]).alerts
    after = model.judge_many(wild[5_000:]).alerts
    shares = [f"{part.mean():.2%}" for part in (before[5_000:], change, after)]
    print(f"asked for {rate:.1%}: got {shares[0]}, in the 5,000 events of a change {shares[1]}, then {shares[2]}")

event = dict(enumerate(wild[0] + 500))
score = model.score_one(event)
print(f"score {score:.2f} where {model.threshold:.2f} is the threshold: p-value {model.p_value(score):.4f}")
