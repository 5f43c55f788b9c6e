"""The worker's log on stderr: lines of text for people, or one JSON object a line for machines."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import Any, TextIO

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_PLACE = ("topic", "partition", "offset")  # of the message that a record is about, where it says so by `extra`


def set_up(log_format: str, level: str, verbose: bool) -> None:
    """Write the log to stderr.

    Parameters
    ----------
    log_format
        ``text`` or ``json``.
    level
        The least serious records to write.
    verbose
        Whether to write those of the Kafka client, too.
    """
    least = logging.getLevelName(level.upper())
    if log_format == "json":
        stderr_to_json()
    shown = logging.StreamHandler(sys.stderr.stream if isinstance(sys.stderr, JsonStderr) else sys.stderr)
    shown.setLevel(least)
    shown.addFilter(lambda record: verbose or not record.name.startswith("kafka."))
    shown.setFormatter(JsonFormatter() if log_format == "json" else None)
    # Other libraries are left at INFO: Numba tells a novel at DEBUG.
    logging.basicConfig(
        handlers=[shown], level=max(least, logging.INFO), format="%(asctime)s %(levelname)s %(message)s"
    )
    for name in ("svead_kafka", "svead_stream"):
        logging.getLogger(name).setLevel(least)
    # The worker itself listens to the warnings of the client, whatever is shown of them.
    logging.getLogger("kafka").setLevel(min(least, logging.WARNING) if verbose else logging.WARNING)


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON: time, level, logger, message and, where there are any, exception and place."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {name: vars(record)[name] for name in _PLACE if name in vars(record)}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return _line(record.created, record.levelname.lower(), record.name, record.getMessage(), **fields)


def _line(seconds: float, level: str, logger: str, message: str, **more: Any) -> str:
    when = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": when, "level": level, "logger": logger, "message": message, **more}, default=str)


class JsonStderr(io.TextIOBase):
    """In place of stderr: what is printed there beside the log, such as the last words of the command line.

    Parameters
    ----------
    stream
        The real one.
    """

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._begun = ""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Write each line that ends as an object; the rest waits for its end."""
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            for line in filter(str.strip, lines):
                self.stream.write(_line(datetime.now(UTC).timestamp(), "error", "stderr", line) + "\n")
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.stream.fileno()


def stderr_to_json() -> None:
    """From here on write nothing but JSON to stderr: also warnings, and exceptions that nobody catches."""
    if isinstance(sys.stderr, JsonStderr):
        return
    sys.stderr = JsonStderr(sys.stderr)
    logging.captureWarnings(True)
    uncaught = logging.getLogger("uncaught")
    sys.excepthook = lambda kind, error, where: uncaught.critical("%r", error, exc_info=(kind, error, where))
    threading.excepthook = lambda told: uncaught.error(
        "%r in thread %s", told.exc_value, told.thread and told.thread.name,
        exc_info=(told.exc_type, told.exc_value or told.exc_type(), told.exc_traceback),
    )  # fmt: skip
    sys.unraisablehook = lambda told: uncaught.error(
        "%r in %r", told.exc_value, told.object,
        exc_info=(told.exc_type, told.exc_value or told.exc_type(), told.exc_traceback),
    )  # fmt: skip


def stderr_to_text() -> None:
    """Take `stderr_to_json` back."""
    if isinstance(sys.stderr, JsonStderr):
        sys.stderr = sys.stderr.stream
        logging.captureWarnings(False)
        sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
        sys.unraisablehook = sys.__unraisablehook__
