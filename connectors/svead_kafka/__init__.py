"""Kafka for svead-stream: events in, scored events out, exactly once."""

from importlib.util import find_spec as _find_spec

from svead_stream.errors import MissingExtra as _MissingExtra

for _name in ("kafka", "orjson", "prometheus_client"):
    if _find_spec(_name) is None:
        raise _MissingExtra(f"{_name} is not installed; the Kafka connector needs: pip install 'svead-stream[kafka]'")

from svead_kafka.errors import ConfigurationError, GaveUp, StateError, WorkerError  # noqa: E402
from svead_kafka.options import Options  # noqa: E402
from svead_kafka.worker import Worker  # noqa: E402

__all__ = ["ConfigurationError", "GaveUp", "Options", "StateError", "Worker", "WorkerError"]
