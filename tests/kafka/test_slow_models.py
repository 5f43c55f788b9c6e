"""Models that take their time: batches that fit them, and signs of life while they are busy."""

from __future__ import annotations

import itertools
import pickle
import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from river import anomaly
from streams import Stream, events, sum_of, until, working
from svead_kafka import Options, Worker
from svead_kafka.assignment import Assignment

SOURCE = TopicPartition("in", 0)


class Slow(anomaly.HalfSpaceTrees):
    """A detector that takes a twentieth of a second for an event, by a clock that nothing else moves."""

    clock = 0.0

    def learn_one(self, x: dict[str, Any]) -> None:
        Slow.clock += 0.05
        super().learn_one(x)


def test_a_slow_model_gets_small_batches_so_that_it_stays_in_its_group(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: Slow.clock, time=time.time)
    monkeypatch.setattr("svead_kafka.worker.time", clock)
    stream.send(events(1200))  # a minute's work
    options = stream.options()
    with working(options, detector=lambda seed: Slow(seed=seed), dumps=pickle.dumps, loads=pickle.loads) as worker:
        until(lambda: sum_of(worker.metrics.events) == 1200)
        batches = {sample.labels.get("le"): sample.value for metric in worker.metrics.batch.collect()
                   for sample in metric.samples}  # fmt: skip
    # Only the first batch, before anything is known of the model, may take longer than about a second or two.
    assert batches["+Inf"] - batches["2.5"] <= 1


def test_a_trickle_of_events_says_nothing_of_how_many_can_be_taken_at_once() -> None:
    worker = Worker(Options(input=["in"], output="out"))
    taken = SimpleNamespace(take=lambda events, position: ([], []))
    worker._assignment = SimpleNamespace(partitions={SOURCE: taken}, feedback=None, passed=lambda: {SOURCE: 3})  # type: ignore[assignment]
    worker._transact = lambda *_: None  # type: ignore[method-assign]
    few = [SimpleNamespace(value=b"", key=None, headers=[], offset=0)] * 3
    first = worker._limit
    for _ in range(10):
        worker._batch({SOURCE: few})
    assert worker._limit == first
    worker._batch({SOURCE: few * first})
    assert worker._limit > first


def test_a_slow_model_shows_signs_of_life_while_it_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, beats=[0.0], polls=[0.0])

    class Reader:
        at = 0

        def assign(self, sources: Any) -> None: ...

        def seek(self, source: TopicPartition, offset: int) -> None:
            self.at = offset

        def position(self, source: TopicPartition) -> int:
            return self.at

        def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
            self.at += max_records
            return {SOURCE: [SimpleNamespace(offset=i) for i in range(self.at - max_records, self.at)]}

    def take(events: list[Any], position: int) -> None:
        clock.now += 0.1 * len(events)
        learned.extend(event.offset for event in events)

    learned: list[int] = []
    monkeypatch.setattr("svead_kafka.assignment.time", SimpleNamespace(monotonic=lambda: clock.now))
    assignment = Assignment.__new__(Assignment)
    assignment._reader = Reader()
    assignment._consumer = SimpleNamespace(poll=lambda **_: clock.polls.append(clock.now))
    assignment._decoder = SimpleNamespace(decode=lambda records: (list(records), []))  # type: ignore[assignment]
    assignment._watchdog = SimpleNamespace(beat=lambda _: clock.beats.append(clock.now))  # type: ignore[assignment]
    assignment._rebalances = SimpleNamespace(count=0)  # type: ignore[assignment]
    assignment._replay(SimpleNamespace(source=SOURCE, replay=take), 0, 10_000, 0)  # type: ignore[arg-type]
    assert learned == list(range(10_000))
    for times in (clock.beats, clock.polls):
        assert max(b - a for a, b in itertools.pairwise(times)) < 11  # the first ones, before anything is known of it
        assert max(b - a for a, b in itertools.pairwise(times[2:])) < 5
