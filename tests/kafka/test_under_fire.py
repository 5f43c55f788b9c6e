"""Exactly once under fire: workers and the broker die at random moments, and nothing shows in the output.

``SVEAD_TEST_FULL=1`` runs it at full size: 50,000 events and 20 kills instead of 6,000 and 5.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from broker import Cluster
from streams import PATIENCE, Stream, client_file, command, events, spawn, until, work
from svead_kafka import Options

FULL = bool(os.environ.get("SVEAD_TEST_FULL"))
EVENTS, KILLS = (50_000, 20) if FULL else (6_000, 5)
pytestmark = pytest.mark.timeout(3600 if FULL else 600)


class Pair:
    """Two worker processes; whoever dies is started again, as a supervisor would."""

    def __init__(self, options: Options, folder: Path) -> None:
        client = client_file(folder)
        self._words = [
            command(options, "--client-config", str(client), "--transactional-id", f"{options.group}-{i}")
            for i in range(2)
        ]
        self.logs = [folder / f"worker{i}.log" for i in range(2)]
        self._said = [0, 0]  # bytes in each log before the present process
        self.processes = [self._start(i) for i in range(2)]

    def _start(self, i: int) -> subprocess.Popen[bytes]:
        self._said[i] = self.logs[i].stat().st_size if self.logs[i].exists() else 0
        return spawn(self._words[i], self.logs[i])

    def kill(self, i: int) -> None:
        self.processes[i].send_signal(signal.SIGKILL)
        self.processes[i].wait()
        self.processes[i] = self._start(i)

    def tend(self) -> None:
        """Start again who has ended of itself."""
        for i, process in enumerate(self.processes):
            if process.poll() is not None:
                self.processes[i] = self._start(i)

    def wait_committed(self, stream: Stream, options: Options, total: int) -> None:
        """Until the group has committed so many messages."""

        def done() -> bool:
            self.tend()
            return stream.committed(options) >= total

        until(done, lambda: f"{stream.committed(options)} of {total} committed\n{self.tail()}")

    def stop(self) -> list[int]:
        for process, log, said in zip(self.processes, self.logs, self._said, strict=True):
            while b"INFO reading" not in log.read_bytes()[said:] and process.poll() is None:
                time.sleep(0.1)  # one that was started a moment ago cannot heed a signal yet
            process.terminate()
        return [process.wait(timeout=PATIENCE) for process in self.processes]

    def tail(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in self.logs)


@contextmanager
def pair(options: Options, folder: Path) -> Iterator[Pair]:
    workers = Pair(options, folder)
    try:
        yield workers
    finally:
        for process in workers.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def fire(
    stream: Stream,
    options: Options,
    workers: Pair,
    total: int,
    kills: int,
    rng: random.Random,
    half_way: Callable[[], None],
) -> None:
    """Kill workers at random moments while the stream goes on; do something else once half of the kills are done."""
    for n in range(kills):
        # Let some progress be made in between, or the workers would die before they have restored anything.
        workers.wait_committed(stream, options, min(total, (n + 1) * total // (kills + 2)))
        time.sleep(rng.uniform(0.0, 0.4))
        workers.kill(rng.randrange(2))
        if n == kills // 2:
            half_way()
    workers.wait_committed(stream, options, total)


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
