"""Explaining an alert: which features of the event are to blame."""

import numpy as np

from svead_stream import ConformalFilter, StreamingSVEAD

NAMES = ["temperature", "vibration", "pressure", "current"]
rng = np.random.default_rng(4)
usual = rng.normal([60, 1.2, 6, 25], [2, 0.1, 0.05, 1], (3_000, 4))

model = ConformalFilter(StreamingSVEAD(seed=4), alert_rate=0.01)
model.judge_many(usual, feature_names=NAMES)

for event in (
    {"temperature": 61, "vibration": 1.2, "pressure": 6.0, "current": 25},
    {"temperature": 60, "vibration": 2.1, "pressure": 6.0, "current": 25},
    {"temperature": 75, "vibration": 1.2, "pressure": 5.6, "current": 24},
):
    verdict = model.judge_one(event)
    reasons = verdict.reasons or {}  # of alerts: the shares of the features, largest first
    blamed = ", ".join(f"{name} {share:.0%}" for name, share in reasons.items() if share > 0.1)
    print(f"ALERT: {blamed}" if verdict.alert else "fine")
