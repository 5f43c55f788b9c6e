"""Worker processes and brokers, and what is done to them."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from _fire_clients import DEADLINE, Group, Messages
from broker import Cluster
from streams import client_file, command, spawn
from svead_kafka import Options

FEWEST, MOST = 2, 5  # workers; a run begins with three
ASKED = (75, 76)  # exit codes that ask to be started again
GROWTH = "partition added to the input"
EARLY = -signal.SIGTERM  # of a process that was told to end before it could listen to signals


class Crew:
    """Worker processes of one group; whoever ends of itself is started again, as a supervisor would.

    Parameters
    ----------
    options
        Of the workers.
    folder
        For their logs and properties.
    more
        Further words of the command line.
    """

    def __init__(self, options: Options, folder: Path, more: list[str]) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ended: Counter[str] = Counter()  # exit codes of those that ended of themselves
        self.wrong: list[str] = []  # ends that should not have been
        self._options, self._folder, self._more = options, folder, more
        self._count = 0

    def add(self) -> None:
        """A worker more. Every other one has a transactional id that outlives it."""
        self._count += 1
        self._start(f"worker{self._count}")

    def _start(self, name: str) -> None:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        client = client_file(folder)
        with client.open("a") as file:
            file.write(f"client.id={name}\n")
        more = [*self._more, "--client-config", str(client)]
        if int(name.removeprefix("worker")) % 2:
            more += ["--transactional-id", f"{self._options.group}-{name}"]
        self.processes[name] = spawn(command(self._options, *more), self.log(name))

    def log(self, name: str) -> Path:
        """Where a worker writes its log."""
        return self._folder / name / "log"

    def kill(self, name: str) -> None:
        """SIGKILL, for good."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def restart(self, name: str) -> None:
        """SIGKILL, and another process of the same name."""
        self.kill(name)
        self._start(name)

    def dismiss(self, name: str) -> None:
        """SIGTERM; it must leave with 0, and in time."""
        process = self.processes.pop(name)
        process.terminate()
        try:
            code = process.wait(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"{name} did not end on SIGTERM in {DEADLINE:.0f} s")
            process.kill()
            code = process.wait()
        if code not in (0, EARLY):
            self.wrong.append(f"{name} ended with {code} on SIGTERM, see {self.log(name)}")

    def stop_and_start(self, name: str) -> None:
        """SIGTERM, and another process of the same name."""
        self.dismiss(name)
        self._start(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)

    def tend(self) -> None:
        """Start again who has ended of itself; only some exit codes ask for it."""
        for name, process in list(self.processes.items()):
            code = process.poll()
            if code is None:
                continue
            self.ended[str(code)] += 1
            if code not in ASKED:
                self.wrong.append(f"{name} ended of itself with {code}, see {self.log(name)}")
            self._start(name)

    def close(self) -> None:
        """End them all, however they are."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.processes.clear()


class Faults:
    """Does harm, of a kind drawn at random.

    Parameters
    ----------
    cluster, crew, group, messages
        Whom to.
    rng
        The source of the draws.
    """

    def __init__(self, cluster: Cluster, crew: Crew, group: Group, messages: Messages, rng: random.Random) -> None:
        self.done: Counter[str] = Counter()
        self._cluster, self._crew, self._group, self._messages, self._rng = cluster, crew, group, messages, rng
        self._kinds: dict[str, tuple[int, Callable[[], None]]] = {
            "worker killed and restarted": (14, self._kill),
            "worker killed again while it starts": (5, self._kill_twice),
            "all workers killed at once": (3, self._kill_all),
            "worker paused until it was replaced": (8, self._make_zombie),
            "worker paused for a moment": (4, self._pause),
            "worker stopped in order and restarted": (8, self._stop),
            "worker joined": (5, self._join),
            "worker left for good": (5, self._leave),
            "broker killed and restarted": (6, lambda: self._broker(kill=True)),
            "broker restarted in order": (4, lambda: self._broker(kill=False)),
            GROWTH: (0, self._grow),
        }

    def plan(self, count: int, growth: int) -> list[str]:
        """So many faults in random order, each kind at least once where there are enough; the input grows as often."""
        weights = {kind: weight for kind, (weight, _) in self._kinds.items() if weight}
        count -= growth
        drawn = self._rng.choices(list(weights), list(weights.values()), k=max(0, count - len(weights)))
        chosen = self._rng.sample(list(weights), min(count, len(weights))) + drawn + [GROWTH] * growth
        self._rng.shuffle(chosen)
        return chosen

    def do(self, kind: str) -> str:
        """One fault; returns what it was: who should leave joins if there are too few, and the other way round."""
        if kind == "worker left for good" and len(self._crew.processes) <= FEWEST:
            kind = "worker joined"
        if kind == "worker joined" and len(self._crew.processes) >= MOST:
            kind = "worker left for good"
        self._kinds[kind][1]()
        self.done[kind] += 1
        return kind

    def _any(self) -> str:
        self._crew.tend()
        return self._rng.choice(list(self._crew.processes))

    def _kill(self) -> None:
        self._crew.restart(self._any())

    def _kill_twice(self) -> None:
        name = self._any()
        self._crew.restart(name)
        time.sleep(self._rng.uniform(0.5, 6.0))  # while it loads, joins or restores
        self._crew.restart(name)

    def _kill_all(self) -> None:
        for name in list(self._crew.processes):
            self._crew.restart(name)

    def _make_zombie(self) -> None:
        """Longer than the group waits: others take over, and it wakes up with what it held in its hands."""
        self._wait(lambda: self._group.members() == set(self._crew.processes))
        name = self._any()
        self._crew.signal(name, signal.SIGSTOP)
        try:
            self._wait(lambda: name not in (self._group.members() or {name}))
            time.sleep(self._rng.uniform(0.0, 2.0))
        finally:
            self._crew.signal(name, signal.SIGCONT)

    def _pause(self) -> None:
        name = self._any()
        self._crew.signal(name, signal.SIGSTOP)
        time.sleep(self._rng.uniform(0.5, 3.0))
        self._crew.signal(name, signal.SIGCONT)

    def _stop(self) -> None:
        self._crew.stop_and_start(self._any())

    def _join(self) -> None:
        self._crew.add()

    def _leave(self) -> None:
        name = self._any()
        if self._rng.random() < 0.5:
            self._crew.dismiss(name)
        else:
            self._crew.kill(name)

    def _broker(self, kill: bool) -> None:
        node = self._rng.choice(self._cluster.nodes)
        node.stop(kill=kill)
        time.sleep(self._rng.uniform(0.0, 5.0))
        node.start()
        node.wait()
        self._wait(lambda: self._group.in_sync(len(self._cluster.nodes)))

    def _grow(self) -> None:
        self._messages.partitions = self._group.add_partition()

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Until a condition holds, or for a minute: a fault goes on as well without."""
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.2)
            self._crew.tend()
