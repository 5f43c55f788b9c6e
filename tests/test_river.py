"""river's own checks, and its pipelines and evaluation."""

import itertools
from unittest import mock

import numpy as np
import pytest
from river import anomaly, checks, compose, datasets, evaluate, metrics, preprocessing

from svead_stream import StreamingSVEAD


class GeneratedCreditCard:
    """Stands in for a data set that river's checks would download."""

    def __iter__(self):
        rng = np.random.default_rng(1)
        for _ in range(3000):
            fraud = rng.random() < 0.02
            x = {f"V{i}": float(v) for i, v in enumerate(rng.normal(size=8) + 4 * fraud)}
            yield {**x, "Amount": float(rng.exponential(80))}, int(fraud)

    def take(self, n):
        return itertools.islice(self, n)


MODELS = {
    "seeded": lambda: StreamingSVEAD(seed=1),
    "unseeded": lambda: StreamingSVEAD(),
    "behind a scaler": lambda: preprocessing.StandardScaler() | StreamingSVEAD(),
    "seeded, behind a scaler": lambda: preprocessing.StandardScaler() | StreamingSVEAD(seed=1),
}


def river_checks():
    for name, make in MODELS.items():
        with mock.patch.object(datasets, "CreditCard", GeneratedCreditCard):
            found = list(checks.yield_checks(make()))
        for check in found:
            yield pytest.param(make, check, id=f"{name}: {check.__name__}")


@pytest.mark.parametrize(("make", "check"), list(river_checks()))
def test_river(make, check):
    check(make())


def test_shuttle_is_found_with_defaults():
    auc = evaluate.progressive_val_score(datasets.Shuttle(), StreamingSVEAD(seed=1), metrics.ROCAUC())
    assert auc.get() >= 0.99


def test_it_works_behind_encoders_and_inside_filters():
    model = anomaly.QuantileFilter(
        compose.Select("amount") + (compose.Select("kind") | preprocessing.OneHotEncoder()) | StreamingSVEAD(seed=1),
        q=0.95,
    )
    rng = np.random.default_rng(0)
    for i in range(400):
        x = {"amount": rng.normal(), "kind": "abc"[i % 3]}
        model.score_one(x)
        model.learn_one(x)
    assert model.classify(model.score_one({"amount": 12.0, "kind": "z"}))
