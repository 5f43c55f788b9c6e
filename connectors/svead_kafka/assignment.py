"""The partitions that a worker owns now: following rebalances, restoring models, staying in the group meanwhile."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from kafka.structs import MemberState

from svead_kafka.client import Clients
from svead_kafka.events import Decoder
from svead_kafka.feedback import Feedback
from svead_kafka.journal import Mark
from svead_kafka.metrics import Metrics
from svead_kafka.models import Maker
from svead_kafka.partition import Partition
from svead_kafka.settling import DELETED, TRUNCATED, Gap, Known, check_end, settle
from svead_kafka.state_topic import Found, StateReader
from svead_kafka.topics import Topics
from svead_kafka.watchdog import Watchdog

log = logging.getLogger(__name__)

_WAIT_MS = 60_000
_CLOSE_MS = 3_000  # to leave the group; where the coordinator does not answer, it finds out by itself
_LONGEST_REBALANCE = 60.0  # seconds
_KEEPALIVE = 1.0  # seconds of replay between two signs of life to the group
_FIRST_REPLAYED, _MOST_REPLAYED = 100, 2000  # events taken together; fewer where that takes longer
_NOTHING = OffsetAndMetadata(None, "", -1)  # is committed yet


class AssignmentChanged(Exception):
    """The assignment changed while it was being restored."""


class _Rebalances(ConsumerRebalanceListener):  # type: ignore[misc]
    """Counts rebalances. It runs on the client's own thread, where nothing may block."""

    def __init__(self) -> None:
        self.count = 0

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.count += 1

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.count += 1

    def on_partitions_lost(self, lost: Any) -> None:
        self.count += 1


