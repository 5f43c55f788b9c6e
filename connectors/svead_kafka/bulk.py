"""Many records to one partition at once: what the client does for each record, done once for each of its batches.

For every record `KafkaProducer.send` looks at metadata, partition, sizes and the state of the transaction, takes seven
locks and makes a future, which costs several times what it takes to write the record down. Here the first record of
each batch goes that way, so that the client checks the partition, adds it to the transaction, opens the batch and wakes
its sender. The records behind it are written straight into the batch that is open, with the client's own encoder: the
bytes are the same.

The broker takes or refuses a batch as a whole, so the future of one of its records stands for all. The exception is a
batch that the client splits because it is too large for the topic. It is never done then, as `Receipt` tells, and the
transaction fails. The producer's batches are made to fit the topics (client.py), so that this does not happen.

Parts of kafka-python that are not public and are used for this, all in this file: the accumulator's `_tp_lock` and
`_batches`, the open batch (`try_append`, `_record_futures`, `is_done`) and its `records` (`append`). `fits` tries them
out before anything is sent. A client that is made in another way gets its records one by one. `last_error` looks into
the transaction manager, where the client keeps the broker's own words.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.partitioner import murmur2

log = logging.getLogger(__name__)


class Message(NamedTuple):
    """A record to be written; the fields are in the order in which the client's encoder takes them."""

    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None


class Receipt:
    """Whether the broker has taken a batch, asked for in the way one asks a future."""

    __slots__ = ("_batch", "_future")

    def __init__(self, batch: Any, future: Any) -> None:
        self._batch = batch
        self._future = future

    @property
    def is_done(self) -> bool:
        """Whether the broker has answered; never true of a batch that was split."""
        return bool(self._future.is_done and self._batch.is_done)

    def failed(self) -> bool:
        """Whether the batch was refused or given up."""
        return bool(self._future.failed())

    @property
    def exception(self) -> Any:
        """Why it failed."""
        return self._future.exception


def by_key(producer: Any, topic: str, messages: Sequence[Message], without: int) -> dict[int, list[Message]]:
    """Messages by the partition that their key decides, as it does for other producers; one `without` a key is given.

    Within a partition they keep their order.
    """
    partitions = sorted(producer.partitions_for(topic))
    places: dict[bytes | None, int] = {None: without}
    dealt: dict[int, list[Message]] = {}
    for message in messages:
        key = message.key
        if key not in places:
            places[key] = partitions[(murmur2(key) & 0x7FFFFFFF) % len(partitions)]
        dealt.setdefault(places[key], []).append(message)
    return dealt


def send_each(producer: Any, topic: str, partition: int, messages: Sequence[Message]) -> list[Any]:
    """Send messages one by one, in the public way; returns their futures."""
    return [_send(producer, topic, partition, message) for message in messages]


def send_all(producer: Any, topic: str, partition: int, messages: Sequence[Message]) -> list[Any]:
    """Send messages to one partition, in their order; returns what tells whether all of them have arrived."""
    accumulator, place = producer._accumulator, TopicPartition(topic, partition)
    large = producer.config["max_request_size"] // 2  # the client has a closer look at these
    proofs: list[Any] = []
    done = 0
    while done < len(messages):
        proofs.append(_send(producer, topic, partition, messages[done]))
        done += 1
        with accumulator._tp_lock(place):  # nobody drains or closes a batch meanwhile
            waiting = accumulator._batches[place]
            if waiting:
                done += _fill(waiting[-1], messages[done:], large, proofs)
    return proofs


def _send(producer: Any, topic: str, partition: int, message: Message) -> Any:
    return producer.send(
        topic,
        value=message.value,
        key=message.key,
        headers=message.headers,
        partition=partition,
        timestamp_ms=message.timestamp_ms,
    )


def _fill(batch: Any, messages: Sequence[Message], large: int, proofs: list[Any]) -> int:
    """Write messages into an open batch until it is full; returns how many."""
    if not messages or _size(messages[0]) > large:
        return 0
    future = batch.try_append(*messages[0])
    if future is None:
        return 0
    proofs.append(Receipt(batch, future))
    append = batch.records.append
    count = 1
    for message in messages[1:]:
        if _size(message) > large or append(*message) is None:
            break
        count += 1
    # Where the client splits the batch it wakes those who wait for it, by the futures of the records.
    batch._record_futures += [future] * (count - 1)
    return count


def _size(message: Message) -> int:
    size = len(message.value or b"") + len(message.key or b"")
    if message.headers:
        size += sum(len(name.encode()) + len(text) for name, text in message.headers)
    return size


def last_error(producer: Any) -> BaseException | None:
    """What the broker said when the open transaction failed; the calls that come after tell it as text at best."""
    error = getattr(getattr(producer, "_transaction_manager", None), "last_error", None)
    return error if isinstance(error, BaseException) else None


def fits(producer: Any) -> bool:
    """Whether the client is made in the way that `send_all` counts on."""
    try:
        fitting = _tried_out(producer._accumulator)
        why = "a trial came out differently"
    except Exception as error:  # whatever it is, the public way is still there
        fitting, why = False, repr(error)
    if not fitting:
        log.warning("kafka-python is made in another way than expected (%s): records are sent one by one, slower", why)
    return fitting


def _tried_out(accumulator: Any) -> bool:
    """Fill batches that nobody sends, in both ways, and see that bytes and futures are as they should be."""
    from kafka.producer.producer_batch import ProducerBatch
    from kafka.record.memory_records import MemoryRecordsBuilder

    place = TopicPartition("", 0)
    with accumulator._tp_lock(place):
        free = not accumulator._batches.get(place)
    messages = [Message(i, b"%d" % i, b"value", [("name", b"text")] if i % 2 else None) for i in range(4)]
    one_by_one, taken, refused = (ProducerBatch(place, MemoryRecordsBuilder(2, 0, 1024)) for _ in range(3))
    proofs: list[Receipt] = []
    for message in messages:
        one_by_one.try_append(*message)
    filled = [_fill(batch, messages, 1024, proofs) for batch in (taken, refused)]
    early = any(proof.is_done for proof in proofs)
    for batch in (one_by_one, taken, refused):
        batch.records.close()
    taken.complete(0, -1)
    refused.abort(RuntimeError())
    same = taken.records.buffer() == one_by_one.records.buffer()
    ends = [(proof.is_done, proof.failed()) for proof in proofs]
    counted = len(taken._record_futures) == len(one_by_one._record_futures) == 4
    return free and same and counted and not early and filled == [4, 4] and ends == [(True, False), (True, True)]
