"""Answers of people: read from the feedback topic, each taken once, by the owner of the partition it is about.

An answer is a scored event that is sent back with ``is_anomaly`` added: true, false, or null if nobody knows. Only
``is_anomaly`` and ``source`` are needed; without ``event`` the message is looked up where it came from.

Who deals with an answer
------------------------
Every worker reads the whole topic, outside the group, and picks out the answers to partitions that it owns. What names
no partition of the input at all goes to the owner of partition 0 of the first input topic by name. So each answer has
one input partition, whichever worker looks at it, and each input partition has one owner.

Why each is dealt with once
---------------------------
The journal of an input partition (journal.py) says for each partition of the feedback topic up to where all answers to
it are dealt with. It is written in the transaction in which one is dealt with: taken by a model, sent to the dead
letters, or counted as unknown. That transaction also commits the input offset of the partition, which may well be the
one it had, with the membership of the worker. So it fails if the partition has another owner by now, and whoever owns
the partition next goes on where the journal is. Answers of one feedback partition are dealt with in their order: one
that has to wait for its event keeps the later ones to the same input partition waiting.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError

from svead_kafka.events import Bad, Decoder, Names, Reason
from svead_kafka.options import Options
from svead_kafka.outgoing import Outcome
from svead_kafka.partition import Partition

log = logging.getLogger(__name__)

_POLLED = 500  # answers read at a time
_MOST_WAITING, _MOST_BYTES = 5_000, 8_000_000  # answers in memory; while there are more, no others are read
_SECONDS = 1.0  # for the answers of a transaction, some of which have to be looked up
_WAIT_S = 60.0
VERDICTS = {True: "anomaly", False: "false_alarm", None: "unknown"}


class Said(NamedTuple):
    """A record of the feedback topic: the partition that deals with it, what it says, or why it is no answer."""

    record: Any
    source: TopicPartition
    offset: int | None = None
    is_anomaly: bool | None = None
    event: dict[str, Any] | None = None
    reason: str | None = None


class Feedback:
    """The feedback topic, as the owner of some input partitions sees it.

    Parameters
    ----------
    consumer
        A consumer of no group that sees committed records only; the topic is read with it.
    reader
        Another one, to look messages of the input up.
    end
        Tells where a partition ends, counting what is not committed yet.
    options, decoder
        The worker's.
    counts
        Partitions of each topic, as they are when `begin` is called.
    """

    def __init__(
        self,
        consumer: Any,
        reader: Any,
        end: Callable[[TopicPartition], int],
        options: Options,
        decoder: Decoder,
        counts: Mapping[str, int],
    ) -> None:
        assert options.feedback is not None
        self._topic = options.feedback
        self._consumer = consumer
        self._reader = reader
        self._end = end
        self._keyed = options.model_per == "key"
        self._decoder = decoder
        self._reads = options.reads
        self._counts = counts
        self._waiting: dict[TopicPartition, dict[int, deque[Said]]] = {}
        self._input_counts: dict[str, int] = {}
        self._read: dict[int, int] = {}  # by partition of the topic, the offset up to which it was read
        self._count = self._bytes = 0
        self._ends: dict[TopicPartition, int] = {}
        self._asked: set[TopicPartition] = set()

    # reading

    def begin(self, partitions: Mapping[TopicPartition, Partition]) -> None:
        """Listen to what concerns these partitions, from where their journals are."""
        self._waiting = {source: {} for source in partitions}
        self._count = self._bytes = 0
        self._input_counts = {topic: count for topic, count in self._counts.items() if self._reads(topic)}
        numbers = sorted(self._consumer.partitions_for_topic(self._topic) or ())
        if not numbers:
            raise KafkaTimeoutError(f"no metadata of the feedback topic {self._topic!r}")
        places = [TopicPartition(self._topic, number) for number in numbers if partitions]
        self._consumer.assign(places)
        starts = self._consumer.beginning_offsets(places) if places else {}
        ends = self._consumer.end_offsets(places) if places else {}
        for place in places:
            first, end = starts[place], ends[place]
            heard = [partition.journal.heard(*place) for partition in partitions.values()]
            begin = min(max(min(heard), first), end)
            self._read[place.partition] = begin
            self._consumer.seek(place, begin)
            if max(heard) > end:
                told = (
                    "%s/%d ends at %d, but was read up to %d: was it created again? Answers below that are passed over"
                )
                log.warning(told, *place, end, max(heard))
            elif 0 < min(heard) < first:
                log.warning("%s/%d: answers %d to %d were deleted before they were read", *place, min(heard), first - 1)

    def _listen(self, partitions: Mapping[TopicPartition, Partition]) -> None:
        """Read on, as long as there are not too many answers waiting; never waits itself."""
        if not partitions or self._count >= _MOST_WAITING or self._bytes >= _MOST_BYTES:
            return
        if (self._consumer.partitions_for_topic(self._topic) or set()) - self._read.keys():
            log.info("%s has more partitions now", self._topic)
            self.begin(partitions)  # what waits is read again
        try:
            polled = self._consumer.poll(timeout_ms=0, max_records=_POLLED)
        except OffsetOutOfRangeError:  # answers were deleted before they were read
            self.begin(partitions)
            return
        for place, records in polled.items():
            for record in records:
                said = read_answer(record, self._input_counts)
                partition = partitions.get(said.source)
                if partition is not None and record.offset >= partition.journal.heard(*place):
                    self._waiting[said.source].setdefault(place.partition, deque()).append(said)
                    self._count += 1
                    self._bytes += len(record.value or b"")
            self._read[place.partition] = records[-1].offset + 1

    # taking

    def take(self, partitions: Mapping[TopicPartition, Partition]) -> dict[TopicPartition, Outcome]:
        """Deal with new answers to events that were scored; if there are any, a transaction must follow.

        What takes longer than about a second is left for the next time.
        """
        self._listen(partitions)
        self._asked.clear()
        until = time.monotonic() + _SECONDS
        outcomes = {source: self._take(partition, until) for source, partition in partitions.items()}
        return {source: outcome for source, outcome in outcomes.items() if outcome.answers or outcome.refused}

    def _take(self, partition: Partition, until: float) -> Outcome:
        outcome = Outcome()
        waiting = self._waiting[partition.source]
        for _, queue in sorted(waiting.items()):
            while queue and not partition.journal.is_long and self._deal_with(queue[0], partition, outcome):
                said = queue.popleft()
                self._count -= 1
                self._bytes -= len(said.record.value or b"")
                partition.journal.is_due = True
                if time.monotonic() > until:
                    break
            if partition.journal.is_due and time.monotonic() > until:
                break  # one for each partition, so that none is left out for ever
        for number, read in self._read.items():
            queue = waiting.get(number) or deque()
            partition.journal.has_heard(self._topic, number, queue[0].record.offset if queue else read)
        return outcome

    def _deal_with(self, said: Said, partition: Partition, outcome: Outcome) -> bool:
        """Take, refuse or count an answer; returns whether that can be done now."""
        reason, is_anomaly, offset = said.reason, said.is_anomaly, said.offset
        if reason is None and is_anomaly is not None:
            if offset is None or offset < partition.position:
                reason = self._give(said, is_anomaly, partition)
            elif offset < self._end_of(partition.source, offset):
                return False  # it is still to be scored
            else:
                reason = f"there is no offset {offset} of its source yet"
        if reason is not None:
            outcome.refused.append(Bad(said.record, reason))
        else:
            outcome.answers[VERDICTS[is_anomaly]] += 1
        return True

    def _give(self, said: Said, is_anomaly: bool, partition: Partition) -> str | None:
        """Give an answer to its model; returns why that is not possible."""
        try:
            key, names, values = self._event(said)
        except Reason as reason:
            return str(reason)
        place = (said.record.partition, said.record.offset)
        return partition.answer(key if self._keyed else None, is_anomaly, names, values, place)

    def _event(self, said: Said) -> tuple[bytes | None, Names, Any]:
        if said.event is not None:
            return said.record.key, *self._decoder.features_of(said.event)
        assert said.offset is not None
        record = self._look_up(said.source, said.offset)
        good, bad = self._decoder.decode([record])
        if not good:
            raise Reason(f"its source is no event: {bad[0].reason if bad else 'a tombstone'}")
        return record.key, good[0].names, good[0].values

    def _look_up(self, source: TopicPartition, offset: int) -> Any:
        """The message at an offset of the input."""
        reader = self._reader
        reader.assign([source])
        reader.seek(source, offset)
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            try:
                records = reader.poll(timeout_ms=500, max_records=1).get(source, [])
                gone = bool(records) or reader.position(source) > offset
            except OffsetOutOfRangeError:
                records, gone = [], True
            if records and records[0].offset == offset:
                return records[0]
            if gone:
                raise Reason("its source is gone: send the event with the answer")
        raise KafkaTimeoutError(f"offset {offset} of {source} could not be read in {_WAIT_S:.0f} s")

    def _end_of(self, source: TopicPartition, offset: int) -> int:
        """Where a partition ends; asked anew only if the offset is not known to be there, and not for every answer."""
        if offset >= self._ends.get(source, 0) and source not in self._asked:
            self._asked.add(source)
            self._ends[source] = self._end(source)
        return self._ends[source]


def read_answer(record: Any, counts: Mapping[str, int]) -> Said:
    """What a record of the feedback topic says, and which input partition it belongs to.

    That must not depend on who reads it. `counts` are the partitions of each input topic.
    """
    home = TopicPartition(min(counts), 0)
    try:
        value = orjson.loads(record.value or b"")
    except orjson.JSONDecodeError as error:
        return Said(record, home, reason=f"not JSON: {error}")
    about = value.get("source") if type(value) is dict else None
    if type(about) is not dict:
        return Said(record, home, reason="no answer: it needs is_anomaly, and source with topic, partition and offset")
    topic, number, offset = about.get("topic"), about.get("partition"), about.get("offset")
    if type(topic) is not str or type(number) is not int or not 0 <= number < counts.get(topic, 0):
        return Said(record, home, reason="its source is no partition of the input")
    is_anomaly, event, reason = value.get("is_anomaly"), value.get("event"), None
    if is_anomaly is not None and type(is_anomaly) is not bool:
        reason = "is_anomaly must be true, false or null"
    elif event is not None and type(event) is not dict:
        reason = "its event is no object"
    elif offset is None and event is None:
        reason = "it has neither the offset of its source nor the event itself"
    elif offset is not None and (type(offset) is not int or offset < 0):
        reason = "the offset of its source is no offset"
    return Said(record, TopicPartition(topic, number), offset, is_anomaly, event, reason)