class Assignment:
    """A member of the group with the models of the partitions assigned to it.

    Parameters
    ----------
    clients, maker, decoder, watchdog, metrics
        The worker's.
    topics
        Those of the worker; brought up to date when the assignment changes.
    """

    def __init__(
        self,
        clients: Clients,
        maker: Maker,
        decoder: Decoder,
        watchdog: Watchdog,
        metrics: Metrics,
        topics: Topics,
    ) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.membership: Any = None
        self.feedback: Feedback | None = None
        self._clients = clients
        self._options = clients.options
        self._maker = maker
        self._decoder = decoder
        self._watchdog = watchdog
        self._metrics = metrics
        self._topics = topics
        self._rebalances = _Rebalances()
        self._restored = -1  # the count of rebalances for which `partitions` is right
        self._reported: set[TopicPartition] = set()
        self._opened: list[Any] = []
        self._unsettled = time.monotonic()
        try:
            self._reader = self._open(clients.reader())
            self._states = self._open(StateReader(clients.reader(), self._options.state, self._options.group))
            if self._options.feedback is not None:
                listener = self._open(clients.reader())
                self.feedback = Feedback(listener, self._reader, clients.end, self._options, decoder, topics.counts)
            self._consumer = self._open(clients.member())
            self._subscribe()
            self._know_the_topics()
        except BaseException:
            self.close()
            raise

    def _open(self, client: Any) -> Any:
        self._opened.append(client)
        return client

    def _subscribe(self) -> None:
        pattern = self._options.pattern
        if pattern is None:
            self._consumer.subscribe(topics=list(self._options.input), listener=self._rebalances)
        else:
            self._consumer.subscribe(pattern=pattern, listener=self._rebalances)

    def _know_the_topics(self) -> None:
        """Wait for the metadata of the input before joining.

        A member that joins without it leads the group to an empty assignment, and may miss the end of the rebalance
        that puts it right.
        """
        deadline = time.monotonic() + _WAIT_MS / 1000
        for topic in self._topics.input:
            while not self._consumer.partitions_for_topic(topic):
                if time.monotonic() > deadline:
                    raise KafkaTimeoutError(f"no metadata of topic {topic!r} in {_WAIT_MS // 1000} s")
                time.sleep(0.1)

    def close(self) -> None:
        """Leave the group."""
        while self._opened:
            with suppress(KafkaError):
                self._opened.pop().close(timeout_ms=_CLOSE_MS)

    def poll(self, timeout_ms: int, limit: int) -> dict[TopicPartition, list[Any]] | None:
        """Records of the assigned partitions; None when the assignment has changed and must be restored first."""
        polled: dict[TopicPartition, list[Any]] = {}
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms, max_records=limit)
        except NoOffsetForPartitionError:  # it was assigned just now: restoring tells where to begin
            pass
        except OffsetOutOfRangeError:  # the restore finds out what has happened
            self._restored = -1
        except LogTruncationError as error:
            self._tell_truncated(error.divergent_offsets)
            self._restored = -1
        if self._consumer.group_metadata().state == MemberState.STABLE:
            self._unsettled = time.monotonic()
        elif time.monotonic() - self._unsettled > _LONGEST_REBALANCE:
            # The client can lose track of a rebalance and wait for ever, out of the group and without an error.
            raise KafkaTimeoutError(f"no settled membership of the group for {_LONGEST_REBALANCE:.0f} s")
        if self._restored != self._rebalances.count or self._topics.were_replaced(self._consumer):
            # Whatever was polled is read again: restoring puts every partition back to its committed offset.
            self._restored = -1
            return None
        return polled

    def position(self, source: TopicPartition) -> int:
        """The offset up to which a partition was polled, also over what is no message, such as ends of transactions."""
        at = self._consumer.position(source, timeout_ms=0)  # asks nobody: it was told where to begin
        return self.partitions[source].position if at is None else int(at)

    def passed(self) -> dict[TopicPartition, int]:
        """Partitions of which more was polled than is committed, and up to where."""
        positions = {source: self.position(source) for source in self.partitions}
        return {
            source: position
            for source, position in positions.items()
            if position != self.partitions[source].committed_position
        }

    def forget(self) -> None:
        """Throw the models away: they have learned what is not committed."""
        self.partitions.clear()
        self._restored = -1

    def settled(self) -> dict[TopicPartition, Partition]:
        """The partitions, if they are surely still ours."""
        return self.partitions if self.is_restored else {}

    @property
    def is_restored(self) -> bool:
        """Whether the models of all partitions that are ours, if any, are here."""
        return self._restored == self._rebalances.count

    def is_connected(self) -> bool:
        """Whether the member of the group has a connection to some broker. Safe to call from another thread."""
        return any(one.connected for one in list(self._consumer._manager._conns.values()))

    def ends(self) -> dict[TopicPartition, int]:
        """Where the partitions of the input end now, for readers."""
        counts = self._topics.counts
        places = {TopicPartition(topic, number) for topic in self._topics.input for number in range(counts[topic])}
        return {place: end for place, (_, end) in self._bounds(places).items()}

    def is_past(self, ends: dict[TopicPartition, int]) -> bool:
        """Whether all partitions that are ours now were scored up to these offsets; not known during a rebalance."""
        return self.is_restored and all(
            partition.committed_position is not None and partition.committed_position >= ends.get(source, 0)
            for source, partition in self.partitions.items()
        )

    def lags(self) -> dict[TopicPartition, int]:
        """Messages behind the position, for each partition of which that is known."""
        lags = {}
        for source, partition in self.settled().items():
            with suppress(KafkaError):
                end = self._consumer.highwater(source)
                if end is not None:
                    lags[source] = max(0, end - max(partition.position, self.position(source)))
        self._reported |= lags.keys()
        return lags

    def gone(self) -> set[TopicPartition]:
        """Partitions that were ours the last time we looked."""
        gone = self._reported - self.partitions.keys()
        self._reported -= gone
        return gone

    # restoring

    def restore(self) -> dict[TopicPartition, Partition]:
        """Bring the models of all assigned partitions to their committed offsets.

        Returns those that are new to the group; their first checkpoint is to be committed before anything else.
        """
        rebalances = self._rebalances.count
        membership = self._consumer.group_metadata()
        sources = self._consumer.assignment()
        if membership.generation_id < 0 or not membership.member_id:
            raise AssignmentChanged  # out of the group: the next poll joins again
        self._consumer.pause(*sources)
        # Who owns a new partition, and who deals with answers to it, is agreed by the rebalance that gave it away.
        self._topics.look_again(self._clients)
        marked = {source: self._committed(source) for source in sources}
        self._keep_what_stayed(membership, marked)
        bounds = self._bounds(sources)
        gaps = [gap for source in self.partitions if (gap := self._overtaken(source, bounds[source])) is not None]
        gained = sorted(sources - self.partitions.keys())
        restored: dict[TopicPartition, Partition] = {}
        new: dict[TopicPartition, Partition] = {}
        for known in self._look_up(gained, bounds, marked):
            self._still_here(rebalances)
            offset, is_new, passed_over = settle(known, self._options, self._maker.fingerprint)
            partition = Partition(known.source, self._maker, known.found, self._states.load)
            self._replay(partition, max(partition.position, known.first), offset, rebalances)
            partition.replay([], offset)  # the answers that were taken after the last event
            partition.committed_position = known.committed
            restored[known.source] = partition
            gaps += passed_over
            if is_new:
                new[known.source] = partition
        self._still_here(rebalances)
        self.partitions |= restored  # all or none: a new one without its first checkpoint must not be kept
        for source in sources:
            self._consumer.seek(source, self.partitions[source].position)
        if self.feedback is not None:
            self.feedback.begin(self.partitions)
        self._consumer.resume(*sources)
        self.membership = membership
        self._restored = rebalances
        for gap in gaps:
            self._tell(gap)
        return new

    def _bounds(self, sources: set[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Where partitions begin, and where they end for readers."""
        places = sorted(sources)
        if not places:
            return {}
        self._reader.assign(places)  # so that it asks for their leaders
        try:
            starts, ends = self._reader.beginning_offsets(places), self._reader.end_offsets(places)
        except KeyError as error:  # how the client says that it does not know the leader of a new partition yet
            raise KafkaTimeoutError(f"no leader of {error} is known yet") from error
        return {place: (starts[place], ends[place]) for place in places}

    def _overtaken(self, source: TopicPartition, bounds: tuple[int, int]) -> Gap | None:
        """Go on where a partition begins now, if its messages were deleted faster than they were scored."""
        first, end = bounds
        partition = self.partitions[source]
        check_end(source, partition.position, end)
        gap = Gap(source, partition.position, first, DELETED)
        if first <= partition.position:
            return None
        partition.take([], first)
        return gap

    def _tell_truncated(self, divergent: dict[TopicPartition, Any]) -> None:
        """Brokers have lost messages that were scored, and may have others in their place by now."""
        for source, known in divergent.items():
            position = self.position(source)
            if known is not None:
                self._tell(Gap(source, known.offset, position, TRUNCATED))
            else:  # also if the topic was created again, which the restore sees
                log.warning("%s/%d is not what was read up to offset %d", *source, position)

    def _tell(self, gap: Gap) -> None:
        place = {"topic": gap.source.topic, "partition": gap.source.partition, "offset": gap.start}
        log.warning("%s", gap, extra=place)
        self._metrics.skipped.labels(*map(str, gap.source), gap.reason).inc(gap.end - gap.start)

    def _committed(self, source: TopicPartition) -> OffsetAndMetadata:
        return self._consumer.committed(source, metadata=True, timeout_ms=_WAIT_MS) or _NOTHING

    def _look_up(
        self,
        sources: list[TopicPartition],
        bounds: dict[TopicPartition, tuple[int, int]],
        marked: dict[TopicPartition, OffsetAndMetadata],
    ) -> list[Known]:
        """What the state topic and the input have of these partitions, if what is committed has not changed meanwhile.

        Who has lost them without knowing can read an offset, and then state that the new owner committed with a later
        one. That must not be taken for offsets that were moved back, or for a state topic that lacks something.
        """
        if not sources:
            return []
        self._watchdog.beat("reading the state topic")
        counts, ids = self._topics.counts, self._topics.ids
        grown = self._grown([source for source in sources if marked[source].offset is None])

        def known(source: TopicPartition, found: Found) -> Known:
            committed, mark = marked[source].offset, Mark.read(marked[source].metadata)
            topic = (ids.get(source.topic), counts[source.topic])
            return Known(source, found, committed, mark, *bounds[source], *topic, source in grown)

        all_known = [known(*one) for one in self._states.scan(sources).items()]
        # Whoever committed offsets wrote a checkpoint before that fits, unless the group is older than its models,
        # the options are others now, or somebody has moved the offsets: then nothing more is found, either.
        mine = self._maker.fingerprint
        doubtful = [one.source for one in all_known if one.committed is not None and not one.fits(mine)]
        if not doubtful:
            return all_known
        log.info("offsets without state that fits: waiting for open transactions on %s", self._options.state)
        found = self._states.scan(doubtful, self._clients.end)
        if any(self._committed(source)[:2] != marked[source][:2] for source in doubtful):
            raise AssignmentChanged
        return [known(one.source, found.get(one.source, one.found)) for one in all_known]

    def _grown(self, sources: list[TopicPartition]) -> set[TopicPartition]:
        """Those without offsets that their topic got after the group had begun to read it."""
        if not sources or self._options.start == "earliest":
            return set()
        began: dict[str, int] = {}
        for source, committed in self._clients.committed().items():
            mark = Mark.read(committed.metadata)
            if mark is not None and mark.partitions:
                began[source.topic] = min(mark.partitions, began.get(source.topic, mark.partitions))
        return {source for source in sources if source.partition >= began.get(source.topic, source.partition + 1)}

    def _keep_what_stayed(self, membership: Any, committed: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Keep models of partitions that nobody else can have had since: owned in this generation and the last."""
        last = self.membership
        follows = (
            last is not None
            and membership.member_id == last.member_id
            and membership.generation_id - last.generation_id in (0, 1)
        )
        kept = {
            source: partition
            for source, partition in self.partitions.items()
            if follows
            and committed.get(source, _NOTHING)[:2] == (partition.position, partition.mark)
            and partition.topic_id == self._topics.ids.get(source.topic)
        }
        self.partitions = kept

    def _replay(self, partition: Partition, start: int, end: int, rebalances: int) -> None:
        """Learn silently what was scored and committed after the state was saved.

        Alerts are explained here as well, since incidents add up their reasons; but what was told is not told again.
        """
        if start >= end:
            return
        source = partition.source
        self._reader.assign([source])
        self._reader.seek(source, start)
        alive = time.monotonic()
        deadline = alive + _WAIT_MS / 1000
        size = _FIRST_REPLAYED
        while self._reader.position(source) < end:
            records = self._reader.poll(timeout_ms=500, max_records=size).get(source, [])
            began = time.monotonic()
            events, _ = self._decoder.decode(record for record in records if record.offset < end)
            if records:
                partition.replay(events, min(records[-1].offset + 1, end))
                took = time.monotonic() - began
                if took > _KEEPALIVE:
                    size = max(1, int(len(records) * _KEEPALIVE / took))
                elif len(records) == size:
                    size = min(_MOST_REPLAYED, size * 2)
                self._watchdog.beat(f"replaying {source.topic} {source.partition}")
                deadline = time.monotonic() + _WAIT_MS / 1000
            elif time.monotonic() > deadline:
                raise KafkaTimeoutError(f"replaying {source} stopped at {self._reader.position(source)} of {end}")
            if time.monotonic() - alive > _KEEPALIVE:
                with suppress(NoOffsetForPartitionError):
                    self._consumer.poll(timeout_ms=10, max_records=1)  # all is paused: it only keeps us in the group
                self._still_here(rebalances)
                alive = time.monotonic()

    def _still_here(self, rebalances: int) -> None:
        if self._rebalances.count != rebalances:
            raise AssignmentChanged
