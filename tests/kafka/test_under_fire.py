"""Exactly once under fire: workers and the broker die at random moments, and nothing shows in the output.

``SVEAD_TEST_FULL=1`` runs it at full size: 50,000 events and 20 kills instead of 6,000 and 3.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import orjson
import pytest
from broker import Cluster
from pairs import fire, pair
from streams import Stream, events, until, work

FULL = bool(os.environ.get("SVEAD_TEST_FULL"))
EVENTS, KILLS = (50_000, 20) if FULL else (6_000, 3)
pytestmark = pytest.mark.timeout(3600 if FULL else 600)


def test_every_event_is_scored_once_with_the_score_and_the_incidents_of_a_quiet_run(
    cluster: Cluster, tmp_path: Path, rng: random.Random
) -> None:
    stream = Stream(cluster.bootstrap, "fire")
    values: list[bytes | None] = list(events(EVENTS, d=6, fault=40))
    spoiled = {i: spoil(values[i] or b"", rng) for i in rng.sample(range(EVENTS), EVENTS // 100)}
    for i, value in spoiled.items():
        values[i] = value
    quiet = stream.options("quiet")
    # Small batches and few snapshots: many transactions to die in, and something to replay.
    fired = stream.options("fired", max_batch=max(40, EVENTS // 250), snapshot_every=EVENTS // 20)
    stream.send(values)
    work(stream, quiet, EVENTS)

    def restart_broker() -> None:
        node = cluster.nodes[0]
        node.stop(kill=rng.random() < 0.5)
        node.start()
        node.wait()

    with pair(fired, tmp_path) as workers:
        fire(stream, fired, workers, EVENTS, KILLS, rng, restart_broker)
        assert workers.stop() == [0, 0], workers.tail()

    expected = stream.scored(quiet)
    assert stream.scored(fired) == expected  # every event, once, with all its numbers to the bit
    assert len(expected) == EVENTS - len(stream.read(quiet.dead_letters or ""))

    told = stream.told(quiet)
    assert stream.told(fired) == told  # key, value and time stamp of every record, in the same order
    assert {orjson.loads(value)["state"] for _, _, value, _ in told} == {"open", "update", "closed"}

    for options in (quiet, fired):
        letters = stream.read(options.dead_letters or "")
        found = sorted((int(dict(one.headers)["svead-partition"]), int(dict(one.headers)["svead-offset"]), one.value)
                       for one in letters)  # fmt: skip
        bad = {place[1:] for place in _places(EVENTS)} - {place[1:] for place in expected}
        assert [one[:2] for one in found] == sorted(bad)
        assert all(value == values[offset * 4 + partition] for partition, offset, value in found)


def _places(count: int) -> set[tuple[None, int, int]]:
    return {(None, i % 4, i // 4) for i in range(count)}


def spoil(value: bytes, rng: random.Random) -> bytes:
    """The message with a few bytes at random places changed to random others."""
    broken = bytearray(value)
    for _ in range(3):
        broken[rng.randrange(len(broken))] = rng.randrange(256)
    return bytes(broken)


def test_three_brokers_lose_one_in_mid_stream_and_nothing_is_lost(three_brokers: Cluster, tmp_path: Path) -> None:
    count = 20_000 if FULL else 3_000
    stream = Stream(three_brokers.bootstrap, "failover", replication=3)
    quiet = stream.options("quiet")
    options = stream.options("failover", max_batch=60, snapshot_every=200)
    stream.send(events(count // 2))
    victim = three_brokers.nodes[random.Random(os.urandom(8)).randrange(3)]
    with pair(options, tmp_path) as workers:
        workers.wait_committed(stream, options, count // 4)
        victim.stop(kill=True)
        stream.send(events(count // 2, seed=1))
        workers.wait_committed(stream, options, count)
        assert workers.stop() == [0, 0], workers.tail()
    victim.start()
    victim.wait()
    work(stream, quiet, count)
    scored = stream.scored(options)
    assert len(scored) == count
    assert scored == stream.scored(quiet)
    assert stream.told(options) == stream.told(quiet) != []


def test_a_paused_worker_that_lost_its_partitions_writes_nothing(stream: Stream, tmp_path: Path) -> None:
    """A zombie: stopped while it works, replaced by another, and woken up again."""
    stream.send(events(2000))
    quiet, options = stream.options("quiet"), stream.options("zombie", max_batch=50, snapshot_every=200)
    with pair(options, tmp_path) as workers:
        workers.wait_committed(stream, options, 400)
        zombie = workers.processes[0]
        zombie.send_signal(signal.SIGSTOP)
        stream.send(events(1000, seed=1))
        workers.wait_committed(stream, options, 3000)  # the other one has taken over
        said = workers.logs[0].stat().st_size
        zombie.send_signal(signal.SIGCONT)
        until(lambda: workers.logs[0].stat().st_size > said)  # it has found out, and restored what it got back
        stream.send(events(1000, seed=2))
        workers.wait_committed(stream, options, 4000)
        assert workers.stop() == [0, 0], workers.tail()
    work(stream, quiet, 4000)
    assert stream.scored(options) == stream.scored(quiet)
    assert stream.told(options) == stream.told(quiet) != []
