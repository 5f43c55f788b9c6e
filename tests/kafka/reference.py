"""Answers in tests: how to send them, and what a worker should have written, with events and answers one by one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import orjson
from streams import Stream, sum_of
from svead_kafka import Options, Worker
from svead_kafka.events import Decoder, incident, incident_key

from svead_stream import ConformalFilter, StreamingSVEAD


def with_answers(stream: Stream, run: str = "a", **changes: Any) -> Options:
    """Options with a feedback topic of three partitions, which exists already."""
    options = stream.options(run, feedback=f"{stream.name}-{run}-answers", **changes)
    stream.create({options.feedback: {"num_partitions": 3}})
    return options


def about(stream: Stream, offset: int, partition: int = 0, **said: Any) -> dict[str, Any]:
    """An answer to the event at an offset."""
    return {"source": {"topic": stream.input, "partition": partition, "offset": offset}, **said}


def sent_back(stream: Stream, options: Options, is_anomaly: bool | None, alerts: bool = True) -> list[dict[str, Any]]:
    """Scored events as a person would send them back."""
    found = [value for value in stream.scored(options).values() if value["alert"] == alerts]
    return [value | {"is_anomaly": is_anomaly} for value in found]


def dealt_with(*workers: Worker) -> int:
    """How many answers these workers have taken, refused or counted."""
    return int(sum(sum_of(one.metrics.answers) + sum_of(one.metrics.answers_refused) for one in workers))


def owned(worker: Worker) -> int:
    """How many partitions it has."""
    return len(worker._assignment.settled()) if worker._assignment is not None else 0


class Taken(NamedTuple):
    """An answer in the journal: its number, the position before which it was taken, its place in the feedback topic."""

    number: int
    position: int
    partition: int
    offset: int


def taken(stream: Stream, options: Options) -> dict[int, list[Taken]]:
    """The answers to each partition of the input, from all journals that were ever committed."""
    found: dict[int, list[Taken]] = defaultdict(list)
    lives: dict[int, set[str]] = defaultdict(set)
    for record in stream.read(options.state):
        _, _, partition, *rest = orjson.loads(record.key)
        if rest == ["answers"]:
            journal = orjson.loads(record.value)
            lives[partition].add(journal["life"])
            found[partition] += [Taken(*one) for one in journal["latest"]]
    for partition, answers in found.items():
        assert len(lives[partition]) == 1, "the models began anew"
        assert [one.number for one in answers] == list(range(len(answers)))
        assert [one.position for one in answers] == sorted(one.position for one in answers)
    return found


def quiet_run(stream: Stream, options: Options) -> tuple[dict[tuple[str, int, int], dict[str, Any]], list[Any]]:
    """Scored events and what is told of incidents, as `Stream.scored` and `Stream.told` have them.

    Filters in a plain loop get the events of the input, and the answers of the feedback topic where the journal says.
    """
    assert options.feedback is not None
    answers = {(record.partition, record.offset): record for record in stream.read(options.feedback)}
    order = taken(stream, options)
    places = [(one.partition, one.offset) for answers_to in order.values() for one in answers_to]
    assert len(set(places)) == len(places), "an answer was taken twice"
    keyed = options.model_per == "key"
    models: dict[tuple[int, bytes | None], ConformalFilter] = {}

    def model(partition: int, key: bytes | None) -> ConformalFilter:
        made = models.get((partition, key if keyed else None))
        if made is None:
            made = models[partition, key if keyed else None] = ConformalFilter(
                StreamingSVEAD(**options.detector), alert_rate=options.alert_rate, hold_off=options.hold_off,
                burn_in=options.burn_in,
            )  # fmt: skip
        return made

    events, _ = Decoder(options.features, options.ignore).decode(stream.read(stream.input))
    bodies = {(event.record.partition, event.record.offset): event for event in events}
    scored: dict[tuple[str, int, int], dict[str, Any]] = {}
    told: list[Any] = []
    for event in events:
        record = event.record
        waiting = order[record.partition]
        while waiting and waiting[0].position <= record.offset:
            one = waiting.pop(0)
            said = orjson.loads(answers[one.partition, one.offset].value)
            about = bodies[said["source"]["partition"], said["source"]["offset"]]
            assert said["source"]["partition"] == record.partition
            x = dict(zip(about.names, about.values, strict=True))
            model(record.partition, about.record.key).feedback_one(x, said["is_anomaly"], options.teach_false_alarms)
        x = dict(zip(event.names, event.values, strict=True))
        verdict = model(record.partition, record.key).judge_one(x, event.time)
        source = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        value = verdict.record(options.top_features) | {"source": source, "event": orjson.loads(record.value)}
        scored[record.topic, record.partition, record.offset] = value
        for change in verdict.changes:
            text = orjson.dumps(incident(event, change, options.top_features, keyed))
            told.append((record.partition, incident_key(event, change, keyed), text, record.timestamp))
    return scored, told


def check(stream: Stream, options: Options) -> None:
    """All that was written is what plain filters in a loop come to."""
    stream.wait_settled(*filter(None, (options.output, options.state, options.incidents)))
    scored, told = quiet_run(stream, options)
    assert stream.scored(options) == scored
    assert stream.told(options) == told
