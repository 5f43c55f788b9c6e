"""What a worker tells Prometheus."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from contextlib import suppress

import kafka
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

import svead_stream
from svead_kafka.feedback import VERDICTS
from svead_kafka.settling import REASONS

_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_RESTORES = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_PARTITION = ("topic", "partition")


class Metrics:
    """Counters and gauges of one worker, in a registry of their own so that two workers of a process don't clash."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.events = Counter("svead_events", "Events scored and committed.", _PARTITION, registry=registry)
        self.alerts = Counter("svead_alerts", "Alerts among them.", _PARTITION, registry=registry)
        self.incidents = Counter("svead_incidents", "Incidents opened.", _PARTITION, registry=registry)
        self.closed = Counter("svead_incidents_closed", "Incidents that are over.", _PARTITION, registry=registry)
        self.dead_letters = Counter(
            "svead_dead_letters", "Messages that were no events.", _PARTITION, registry=registry
        )
        self.skipped = Counter(
            "svead_skipped_offsets",
            "Offsets that were passed over without a score.",
            (*_PARTITION, "reason"),
            registry=registry,
        )
        self.tombstones = Counter(
            "svead_tombstones", "Messages without a value, passed over.", _PARTITION, registry=registry
        )
        self.answers = Counter(
            "svead_answers", "Answers taken and committed.", (*_PARTITION, "verdict"), registry=registry
        )
        self.answers_refused = Counter(
            "svead_answers_refused",
            "Messages that were no answers.",
            _PARTITION,
            registry=registry,
        )
        self.missing = Counter("svead_missing_values", "Missing values met.", _PARTITION, registry=registry)
        self.missing_times = Counter(
            "svead_missing_times", "Events without a time that can be read.", _PARTITION, registry=registry
        )
        self.backward_times = Counter(
            "svead_backward_times", "Events with an earlier time than one before.", _PARTITION, registry=registry
        )
        self.restamped = Counter(
            "svead_restamped",
            "Records written with the time of writing, as their topic refuses that of the event.",
            _PARTITION,
            registry=registry,
        )
        self.lag = Gauge("svead_lag", "Messages not yet scored.", _PARTITION, registry=registry)
        self.batch = Histogram(
            "svead_batch_seconds", "Decoding, scoring and sending a batch.", buckets=_LATENCIES, registry=registry
        )
        self.commit = Histogram(
            "svead_commit_seconds", "Committing a transaction.", buckets=_LATENCIES, registry=registry
        )
        self.snapshot_bytes = Gauge(
            "svead_snapshot_bytes", "Size of the last saved model.", _PARTITION, registry=registry
        )
        self.snapshot_age = Gauge(
            "svead_snapshot_age_seconds", "Time since a model was last saved.", _PARTITION, registry=registry
        )
        self.models = Gauge("svead_models", "Models in memory.", registry=registry)
        self.retries = Counter("svead_retries", "Transactions and connections that failed.", registry=registry)
        self.rebalances = Counter("svead_rebalances", "Changes of the assigned partitions.", registry=registry)
        self.restore = Histogram(
            "svead_restore_seconds",
            "Restoring the models of the assigned partitions.",
            buckets=_RESTORES,
            registry=registry,
        )
        self.last_commit = Gauge(
            "svead_last_commit_timestamp_seconds",
            "When a transaction was last committed, 0 for not yet.",
            registry=registry,
        )
        self.ready = Gauge("svead_ready", "1 when /readyz says so.", registry=registry)
        self.broker_up = Gauge("svead_broker_up", "1 while a connection to a broker is open.", registry=registry)
        build = {
            "version": svead_stream.__version__,
            "python": platform.python_version(),
            "kafka_python": kafka.__version__,
        }
        self.build = Gauge("svead_build_info", "What runs here.", tuple(build), registry=registry)
        self.build.labels(**build).set(1)

    def restored(self, places: Iterable[tuple[str, int]], seconds: float) -> None:
        """Count a restore, and show the counters of its partitions before there is something to count.

        Prometheus sees a counter grow only from the second value on, so one that began with the first dead letter
        would alert nobody of it.
        """
        self.restore.observe(seconds)
        counters = (
            *(self.events, self.alerts, self.incidents, self.closed, self.dead_letters, self.tombstones),
            *(self.answers_refused, self.missing, self.missing_times, self.backward_times, self.restamped),
        )
        for topic, partition in places:
            label = (topic, str(partition))
            for counter in counters:
                counter.labels(*label)
            for verdict in VERDICTS.values():
                self.answers.labels(*label, verdict)
            for reason in REASONS:
                self.skipped.labels(*label, reason)

    def forget(self, topic: str, partition: int) -> None:
        """Stop reporting gauges of a partition that another worker has now."""
        for gauge in (self.lag, self.snapshot_bytes, self.snapshot_age):
            with suppress(KeyError):  # it may not have been reported yet
                gauge.remove(topic, str(partition))
