"""Topics of one test, and what tests do with them: send, work, read back."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from svead_kafka import Options, Worker
from svead_kafka.client import Clients

# For tests that kill processes: a dead worker is noticed in seconds, and what it left open ends soon.
QUICK = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000, "transaction_timeout_ms": 8000}
PATIENCE = 240.0  # seconds to wait for what surely comes; much less than this shows on a busy machine

Run = Callable[..., tuple[int, list[str]]]  # a command of the connector: its words, its exit code and what it says

OPEN: list[Any] = []  # admin clients to be closed after the test


class Stream:
    """Fresh topics: input, output, incidents, dead letters and state.

    Parameters
    ----------
    bootstrap
        The cluster.
    name
        Of the test.
    partitions
        Of the input topic.
    """

    def __init__(self, bootstrap: str, name: str, partitions: int = 4, replication: int = -1) -> None:
        self.bootstrap = bootstrap
        self.name = f"{re.sub(r'[^a-zA-Z0-9]+', '-', name)[:60]}-{uuid4().hex[:6]}"
        self.partitions = partitions
        self.input = f"{self.name}-in"
        self._admin: Any = None
        self.create({self.input: {"num_partitions": partitions, "replication_factor": replication}})

    def create(self, topics: dict[str, Any]) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics(topics, wait_for_metadata=True)
        admin.close()

    def options(self, run: str = "a", **changes: Any) -> Options:
        """Options of a worker; each `run` has a group and topics of its own over the same input."""
        mine: dict[str, Any] = {
            "bootstrap": self.bootstrap,
            "input": [self.input],
            "output": f"{self.name}-{run}-out",
            "dead_letters": f"{self.name}-{run}-dead",
            "incidents": f"{self.name}-{run}-incidents",
            "group": f"{self.name}-{run}",
            "create_topics": True,
            "detector": {"seed": 7},
            "commit_every": 20,
        }
        return Options(**(mine | changes))

    def send(self, values: Iterable[bytes | None], keys: Iterable[bytes | None] | None = None, **more: Any) -> None:
        """Messages to the input, dealt to the partitions in turn."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=5)
        all_keys = iter(keys) if keys is not None else None
        for i, value in enumerate(values):
            key = next(all_keys) if all_keys is not None else b"%d" % i
            producer.send(self.input, value=value, key=key, partition=i % self.partitions, **more)
        producer.flush()
        producer.close()

    def answer(self, options: Options, answers: Iterable[Any], keys: Iterable[bytes | None] | None = None) -> None:
        """Messages to the feedback topic: objects as JSON, bytes as they are; dealt to its partitions in turn."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=5)
        partitions = len(producer.partitions_for(options.feedback))
        all_keys = iter(keys) if keys is not None else None
        for i, value in enumerate(answers):
            data = value if isinstance(value, bytes) else orjson.dumps(value)
            key = next(all_keys) if all_keys is not None else None
            producer.send(options.feedback, value=data, key=key, partition=i % partitions)
        producer.flush()
        producer.close()

    def read(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """All records of a topic, partition by partition."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level=isolation, enable_auto_commit=False, group_id=None
        )
        try:
            places = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)
            records: list[Any] = []
            while any(consumer.position(place) < ends[place] for place in places):
                for batch in consumer.poll(timeout_ms=200, max_records=10_000).values():
                    records += batch
            return sorted(records, key=lambda record: (record.partition, record.offset))
        finally:
            consumer.close()

    def wait_settled(self, *topics: str) -> None:
        """Wait until no transaction is open in these topics: brokers end one some time after they have promised to."""

        def ends(isolation: str) -> dict[TopicPartition, int]:
            consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, isolation_level=isolation, group_id=None)
            try:
                places = [
                    TopicPartition(topic, p) for topic in topics for p in consumer.partitions_for_topic(topic) or ()
                ]
                return dict(consumer.end_offsets(places))
            finally:
                consumer.close()

        until(lambda: ends("read_committed") == ends("read_uncommitted"))

    def scored(self, options: Options) -> dict[tuple[str, int, int], dict[str, Any]]:
        """Scored events by where they came from; fails if one is there twice."""
        found: dict[tuple[str, int, int], dict[str, Any]] = {}
        for record in self.read(options.output):
            value = orjson.loads(record.value)
            place = (value["source"]["topic"], value["source"]["partition"], value["source"]["offset"])
            assert place not in found, f"{place} was scored twice"
            found[place] = value
        return found

    def told(self, options: Options) -> list[tuple[int, bytes, bytes, int]]:
        """What is told of incidents, partition by partition: partition, key, value and time stamp of each record."""
        records = self.read(options.incidents or "")
        return [(record.partition, record.key, record.value, record.timestamp) for record in records]

    def committed(self, options: Options) -> int:
        """The sum of the group's committed offsets."""
        try:
            if self._admin is None:
                Clients(options).look_for_broker()
                self._admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
                OPEN.append(self._admin)
            offsets = self._admin.list_group_offsets(options.group)[options.group]
        except KafkaError:  # no coordinator yet, or a broker that a test has just stopped
            if self._admin is not None:
                OPEN.remove(self._admin)
                self._admin.close()
                self._admin = None
            return -1
        return sum(max(0, offset.offset) for offset in offsets.values())

    def wait_committed(self, options: Options, total: int) -> None:
        """Until the group has committed so many messages of the input."""
        until(
            lambda: self.committed(options) >= total,
            lambda: f"{self.committed(options)} of {total} messages committed",
        )


