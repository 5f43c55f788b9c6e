"""Makes events of four machines as JSON lines: a fault now and then, and a line that is no event.

python make_events.py 5000 > events.jsonl
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator


def lines(count: int, seed: int = 0) -> Iterator[str]:
    """Events of four machines in turn; about one in 200 is a fault, one in 1,000 is broken JSON."""
    rng = random.Random(seed)
    for step in range(count):
        load = 0.5 + 0.3 * math.sin(step / 300) + rng.gauss(0, 0.05)
        event = {
            "machine": f"m{step % 4}",
            "step": step,
            "load": load,
            "heat": {"motor": 40 + 30 * load + rng.gauss(0, 1), "case": 25 + 8 * load + rng.gauss(0, 0.5)},
            "shake": abs(rng.gauss(0.2, 0.05)),
            "door_open": rng.random() < 0.02,
        }
        if rng.random() < 0.005:
            event["heat"]["motor"] += 25  # type: ignore[index]
            event["shake"] *= 4  # type: ignore[operator]
        text = json.dumps(event)
        yield text[:-5] if rng.random() < 0.001 else text


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 5000):
        print(line)
