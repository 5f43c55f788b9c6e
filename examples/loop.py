"""A Python loop: score each event, then learn it."""

import random

from svead_stream import StreamingSVEAD

rng = random.Random(1)
detector = StreamingSVEAD(seed=1)

for minute in range(2_000):
    load = rng.gauss(50, 10)
    event = {"load": load, "heat": 20 + 0.5 * load + rng.gauss(0, 1)}
    if minute == 1_500:
        event["heat"] -= 12  # neither value is unusual, only the two together
    score = detector.score_one(event)
    detector.learn_one(event)
    if minute in (1_499, 1_500, 1_501):
        print(f"minute {minute}: load {event['load']:.0f}, heat {event['heat']:.0f}, score {score:.2f}")
