"""Models in the state topic: how they are written, found again and read.

The topic is compacted: of each record key the newest record stays. Three kinds of records are in it, all keyed by a
JSON array so that any client can read the keys:

- ``[group, topic, partition]``: the *checkpoint* of an input partition, a JSON object. ``offset`` says from where the
  partition has to be replayed, ``life`` names the line of models it belongs to, ``options`` what they were made with,
  ``version`` which release has written it.
- ``[group, topic, partition, key, i]``: piece i of a model. ``key`` is null, or the message key in hexadecimal where
  each key has a model. Headers tell the life, the offset up to which the model has learned, how many of the answers to
  its partition it has seen (none if it is not told), and the number of pieces.
- ``[group, topic, partition, "answers"]``: the journal of the answers to an input partition (journal.py). It stands
  behind the snapshots of its transaction, so who sees it sees the snapshots that cover what it leaves out.

All records of one input partition go to one partition of the state topic, and each snapshot is written within one
transaction. A reader who sees committed records only therefore sees them in the order they were written, up to some
record. Mostly that is the end of a transaction; where workers share a partition of the topic, the open transaction of
one can hide the end of another's for a while. A reader who finds only a part of a snapshot has to try again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import orjson
from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from svead_kafka.errors import StateError
from svead_kafka.journal import Journal
from svead_stream.snapshot import plain

log = logging.getLogger(__name__)

PIECE = 500_000  # bytes; brokers refuse messages of 1 MB and more unless told otherwise
_JOURNAL = "answers"  # a key has two more fields behind the partition where it is a model's, this one alone here


@dataclass(frozen=True, slots=True)
class Saved:
    """Where the newest snapshot of a model is: the offsets of its pieces, the input offset and answers it covers."""

    covers: int
    at: tuple[int, ...]
    answers: int = 0


@dataclass(slots=True)
class Found:
    """What the state topic knows of one input partition."""

    checkpoint: dict[str, Any] | None = None
    models: dict[bytes | None, Saved] = field(default_factory=dict)
    journal: Journal | None = None  # perhaps of another life than the checkpoint's


@dataclass(frozen=True, slots=True)
class Record:
    """A record to be written to the state topic."""

    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class StateKey:
    """A checkpoint or a piece of a model that is in the state topic: its partition and key, and the model's name."""

    partition: int
    key: bytes
    model: str | None


def state_partition(source: TopicPartition, partitions: int) -> int:
    """The partition of the state topic in which the models of an input partition live."""
    return int((crc32(source.topic.encode()) + source.partition) % partitions)


def checkpoint_record(group: str, source: TopicPartition, checkpoint: dict[str, Any]) -> Record:
    """The record that says from where to replay a partition."""
    # A seed may have more than the 64 bits that orjson knows.
    return Record(orjson.dumps([group, *source]), json.dumps(checkpoint, default=plain).encode(), [])


def journal_record(group: str, source: TopicPartition, journal: Journal) -> Record:
    """The next version of the journal of a partition."""
    return Record(orjson.dumps([group, *source, _JOURNAL]), journal.write(), [])


def model_records(
    group: str, source: TopicPartition, key: bytes | None, life: str, covers: int, data: bytes, answers: int = 0
) -> Iterator[Record]:
    """A model, in as many pieces as it needs."""
    pieces = [data[i : i + PIECE] for i in range(0, len(data), PIECE)] or [b""]
    about = [("life", life.encode()), ("offset", b"%d" % covers), ("pieces", b"%d" % len(pieces))]
    about += [("answers", b"%d" % answers)] if answers else []
    name = None if key is None else key.hex()
    for i, piece in enumerate(pieces):
        yield Record(orjson.dumps([group, *source, name, i]), piece, about)


