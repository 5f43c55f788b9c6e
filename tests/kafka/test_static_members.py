"""Static members: a worker with a name keeps its partitions over a restart, and no two have one name."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from streams import PATIENCE, QUICK, Stream, events, sum_of, until, work, working
from svead_kafka import ConfigurationError, Worker
from svead_kafka.client import Clients
from svead_kafka.properties import read_client_config

PATIENT = {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 1000}  # longer than any restart

TAKEN = "another worker has joined the group with the --instance-id"


def owned(worker: Worker) -> set[int]:
    assignment = worker._assignment
    return set() if assignment is None else {source.partition for source in assignment.settled()}


def test_a_worker_that_comes_back_has_its_partitions_and_the_others_are_not_disturbed(
    stream: Stream, tmp_path: Path
) -> None:
    stream.send(events(400))
    alone = stream.options("alone")
    work(stream, alone, 400)
    file = tmp_path / "client.properties"
    file.write_text("session.timeout.ms=60000\nheartbeat.interval.ms=1000\ngroup.instance.id=first\n")
    first = stream.options("both", client=read_client_config(file))
    second = stream.options("both", client=PATIENT, instance_id="second")
    with working(second) as other:
        with working(first) as one:
            until(lambda: len(owned(one)) == len(owned(other)) == 2)
            stream.wait_committed(first, 400)
            before = owned(one)
        rebalances = other.metrics.rebalances._value.get()
        stream.send(events(400, seed=1))
        with working(first) as one:
            stream.wait_committed(first, 800)
            assert owned(one) == before
        assert other.metrics.rebalances._value.get() == rebalances
    work(stream, alone, 800)
    assert stream.scored(first) == stream.scored(alone)


def test_of_two_workers_with_one_name_the_first_ends_and_says_why_even_without_events(stream: Stream) -> None:
    stream.send(events(40))
    options = stream.options(client=QUICK, instance_id="worker-1")

    def one_after_the_other() -> None:
        with working(options) as one:
            stream.wait_committed(options, 40)
            with working(options) as other:
                until(lambda: one._assignment is None)
                stream.send(events(40, seed=1))
                stream.wait_committed(options, 80)
                assert sum_of(other.metrics.events) == 40

    with pytest.raises(ConfigurationError, match=TAKEN):
        one_after_the_other()
    assert len(stream.scored(options)) == 80


class Held(Worker):
    """A worker that holds what it has polled until it is let go, whatever happens to its membership meanwhile."""

    polled, let_go = threading.Event(), threading.Event()

    def _batch(self, polled: dict[Any, list[Any]]) -> None:
        if polled:
            self.polled.set()
            self.let_go.wait(PATIENCE)
        super()._batch(polled)


def test_who_was_replaced_in_the_same_generation_cannot_commit(stream: Stream) -> None:
    stream.send(events(40))
    # Names of transactions that differ, so that nothing but the membership can tell the two apart.
    old, new = (stream.options(instance_id="worker-1", transactional_id=f"{stream.name}-{i}") for i in range(2))

    memberships: list[Any] = []

    def replace() -> None:
        with working(old, Held) as one:
            assert Held.polled.wait(PATIENCE)
            with working(new) as other:
                stream.wait_committed(new, 40)
                memberships.extend(worker._assignment.membership for worker in (one, other) if worker._assignment)
            Held.let_go.set()

    with pytest.raises(ConfigurationError, match=TAKEN):
        replace()
    assert len({membership.generation_id for membership in memberships}) == 1
    assert len({membership.member_id for membership in memberships}) == 2
    assert len(stream.scored(new)) == 40


def test_two_names_are_one_too_many(stream: Stream) -> None:
    with pytest.raises(ConfigurationError, match=r"'a', but the client's group\.instance\.id 'b'"):
        Clients(stream.options(instance_id="a", client={"group_instance_id": "b"}))
