"""What a transaction carries to the output, incidents, dead-letter and state topics."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson
from kafka import TopicPartition
from kafka.errors import KafkaError

from svead_kafka.bulk import Message, fits, send_all, send_each
from svead_kafka.events import Bad, Event, all_scored, copied_headers, dead_letter_headers, incident, incident_key
from svead_kafka.options import Options
from svead_kafka.state_topic import Record, state_partition
from svead_stream.record import Verdict

log = logging.getLogger(__name__)

_FRAMING = 2048  # bytes that the broker's own framing of a message may take


@dataclass(slots=True)
class Outcome:
    """What has become of the events of a partition, and of answers to them."""

    scored: list[tuple[Event, Verdict]] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)  # messages that were no events
    tombstones: list[int] = field(default_factory=list)  # offsets of messages without a value
    answers: Counter[str] = field(default_factory=Counter)  # taken, by what they said
    refused: list[Bad] = field(default_factory=list)  # messages that were no answers


class Outgoing:
    """Sends records of a transaction and remembers their futures, all of which must succeed before it is committed.

    The client does not fail a transaction when it gives up on a record after its retries, so the futures are the only
    proof that everything arrived.
    """

    def __init__(self, producer: Any, options: Options, counts: dict[str, int], limits: dict[str, int]) -> None:
        self._producer = producer
        self._options = options
        self._counts = counts
        self._limits = limits
        self._futures: list[Any] = []
        self._send = send_all if fits(producer) else send_each

    def outcome(self, source: TopicPartition, outcome: Outcome) -> None:
        """All that others are to read of a partition."""
        self.scored(source, outcome.scored)
        self.incidents(source, outcome.scored)
        self.dead_letters(source, outcome.refused + outcome.bad)

    def scored(self, source: TopicPartition, results: list[tuple[Event, Verdict]]) -> None:
        """Scored events: key, timestamp and headers as they came."""
        topic = self._options.output
        values = all_scored(results, self._options.top_features, self._options.include_event)
        messages = [_message(event.record, value) for (event, _), value in zip(results, values, strict=True)]
        if self._counts[topic] == self._counts[source.topic]:
            # The same number of partitions keeps their order.
            self._futures += self._send(self._producer, topic, source.partition, messages)
            return
        for message in messages:  # else the key decides, as it does for other producers
            partition = None if message.key is not None else self._folded(source, topic)
            self._futures += send_each(self._producer, topic, partition, [message])

    def incidents(self, source: TopicPartition, results: list[tuple[Event, Verdict]]) -> None:
        """What is told of incidents, in the order of the events; all of one incident is in one partition."""
        topic = self._options.incidents
        if topic is None:
            return
        top, keyed = self._options.top_features, self._options.model_per == "key"
        limit = self._limits.get(topic)
        for event, verdict in results:
            for change in verdict.changes:
                key = incident_key(event, change, keyed)
                value = orjson.dumps(incident(event, change, top, keyed))
                if limit is not None and _size(value, key, []) + _FRAMING > limit:
                    # Only names of features are as long as they like, and there are as many as were asked for.
                    value = orjson.dumps(incident(event, change, 0, keyed))
                self._futures.append(
                    self._producer.send(
                        topic,
                        value=value,
                        key=key,
                        partition=self._folded(source, topic),
                        timestamp_ms=_timestamp(event.record),
                    )
                )

    def dead_letters(self, source: TopicPartition, bad: list[Bad]) -> None:
        """Messages that are no events or answers, byte for byte, with the reason and the place in the headers."""
        topic = self._options.dead_letters
        if topic is None:
            return
        limit = self._limits.get(topic)
        for one in bad:
            record = one.record
            headers = dead_letter_headers(one)
            value, key = record.value, record.key
            if limit is not None and _size(value, key, headers) + _FRAMING > limit:
                place = (record.topic, record.partition, record.offset)
                log.error("%s/%d offset %d is too large for %s: only its headers go there", *place, topic)
                headers.append(("svead-cut", b"the message is larger than this topic takes; see its source"))
                value = b""
                if _size(value, key, headers) + _FRAMING > limit:  # then it is its key or its own headers
                    key, headers = None, [one for one in headers if one[0].startswith("svead-")]
            elif value is None and key is None:
                value = b""  # the client sends no message that has neither; the reason tells
            self._futures.append(
                self._producer.send(
                    topic,
                    value=value,
                    key=key,
                    headers=headers,
                    partition=self._folded(source, topic),
                    timestamp_ms=_timestamp(record),
                )
            )

    def state(self, source: TopicPartition, record: Record) -> Any:
        """A record of the state topic; returns the future that tells where it is."""
        topic = self._options.state
        future = self._producer.send(
            topic,
            value=record.value,
            key=record.key,
            headers=record.headers,
            partition=state_partition(source, self._counts[topic]),
        )
        self._futures.append(future)
        return future

    def check(self) -> None:
        """Raise unless the broker has taken every record since the last check."""
        futures, self._futures = self._futures, []
        for future in futures:
            if not future.is_done or future.failed():
                raise future.exception or KafkaError("a record was not acknowledged")

    def _folded(self, source: TopicPartition, topic: str) -> int:
        return int(source.partition % self._counts[topic])


def _message(record: Any, value: bytes) -> Message:
    return Message(_timestamp(record), record.key, value, copied_headers(record) if record.headers else None)


def _size(value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    return len(value or b"") + len(key or b"") + sum(len(name) + len(text) for name, text in headers)


def _timestamp(record: Any) -> int | None:
    return record.timestamp if record.timestamp is not None and record.timestamp >= 0 else None
