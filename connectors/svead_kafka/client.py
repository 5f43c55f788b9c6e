"""Kafka clients for a worker, and the topics they need."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailedError

from svead_kafka import patches  # noqa: F401
from svead_kafka.errors import ConfigurationError
from svead_kafka.options import Options
from svead_kafka.properties import checked

log = logging.getLogger(__name__)

REFUSED = "AuthenticationFailed"  # how the client calls it in its log
_OLD_STORY = 300.0  # seconds after which a complaint has nothing to do with a failure
OLDEST = (2, 5)  # Kafka's first version in which offsets of a transaction carry the membership
TRANSACTION_TIMEOUT_MS = 15_000
BATCH_BYTES = 262_144
_ROOM = 16_384  # bytes that score, place and explanation may add to an event, and that an incident may have


def look_for_broker(places: list[str], properties: Mapping[str, Any]) -> None:
    """Raise unless a broker takes connections at one of these places."""
    if any("proxy" in name for name in properties):
        return  # brokers are not reached directly
    for place in places:
        host, _, port = place.rpartition(":")
        with suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]") or place, int(port or 9092)), timeout=5).close()
            return
    raise KafkaConnectionError(f"no broker answers at {','.join(places)}")


class LastComplaint(logging.Handler):
    """Remembers what the client complained about last in its log: its exceptions often don't tell."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._text, self._at = "", 0.0

    def emit(self, record: logging.LogRecord) -> None:
        """Remember a message; one about the password is not forgotten for another."""
        if REFUSED not in self._text:
            self._text, self._at = record.getMessage(), time.monotonic()

    def take(self) -> str:
        """The last message since this was asked for; nothing if it is an old story."""
        text, self._text = self._text, ""
        return text if time.monotonic() - self._at < _OLD_STORY else ""


