"""Models: the same numbers however the stream is cut, and after any save."""

from __future__ import annotations

import pickle
import random
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from river import anomaly
from streams import events
from svead_kafka import Options
from svead_kafka.events import Decoder, Event
from svead_kafka.models import Maker, Model, seed_for

from svead_stream import Verdict

OPTIONS = Options(input=["in"], output="out", detector={"n_partitions": 8, "n_anchors": 4, "normal_after": 32})


def decoded(values: list[bytes]) -> list[Event]:
    records = [SimpleNamespace(value=value, key=None, headers=[], offset=i) for i, value in enumerate(values)]
    return Decoder().decode(records)[0]


def mixed(count: int) -> list[bytes]:
    """Events whose features come, go and are new now and then."""
    rng = random.Random(3)
    out = []
    for i, raw in enumerate(events(count)):
        event: dict[str, Any] = orjson.loads(raw)
        if rng.random() < 0.2:
            del event[f"x{rng.randrange(4)}"]
        if i > count // 2 and rng.random() < 0.3:
            event[f"late{rng.randrange(3)}"] = rng.random()
        out.append(orjson.dumps(event))
    return out


def taken(stream: list[Event], sizes: Any, saves: float = 0.0) -> tuple[list[Verdict | str], Model]:
    maker = Maker(OPTIONS)
    model = maker.new("in", 0, None)
    rng = random.Random(5)
    verdicts: list[Verdict | str] = []
    at = 0
    while at < len(stream):
        size = sizes(rng)
        verdicts += model.take(stream[at : at + size])
        at += size
        if rng.random() < saves:
            model = maker.load(maker.dump(model))
    return verdicts, model


@pytest.mark.parametrize("make", [events, mixed], ids=["same features", "changing features"])
def test_scores_alerts_and_explanations_do_not_depend_on_batches_or_saves(make: Any) -> None:
    stream = decoded(make(1200))
    expected, one_by_one = taken(stream, lambda rng: 1)
    assert any(isinstance(one, Verdict) and one.alert and one.reasons for one in expected)
    for sizes in (lambda rng: 5000, lambda rng: rng.choice([1, 3, 7, 50])):
        verdicts, model = taken(stream, sizes, saves=0.1)
        assert verdicts == expected
        assert Maker(OPTIONS).dump(model) == Maker(OPTIONS).dump(one_by_one)


def test_an_event_with_too_many_features_is_refused_and_not_learned() -> None:
    options = Options(input=["in"], output="out", detector={"max_features": 5, "seed": 1})
    maker = Maker(options)
    model = maker.new("in", 0, None)
    model.take(decoded(events(20)))
    before = maker.dump(model)
    [answer] = model.take(decoded([orjson.dumps({f"new{i}": i for i in range(5)})]))
    assert isinstance(answer, str)
    assert "max_features=5" in answer
    assert maker.dump(model) == before


def test_seeds_are_the_same_for_the_next_process_and_differ_between_models() -> None:
    places = [("g", "t", 0, None), ("g", "t", 1, None), ("g", "t", 0, b""), ("g", "t", 0, b"k"), ("h", "t", 0, None)]
    seeds = [seed_for(*place) for place in places]
    assert len(set(seeds)) == len(seeds)
    assert seed_for("g", "t", 0, None) == 3231787660


def test_a_river_detector_needs_to_say_how_it_is_saved() -> None:
    with pytest.raises(TypeError, match="HalfSpaceTrees cannot be saved"):
        Maker(OPTIONS, lambda seed: anomaly.HalfSpaceTrees(seed=seed))
    with pytest.raises(TypeError, match="come together"):
        Maker(OPTIONS, dumps=pickle.dumps)


def test_a_river_detector_gives_the_same_numbers_after_a_save() -> None:
    maker = Maker(OPTIONS, lambda seed: anomaly.HalfSpaceTrees(seed=seed), pickle.dumps, pickle.loads)
    stream = decoded(events(300))
    model = maker.new("in", 0, None)
    expected = model.take(stream)
    again = maker.new("in", 0, None)
    first = again.take(stream[:120])
    again = maker.load(maker.dump(again))
    assert first + again.take(stream[120:]) == expected
