"""The time stamps that records are written with: those of their events, as far as the topics take them.

A topic can refuse records whose time stamp lies too far from the broker's clock, and then refuses the whole batch.
Kafka 4.0 and newer do so by default from one hour ahead on. One event of a clock that runs wrong would stop a worker
for good, so such a record gets the time of writing, and its own goes into a header.

A topic also forgets records by their time stamp. What is written of old events may be gone minutes later; that is the
user's choice, but nobody expects it, so it is said.

Neither concerns topics with ``message.timestamp.type=LogAppendTime``, where the broker's clock is all that counts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

HEADER = "svead-timestamp"  # ms since 1970, as dead letters have it

_FOREVER = 2**63 - 1  # how topics say that there is no limit
_CLOCKS = 60_000  # ms by which our clock and a broker's may differ
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class Limits(NamedTuple):
    """What a topic does by the time stamps of its records, in ms before and after now."""

    before: int = _FOREVER
    after: int = _FOREVER
    retention: int = _FOREVER


class Stamps:
    """Knows the time stamps that topics take and keep, and tells of those that they don't, once for each topic.

    Parameters
    ----------
    settings
        The configuration of the topics, as far as the cluster tells it.
    """

    def __init__(self, settings: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._limits = {topic: _limits(one) for topic, one in (settings or {}).items()}
        self._told: set[tuple[str, str]] = set()

    def describe(self) -> list[str]:
        """When topics forget what is written to them."""
        forgetting = {topic: one.retention for topic, one in self._limits.items() if one.retention < _FOREVER}
        if not forgetting:
            return []
        kept = ", ".join(f"{topic} after {_span(retention)}" for topic, retention in forgetting.items())
        return [f"records keep the time stamps of their events, and topics forget by these (retention.ms): {kept}"]

    def usual(self, topic: str) -> tuple[int, int]:
        """The first and the last time stamp that need no second look now."""
        now, limits = _now(), self._limits.get(topic, Limits())
        kept = now - limits.retention if ("retention", topic) not in self._told else 0
        return max(0, now - _safe(limits.before), kept), now + _safe(limits.after)

    def fitting(self, topic: str, record: Any) -> int | None:
        """The time stamp for what is written of a message; None for the time of writing."""
        timestamp = record.timestamp
        if timestamp is None or timestamp < 0:
            return None
        now, limits = _now(), self._limits.get(topic, Limits())
        if timestamp < now - _safe(limits.before):
            self._tell_of_refusal(topic, record, "before", limits.before)
            return None
        if timestamp > now + _safe(limits.after):
            self._tell_of_refusal(topic, record, "after", limits.after)
            return None
        if timestamp < now - limits.retention:
            self._tell_of_retention(topic, record, limits.retention)
        return int(timestamp)

    def _tell_of_refusal(self, topic: str, record: Any, side: str, limit: int) -> None:
        if (side, topic) in self._told:
            return
        self._told.add((side, topic))
        log.warning(
            "%s is of %s, and topic %s refuses time stamps more than %s %s now: what is written of it gets the time of "
            "writing, and its own as header %s. More are only counted (svead_restamped_total). To keep them, raise the "
            "topic's message.timestamp.%s.max.ms (message.timestamp.difference.max.ms before Kafka 3.6)",
            *(_place(record), _shown(record.timestamp), topic, _span(limit), side, HEADER, side),
        )

    def _tell_of_retention(self, topic: str, record: Any, retention: int) -> None:
        if ("retention", topic) in self._told:
            return
        self._told.add(("retention", topic))
        log.warning(
            "%s is of %s, and topic %s forgets records %s after their time stamp: what is written of it, and of other "
            "events as old, is deleted within minutes. To keep it, raise the topic's retention.ms, or set its "
            "message.timestamp.type to LogAppendTime",
            *(_place(record), _shown(record.timestamp), topic, _span(retention)),
        )


def refusal(records: list[Any]) -> str:
    """What to say when a topic has refused a time stamp all the same, and of which message it probably is."""
    stamped = [record for record in records if record.timestamp is not None and record.timestamp >= 0]
    likely = max(stamped, key=_timestamp, default=None)
    if likely is not None and likely.timestamp < _now() + _CLOCKS:  # none is ahead
        likely = min(stamped, key=_timestamp)
    cause = "" if likely is None else f", probably {_place(likely)}, which is of {_shown(likely.timestamp)}"
    return (
        f"a topic refuses the time stamp of an event{cause}. Raise message.timestamp.after.max.ms and "
        "message.timestamp.before.max.ms (message.timestamp.difference.max.ms before Kafka 3.6) of the output, "
        "incidents and dead-letter topics, or set their message.timestamp.type to LogAppendTime; or let the worker "
        "read their configuration (DescribeConfigs), and see that its clock is right"
    )


def _limits(settings: Mapping[str, str]) -> Limits:
    if settings.get("message.timestamp.type") == "LogAppendTime":
        return Limits()
    both = _number(settings, "message.timestamp.difference.max.ms")
    before, after = (_number(settings, f"message.timestamp.{side}.max.ms") for side in ("before", "after"))
    retention = _number(settings, "retention.ms") if "delete" in settings.get("cleanup.policy", "delete") else _FOREVER
    # Brokers that know both kinds take the old one where the new one is not set.
    return Limits(before if before < _FOREVER else both, after if after < _FOREVER else both, retention)


def _number(settings: Mapping[str, str], name: str) -> int:
    number = int(settings.get(name) or _FOREVER)
    return number if number >= 0 else _FOREVER  # a retention of -1 is none


def _safe(limit: int) -> int:
    """A limit that also holds if the clocks differ a little."""
    return limit if limit >= _FOREVER else limit - min(_CLOCKS, limit // 2)


def _now() -> int:
    return int(time.time() * 1000)


def _timestamp(record: Any) -> int:
    return int(record.timestamp)


def _place(record: Any) -> str:
    return f"{record.topic}/{record.partition} offset {record.offset}"


def _shown(timestamp: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{timestamp} ms since 1970"


def _span(milliseconds: int) -> str:
    for length, unit in _UNITS:
        if milliseconds >= length:
            return f"{milliseconds / length:.3g} {unit}"
    return f"{milliseconds} ms"
