"""Commands beside the worker, to try things out: send a file into a topic, show what comes out, and answer to it."""

from __future__ import annotations

import csv
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import click
import orjson
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import (
    InvalidTopicError,
    KafkaConnectionError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from svead_kafka.client import look_for_broker
from svead_kafka.errors import ConfigurationError
from svead_kafka.properties import read_client_config
from svead_stream.cli.progress import Progress

_WAIT_S = 15.0


def client(bootstrap: str, config: Path | None) -> dict[str, Any]:
    """Properties that all clients here share."""
    defaults = {"bootstrap_servers": bootstrap.split(","), "bootstrap_timeout_ms": 10_000}  # somebody is waiting
    properties = read_client_config(config) if config else {}
    properties.pop("group_instance_id", None)  # a worker's: none of these is a member of its group
    return {**defaults, **properties}


@contextmanager
def administration(properties: dict[str, Any]) -> Iterator[Any]:
    """An admin client, if a broker answers."""
    places = properties["bootstrap_servers"]
    try:
        look_for_broker(places, properties)
    except KafkaConnectionError as error:
        where = ",".join(places)
        raise ConfigurationError(f"no broker answers at {where}; does it run, and is --bootstrap right?") from error
    admin = KafkaAdminClient(**_fit(properties, KafkaAdminClient))
    try:
        yield admin
    finally:
        admin.close()


def topics_of(properties: dict[str, Any], group: str) -> list[str]:
    """The topics of which a group has committed offsets."""
    with administration(properties) as admin:
        offsets = patiently(lambda: admin.list_group_offsets(group))[group]
        return sorted({source.topic for source in offsets})


def patiently(ask: Callable[[], Any]) -> Any:
    """An answer of a coordinator; a cluster that was never asked for one needs a moment to find it."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            return ask()
        except KafkaError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def check_topic(properties: dict[str, Any], topic: str, remedy: str) -> None:
    """Refuse a topic that does not exist, which clients wait for in silence; brokers that create topics may do so."""
    with administration(properties) as admin:
        [found] = admin.describe_topics([topic])
        error = for_code(found["error_code"])
        if error is UnknownTopicOrPartitionError:
            if not _may_create(admin):
                raise ConfigurationError(f"topic {topic!r} does not exist; {remedy}")
        elif error is TopicAuthorizationFailedError:
            raise ConfigurationError(f"topic {topic!r} must not be seen by this user; its owner can allow it")
        elif error is InvalidTopicError:
            raise ConfigurationError(f"{topic!r} is no topic name; use letters, digits, '.', '_' and '-'")


def _may_create(admin: Any) -> bool:
    """Whether brokers create the topics that clients ask for, or will not say so."""
    try:
        number = str(admin.describe_cluster()["brokers"][0]["broker_id"])
        resource = ConfigResource(ConfigResourceType.BROKER, number)
        answer = admin.describe_configs([resource], config_filter="all")["broker"][number]
        return bool(answer["auto.create.topics.enable"]["value"] == "true")
    except (KafkaError, KeyError):
        return True


def _fit(properties: dict[str, Any], kind: Any) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if name in kind.DEFAULT_CONFIG}


def send(
    properties: dict[str, Any],
    file: str,
    topic: str,
    rate: float | None = None,
    key: str | None = None,
    loop: bool = False,
    create: int | None = None,
) -> int:
    """Send the rows of a file as JSON events; returns how many."""
    if rate is not None and rate <= 0:
        raise ConfigurationError(f"--rate must be positive, not {rate}")
    if loop and file == "-":
        raise ConfigurationError("--loop needs a file: standard input cannot be read twice")
    if create is not None:
        _create(properties, topic, create)
    check_topic(properties, topic, "--create N makes it, with N partitions")
    progress = Progress()
    producer = KafkaProducer(**{"linger_ms": 5} | _fit(properties, KafkaProducer))
    began, count = time.monotonic(), 0
    futures: list[Any] = []
    try:
        while True:
            before = count
            for event, raw in _rows(file):
                if rate is not None:
                    time.sleep(max(0.0, began + count / rate - time.monotonic()))
                name = event.get(key) if key is not None and isinstance(event, dict) else None
                text = None if name is None else str(name).encode()
                futures.append(producer.send(topic, value=raw, key=text))
                count += 1
                progress.update(count, None)
                if len(futures) >= 10_000:
                    _check(futures)
            if not loop or count == before:
                break
    except KeyboardInterrupt:  # the way to end --loop
        pass
    finally:
        producer.flush()
        _check(futures)
        producer.close()
        progress.clear()
    return count


def answer(properties: dict[str, Any], topic: str, source: str, is_anomaly: bool, key: str | None = None) -> None:
    """Send one answer to the feedback topic: whether an event, named by topic/partition/offset, was an anomaly.

    Without a key the source is it, so that two answers to one event keep their order.
    """
    place = re.fullmatch(r"([^/]+)/(\d{1,9})/(\d{1,18})", source)
    if place is None:
        raise ConfigurationError(f"--source must be topic/partition/offset, such as orders/0/1234, not {source!r}")
    where = {"topic": place[1], "partition": int(place[2]), "offset": int(place[3])}
    check_topic(properties, topic, "it should be the worker's --feedback topic")
    producer = KafkaProducer(**_fit(properties, KafkaProducer))
    try:
        value = orjson.dumps({"is_anomaly": is_anomaly, "source": where})
        _check([producer.send(topic, value=value, key=(key or source).encode())])
    finally:
        producer.close()


def _check(futures: list[Any]) -> None:
    for future in futures:
        future.get(timeout=60)
    futures.clear()


def _create(properties: dict[str, Any], topic: str, partitions: int) -> None:
    with administration(properties) as admin, suppress(TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)


def _rows(file: str) -> Iterator[tuple[Any, bytes]]:
    """Events of a file with their bytes: lines of JSON as they are, rows of a CSV as objects."""
    with ExitStack() as stack:
        lines: TextIO = sys.stdin if file == "-" else stack.enter_context(open(file, encoding="utf-8", newline=""))
        if file.lower().endswith(".csv"):
            for row in csv.DictReader(lines):
                named = {name: _number(text) for name, text in row.items() if name is not None}
                yield named, orjson.dumps(named)
            return
        for line in lines:
            text = line.strip()
            if not text:
                continue
            event: Any = None
            with suppress(orjson.JSONDecodeError):  # sent as it is: what becomes of it is for the worker to say
                event = orjson.loads(text)
            yield event, text.encode()


def _number(text: str | None) -> Any:
    if text is None or not text.strip():
        return None
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False}.get(text.strip().lower(), text)


def tail(
    properties: dict[str, Any], topic: str, alerts: bool = False, from_beginning: bool = False, count: int | None = None
) -> Iterator[str]:
    """Lines that show scored events or incidents, alerts and what opens in red, with the features behind them."""
    reading = {
        "group_id": None,
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest" if from_beginning else "latest",
    }
    check_topic(properties, topic, "it should be the worker's --output or --incidents topic")
    consumer = KafkaConsumer(topic, **_fit(properties, KafkaConsumer), **reading)
    shown = 0
    try:
        while count is None or shown < count:
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    line = _line(record, alerts)
                    if line is not None and (count is None or shown < count):
                        shown += 1
                        yield line
    except KeyboardInterrupt:  # the way to end it
        pass
    finally:
        consumer.close()


def _line(record: Any, alerts: bool) -> str | None:
    try:
        value = orjson.loads(record.value or b"")
        source = value["source"]
        place = f"{source['topic']}/{source['partition']}@{source['offset']}"
        why = ", ".join(f"{one['feature']} {one['share']:.0%}" for one in value.get("top_features", ()))
        if "state" in value:
            return _incident_line(place, value, why)
        text = f"{place:<30} score {value['score']:8.4f}  p {value['p_value']:.4f}"
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None if alerts else f"{record.topic}/{record.partition}@{record.offset} is no scored event"
    if value["alert"]:
        return click.style(f"{text}  ALERT  {why}", fg="red", bold=True)
    return None if alerts else text


def _incident_line(place: str, value: dict[str, Any], why: str) -> str:
    since = "" if value["start"] is None else f" since {value['start']}"
    size = f"{value['alerts']} alerts in {value['events']} events{since}, peak {value['peak']:.4f}"
    colour = {"open": "red", "closed": "green"}.get(value["state"])
    return click.style(f"{place:<30} incident {value['incident']} {value['state']:<6}  {size}  {why}", fg=colour)
