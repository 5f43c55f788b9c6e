"""How much of a bare Kafka loop's speed the worker keeps, and how long an event takes from end to end.

The bare loop consumes and produces in transactions with the same client, the same settings and the same batches; it
copies messages and does nothing else, one `send` for each. The worker decodes, scores, learns and encodes as well, and
hands records to the client in batches. Broker, client and worker share this machine, so the absolute figures say little
about a cluster. Where others use it too, the CPU time of an event is the steadier figure.

    python benchmarks/kafka.py [--bootstrap HOST:PORT] [--events 40000]

Without --bootstrap a broker is started (Java and Maven are needed). Not measured: networks, replication, TLS,
compression, several workers.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import statistics
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

ROOT = Path(__file__).resolve().parent.parent
# The broker and the helpers of the tests, in place of this folder, in which `kafka` would be this very file.
sys.path[:1] = [str(ROOT / "tests" / "kafka"), str(ROOT / "tests")]

from broker import Cluster  # noqa: E402
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition  # noqa: E402
from streams import Stream, client_file, command, events, spawn  # noqa: E402
from svead_kafka import Options, Worker  # noqa: E402
from svead_kafka.client import Clients  # noqa: E402
from svead_kafka.topics import Topics  # noqa: E402

FEATURES = 10
PARTITIONS = 4


class Mark(NamedTuple):
    """How far a process had come."""

    at: float
    cpu: float  # seconds it has used
    events: int


class Speed(NamedTuple):
    """Events a second, and microseconds of CPU time for each."""

    rate: float
    cpu: float


def bare(options: Options, total: int) -> Speed:
    """A transactional loop that copies messages."""
    clients = Clients(options)
    Topics(options).prepare(clients)
    gc.collect()
    gc.freeze()  # a loop of its own would not have our imports in its way
    producer, consumer = clients.producer(uuid4().hex), clients.member()
    consumer.subscribe(topics=list(options.input))
    seen = 0
    marks: list[Mark] = []
    while seen < total:
        polled = consumer.poll(timeout_ms=200, max_records=options.max_batch)
        if not polled:
            continue
        producer.begin_transaction()
        for records in polled.values():
            for record in records:
                producer.send(options.output, value=record.value, key=record.key, partition=record.partition,
                              timestamp_ms=record.timestamp)  # fmt: skip
        ends = {place: OffsetAndMetadata(records[-1].offset + 1, "", -1) for place, records in polled.items()}
        producer.send_offsets_to_transaction(ends, consumer.group_metadata())
        producer.commit_transaction()
        seen += sum(map(len, polled.values()))
        marks.append(Mark(time.perf_counter(), _cpu(os.getpid()), seen))
    consumer.close()
    producer.close()
    return _speed(marks)


def worker(stream: Stream, options: Options, total: int, folder: Path) -> Speed:
    """A worker process over the same input."""
    process = spawn(command(options), folder / "worker.log")
    marks: list[Mark] = []
    try:
        while not marks or marks[-1].events < total:
            time.sleep(0.02)
            if process.poll() is not None:
                raise SystemExit((folder / "worker.log").read_text()[-2000:])
            done = stream.committed(options)
            if done > (marks[-1].events if marks else 0):
                marks.append(Mark(time.perf_counter(), _cpu(process.pid), done))
    finally:
        process.terminate()
        process.wait()
    return _speed(marks)


def _speed(marks: list[Mark]) -> Speed:
    """From the first commit to the last: joining the group and compiling are not counted."""
    first, last = marks[0], marks[-1]
    count = last.events - first.events
    return Speed(count / (last.at - first.at), 1e6 * (last.cpu - first.cpu) / count)


def _cpu(process: int) -> float:
    """Seconds of CPU time that a process has used, where the system tells."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latency(stream: Stream, rate: float, seconds: float, folder: Path) -> tuple[float, float, int]:
    """Median and 99th percentile, in milliseconds, from send to committed read, at a steady rate."""
    options = stream.options(f"latency{rate:.0f}", start="latest", commit_every=100)
    process = spawn(command(options, "--start", "latest", "--client-config", str(client_file(folder))), folder / "log")
    took: list[float] = []
    try:
        while stream.committed(options) < 0 or not _exists(stream, options):
            time.sleep(0.2)
        time.sleep(2)
        reader = KafkaConsumer(
            bootstrap_servers=stream.bootstrap, isolation_level="read_committed", group_id=None,
            auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip
        # One partition stands for all, and the sender is a process of its own: on few cores, those who measure would
        # otherwise be what is measured.
        reader.assign([TopicPartition(options.output, 0)])
        sender = get_context("spawn").Process(
            target=_send_steadily, args=(stream.bootstrap, stream.input, rate, seconds)
        )
        sender.start()
        last = time.monotonic()
        while sender.is_alive() or time.monotonic() - last < 3:
            for records in reader.poll(timeout_ms=100, max_records=10_000).values():
                now = time.time_ns()
                last = time.monotonic()
                took += [(now - int(dict(record.headers)["sent"])) / 1e6 for record in records]
        sender.join()
        reader.close()
    finally:
        process.kill()  # nothing of it is needed any more
        process.wait()
    steady = took[len(took) // 5 :]  # the first fifth warms up
    cuts = statistics.quantiles(steady, n=100)
    return cuts[49], cuts[98], len(took)


def _exists(stream: Stream, options: Options) -> bool:
    try:
        return len(stream.read(options.state)) >= PARTITIONS  # every partition has its first checkpoint
    except Exception:
        return False


def _send_steadily(bootstrap: str, topic: str, rate: float, seconds: float) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=1)
    values = events(2000, d=FEATURES)
    began = time.perf_counter()
    for i in range(int(rate * seconds)):
        wait = began + i / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        producer.send(topic, values[i % len(values)], partition=i % PARTITIONS,
                      headers=[("sent", b"%d" % time.time_ns())])  # fmt: skip
    producer.flush()
    producer.close()


def measure(bootstrap: str, total: int, repeats: int, seconds: float, folder: Path) -> None:
    stream = Stream(bootstrap, "bench", PARTITIONS)
    stream.send(events(total, d=FEATURES))
    plain: dict[str, Any] = {"client": {}, "commit_every": 100, "dead_letters": None, "snapshot_every": 10_000}
    Worker(stream.options("warm", **plain)).warm_up()  # kernels go to the cache that the processes read
    loops: list[Speed] = []
    workers: list[Speed] = []
    for n in range(repeats):  # taken in turns, so that a busy moment of the machine meets both
        loops.append(bare(stream.options(f"bare{n}", **plain), total))
        workers.append(worker(stream, stream.options(f"worker{n}", **plain), total, folder))
    print(f"{total} events of {FEATURES} features, {PARTITIONS} partitions, {repeats} runs in turns, medians")
    for name, speeds in (("bare transactional loop", loops), ("worker, default detector", workers)):
        rate, cpu = (statistics.median(column) for column in zip(*speeds, strict=True))
        print(f"{name:<36}{rate:>12,.0f} events/s{cpu:>9.1f} us of CPU time an event")
    ratios = [one.rate / other.rate for one, other in zip(workers, loops, strict=True)]
    print(f"{'ratio of rates':<36}{statistics.median(ratios):>12.2f}   ({min(ratios):.2f} to {max(ratios):.2f})")
    ratios = [other.cpu / one.cpu for one, other in zip(workers, loops, strict=True)]
    print(f"{'ratio by CPU time':<36}{statistics.median(ratios):>12.2f}   ({min(ratios):.2f} to {max(ratios):.2f})")
    fast = statistics.median(one.rate for one in workers) / 2
    for rate in (100.0, fast):
        p50, p99, count = latency(stream, rate, seconds, folder)
        print(f"{f'latency at {rate:,.0f} events/s':<36}{p50:>12.0f} ms p50{p99:>9.0f} ms p99   ({count} events seen)")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bootstrap", help="an existing cluster; its topics are created and left behind")
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15, help="of each latency measurement")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.bootstrap:
            measure(given.bootstrap, given.events, given.repeats, given.seconds, folder)
            return
        cluster = Cluster(folder / "kafka")
        try:
            cluster.start()
            measure(cluster.bootstrap, given.events, given.repeats, given.seconds, folder)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
