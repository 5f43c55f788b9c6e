"""The partitions that a worker owns now: following rebalances, restoring models, staying in the group meanwhile."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import MemberState

from svead_kafka.client import Clients, count_again
from svead_kafka.errors import StateError
from svead_kafka.events import Decoder
from svead_kafka.feedback import Feedback
from svead_kafka.journal import Journal, Mark
from svead_kafka.models import Maker
from svead_kafka.partition import Partition, new_checkpoint
from svead_kafka.state_topic import Found, StateReader
from svead_kafka.watchdog import Watchdog

log = logging.getLogger(__name__)

_WAIT_MS = 60_000
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
    clients, maker, decoder, watchdog
        The worker's.
    counts
        Partitions of each topic; brought up to date when the assignment changes.
    """

    def __init__(
        self, clients: Clients, maker: Maker, decoder: Decoder, watchdog: Watchdog, counts: dict[str, int]
    ) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.membership: Any = None
        self.feedback: Feedback | None = None
        self._clients = clients
        self._options = clients.options
        self._maker = maker
        self._decoder = decoder
        self._watchdog = watchdog
        self._counts = counts
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
                self.feedback = Feedback(listener, self._reader, clients.end, self._options, decoder, counts)
            self._consumer = self._open(clients.member())
            self._consumer.subscribe(topics=list(self._options.input), listener=self._rebalances)
            self._know_the_topics()
        except BaseException:
            self.close()
            raise

    def _open(self, client: Any) -> Any:
        self._opened.append(client)
        return client

    def _know_the_topics(self) -> None:
        """Wait for the metadata of the input before joining.

        A member that joins without it leads the group to an empty assignment, and may miss the end of the rebalance
        that puts it right.
        """
        deadline = time.monotonic() + _WAIT_MS / 1000
        for topic in self._options.input:
            while not self._consumer.partitions_for_topic(topic):
                if time.monotonic() > deadline:
                    raise KafkaTimeoutError(f"no metadata of topic {topic!r} in {_WAIT_MS // 1000} s")
                time.sleep(0.1)

    def close(self) -> None:
        """Leave the group."""
        while self._opened:
            with suppress(KafkaError):
                self._opened.pop().close()

    def poll(self, timeout_ms: int, limit: int) -> dict[TopicPartition, list[Any]] | None:
        """Records of the assigned partitions; None when the assignment has changed and must be restored first."""
        polled: dict[TopicPartition, list[Any]] = self._consumer.poll(timeout_ms=timeout_ms, max_records=limit)
        if self._consumer.group_metadata().state == MemberState.STABLE:
            self._unsettled = time.monotonic()
        elif time.monotonic() - self._unsettled > _LONGEST_REBALANCE:
            # The client can lose track of a rebalance and wait for ever, out of the group and without an error.
            raise KafkaTimeoutError(f"no settled membership of the group for {_LONGEST_REBALANCE:.0f} s")
        if self._restored != self._rebalances.count:
            # Whatever was polled is read again: restoring puts every partition back to its committed offset.
            return None
        return polled

    def forget(self) -> None:
        """Throw the models away: they have learned what is not committed."""
        self.partitions.clear()
        self._restored = -1

    def settled(self) -> dict[TopicPartition, Partition]:
        """The partitions, if they are surely still ours."""
        return self.partitions if self._restored == self._rebalances.count else {}

    def lags(self) -> dict[TopicPartition, int]:
        """Messages behind the position, for each partition of which that is known."""
        lags = {}
        for source, partition in self.settled().items():
            with suppress(KafkaError):
                end = self._consumer.highwater(source)
                if end is not None:
                    lags[source] = max(0, end - partition.position)
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
        count_again(self._clients, self._counts)
        marked = {source: self._committed(source) for source in sources}
        committed: dict[TopicPartition, int | None] = {source: one.offset for source, one in marked.items()}
        self._keep_what_stayed(membership, marked)
        gained = sorted(sources - self.partitions.keys())
        restored: dict[TopicPartition, Partition] = {}
        new: dict[TopicPartition, Partition] = {}
        if gained:
            self._watchdog.beat("reading the state topic")
            starts, ends = self._reader.beginning_offsets(gained), self._reader.end_offsets(gained)
            marks = {source: Mark.read(marked[source].metadata) for source in gained}
            for source, found in self._scan(gained, marked, marks).items():
                self._still_here(rebalances)
                bounds = (starts[source], ends[source])
                offset, is_new = self._settle(source, found, committed[source], bounds, marks[source])
                partition = Partition(source, self._maker, found, self._states.load)
                self._replay(partition, max(partition.position, bounds[0]), offset, rebalances)
                partition.replay([], offset)  # the answers that were taken after the last event
                restored[source] = partition
                if is_new:
                    new[source] = partition
        self._still_here(rebalances)
        self.partitions |= restored  # all or none: a new one without its first checkpoint must not be kept
        for source in sources:
            self._consumer.seek(source, self.partitions[source].position)
        if self.feedback is not None:
            self.feedback.begin(self.partitions)
        self._consumer.resume(*sources)
        self.membership = membership
        self._restored = rebalances
        return new

    def _committed(self, source: TopicPartition) -> OffsetAndMetadata:
        return self._consumer.committed(source, metadata=True, timeout_ms=_WAIT_MS) or _NOTHING

    def _scan(
        self,
        sources: list[TopicPartition],
        marked: dict[TopicPartition, OffsetAndMetadata],
        marks: dict[TopicPartition, Mark | None],
    ) -> dict[TopicPartition, Found]:
        """What the state topic knows of these partitions, if what is committed has not changed meanwhile.

        Who has lost them without knowing can read an offset, and then state that the new owner committed with a later
        one. That must not be taken for offsets that were moved back, or for a state topic that lacks something.
        """
        found: dict[TopicPartition, Found] = self._states.scan(sources)
        # Whoever committed offsets wrote a checkpoint before that fits, unless the group is older than its models,
        # the options are others now, or somebody has moved the offsets: then nothing more is found, either.
        doubtful = [
            source
            for source in found
            if marked[source].offset is not None and not self._fits(found[source], marked[source].offset, marks[source])
        ]
        if doubtful:
            log.info("offsets without state that fits: waiting for open transactions on %s", self._options.state)
            found |= self._states.scan(doubtful, self._clients.end)
            if any(self._committed(source)[:2] != marked[source][:2] for source in doubtful):
                raise AssignmentChanged
        return found

    def _fits(self, found: Found, committed: int, mark: Mark | None) -> bool:
        checkpoint = found.checkpoint
        same = checkpoint is not None and checkpoint["options"] == self._options.fingerprint
        return same and _saved_up_to(found) <= committed and _has_all(found, mark)

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
            if follows and committed.get(source, _NOTHING)[:2] == (partition.position, partition.mark)
        }
        self.partitions = kept

    def _settle(
        self, source: TopicPartition, found: Found, committed: int | None, bounds: tuple[int, int], mark: Mark | None
    ) -> tuple[int, bool]:
        """The offset at which scoring goes on, and whether the models begin there; completes `found` then."""
        first, end = bounds
        name = f"{source.topic}/{source.partition}"
        checkpoint = found.checkpoint
        if committed is not None and committed > end:
            # Also seen for a moment after a broker restart, so it is tried again before giving up.
            raise KafkaTimeoutError(
                f"the group has committed offset {committed} of {name}, which ends at {end}; if the topic was created "
                "again, reset the group's offsets or take another group"
            )
        if checkpoint is not None and checkpoint["options"] != self._options.fingerprint:
            changed = _difference(checkpoint["options"], self._options.fingerprint)
            if self._options.if_changed == "fail":
                raise StateError(
                    f"the models of {name} were made with other options ({changed}); take another group, or begin "
                    "with new models by --if-changed restart"
                )
            log.warning("%s: other options (%s): beginning with new models", name, changed)
            checkpoint = None
        if committed is None:
            # All that is saved was committed once, so the models are those of an uninterrupted run there.
            committed = _saved_up_to(found) if checkpoint else (first if self._options.start == "earliest" else end)
            if checkpoint:
                log.warning("%s: the group's offsets are gone; going on at %d, where the state is", name, committed)
        elif checkpoint is not None and _saved_up_to(found) > committed:
            log.warning("%s: offsets were moved back to %d: beginning with new models", name, committed)
            checkpoint = None
        elif checkpoint is not None and not _has_all(found, mark):
            missing = f"the state topic lacks answers or models that were committed with offset {committed} of {name}"
            if self._options.if_changed == "fail":
                raise StateError(f"{missing}; take another group, or begin with new models by --if-changed restart")
            log.warning("%s: beginning with new models", missing)
            checkpoint = None
        offset = max(int(committed), first)
        if offset > committed:
            log.warning("%s: %d messages were deleted before they were scored", name, offset - committed)
        if checkpoint is None:
            found.checkpoint, found.models = new_checkpoint(offset, self._options.fingerprint), {}
            log.info("%s: new models, from offset %d", name, offset)
            return offset, True
        if checkpoint["offset"] < first:
            log.warning("%s: the messages to replay were deleted; models may differ from before", name)
        log.info("%s: state at offset %d, going on at %d", name, checkpoint["offset"], offset)
        return offset, False

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
                self._consumer.poll(timeout_ms=10, max_records=1)  # all is paused: this only keeps us in the group
                self._still_here(rebalances)
                alive = time.monotonic()

    def _still_here(self, rebalances: int) -> None:
        if self._rebalances.count != rebalances:
            raise AssignmentChanged


def _saved_up_to(found: Found) -> int:
    """The offset before which some event may be in a saved model."""
    assert found.checkpoint is not None
    covered = (saved.covers for saved in found.models.values())
    return max(int(found.checkpoint["offset"]), _journal(found).position, *covered)


def _journal(found: Found) -> Journal:
    """The journal of the models that were found; an empty one if there is none of their life."""
    assert found.checkpoint is not None
    return (found.journal or Journal("")).of_life(found.checkpoint["life"])


def _has_all(found: Found, mark: Mark | None) -> bool:
    """Whether the journal has all answers that the snapshots cover, and that the committed offset tells of."""
    assert found.checkpoint is not None
    journal = _journal(found)
    if any(saved.answers > journal.count for saved in found.models.values()):
        return False
    return mark is None or (mark.life == journal.life and mark.version <= journal.version)


def _difference(then: dict[str, Any], now: dict[str, Any]) -> str:
    names = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    return ", ".join(f"{name}: {then.get(name)!r} then, {now.get(name)!r} now" for name in names)
