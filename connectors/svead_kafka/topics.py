"""The topics of a worker: which there are, which it creates, and how they change while it runs."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any
from uuid import UUID

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAlreadyExistsError

from svead_kafka.client import Clients
from svead_kafka.errors import ConfigurationError
from svead_kafka.options import Options

log = logging.getLogger(__name__)

_NEWS_S = 10.0  # how long brokers may take to hear of a new topic
# What a setting of topics was called before: here, before Kafka 3.6.
_OLDER_CONFIGS = {"message.timestamp.after.max.ms": "message.timestamp.difference.max.ms"}


class Topics:
    """The topics of a worker: how many partitions each has, and its id where brokers have such ids."""

    def __init__(self, options: Options) -> None:
        self.counts: dict[str, int] = {}
        self.ids: dict[str, str | None] = {}
        self._options = options

    @property
    def input(self) -> list[str]:
        """Those that events are read from; with a pattern, all that exist now."""
        return [topic for topic in self.counts if self._options.reads(topic)]

    def prepare(self, clients: Clients) -> None:
        """Look at all topics, after creating those that may be created."""
        options = self._options
        admin = clients.admin()
        try:
            existing = set(admin.list_topics())
            self._look(admin, existing)
            lost = [topic for topic in options.input if topic not in self.counts and options.pattern is None]
            if lost or not self.input:
                what = (
                    f"topic {lost[0]!r} does not exist" if lost else f"topics that match {options.input} do not exist"
                )
                raise ConfigurationError(f"input {what} at {options.bootstrap}, or may not be seen by this user")
            missing = [topic for topic in options.own_topics if topic not in self.counts]
            if missing and not options.create_topics:
                names = ", ".join(missing)
                raise ConfigurationError(f"topics {names} do not exist; create them, or add --create-topics")
            if missing:
                self._create(admin, missing)
        finally:
            admin.close()

    def _create(self, admin: Any, missing: list[str]) -> None:
        partitions = max(self.counts[topic] for topic in self.input)
        known = _known_configs(admin, self.input[0])
        settings = {topic: _understood(_settings(self._options, topic, partitions), known) for topic in missing}
        with suppress(TopicAlreadyExistsError):  # another worker of the group was quicker
            admin.create_topics(settings, wait_for_metadata=True)
        log.info("created topics %s with %d partitions", ", ".join(missing), partitions)
        self.counts |= wait_for_topics(admin, missing)

    def look_again(self, clients: Clients) -> None:
        """Topics may grow, come and be created again while workers run, except the state topic."""
        before = dict(self.counts)
        admin = clients.admin()
        try:
            self._look(admin, set(admin.list_topics()) - {self._options.state})
        finally:
            admin.close()
        for topic, count in self.counts.items():
            if before.get(topic, count) != count:
                log.info("%s has %d partitions now", topic, count)
            elif topic not in before:
                log.info("reading %s (%d partitions), too", topic, count)

    def _look(self, admin: Any, existing: set[str]) -> None:
        wanted = [
            topic for topic in sorted(existing) if topic in self._options.own_topics or self._options.reads(topic)
        ]
        for topic in admin.describe_topics(wanted) if wanted else ():
            if topic["partitions"]:
                self.counts[topic["name"]] = len(topic["partitions"])
                self.ids[topic["name"]] = known_id(topic.get("topic_id"))

    def were_replaced(self, consumer: Any) -> bool:
        """Whether a topic of the input was deleted and created again, as far as a consumer of it has heard."""
        heard = {topic: known_id(consumer._cluster.topic_id(topic)) for topic in self.input}
        return any(None not in (heard[topic], self.ids[topic]) and heard[topic] != self.ids[topic] for topic in heard)


def known_id(found: Any) -> str | None:
    """The id of a topic as text; None for that of brokers which have no ids."""
    return str(found) if found is not None and UUID(str(found)).int else None


def _settings(options: Options, topic: str, partitions: int) -> dict[str, Any]:
    # Events keep their timestamps, also those of clocks that run ahead.
    configs = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    if topic == options.state:
        # Old snapshots go soon, so that a restore has little to read.
        configs = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024), "segment.ms": "600000"}
        configs |= {"min.cleanable.dirty.ratio": "0.1", "delete.retention.ms": "3600000"}
    elif topic == options.feedback:
        configs["cleanup.policy"] = "delete"  # answers with one key are not one answer
    elif topic == options.dead_letters:
        configs["max.message.bytes"] = str(16 * 1024 * 1024)
    return {"num_partitions": partitions, "replication_factor": -1, "configs": configs}


def _known_configs(admin: Any, topic: str) -> set[str] | None:
    """The names of the settings that topics have at these brokers, by one that is there; None if they don't tell."""
    try:
        answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        return set(answer["topic"][topic])
    except (KafkaError, KeyError) as error:
        log.debug("could not read the settings of %s: %s", topic, error)
        return None


def _understood(settings: dict[str, Any], known: set[str] | None) -> dict[str, Any]:
    """The settings of a topic in the words of these brokers, which refuse a topic for one that they don't know."""
    if known is None:
        return settings
    old = {_OLDER_CONFIGS.get(name, name) if name not in known else name: value
           for name, value in settings["configs"].items()}  # fmt: skip
    return settings | {"configs": {name: value for name, value in old.items() if name in known}}


def _partition_counts(admin: Any, topics: list[str]) -> dict[str, int]:
    existing = set(admin.list_topics())
    found = admin.describe_topics([topic for topic in topics if topic in existing])
    return {topic["name"]: len(topic["partitions"]) for topic in found if topic["partitions"]}


def wait_for_topics(admin: Any, topics: list[str]) -> dict[str, int]:
    """The number of partitions of every topic, once the broker asked knows them all: some learn of a topic late."""
    deadline = time.monotonic() + _NEWS_S
    while True:
        counts = _partition_counts(admin, topics)
        missing = [topic for topic in topics if topic not in counts]
        if not missing:
            return counts
        if time.monotonic() > deadline:
            raise KafkaTimeoutError(f"topics {', '.join(missing)} were created, but the brokers don't show them")
        time.sleep(0.1)
