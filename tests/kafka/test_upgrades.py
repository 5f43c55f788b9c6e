"""State of other versions: taken over or refused with one line, by the rule in docs/operating.md.

state_0_1_0.jsonl is what a worker of release 0.1.0 left behind after 120 events in two partitions, once with a model
per partition and once per key: the records of its state topic, without group and topic in their keys, and its offsets.
"""

from __future__ import annotations

import base64
import json
import logging
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from streams import PATIENCE, Stream, command, events, work
from svead_kafka import Options, StateError, Worker
from svead_kafka.client import Clients
from svead_kafka.events import Event
from svead_kafka.fingerprints import difference
from svead_kafka.models import Maker
from svead_kafka.state_topic import state_partition
from svead_kafka.topics import Topics

from svead_stream import StreamingSVEAD, __version__
from svead_stream.parameters import DETECTOR, MODEL_VERSION

SAVED = [json.loads(line) for line in (Path(__file__).parent / "state_0_1_0.jsonl").read_text().splitlines()]

PINNED = (2, 385.872, 5)  # version of the models, sum of the scores, number of alerts


def left_behind(stream: Stream, options: Options) -> None:
    """Bring state topic and offsets of a group to where release 0.1.0 had them."""
    Topics(options).prepare(Clients(options))
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap)
    saved = [one for one in SAVED if one["model_per"] == options.model_per]
    for one in saved:
        if "key" not in one:
            continue
        key = orjson.dumps([options.group, stream.input, *one["key"]])
        place = state_partition(TopicPartition(stream.input, one["key"][0]), stream.partitions)
        headers = [(name, text.encode()) for name, text in one["headers"].items()]
        value = base64.b64decode(one["value"])
        producer.send(options.state, key=key, value=value, headers=headers, partition=place)
    producer.close()
    [committed] = [one["committed"] for one in saved if "committed" in one]
    commit(stream, options, {int(number): OffsetAndMetadata(*at, -1) for number, at in committed.items()})


def commit(stream: Stream, options: Options, offsets: dict[int, OffsetAndMetadata]) -> None:
    member = KafkaConsumer(bootstrap_servers=stream.bootstrap, group_id=options.group, enable_auto_commit=False)
    member.assign([TopicPartition(stream.input, number) for number in offsets])
    member.commit({TopicPartition(stream.input, number): at for number, at in offsets.items()})
    member.close()


@pytest.mark.parametrize("model_per", ["partition", "key"])
def test_state_of_release_0_1_is_refused_with_one_line_and_left_behind_when_told_so(
    bootstrap: str, model_per: str
) -> None:
    stream = Stream(bootstrap, f"upgrade-{model_per}", partitions=2)
    stream.send(events(200), keys=[b"k%d" % (i // 2 % 2) for i in range(200)])
    options = stream.options(model_per=model_per)
    left_behind(stream, options)
    assert refused(options) == (
        f"the models of {stream.input}/0 were saved by svead-stream 0.1, and this worker ({__version__}) cannot go on "
        "with them; begin with new models at the committed offsets by --if-changed restart, or take another --group"
    )
    work(stream, stream.options(model_per=model_per, if_changed="restart"), 200)
    assert sorted(stream.scored(options)) == [(stream.input, p, offset) for p in (0, 1) for offset in range(60, 100)]
    assert {one["version"] for one in checkpoints(stream, options)} == {__version__}


def test_state_of_another_release_is_gone_on_with_unless_its_models_are_newer(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(bootstrap, "downgrade", partitions=1)
    stream.send(events(20))
    options = stream.options()
    work(stream, options, 20)
    [newest] = checkpoints(stream, options)
    write(stream, options, newest | {"version": "7.0"})
    stream.send(events(20, seed=1))
    with caplog.at_level(logging.INFO):
        work(stream, options, 40)
    assert f"{stream.input}/0: state at offset 20, going on at 20" in caplog.text

    [newest] = checkpoints(stream, options)
    newer = newest["options"] | {"model_version": MODEL_VERSION + 1}
    write(stream, options, newest | {"version": "7.0", "options": newer})
    with pytest.raises(StateError, match=r"by svead-stream 7\.0, which is newer than this worker \(.*\): upgrade it; "):
        Worker(options).run()


def write(stream: Stream, options: Options, checkpoint: dict[str, Any]) -> None:
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap)
    key = orjson.dumps([options.group, stream.input, 0])
    producer.send(options.state, key=key, value=orjson.dumps(checkpoint), partition=0)
    producer.close()


def test_what_is_in_effect_is_compared_not_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Options(input=["in"], output="out", detector={"n_anchors": 8})
    detector = StreamingSVEAD(n_anchors=8)
    assert given.fingerprint["detector"] == {one.name: getattr(detector, one.name) for one in DETECTOR}
    assert given.fingerprint != Options(input=["in"], output="out").fingerprint

    before = {"options": given.fingerprint, "version": __version__}
    defaults = [replace(one, default=9) if one.name == "n_partitions" else one for one in DETECTOR]
    monkeypatch.setattr("svead_kafka.options.DETECTOR", defaults)
    assert difference(before, given.fingerprint) == "were made with other options (n_partitions: 24 then, 9 now)"


def test_a_detector_that_is_given_is_known_by_its_class() -> None:
    options = Options(input=["in"], output="out")
    prints = [
        Maker(options, make).fingerprint
        for make in (None, lambda seed: StreamingSVEAD(seed=seed), lambda seed: StreamingSVEAD(seed=seed, n_anchors=8))
    ]
    assert prints[0] == options.fingerprint
    assert prints[1] == prints[2] == options.fingerprint | {"detector": {"class": "StreamingSVEAD"}}


def test_models_that_come_to_other_scores_have_another_version() -> None:
    """If this fails, raise MODEL_VERSION and mend PINNED, or workers go on with models of two kinds in one life."""
    rng = random.Random(5)
    values = [(rng.gauss(8 if i % 131 == 130 else 0, 1), rng.gauss(0, 3)) for i in range(900)]
    rows = [Event(None, ("x", "y"), both, 60.0 * i) for i, both in enumerate(values)]
    verdicts = Maker(Options(input=["in"], output="out")).new("in", 0, None).take(rows)
    judged = [(one.score, one.alert) for one in verdicts if not isinstance(one, str)]
    found = (MODEL_VERSION, sum(score for score, _ in judged), sum(alert for _, alert in judged))
    assert found == pytest.approx(PINNED, rel=1e-3)


def refused(options: Options) -> str:
    """The one line with which a worker process ends."""
    done = subprocess.run(command(options), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("svead-stream: ")] == lines[-1:]
    return lines[-1].removeprefix("svead-stream: ")


def checkpoints(stream: Stream, options: Options) -> list[dict[str, Any]]:
    """The newest of each partition."""
    newest = {record.key: record.value for record in stream.read(options.state) if len(orjson.loads(record.key)) == 3}
    return [orjson.loads(value) for value in newest.values()]
