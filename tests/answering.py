"""Models that people answer, and events to answer."""

import numpy as np

from svead_stream import ConformalFilter, StreamingSVEAD

USUAL = {"a": 0.3, "b": 1.5, "c": 0.2}
ODD = {"a": 4.0, "b": -6.0, "c": 0.5}
OTHER = {"a": -6.0, "b": 6.0, "c": 9.0}


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] += 2 * X[:, 0]
    return X


def trained(seed=0, n=2_000, **parameters):
    model = StreamingSVEAD(seed=seed, **parameters)
    model.learn_many(data(n, seed), ["a", "b", "c"])
    return model


def judge(seed=0, n=3_000, **parameters):
    model = ConformalFilter(StreamingSVEAD(seed=seed), **parameters)
    model.judge_many(data(n, seed), ["a", "b", "c"])
    return model


def near(event, rng, spread=0.3):
    return {name: value + spread * rng.normal() for name, value in event.items()}


def trust_of(model):
    return np.concatenate([memory.trust for memory in model._ensemble.memories])


def kept(model, kind):
    answers = model._ensemble.answers.state
    return answers.rows[kind, answers.strength[kind] > 0]
