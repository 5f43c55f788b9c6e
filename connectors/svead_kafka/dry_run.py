"""What a worker would do, and whether it could: brokers, topics, permissions, room, codecs, state. Nothing is changed.

No group is joined, nothing is written or created, so a running group is not disturbed. Permissions are what the cluster
says of itself; a cluster that checks none allows all. Two things show only when a worker starts: whether it may join a
group that does not exist yet, and whether it may write under its transactional id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import TopicPartition
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from svead_kafka.client import OLDEST, Clients, check_room, message_limits, topic_settings
from svead_kafka.errors import ConfigurationError, StateError
from svead_kafka.journal import Mark
from svead_kafka.options import Options, describe
from svead_kafka.patches import PACKAGES
from svead_kafka.properties import CODECS, has_codec
from svead_kafka.settling import Known, settle
from svead_kafka.state_topic import Found, StateReader
from svead_kafka.tools import patiently
from svead_kafka.topics import known_id


@dataclass(frozen=True)
class Line:
    """Something that was looked at; `problem` if a worker would not run, or not for long."""

    text: str
    problem: bool = False

    def __str__(self) -> str:
        return f"{'problem' if self.problem else 'ok':<8} {self.text}"


class DryRun:
    """Looks at all that a worker with these clients needs."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._options = clients.options
        self._counts: dict[str, int] = {}  # partitions, also of topics that would be created
        self._existing: set[str] = set()
        self._ids: dict[str, str | None] = {}
        self._input = list(clients.options.input)
        self._admin: Any = None

    def lines(self) -> Iterator[Line]:
        """What was found; ends early where the rest cannot be looked at."""
        options = self._options
        try:
            self._clients.look_for_broker()
            self._admin = self._clients.admin()
        except KafkaError as error:
            yield Line(f"brokers: {error}; do they run, and are --bootstrap and --client-config right?", True)
            return
        try:
            yield self._brokers()
            yield from self._topics()
            if not self._input or not self._counts.keys() >= {*self._input, *options.own_topics}:
                return
            for text in describe(options, self._counts):
                yield Line(f"plan: {text}")
            yield from self._names()
            yield from self._room()
            yield from self._codecs()
            yield from self._state()
        except KafkaError as error:
            yield Line(f"the rest could not be looked at: {error}", True)
        finally:
            self._admin.close()

    # the cluster

    def _brokers(self) -> Line:
        brokers = self._admin.describe_cluster()["brokers"]
        version = self._admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version
        text = f"brokers: {len(brokers)}, Kafka {'.'.join(map(str, version))} or newer"
        if version < OLDEST:
            return Line(f"{text}; {'.'.join(map(str, OLDEST))} is the oldest that will do", True)
        return Line(text)

    def _topics(self) -> Iterator[Line]:
        options = self._options
        if options.pattern is not None:
            self._input = sorted(filter(options.reads, self._admin.list_topics()))
            if not self._input:
                yield Line(f"input: no topic matches {', '.join(options.input)}", True)
        wanted = [*self._input, *options.own_topics]
        found = {topic["name"]: topic for topic in self._admin.describe_topics(wanted)}
        partitions = max((len(found[topic]["partitions"]) for topic in self._input), default=0)
        for topic in wanted:
            error = for_code(found[topic]["error_code"])
            allowed = found[topic]["authorized_operations"]
            if error is TopicAuthorizationFailedError:
                yield Line(f"topic {topic}: this user may not see it; allow Describe", True)
            elif error is UnknownTopicOrPartitionError:
                yield self._missing(topic, partitions, allowed)
            else:
                self._existing.add(topic)
                self._counts[topic] = len(found[topic]["partitions"])
                self._ids[topic] = known_id(found[topic].get("topic_id"))
                yield self._permitted(topic, allowed)

    def _missing(self, topic: str, partitions: int, allowed: list[str] | None) -> Line:
        if topic in self._input:
            return Line(f"topic {topic}: it does not exist; the input is never created by a worker", True)
        if not self._options.create_topics:
            return Line(f"topic {topic}: it does not exist; create it, or add --create-topics", True)
        if allowed is not None and "CREATE" not in allowed:
            return Line(f"topic {topic}: it does not exist, and this user may not create it; allow Create", True)
        self._counts[topic] = partitions
        return Line(f"topic {topic}: would be created, with {partitions} partitions")

    def _permitted(self, topic: str, allowed: list[str] | None) -> Line:
        options = self._options
        needed = ["READ"] if topic in (*self._input, options.feedback, options.state) else []
        needed += ["WRITE"] if topic in (*options.written, options.state) else []
        text = f"topic {topic}: {self._counts[topic]} partitions"
        lacking = [] if allowed is None else [one.capitalize() for one in needed if one not in allowed]
        if lacking:
            return Line(f"{text}, but this user lacks {' and '.join(lacking)}; allow it", True)
        return Line(f"{text}, {' and '.join(needed).lower()} allowed")

    def _names(self) -> Iterator[Line]:
        """The group and the transactional id."""
        options = self._options
        try:
            group = patiently(lambda: self._admin.describe_groups([options.group]))[options.group]
            allowed, members = group["authorized_operations"], len(group["members"])
            lacking = allowed is not None and "READ" not in allowed
            is_new = "" if allowed is not None else "; that it may be joined shows when the worker starts"
            text = f"group {options.group}: {members} members{is_new}"
            yield Line(f"{text}, but this user lacks Read; allow it" if lacking else text, lacking)
        except KafkaError as error:
            yield Line(f"group {options.group}: {error}; allow Read", True)
        name = options.transactional_id or f"{options.group}-any"
        try:
            patiently(lambda: self._admin.describe_transactions([name]))
        except TransactionalIdAuthorizationFailedError:
            what = name if options.transactional_id else f"names that begin with {options.group}-"
            yield Line(f"transactional id: this user may not use {what}; allow Describe and Write", True)
            return
        except KafkaError:  # there is none yet, or the cluster is too old to tell
            pass
        yield Line(f"transactional id: {options.transactional_id or 'random'}")

    # what is written and read

    def _room(self) -> Iterator[Line]:
        existing = [topic for topic in self._options.written if topic in self._existing]
        try:
            check_room(self._options, message_limits(topic_settings(self._clients, existing)) if existing else {})
        except ConfigurationError as error:
            yield Line(f"room: {error}", True)
        else:
            yield Line(f"room: events up to {self._options.max_event_bytes} bytes")

    def _codecs(self) -> Iterator[Line]:
        readable = [name for name in CODECS if has_codec(name)]
        writes = self._options.client.get("compression_type")
        yield Line(f"codecs: {', '.join(readable)} can be read here; written: {writes or 'none'}")
        for topic, settings in topic_settings(self._clients, self._input).items():
            name = settings.get("compression.type")
            if name in CODECS and name not in readable:
                yield Line(f"codecs: {topic} has {name}, which needs a package: install {PACKAGES[name]}", True)

    # the state

    def _state(self) -> Iterator[Line]:
        options = self._options
        sources = [TopicPartition(topic, number) for topic in self._input for number in range(self._counts[topic])]
        member = self._clients.member()  # it asks, and never joins
        try:
            begins, ends = member.beginning_offsets(sources), member.end_offsets(sources)
            found = self._found(sources)
            for source in sources:
                at = member.committed(source, metadata=True, timeout_ms=60_000)
                committed, mark = (at.offset, Mark.read(at.metadata)) if at is not None else (None, None)
                topic = (self._ids[source.topic], self._counts[source.topic])
                bounds = (begins[source], ends[source])
                yield _outlook(Known(source, found[source], committed, mark, *bounds, *topic, False), options)
        finally:
            member.close()

    def _found(self, sources: list[TopicPartition]) -> Mapping[TopicPartition, Found]:
        if self._options.state not in self._existing:
            return {source: Found() for source in sources}
        reader = StateReader(self._clients.reader(), self._options.state, self._options.group)
        try:
            return reader.scan(sources)
        finally:
            reader.close()


def _outlook(known: Known, options: Options) -> Line:
    """What a worker would make of the offset and the saved models of a partition."""
    name = known.name
    saved = len(known.found.models)
    try:
        offset, is_new, gaps = settle(known, options, options.fingerprint)
    except (StateError, KafkaTimeoutError) as error:
        return Line(f"{name}: {error.args[0]}", True)
    assert known.found.checkpoint is not None
    begin = known.found.checkpoint["offset"]
    replayed = f"; learns {begin} to {offset - 1} again" if begin < offset else ""
    models = "new models" if is_new else f"saved models: {saved}{replayed}"
    passed_over = "".join(f"; passes over {gap.start} to {gap.end - 1} ({gap.reason})" for gap in gaps)
    return Line(f"{name}: goes on at {offset}, {max(0, known.end - offset)} behind the end, {models}{passed_over}")
