"""What is told of a batch once it is committed: counted for Prometheus, logged, sent to those who wait for incidents.

Nothing is told before the commit, so nobody hears of what never happened. The other way round it can happen: what is
still to be sent is in memory only, and a process that dies takes it along; and of a commit whose answer never came
nothing is told, since the worker takes it for failed. The incidents topic has it all.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial

from kafka import TopicPartition

from svead_kafka.errors import ConfigurationError
from svead_kafka.events import Bad, incident
from svead_kafka.metrics import Metrics
from svead_kafka.options import Options
from svead_kafka.outgoing import Outcome
from svead_stream.cli.notify import Notifier
from svead_stream.record import CLOSED, OPEN

log = logging.getLogger(__name__)

_LAST_WORDS = 5.0  # seconds for notifications that are still to be sent when the worker ends


class Announcer:
    """Tells of what was committed.

    Parameters
    ----------
    options, metrics
        The worker's.

    Raises
    ------
    ConfigurationError
        If the webhook is no address that can be posted to.
    """

    def __init__(self, options: Options, metrics: Metrics) -> None:
        self._options = options
        self._metrics = metrics
        self._has_told_of_times = False
        self._has_told_of_tombstones: set[TopicPartition] = set()
        try:
            self._notifier = Notifier(options.on_incident, options.webhook, say=partial(log.warning, "%s"))
        except ValueError as error:
            raise ConfigurationError(str(error)) from None

    def batch(self, source: TopicPartition, outcome: Outcome) -> None:
        """Tell of the events of a partition, and of the answers to them."""
        metrics, results, bad = self._metrics, outcome.scored, outcome.bad
        label = (source.topic, str(source.partition))
        metrics.events.labels(*label).inc(len(results))
        metrics.alerts.labels(*label).inc(sum(verdict.alert for _, verdict in results))
        metrics.dead_letters.labels(*label).inc(len(bad))
        self._tombstones(source, outcome.tombstones)
        metrics.answers_refused.labels(*label).inc(len(outcome.refused))
        metrics.restamped.labels(*label).inc(outcome.restamped)
        for said, count in outcome.answers.items():
            metrics.answers.labels(*label, said).inc(count)
        opened, closed = metrics.incidents.labels(*label), metrics.closed.labels(*label)
        for event, verdict in results:
            for change in verdict.changes:
                opened.inc(change.state == OPEN)
                closed.inc(change.state == CLOSED)
                if change.state in (OPEN, CLOSED):
                    keyed = self._options.model_per == "key"
                    self._notifier.send(incident(event, change, self._options.top_features, keyed))
        if not self._options.dead_letters:
            _log_bad(bad, "event")
            _log_bad(outcome.refused, "answer")

    def _tombstones(self, source: TopicPartition, offsets: list[int]) -> None:
        self._metrics.tombstones.labels(source.topic, str(source.partition)).inc(len(offsets))
        if offsets and source not in self._has_told_of_tombstones:
            self._has_told_of_tombstones.add(source)
            told = "%s/%d offset %d is a tombstone (a message without a value) and passed over; more are only counted"
            log.info(told, *source, offsets[0])

    def odd(self, source: TopicPartition, odd: Counter[str]) -> None:
        """Tell what the models of a partition had to do without."""
        metrics = self._metrics
        label = (source.topic, str(source.partition))
        metrics.missing.labels(*label).inc(odd["missing_values"])
        metrics.missing_times.labels(*label).inc(odd["missing_times"])
        metrics.backward_times.labels(*label).inc(odd["backward_times"])
        if odd["missing_times"] and not self._has_told_of_times:
            self._has_told_of_times = True
            name = self._options.time
            why = "no time stamp of Kafka" if name is None else f"no ISO 8601 and no epoch in {name!r}"
            count = odd["missing_times"]
            place = {"topic": source.topic, "partition": source.partition}
            log.warning(
                "%s/%d: events without a time, %d so far (%s); more are only counted", *source, count, why, extra=place
            )

    def close(self) -> None:
        """Send what is left, if that is soon done."""
        self._notifier.close(_LAST_WORDS)


def _log_bad(bad: list[Bad], what: str) -> None:
    for one in bad[:10]:
        record = one.record
        place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        log.warning("no %s at %s/%d offset %d: %s", what, *place.values(), one.reason, extra=place)
    if len(bad) > 10:
        log.warning("and %d more in the same batch; --dead-letters keeps them", len(bad) - 10)
