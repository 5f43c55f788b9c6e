"""Incidents: ask for as many as you can look at, and get one message a fault, also when the stream changes."""

import numpy as np

from svead_stream import ConformalFilter, StreamingSVEAD

rng = np.random.default_rng(3)
WEEK = 7 * 24 * 60  # an event a minute
X = rng.normal([50, 7, 1_450], [2, 0.2, 10], (4 * WEEK, 3))
X[2 * WEEK :] = 1.5 * X[2 * WEEK :] + rng.standard_t(3, (2 * WEEK, 3))  # other work: larger, and wilder
X[WEEK + 500 : WEEK + 545, 0] += 14  # a fault of three quarters of an hour
times = np.datetime64("2026-03-02T00:00") + np.arange(len(X)) * np.timedelta64(1, "m")

model = ConformalFilter(StreamingSVEAD(seed=3), incident_rate="3/day", hold_off="15m", burn_in="1d")
verdicts = model.judge_many(X, ["heat", "load", "speed"], t=times)
incidents = [change for changes in verdicts.changes.values() for change in changes if change.state == "closed"]

for week in range(4):
    own = [one for one in incidents if week * WEEK < one.first <= (week + 1) * WEEK]
    alerts = int(verdicts.alerts[week * WEEK : (week + 1) * WEEK].sum())
    print(f"week {week + 1}: {len(own)} incidents, {alerts} alerts")

longest = max(incidents[: len(incidents) // 2], key=lambda one: one.alerts)
print(f"the longest of the first two weeks: {longest.record(top=1)}")
