"""What a transaction carries to the output, incidents, dead-letter and state topics."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from kafka import TopicPartition
from kafka.errors import InvalidTimestampError, KafkaError

from svead_kafka.bulk import Message, by_key, fits, last_error, send_all, send_each
from svead_kafka.errors import ConfigurationError
from svead_kafka.events import Bad, Event, all_scored, copied_headers, dead_letter_headers, incident, incident_key
from svead_kafka.options import Options
from svead_kafka.stamps import HEADER, Stamps, refusal
from svead_kafka.state_topic import Record, state_partition
from svead_stream.record import Incident, Verdict

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
    restamped: int = 0  # records written with the time of writing, as their topic refuses that of the event

    @property
    def records(self) -> list[Any]:
        """The messages of which something is written."""
        return [event.record for event, _ in self.scored] + [one.record for one in self.bad + self.refused]


class Outgoing:
    """Sends records of a transaction and remembers their futures, all of which must succeed before it is committed.

    The client does not fail a transaction when it gives up on a record after its retries, so the futures are the only
    proof that everything arrived.

    Parameters
    ----------
    producer, options
        The worker's.
    counts
        Partitions of each topic.
    limits
        The largest message that each topic takes, as far as that is known.
    stamps
        The time stamps that they take.
    """

    def __init__(
        self,
        producer: Any,
        options: Options,
        counts: dict[str, int],
        limits: dict[str, int],
        stamps: Stamps | None = None,
    ) -> None:
        self._producer = producer
        self._options = options
        self._counts = counts
        self._limits = limits
        self._stamps = stamps or Stamps()
        self._futures: list[Any] = []
        self._send = send_all if fits(producer) else send_each

    def outcome(self, source: TopicPartition, outcome: Outcome) -> None:
        """All that others are to read of a partition."""
        outcome.restamped += self.scored(source, outcome.scored)
        outcome.restamped += self.incidents(source, outcome.scored)
        outcome.restamped += self.dead_letters(source, outcome.refused + outcome.bad)

    def scored(self, source: TopicPartition, results: list[tuple[Event, Verdict]]) -> int:
        """Scored events: key, timestamp and headers as they came.

        Returns how many got the time of writing instead of their own, and so do the others.
        """
        topic = self._options.output
        values = all_scored(results, self._options.top_features, self._options.include_event)
        messages = [
            Message(record.timestamp, record.key, value, copied_headers(record) if record.headers else None)
            for record, value in zip((event.record for event, _ in results), values, strict=True)
        ]
        restamped = self._restamp(topic, [event.record for event, _ in results], messages)
        if self._counts[topic] == self._counts[source.topic]:  # this keeps their order
            dealt = {source.partition: messages}
        else:
            dealt = by_key(self._producer, topic, messages, self._folded(source, topic))
        for partition, run in dealt.items():
            self._futures += self._send(self._producer, topic, partition, run)
        return restamped

    def incidents(self, source: TopicPartition, results: list[tuple[Event, Verdict]]) -> int:
        """What is told of incidents, in the order of the events; all of one incident is in one partition."""
        topic = self._options.incidents
        if topic is None:
            return 0
        changes = [(event, change) for event, verdict in results for change in verdict.changes]
        messages = [self._incident(topic, event, change) for event, change in changes]
        restamped = self._restamp(topic, [event.record for event, _ in changes], messages)
        self._futures += send_each(self._producer, topic, self._folded(source, topic), messages)
        return restamped

    def _incident(self, topic: str, event: Event, change: Incident) -> Message:
        top, keyed, limit = self._options.top_features, self._options.model_per == "key", self._limits.get(topic)
        key = incident_key(event, change, keyed)
        value = orjson.dumps(incident(event, change, top, keyed))
        if limit is not None and _size(value, key, []) + _FRAMING > limit:
            # Only names of features are as long as they like, and there are as many as were asked for.
            value = orjson.dumps(incident(event, change, 0, keyed))
        return Message(event.record.timestamp, key, value, None)

    def dead_letters(self, source: TopicPartition, bad: list[Bad]) -> int:
        """Messages that are no events or answers, byte for byte, with the reason and the place in the headers."""
        topic = self._options.dead_letters
        if topic is None:
            return 0
        messages = [self._dead_letter(topic, one) for one in bad]
        restamped = self._restamp(topic, [one.record for one in bad], messages)
        self._futures += send_each(self._producer, topic, self._folded(source, topic), messages)
        return restamped

    def _dead_letter(self, topic: str, bad: Bad) -> Message:
        record, limit = bad.record, self._limits.get(topic)
        headers = dead_letter_headers(bad)
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
        return Message(record.timestamp, key, value, headers)

    def _restamp(self, topic: str, records: list[Any], messages: list[Message]) -> int:
        """Give messages another time stamp where the topic does not take that of the record; returns how many."""
        first, last = self._stamps.usual(topic)
        count = 0
        for i, record in enumerate(records):
            if record.timestamp is not None and first <= record.timestamp <= last:
                continue
            fitting = self._stamps.fitting(topic, record)
            headers = messages[i].headers
            if fitting is None and record.timestamp is not None and record.timestamp >= 0:
                count += 1
                if topic != self._options.dead_letters:  # they have it anyway
                    headers = [*(headers or ()), (HEADER, b"%d" % record.timestamp)]
            messages[i] = messages[i]._replace(timestamp_ms=fitting, headers=headers)
        return count

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

    def explain(self, error: KafkaError, outcomes: Iterable[Outcome]) -> None:
        """Raise if a transaction failed because a topic refused a time stamp: it would do so again and again."""
        if InvalidTimestampError in map(type, (error, error.__cause__, last_error(self._producer))):
            raise ConfigurationError(refusal([record for one in outcomes for record in one.records])) from error

    def _folded(self, source: TopicPartition, topic: str) -> int:
        return int(source.partition % self._counts[topic])


def _size(value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    return len(value or b"") + len(key or b"") + sum(len(name) + len(text) for name, text in headers)
