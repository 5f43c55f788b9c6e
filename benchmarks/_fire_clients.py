"""Clients that share no code with the worker: librdkafka sends and reads, kcat counts, the segments tell the codecs."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from _fire_check import GOOD, REFUSED, TOMBSTONE, Record
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # by the number that a batch of records carries
KEYS = 4  # in each partition, and messages without one
LARGEST = 20_000  # bytes of an event, for the worker
BAD = 0.01  # the share of messages that are no events
IN_TRANSACTIONS = 0.5  # of the batches that are sent
UNDONE = 0.3  # of the transactions: aborted, and now and then left open by a producer that is gone
DEADLINE = 240.0  # seconds for what surely comes


class Message(NamedTuple):
    """A message to be sent."""

    number: int
    partition: int
    key: bytes | None
    value: bytes | None
    kind: str


class Messages:
    """Makes messages: events with an anomaly now and then and lasting faults, and some that are no events."""

    def __init__(self, partitions: int, rng: random.Random) -> None:
        self.partitions = partitions
        self._rng, self._count = rng, 0

    def good(self, partition: int | None = None) -> Message:
        """An event; now and then it lacks features, or has more of them."""
        rng, i = self._rng, self._count
        shift = 6 if rng.random() < 0.01 or i % 3000 > 2900 else 0
        event: dict[str, Any] = {"id": f"e{i}", **{f"x{j}": rng.gauss(shift, 1) for j in range(6)}}
        if rng.random() < 0.02:
            event[f"x{rng.randrange(6)}"] = None
        if rng.random() < 0.05:
            event["more"] = {rng.choice("ab"): rng.random()}
        return self._message(json.dumps(event).encode(), GOOD, partition)

    def any(self) -> Message:
        """Mostly an event."""
        rng = self._rng
        if rng.random() >= BAD:
            return self.good()
        bad = {
            "cut off": b'{"x0": 1.5, "x1',
            "not UTF-8": b'{"x0": 1, "id": "\xff\xfe"}',
            "bytes": rng.randbytes(40) + b"\x00",
            "empty": b"",
            TOMBSTONE: None,
            "a list": b"[1, 2, 3]",
            "text in a feature": b'{"x0": "warm", "x1": 2}',
            "an object in a list": b'{"x0": [{"a": 1}], "x1": 2}',
            "no features": b'{"id": "e", "x0": null}',
            "no number": b'{"x0": NaN}',
            "too large": json.dumps({"x0": 1, "id": "e" * LARGEST}).encode(),
            REFUSED: json.dumps({"x0": 1, "more": {f"n{j}": j for j in range(20)}}).encode(),
        }
        kind = rng.choice(list(bad))
        return self._message(bad[kind], kind)

    def _message(self, value: bytes | None, kind: str, partition: int | None = None) -> Message:
        rng, number = self._rng, self._count
        self._count += 1
        key = None if rng.random() < 0.05 and value is not None else b"k%d" % rng.randrange(KEYS)
        return Message(number, rng.randrange(self.partitions) if partition is None else partition, key, value, kind)


class Sender(threading.Thread):
    """Sends messages with every codec, plainly and in transactions, some of which are undone.

    Parameters
    ----------
    bootstrap, topic
        Where to.
    messages, rng
        What, and which way.
    """

    def __init__(self, bootstrap: str, topic: str, messages: Messages, rng: random.Random) -> None:
        super().__init__(name="sender", daemon=True)
        self.wanted = 0  # messages that are to be sent by now
        self.sent = 0
        self.arrived: set[int] = set()  # numbers of messages that are surely there
        self.undone: set[int] = set()  # and of those that surely are not
        self.failure: BaseException | None = None
        self._brokers, self._topic = bootstrap, topic
        self._messages, self._rng = messages, rng
        self._producers: dict[tuple[str, bool], Producer] = {}
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            while not self._ending.is_set() or self.sent < self.wanted:
                if self.sent >= self.wanted:
                    time.sleep(0.02)
                    continue
                count = min(self._rng.randint(20, 150), self.wanted - self.sent)
                self._send([self._messages.any() for _ in range(count)])
                self.sent += count
        except BaseException as error:
            self.failure = error

    def finish(self) -> None:
        """Send what is left, and last of all an event to each partition, outside of transactions.

        The workers are done when they have committed past those: markers of transactions have offsets that no
        consumer ever sees.
        """
        self._ending.set()
        self.join()
        if self.failure is not None:
            raise self.failure
        for producer in self._producers.values():
            assert not producer.flush(DEADLINE), "messages were not delivered"
        self._plainly([self._messages.good(partition) for partition in range(self._messages.partitions)], "none")

    def _send(self, chunk: list[Message]) -> None:
        codec = self._rng.choice(CODECS)
        if self._rng.random() < IN_TRANSACTIONS:
            self._in_a_transaction(chunk, codec)
        else:
            self._plainly(chunk, codec)

    def _plainly(self, chunk: list[Message], codec: str) -> None:
        producer = self._producer(codec, False)
        for message in chunk:
            self._produce(producer, message)
        assert not producer.flush(DEADLINE), "messages were not delivered"

    def _in_a_transaction(self, chunk: list[Message], codec: str) -> None:
        rng, undone = self._rng, self._rng.random() < UNDONE
        producer = self._producer(codec, True)
        try:
            producer.begin_transaction()
            for i, message in enumerate(chunk):
                if i == len(chunk) // 2 and rng.random() < 0.1:
                    producer.flush(10)
                    time.sleep(rng.uniform(0.0, 1.5))
                self._produce(producer, message, in_transaction=True)
            if undone and rng.random() < 0.1:
                producer.flush(10)
                del self._producers[codec, True]  # the coordinator will have to abort it
            else:
                _end(producer.abort_transaction if undone else producer.commit_transaction)
        except KafkaException as error:
            undone = error.args[0].txn_requires_abort()
            if undone:
                _end(producer.abort_transaction)
            else:  # the next one of this name ends it, either way
                del self._producers[codec, True]
                return
        (self.undone if undone else self.arrived).update(message.number for message in chunk)

    def _produce(self, producer: Producer, message: Message, in_transaction: bool = False) -> None:
        headers = [("number", b"%d" % message.number), ("kind", message.kind.encode())]

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is None and not in_transaction:
                self.arrived.add(message.number)

        while True:
            try:
                producer.produce(self._topic, message.value, message.key, message.partition, delivered, headers=headers)
                return
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
                producer.poll(0.1)  # it has not heard yet that the topic has grown

    def _producer(self, codec: str, transactional: bool) -> Producer:
        made = self._producers.get((codec, transactional))
        if made is None:
            settings = {
                "bootstrap.servers": self._brokers,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 20,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
            if transactional:
                settings |= {"transactional.id": f"{self._topic}-{codec}", "transaction.timeout.ms": 10_000}
                if self._rng.random() < 0.5:  # a new name: what the last one left open ends by its timeout only
                    settings["transactional.id"] += f"-{uuid4().hex[:6]}"
            made = self._producers[codec, transactional] = Producer(settings)
            if transactional:
                _end(made.init_transactions)
        return made


def _end(call: Any) -> None:
    """Call until it is settled: brokers come and go meanwhile."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            call(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


