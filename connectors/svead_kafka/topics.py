"""The topics of a worker: which there are, which it creates, and how they change while it runs."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any
from uuid import UUID

from kafka.errors import TopicAlreadyExistsError

from svead_kafka.client import Clients, settings_of, wait_for_topics
from svead_kafka.errors import ConfigurationError
from svead_kafka.options import Options

log = logging.getLogger(__name__)


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
        settings = {topic: settings_of(self._options, topic, partitions) for topic in missing}
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
                self.ids[topic["name"]] = _known_id(topic.get("topic_id"))

    def were_replaced(self, consumer: Any) -> bool:
        """Whether a topic of the input was deleted and created again, as far as a consumer of it has heard."""
        heard = {topic: _known_id(consumer._cluster.topic_id(topic)) for topic in self.input}
        return any(None not in (heard[topic], self.ids[topic]) and heard[topic] != self.ids[topic] for topic in heard)


def _known_id(found: Any) -> str | None:
    """The id of a topic as text; None for that of brokers which have no ids."""
    return str(found) if found is not None and UUID(str(found)).int else None
