"""Does the alert rate hold? ConformalFilter beside river's QuantileFilter, on two detectors, before and after a drift.

    python benchmarks/alerts.py [--events N]

Every detector learns every event under both filters (none is protected), so that only the decision differs. The stream
is five features; after `--events` of it everything is shifted, stretched and rotated. Counted are alerts from event
5,000 on; "drift" is the stretch of 5,000 events from the change on, "after" what follows it. Not measured: whether the
right events are alerted on, which is the detector's part.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
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
    print(f"Alerts in % of events, {n:,} before and {n:,} after the drift; within 20 % of what was asked in bold.\n")
    print("| detector | asked | filter | stable | during drift | after it |")
    print("|---|---|---|---|---|---|")
    for name in ("StreamingSVEAD", "HalfSpaceTrees"):
        scores = scores_of(name, X)
        for rate in RATES:
            for model in (
                ConformalFilter(Replay(), alert_rate=rate),
                anomaly.QuantileFilter(Replay(), q=1 - rate, protect_anomaly_detector=False),
            ):
                alerts = alerts_of(model, scores)
                parts = (alerts[START:n], alerts[n : n + DRIFT], alerts[n + DRIFT :])
                cells = [shown(part.mean(), rate) for part in parts]
                print(f"| {name} | {rate:.1%} | {type(model).__name__} | {' | '.join(cells)} |")


def shown(share: float, rate: float) -> str:
    text = f"{100 * share:.3f}"
    return f"**{text}**" if abs(share / rate - 1) <= 0.2 else text


if __name__ == "__main__":
    main()
