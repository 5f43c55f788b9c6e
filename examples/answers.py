"""Learning from answers: an alert that nobody wants stops coming, the others stay."""

import numpy as np

from svead_stream import ConformalFilter, StreamingSVEAD

ODD = {"cleaning": {"heat": 75, "load": 20}, "overload": {"heat": 80, "load": 95}}  # only one of them is a fault
rng = np.random.default_rng(5)
alone, answered = (ConformalFilter(StreamingSVEAD(seed=5)) for _ in range(2))

for week in range(1, 5):
    alerts = dict.fromkeys(((model, kind) for model in (alone, answered) for kind in ODD), 0)
    for hour in range(1_500):
        kind = {50: "cleaning", 100: "overload"}.get(hour % 150)
        event = {name: rng.normal(mean, 3) for name, mean in ODD.get(kind, {"heat": 60, "load": 50}).items()}
        for model in (alone, answered):
            verdict = model.judge_one(event)
            if kind and verdict.alert:
                alerts[model, kind] += 1
                if model is answered:  # somebody has looked at it
                    model.feedback_one(event, is_anomaly=kind == "overload")
    cleanings, overloads = ([alerts[model, kind] for model in (alone, answered)] for kind in ODD)
    print(f"week {week}: {cleanings[0]} cleanings and {overloads[0]} overloads,", end=" ")
    print(f"with answers {cleanings[1]} and {overloads[1]}")
