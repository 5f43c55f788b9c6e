"""Kafka for svead-stream: events in, scored events out, exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svead_stream.lazy import exports

if TYPE_CHECKING:
    from svead_kafka.errors import ConfigurationError, GaveUp, StateError, WorkerError
    from svead_kafka.options import Options
    from svead_kafka.worker import Worker

_MODULES = {
    "ConfigurationError": "errors",
    "GaveUp": "errors",
    "Options": "options",
    "StateError": "errors",
    "Worker": "worker",
    "WorkerError": "errors",
}

__all__ = ["ConfigurationError", "GaveUp", "Options", "StateError", "Worker", "WorkerError"]

__getattr__, __dir__ = exports(__name__, _MODULES, "kafka", ("kafka", "orjson", "prometheus_client"))
