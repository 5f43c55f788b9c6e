"""Answers come in while workers and the broker die at random moments, and each is taken once, at one place.

``SVEAD_TEST_FULL=1`` runs it at full size.
"""

from __future__ import annotations

import copy
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from broker import Cluster
from kafka import KafkaProducer
from pairs import fire, pair
from reference import about, check, taken
from streams import Stream, events, until
from svead_kafka import Options

FULL = bool(os.environ.get("SVEAD_TEST_FULL"))
EVENTS, KILLS = (40_000, 16) if FULL else (6_000, 3)
LAST = 400  # events after all answers, to show what they have changed
pytestmark = pytest.mark.timeout(3600 if FULL else 900)


class Person:
    """Sends answers to events scored lately and to some that are not, with and without the event; some are no answers.

    Parameters
    ----------
    stream, options
        Of the worker.
    values, keys
        The messages of the input.
    """

    def __init__(
        self, stream: Stream, options: Options, values: list[bytes], keys: list[bytes], rng: random.Random
    ) -> None:
        self._stream = copy.copy(stream)  # a thread needs an admin client of its own
        self._options, self._values, self._keys, self._rng = options, values, keys, rng
        self._producer = KafkaProducer(bootstrap_servers=stream.bootstrap)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._answer)

    def _answer(self) -> None:
        while not self._stop.wait(0.03):
            passed = self._stream.committed(self._options) // 4
            for _ in range(2):
                self._send(max(1, min(len(self._values) // 4, passed + 5)))

    def _send(self, bound: int) -> None:
        rng = self._rng
        offset, partition = rng.randrange(bound), rng.randrange(4)
        i = 4 * offset + partition
        value = about(self._stream, offset, partition, is_anomaly=rng.random() < 0.5)
        if rng.random() < 0.5:
            value["event"] = orjson.loads(self._values[i])
        if rng.random() < 0.1:
            value["source"]["partition"] = 99
        topic = self._options.feedback
        self._producer.send(topic, value=orjson.dumps(value), key=self._keys[i], partition=rng.randrange(3))

    @contextmanager
    def answering(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
            self._producer.flush()
            self._producer.close()


@pytest.mark.parametrize("model_per", ["partition", "key"])
def test_each_answer_is_taken_once_and_the_output_is_that_of_a_quiet_run_in_the_same_order(
    cluster: Cluster, tmp_path: Path, rng: random.Random, model_per: str
) -> None:
    stream = Stream(cluster.bootstrap, "answers")
    options = stream.options(
        "fired", feedback=f"{stream.name}-answers", model_per=model_per, max_models=6, burn_in=50, hold_off=5,
        max_batch=max(40, EVENTS // 250), snapshot_every=EVENTS // 20,
    )  # fmt: skip
    # Every journal is needed afterwards, so the cleaner must wait.
    forever = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
    stream.create({options.feedback: {"num_partitions": 3}, options.state: {"num_partitions": 4, "configs": forever}})
    values = events(EVENTS, d=6, fault=40)
    keys = [b"k%d" % rng.randrange(5) for _ in values]
    stream.send(values, keys=keys)
    person = Person(stream, options, values, keys, rng)

    def restart_broker() -> None:
        node = cluster.nodes[0]
        node.stop(kill=rng.random() < 0.5)
        node.start()
        node.wait()

    def bad() -> list[bytes]:
        return sorted(one.value for one in stream.read(options.dead_letters or ""))

    with pair(options, tmp_path) as workers:
        with person.answering():
            fire(stream, options, workers, EVENTS, KILLS, rng, restart_broker)
        said = [record.value for record in stream.read(options.feedback or "")]
        wrong = sorted(value for value in said if orjson.loads(value)["source"]["partition"] == 99)

        def dealt_with() -> int:
            workers.tend()
            return sum(map(len, taken(stream, options).values())) + len(bad())

        until(lambda: dealt_with() >= len(said), lambda: f"{dealt_with()} of {len(said)} answers\n{workers.tail()}")
        stream.send(events(LAST, d=6, seed=1), keys=keys)
        workers.wait_committed(stream, options, EVENTS + LAST)
        assert workers.stop() == [0, 0], workers.tail()

    check(stream, options)
    assert bad() == wrong != []
    order = taken(stream, options)
    assert sum(map(len, order.values())) == len(said) - len(wrong)
    places = {partition: len({answer.position for answer in answers}) for partition, answers in order.items()}
    assert min(places.values()) > 5, places
    assert stream.told(options) != []


def test_a_paused_worker_that_lost_its_partitions_takes_no_answers(stream: Stream, tmp_path: Path) -> None:
    """It has read some before it was stopped, and wakes up when another has taken them."""
    options = stream.options("zombie", feedback=f"{stream.name}-answers", max_batch=50, snapshot_every=200)
    stream.create({options.feedback: {"num_partitions": 3}})
    stream.send(events(2000))

    def answer(begin: int, count: int) -> None:
        places = [(begin + i, i % 4) for i in range(count)]
        stream.answer(options, [about(stream, offset, place, is_anomaly=offset % 2 == 0) for offset, place in places])

    def wait_taken(count: int) -> None:
        until(lambda: sum(map(len, taken(stream, options).values())) >= count)

    with pair(options, tmp_path) as workers:
        workers.wait_committed(stream, options, 400)
        zombie = workers.processes[0]
        answer(50, 200)
        zombie.send_signal(signal.SIGSTOP)
        answer(250, 100)
        workers.wait_committed(stream, options, 2000)  # the other one has taken over
        wait_taken(300)
        said = workers.logs[0].stat().st_size
        zombie.send_signal(signal.SIGCONT)
        until(lambda: workers.logs[0].stat().st_size > said)  # it has found out, and restored what it got back
        answer(350, 100)
        wait_taken(400)
        stream.send(events(400, seed=1))
        workers.wait_committed(stream, options, 2400)
        assert workers.stop() == [0, 0], workers.tail()
    check(stream, options)
    assert sum(map(len, taken(stream, options).values())) == 400
