"""Models: the same numbers however the stream is cut, and after any save."""

from __future__ import annotations

import json
import pickle
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
from kafka import TopicPartition
from river import anomaly
from streams import events
from svead_kafka import Options
from svead_kafka.events import Decoder, Event
from svead_kafka.models import Maker, Model, seed_for
from svead_kafka.partition import new_checkpoint
from svead_kafka.state_topic import checkpoint_record

from svead_stream import StreamingSVEAD, Verdict, parameters

OPTIONS = Options(input=["in"], output="out", detector={"n_partitions": 8, "n_anchors": 4, "normal_after": 32})


def decoded(values: list[bytes]) -> list[Event]:
    records = [
        SimpleNamespace(value=value, key=None, headers=[], offset=i, timestamp=1_700_000_000_000 + 10_000 * i)
        for i, value in enumerate(values)
    ]
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
def test_scores_alerts_explanations_and_incidents_do_not_depend_on_batches_or_saves(make: Any) -> None:
    stream = decoded(make(1200))
    expected, one_by_one = taken(stream, lambda rng: 1)
    assert any(isinstance(one, Verdict) and one.alert and one.reasons for one in expected)
    states = {change.state for one in expected if isinstance(one, Verdict) for change in one.changes}
    assert states >= {"open", "closed"}
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


@pytest.mark.parametrize("seed", [None, 2**100, np.uint8(3)])
def test_any_seed_that_the_detector_takes_can_be_saved_and_found_again(seed: Any) -> None:
    options = Options(input=["in"], output="out", detector={"seed": seed})
    first, second = (Maker(options).dump(Maker(options).new("in", 0, None)) for _ in range(2))
    assert first == second
    checkpoint = new_checkpoint(0, options.fingerprint)
    record = checkpoint_record("g", TopicPartition("in", 0), checkpoint)
    assert json.loads(record.value) == checkpoint


@pytest.mark.parametrize("protect", [False, True])
def test_a_refused_event_in_a_batch_leaves_no_trace_and_its_neighbours_come_out(protect: bool) -> None:
    options = Options(input=["in"], output="out", protect=protect, detector={"max_features": 5, "seed": 1})
    good = decoded(events(600))
    [refused] = decoded([orjson.dumps({f"new{i}": i for i in range(5)})])
    maker = Maker(options)
    plain, mixed_in, replayed = (maker.new("in", 0, None) for _ in range(3))
    expected = plain.take(good)
    stream = [*good[:300], refused, *good[300:]]
    verdicts = mixed_in.take(stream)
    assert isinstance(verdicts.pop(300), str)
    assert verdicts == expected
    for at in range(0, len(stream), 70):
        replayed.take(stream[at : at + 70])
    assert maker.dump(plain) == maker.dump(mixed_in) == maker.dump(replayed)


def test_new_models_have_the_seed_of_their_place_unless_one_is_given_and_the_alerts_of_the_options() -> None:
    place = ("in", 3, b"k")
    judge = Maker(OPTIONS).new(*place).judge
    assert isinstance(judge.detector, StreamingSVEAD)
    assert judge.detector.seed == seed_for(OPTIONS.group, *place)
    assert (judge.alert_rate, judge.window, judge.protect) == (0.01, None, False)
    usual = (parameters.INCIDENT_RATE.default, parameters.HOLD_OFF.default, parameters.BURN_IN.default)
    assert (judge.incident_rate, judge.hold_off, judge.burn_in) == usual
    options = Options(
        input=["in"], output="out", alert_rate=0.05, alert_window=500, protect=True, detector={"seed": 3},
        incident_rate="5/day", hold_off="15m", burn_in=100,
    )  # fmt: skip
    judge = Maker(options).new(*place).judge
    assert isinstance(judge.detector, StreamingSVEAD)
    assert judge.detector.seed == 3
    assert (judge.alert_rate, judge.window, judge.protect) == (0.05, 500, True)
    assert (judge.incident_rate, judge.hold_off, judge.burn_in) == ("5/day", "15m", 100)


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