class Clients:
    """Makes the clients of one worker."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._client = checked(options.client)
        # Of the member alone: two clients of one name would throw each other out.
        named = self._client.pop("group_instance_id", None)
        self.instance_id = options.instance_id or named
        if named is not None and named != self.instance_id:
            raise ConfigurationError(
                f"--instance-id is {self.instance_id!r}, but the client's group.instance.id {named!r}: take one out"
            )
        self._bootstrap = [one.strip() for one in options.bootstrap.split(",")]

    def look_for_broker(self) -> None:
        """Raise unless a broker takes connections.

        A client whose constructor fails leaves a thread behind that goes on trying, so none is made in vain.
        """
        self._look_for_token()
        look_for_broker(self._bootstrap, self._client)

    def _look_for_token(self) -> None:
        """Raise unless there is a token, where one is needed: the client would keep to itself what is wrong."""
        tokens = self._client.get("sasl_oauth_token_provider")
        try:
            if tokens is not None:
                tokens.token()
        except SaslAuthenticationFailedError as error:
            raise ConfigurationError(str(error.args[0])) from None

    def _for(self, kind: Any, **ours: Any) -> dict[str, Any]:
        own = {name: value for name, value in self._client.items() if name in kind.DEFAULT_CONFIG}
        # A broker that comes back is found within seconds, new topics and partitions within half a minute.
        defaults = {"client_id": "svead-stream", "reconnect_backoff_max_ms": 2000, "metadata_max_age_ms": 30_000}
        return {"bootstrap_servers": self._bootstrap, **defaults, **own, **ours}

    def member(self) -> Any:
        """A consumer of the group."""
        ours = {"group_id": self.options.group, "partition_assignment_strategy": [StickyPartitionAssignor]}
        ours |= {"group_instance_id": self.instance_id}
        return _make(KafkaConsumer, self._for(KafkaConsumer, **ours, **self._reading()))

    def reader(self) -> Any:
        """A consumer of no group, to read partitions from any offset."""
        return _make(KafkaConsumer, self._for(KafkaConsumer, group_id=None, **self._reading()))

    @staticmethod
    def _reading() -> dict[str, Any]:
        # read_committed also makes the client wait for offsets that a transaction still holds: without it, a new
        # owner could begin below an offset that is just being committed.
        return {
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            # Where messages are gone, the worker wants to know, not to go on elsewhere.
            "auto_offset_reset": "none",
        }

    def producer(self, transactional_id: str, largest: int = BATCH_BYTES) -> Any:
        """A producer of transactions, whose batches have at most so many bytes unless one message has more."""
        defaults = {
            # An abandoned transaction keeps readers and the next owner waiting this long.
            "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
            # The next transaction often meets the last one still being finished; the client sleeps this long then.
            "retry_backoff_ms": 10,
            "linger_ms": 5,
            # A topic's limit is for batches; the client loses track of one that the broker sends back as too large.
            "batch_size": min(largest, BATCH_BYTES),
            # The topic's own limit decides; messages that took up to 1 MB in are a little larger on the way out.
            "max_request_size": 16 * 1024 * 1024,
        }
        defaults = {name: value for name, value in defaults.items() if name not in self._client}
        producer = _make(KafkaProducer, self._for(KafkaProducer, transactional_id=transactional_id, **defaults))
        version = producer.config["api_version"]
        if version < OLDEST:
            producer.close(timeout=0)
            raise ConfigurationError(
                f"the cluster at {self.options.bootstrap} is of Kafka {_dotted(version)}, which lets a worker commit "
                f"that has lost its partitions: {_dotted(OLDEST)} or newer is needed"
            )
        producer.init_transactions()
        return producer

    def admin(self) -> Any:
        """An admin client."""
        return _make(KafkaAdminClient, self._for(KafkaAdminClient))

    def committed(self) -> dict[TopicPartition, Any]:
        """All offsets that the group has committed, with their metadata."""
        admin = self.admin()
        try:
            found: dict[TopicPartition, Any] = admin.list_group_offsets(self.options.group)[self.options.group]
            return found
        finally:
            admin.close()

    def end(self, place: TopicPartition) -> int:
        """Where a partition ends, counting what is not committed yet."""
        admin = self.admin()
        try:
            return int(admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset)
        finally:
            admin.close()


def _make(kind: Any, properties: dict[str, Any]) -> Any:
    """A client with these properties."""
    try:
        return kind(**properties)
    except (ValueError, TypeError, AssertionError, LookupError, OSError) as error:
        # Its own words only: the values may hold secrets.
        raise ConfigurationError(f"the client refuses its properties, see --client-config: {error}") from error


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def topic_settings(clients: Clients, topics: list[str]) -> dict[str, dict[str, str]]:
    """The configuration of topics; empty where the cluster doesn't tell."""
    admin = clients.admin()
    try:
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        answer = admin.describe_configs(resources, config_filter="all")["topic"]
        return {topic: {name: one["value"] for name, one in configs.items()} for topic, configs in answer.items()}
    except (KafkaError, KeyError) as error:  # not allowed to ask: the broker will say so when it matters
        log.debug("could not read the configuration of %s: %s", topics, error)
        return {}
    finally:
        admin.close()


def message_limits(settings: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """The largest message that each topic takes, as far as its configuration is known."""
    name = "max.message.bytes"
    return {topic: int(one[name]) for topic, one in settings.items() if name in one}


def check_room(options: Options, limits: Mapping[str, int]) -> None:
    """Refuse to begin if an event that is allowed in could not be written out, which would stop the worker later."""
    limit = limits.get(options.output)
    needed = options.max_event_bytes + _ROOM if options.include_event else _ROOM
    if limit is not None and needed > limit:
        raise ConfigurationError(
            f"topic {options.output!r} takes messages of {limit} bytes, but events may have {options.max_event_bytes}: "
            f"give --max-event-bytes {max(1, limit - _ROOM)} or less, or raise the topic's max.message.bytes"
        )
    limit = limits.get(options.incidents or "")
    if limit is not None and limit < _ROOM:
        raise ConfigurationError(
            f"topic {options.incidents!r} takes messages of {limit} bytes, too few for incidents: "
            f"raise its max.message.bytes to {_ROOM}"
        )
