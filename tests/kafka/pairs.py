"""Two worker processes that are killed at random moments and started again."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from streams import PATIENCE, Stream, client_file, command, spawn, until
from svead_kafka import Options


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