class StateReader:
    """Reads the state topic, with a consumer that belongs to no group.

    Parameters
    ----------
    consumer
        A consumer that sees committed records only.
    topic, group
        The state topic, and the group whose models are wanted.
    """

    def __init__(self, consumer: Any, topic: str, group: str, timeout: float = 60.0) -> None:
        self._consumer = consumer
        self._topic = topic
        self._group = group
        self._timeout = timeout

    def close(self, timeout_ms: int | None = None) -> None:
        """Close the connection."""
        self._consumer.close(timeout_ms=timeout_ms)

    def scan(
        self, sources: Iterable[TopicPartition], end: Callable[[TopicPartition], int] | None = None
    ) -> dict[TopicPartition, Found]:
        """What the topic knows of these input partitions; reads their partitions of the topic from end to end.

        They end where an open transaction begins, unless `end` tells another offset to wait for.
        """
        found = {source: Found() for source in sources}
        pieces: dict[tuple[TopicPartition, bytes | None], dict[int, tuple[int, dict[str, bytes]]]] = {}
        partitions = len(self._consumer.partitions_for_topic(self._topic) or ())
        if not partitions:
            raise KafkaTimeoutError(f"no metadata of the state topic {self._topic!r}")
        for number in sorted({state_partition(source, partitions) for source in found}):
            for record in self._all(TopicPartition(self._topic, number), end):
                named = self._name(record)
                if named is None or named[0] not in found:
                    continue
                source, rest = named
                with _readable(record):
                    if not rest:
                        found[source].checkpoint = None if record.value is None else _read_checkpoint(record.value)
                    elif rest == [_JOURNAL]:
                        found[source].journal = None if record.value is None else Journal.read(record.value)
                    else:
                        parts = pieces.setdefault((source, None if rest[0] is None else bytes.fromhex(rest[0])), {})
                        parts[rest[1]] = (record.offset, dict(record.headers))
                        if record.value is None:
                            del parts[rest[1]]
        for (source, key), parts in pieces.items():
            saved = _whole(parts, found[source].checkpoint) if parts else None
            if saved is not None:
                found[source].models[key] = saved
        return found

    def _name(self, record: Any) -> tuple[TopicPartition, list[Any]] | None:
        """The input partition that a record is about, and the rest of its key; None if it is not of this group."""
        try:
            group, topic, partition, *rest = orjson.loads(record.key or b"")
        except (orjson.JSONDecodeError, TypeError, ValueError):
            told = "%s/%d offset %d is no record of ours, and passed over: let nobody else write to the state topic"
            log.warning(told, record.topic, record.partition, record.offset)
            return None
        return (TopicPartition(topic, partition), rest) if group == self._group else None

    def keys(self, end: Callable[[TopicPartition], int]) -> dict[TopicPartition, list[StateKey]]:
        """All checkpoints and pieces of models of the group, by input partition."""
        found: dict[tuple[int, bytes], tuple[TopicPartition, StateKey]] = {}
        for number in sorted(self._consumer.partitions_for_topic(self._topic) or ()):
            for record in self._all(TopicPartition(self._topic, number), end):
                named = self._name(record)
                if named is None or named[1] == [_JOURNAL]:
                    continue
                source, rest = named
                found.pop((number, record.key), None)
                if record.value is not None:
                    one = StateKey(number, record.key, repr(rest[0]) if rest else None)
                    found[number, record.key] = (source, one)
        by_source: dict[TopicPartition, list[StateKey]] = {}
        for source, one in found.values():
            by_source.setdefault(source, []).append(one)
        return by_source

    def load(self, source: TopicPartition, saved: Saved) -> bytes:
        """The bytes of a saved model."""
        partitions = len(self._consumer.partitions_for_topic(self._topic) or ())
        place = TopicPartition(self._topic, state_partition(source, partitions))
        self._consumer.assign([place])
        return b"".join(self._one(place, offset) for offset in saved.at)

    def _all(self, place: TopicPartition, told: Callable[[TopicPartition], int] | None) -> Iterator[Any]:
        self._consumer.assign([place])
        self._consumer.seek_to_beginning(place)
        end = told(place) if told is not None else self._consumer.end_offsets([place])[place]
        deadline = time.monotonic() + self._timeout
        while self._consumer.position(place) < end:
            batch = self._consumer.poll(timeout_ms=500).get(place, [])
            yield from batch
            if batch:
                deadline = time.monotonic() + self._timeout
            elif time.monotonic() > deadline:
                raise KafkaTimeoutError(f"reading {place} stopped at {self._consumer.position(place)} of {end}")

    def _one(self, place: TopicPartition, offset: int) -> bytes:
        self._consumer.seek(place, offset)
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            for record in self._consumer.poll(timeout_ms=500, max_records=1).get(place, []):
                if record.offset == offset:
                    value: bytes = record.value
                    return value
                # The cleaner has removed it because there is a newer one, which the next restore finds.
                raise KafkaError(f"no record at offset {offset} of {place}; was the state topic changed by hand?")
        raise KafkaTimeoutError(f"offset {offset} of {place} could not be read in {self._timeout:.0f} s")


@contextmanager
def _readable(record: Any) -> Iterator[None]:
    """Name the record, if what is done with it shows that it is not what its key claims."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StateError(
            f"{record.topic}/{record.partition} offset {record.offset} cannot be read ({error!r}): was the state topic "
            "changed by hand? Take another group, or forget its models with `svead-stream kafka reset`"
        ) from error


def _read_checkpoint(data: bytes) -> dict[str, Any]:
    checkpoint: dict[str, Any] = json.loads(data)
    int(checkpoint["offset"]), str(checkpoint["life"]), dict(checkpoint["options"])
    return checkpoint


def _whole(parts: dict[int, tuple[int, dict[str, bytes]]], checkpoint: dict[str, Any] | None) -> Saved | None:
    """The newest snapshot of which these are the pieces; None if it is of another life than the checkpoint's."""
    about = parts[0][1] if 0 in parts else {"life": b"", "offset": b"", "pieces": b"1"}
    if checkpoint is None or about["life"].decode() != checkpoint["life"]:
        return None
    count = int(about["pieces"])
    for i in range(count):
        # Pieces of an older snapshot come before the first piece of a newer one, also where both cover the same.
        if i not in parts or parts[i][1]["offset"] != about["offset"] or parts[i][0] < parts[0][0]:
            raise KafkaTimeoutError(f"piece {i} of {count} of a model is not to be seen in the state topic")
    return Saved(int(about["offset"]), tuple(parts[i][0] for i in range(count)), int(about.get("answers", 0)))
