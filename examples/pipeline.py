"""A river pipeline: numbers as they are, words one-hot encoded, values that are missing, a metric on the way."""

import math
import random

from river import compose, evaluate, metrics, preprocessing

from svead_stream import StreamingSVEAD


def payments():
    """Amounts depend on the shop; a few are odd. Sometimes a field is missing."""
    rng = random.Random(2)
    for i in range(3_000):
        shop = rng.choice(["bakery", "bakery", "grocer", "jeweller"])
        amount = rng.lognormvariate({"bakery": 1.5, "grocer": 3.5, "jeweller": 6.0}[shop], 0.3)
        fraud = i > 200 and rng.random() < 0.01
        if fraud:  # 400 at the jeweller's is nothing special, at the bakery it is
            shop, amount = "bakery", rng.uniform(300, 500)
        event = {"shop": shop, "amount": amount, "hour": float(rng.randint(8, 19))}
        if rng.random() < 0.1:
            event["hour"] = None
        if rng.random() < 0.05:
            del event["hour"]
        yield event, fraud


def logarithm(event):
    """Amounts are compared by their ratio, not by their difference."""
    return {**event, "amount": math.log(event["amount"])}


words = compose.SelectType(str) | preprocessing.OneHotEncoder()
model = compose.FuncTransformer(logarithm) | (words + compose.Discard("shop")) | StreamingSVEAD(seed=2)

print(evaluate.progressive_val_score(payments(), model, metrics.ROCAUC()))
detector = model["StreamingSVEAD"]
print(f"{detector.n_seen_} events, {detector.n_missing_} missing values")
print("features:", ", ".join(map(str, detector.feature_names_)))