def until(condition: Callable[[], bool], found: Callable[[], str] = lambda: "it did not come to that") -> None:
    """Wait for a condition; say what was found instead if it takes too long."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{found()} after {PATIENCE:.0f} s"
        time.sleep(0.1)


def events(count: int, d: int = 4, seed: int = 0, fault: int = 0) -> list[bytes]:
    """JSON events with an anomaly now and then, and among each thousand a fault that lasts for so many."""
    rng = random.Random(seed)
    out = []
    for i in range(count):
        shift = 6 if i % 97 == 96 or 500 <= i % 1000 < 500 + fault else 0
        out.append(orjson.dumps({"id": f"e{i}", **{f"x{j}": rng.gauss(shift, 1) for j in range(d)}}))
    return out


@contextmanager
def working(options: Options, kind: type[Worker] = Worker, **more: Any) -> Iterator[Worker]:
    """A worker in a thread of this process."""
    worker = kind(options, **more)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(timeout=PATIENCE)
        if failure:
            raise failure[0]  # says more than what the test was waiting for in vain
        assert not thread.is_alive(), "the worker did not stop"


def work(stream: Stream, options: Options, total: int, **more: Any) -> None:
    """Run a worker until so many messages of the input are committed."""
    with working(options, **more):
        stream.wait_committed(options, total)


def command(options: Options, *more: str) -> list[str]:
    """The command line of a worker process with these options."""
    words = [sys.executable, "-m", "svead_kafka", "--bootstrap", options.bootstrap, "--input", ",".join(options.input)]
    words += ["--output", options.output, "--group", options.group, "--create-topics", "--state", options.state]
    words += ["--dead-letters", options.dead_letters] if options.dead_letters else []
    words += ["--commit-every", str(options.commit_every), "--snapshot-every", str(options.snapshot_every)]
    words += ["--model-per", options.model_per, "--max-batch", str(options.max_batch)]
    words += ["--max-models", str(options.max_models)]
    words += ["--teach-false-alarms"] if options.teach_false_alarms else []
    optional = ("incidents", "feedback", "time", "incident_rate", "hold_off", "burn_in", "on_incident", "webhook")
    for name, value in ({name: getattr(options, name) for name in optional} | dict(options.detector)).items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    return words + list(more)


def client_file(folder: Path) -> Path:
    """The client properties of workers that will be killed, as a file."""
    path = folder / "client.properties"
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in QUICK.items()))
    return path


def spawn(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    """A worker process that writes its log to a file."""
    with log.open("ab") as out:
        return subprocess.Popen(words, stdout=out, stderr=out)


def sum_of(counter: Any) -> float:
    """The sum of a counter over all partitions."""
    return sum(sample.value for metric in counter.collect() for sample in metric.samples
               if sample.name.endswith("_total"))  # fmt: skip
