"""A long run: does a worker's memory stay flat and its lag bounded?

    python benchmarks/soak_kafka.py [--minutes 30] [--rate 500] [--bootstrap HOST:PORT]

Sends events at a steady rate, one in a thousand of them malformed, to one worker process, and prints once a minute what
the worker holds and how far it is behind; at the end, the growth of its memory over the second half of the run.
Without --bootstrap a broker is started (Java and Maven are needed).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The broker and the helpers of the tests, in place of this folder, in which `kafka` would be a benchmark.
sys.path[:1] = [str(ROOT / "tests" / "kafka"), str(ROOT / "tests")]

from broker import Cluster, free_ports  # noqa: E402
from kafka import KafkaProducer  # noqa: E402
from streams import Stream, command, events, spawn  # noqa: E402


def send(stream: Stream, rate: float, minutes: float, sent: list[int]) -> None:
    """Events at a steady rate; `sent` counts them."""
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap, linger_ms=5)
    values = events(5000, d=10)
    began = time.monotonic()
    while time.monotonic() - began < minutes * 60:
        due = int((time.monotonic() - began) * rate)
        while sent[0] < due:
            i = sent[0]
            value = b"{broken" if i % 1000 == 999 else values[i % len(values)]
            producer.send(stream.input, value, key=b"%d" % (i % 100), partition=i % stream.partitions)
            sent[0] += 1
        time.sleep(0.02)
    producer.flush()
    producer.close()


def memory(pid: int) -> float:
    """Resident memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no VmRSS in /proc/{pid}/status")


def sample(port: int, name: str) -> float:
    """The sum of a metric over its labels."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    lines = (line for line in page.splitlines() if line.startswith((name + "{", name + " ")))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def soak(bootstrap: str, minutes: float, rate: float, folder: Path) -> None:
    stream = Stream(bootstrap, "soak")
    options = stream.options(client={})
    [port] = free_ports(1)
    log = folder / "worker.log"
    process = spawn(command(options, "--metrics-port", str(port)), log)
    sent = [0]
    sender = threading.Thread(target=send, args=(stream, rate, minutes, sent))
    rows: list[tuple[float, float, float]] = []
    print(f"{'minute':>7}{'sent':>10}{'scored':>10}{'bad':>7}{'lag':>8}{'memory':>11}{'saved':>9}")
    try:
        time.sleep(15)  # compiling and joining
        sender.start()
        began = time.monotonic()
        while sender.is_alive():
            time.sleep(min(60.0, minutes * 6))
            if process.poll() is not None:
                raise SystemExit(f"the worker ended with {process.returncode}:\n{log.read_text()[-2000:]}")
            minute, held = (time.monotonic() - began) / 60, memory(process.pid)
            scored, bad = sample(port, "svead_events_total"), sample(port, "svead_dead_letters_total")
            # Counted from what was sent, not as the worker sees it: one that hangs would not see its own lag.
            lag = sent[0] - scored - bad
            rows.append((minute, lag, held))
            age = sample(port, "svead_snapshot_age_seconds") / stream.partitions
            print(f"{minute:7.1f}{sent[0]:10d}{scored:10.0f}{bad:7.0f}{lag:8.0f}{held:8.1f} MB{age:7.0f} s", flush=True)
        sender.join()
        stream.wait_committed(options, sent[0])
    finally:
        process.terminate()
        code = process.wait()
    half = rows[len(rows) // 2 :]
    growth = (half[-1][2] - half[0][2]) / max(1e-9, half[-1][0] - half[0][0])
    print(f"worker ended with {code}; {sent[0]} sent, all committed")
    print(
        f"lag at most {max(row[1] for row in rows):.0f} messages ({max(row[1] for row in rows) / rate:.1f} s of input)"
    )
    print(f"memory {half[0][2]:.1f} to {half[-1][2]:.1f} MB over the second half: {growth:+.2f} MB a minute")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", help="an existing cluster; its topics are created and left behind")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=500, help="events per second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.bootstrap:
            soak(given.bootstrap, given.minutes, given.rate, folder)
            return
        cluster = Cluster(folder / "kafka")
        try:
            cluster.start()
            soak(cluster.bootstrap, given.minutes, given.rate, folder)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