class Group:
    """What the coordinator knows of a group."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._group, self._topic = group, topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def committed(self) -> dict[int, int]:
        """The committed offset of each partition; nothing where the coordinator does not answer."""
        try:
            partitions = self._admin.list_topics(self._topic, timeout=10).topics[self._topic].partitions
            found = self._consumer.committed([TopicPartition(self._topic, p) for p in partitions], timeout=10)
        except KafkaException:
            return {}
        return {one.partition: max(0, one.offset) for one in found}

    def members(self) -> set[str] | None:
        """Client ids of the members, if the group is settled."""
        try:
            [future] = self._admin.describe_consumer_groups([self._group], request_timeout=10).values()
            described = future.result()
        except KafkaException:
            return None
        return {member.client_id for member in described.members} if described.state.name == "STABLE" else None

    def add_partition(self) -> int:
        """Give the input a partition more; returns how many it has then."""
        count = len(self._admin.list_topics(self._topic, timeout=60).topics[self._topic].partitions) + 1
        [future] = self._admin.create_partitions([NewPartitions(self._topic, count)]).values()
        future.result()
        return count

    def in_sync(self, brokers: int) -> bool:
        """Whether every partition has all of its replicas."""
        try:
            topics = self._admin.list_topics(timeout=10).topics.values()
        except KafkaException:
            return False
        return all(len(one.isrs) == brokers for topic in topics for one in topic.partitions.values())

    def close(self) -> None:
        self._consumer.close()


def read(bootstrap: str, topic: str) -> list[Record]:
    """All committed records of a topic, partition by partition, once no transaction on it is open any more."""
    deadline = time.monotonic() + DEADLINE
    while True:
        records, settled = _read(bootstrap, topic)
        if settled:
            return sorted(records, key=lambda record: (record.partition, record.offset))
        assert time.monotonic() < deadline, f"a transaction on {topic} does not end"
        time.sleep(1)


def _read(bootstrap: str, topic: str) -> tuple[list[Record], bool]:
    settings = {
        "bootstrap.servers": bootstrap, "group.id": uuid4().hex, "enable.auto.commit": False, "log_level": 0,
        "enable.partition.eof": True, "auto.offset.reset": "error",
    }  # fmt: skip
    consumer = Consumer(settings | {"isolation.level": "read_committed"})
    raw = Consumer(settings | {"isolation.level": "read_uncommitted"})
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        ends = {p: raw.get_watermark_offsets(TopicPartition(topic, p), timeout=60)[1] for p in partitions}
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        reached: dict[int, int] = {}
        records: list[Record] = []
        while len(reached) < len(partitions):
            for message in consumer.consume(1000, timeout=0.5):
                error = message.error()
                if error is None:
                    headers = tuple(message.headers() or ())
                    place = (message.partition(), message.offset())
                    records.append(Record(*place, message.key(), message.value(), message.timestamp()[1], headers))
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached[message.partition()] = message.offset()
                else:
                    raise KafkaException(error)
        return records, all(reached[p] >= ends[p] for p in partitions)
    finally:
        consumer.close()
        raw.close()


def kcat(bootstrap: str, topic: str) -> int:
    """How many committed records a topic has, by kcat."""
    words = ["kcat", "-C", "-q", "-e", "-b", bootstrap, "-t", topic, "-o", "beginning", "-f", "%p %o\\n"]
    words += ["-X", "isolation.level=read_committed"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=DEADLINE)
    return len(set(done.stdout.split("\n")) - {""})


def codecs(data: Path, topic: str) -> Counter[str]:
    """The batches of records in the segments of a topic, by codec."""
    found: Counter[str] = Counter()
    for path in data.glob(f"{topic}-[0-9]*/*.log"):
        content, at = path.read_bytes(), 0
        while at + 61 <= len(content):
            (length,) = struct.unpack_from(">i", content, at + 8)
            (attributes,) = struct.unpack_from(">h", content, at + 21)
            if not attributes & 0x20:  # no marker of a transaction
                found[CODECS[attributes & 0x07]] += 1
            at += 12 + length
    return found
