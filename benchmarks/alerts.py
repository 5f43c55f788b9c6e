"""Does the rate hold? ConformalFilter beside river's QuantileFilter, on two detectors, through a drift.

    python benchmarks/alerts.py [--events N]

Every detector learns every event under both filters (none is protected), so that only the decision differs. The stream
is five features; after `--events` of it everything is shifted, stretched and rotated. Counted are incidents and alerts
from event 5,000 on; "drift" is the stretch of 5,000 events from the change on, "after" what follows it. QuantileFilter
has alerts only: they are grouped by the hold-off that ConformalFilter has at that rate. Not measured: whether the right
events are alerted on, which is the detector's part.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from _incidents import grouped
from _replay import Replay, alerts_of
from river import anomaly

from svead_stream import ConformalFilter, StreamingSVEAD

START = DRIFT = 5_000
RATES = (0.001, 0.01, 0.05)


def stream(n: int, seed: int = 0) -> Any:
    """n events, then as many after the change; within [0, 1], as HalfSpaceTrees wants them."""
    rng = np.random.default_rng(seed)
    before = rng.normal(0.35, 0.06, (n, 5))
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    after = 0.6 + rng.normal(0, 0.03, (n, 5)) * np.array([1, 3, 1, 2, 4]) @ turn
    return np.clip(np.concatenate([before, after]), 0, 1)


def scores_of(name: str, X: Any) -> list[float]:
    """The scores that both filters have to judge: the detector learns all events, so that they are the same."""
    if name == "StreamingSVEAD":
        return [float(s) for s in StreamingSVEAD(seed=1).score_learn_many(X)]
    detector = anomaly.HalfSpaceTrees(seed=1)
    scores = []
    for row in X.tolist():
        x = dict(enumerate(row))
        scores.append(float(detector.score_one(x)))
        detector.learn_one(x)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--events", type=int, default=100_000, help="before the drift, and again after it")
    n = parser.parse_args().events
    X = stream(n)
    print(f"Incidents in 1,000 events, {n:,} before and {n:,} after the drift, in bold within 20 % of what was asked;")
    print("behind them alerts in % of events.\n")
    print("| detector | asked | filter | stable | during drift | after it |")
    print("|---|---|---|---|---|---|")
    for name in ("StreamingSVEAD", "HalfSpaceTrees"):
        scores = scores_of(name, X)
        for rate in RATES:
            ours = ConformalFilter(Replay(), alert_rate=rate).judge_many(np.array(scores))
            opened = [i for i, changes in ours.changes.items() if any(change.state == "open" for change in changes)]
            theirs = anomaly.QuantileFilter(Replay(), q=1 - rate, protect_anomaly_detector=False)
            alerts = alerts_of(theirs, scores)
            begun = [first for first, _ in grouped(alerts, math.ceil(0.3 / rate))]
            asked = f"{500 * rate:g}, {rate:.1%}"
            for told, starts, flags in (("ConformalFilter", opened, ours.alerts), ("QuantileFilter", begun, alerts)):
                cells = []
                for low, high in ((START, n), (n, n + DRIFT), (n + DRIFT, 2 * n)):
                    count = sum(low <= start < high for start in starts) / (high - low)
                    cells.append(f"{shown(count, rate / 2)}, {flags[low:high].mean():.2%}")
                print(f"| {name} | {asked} | {told} | {' | '.join(cells)} |")


def shown(share: float, asked: float) -> str:
    """Incidents in 1,000 events."""
    text = f"{1000 * share:.2f}"
    return f"**{text}**" if abs(share / asked - 1) <= 0.2 else text


if __name__ == "__main__":
    main()
