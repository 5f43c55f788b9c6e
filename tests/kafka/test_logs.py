"""The log as machines read it: one JSON object a line, whoever writes to stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from broker import free_ports
from streams import PATIENCE, Stream, command, events, spawn, until
from test_health import ask

FIELDS = {"time", "level", "logger", "message"}


def objects(text: str) -> list[dict[str, Any]]:
    """The lines of a log; fails if one is no object with all that belongs there."""
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        assert one.keys() >= FIELDS, one
        assert datetime.fromisoformat(one["time"]).utcoffset() is not None
        assert one["level"] in ("debug", "info", "warning", "error", "critical")
    return found


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True, text=True, check=False, timeout=PATIENCE, env=os.environ | environment,
    )  # fmt: skip


def python(code: str) -> str:
    return run("-c", f"from svead_kafka import logs\nimport logging, sys\n{code}").stderr


def test_a_run_is_told_in_objects_with_the_place_of_a_bad_message(stream: Stream, tmp_path: Path) -> None:
    stream.send([*events(40), b"oops"])
    options = stream.options(dead_letters=None)
    log = tmp_path / "log"
    process = spawn(command(options, "--log-format", "json"), log)
    try:
        until(lambda: "not JSON" in log.read_text(), log.read_text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
    finally:
        process.kill()
    found = objects(log.read_text())
    [bad] = [one for one in found if "not JSON" in one["message"]]
    assert (bad["level"], bad["logger"]) == ("warning", "svead_kafka.announce")
    assert (bad["topic"], bad["partition"], bad["offset"]) == (stream.input, 0, 10)
    assert found[-1]["message"].startswith("stopped")


def test_warnings_and_the_last_error_are_objects_too() -> None:
    [port] = free_ports(1)
    words = ["-m", "svead_kafka", "--bootstrap", f"127.0.0.1:{port}", "--input", "in", "--output", "out"]
    environment = {"SVEAD_KAFKA_LOG_FORMAT": "json", "PYTHONWARNINGS": "always"}
    done = run(*words, "--max-retries", "1", **environment)
    assert done.returncode == 75
    found = objects(done.stderr)
    assert {"py.warnings", "svead_kafka.worker"} <= {one["logger"] for one in found}
    assert "2 failures in a row" in found[-1]["message"]
    assert found[-1]["level"] == "error"

    for mistake, code in ((["--state", "in"], 1), (["--max-batch", "many"], 2)):
        done = run(*words, *mistake, **environment)
        assert done.returncode == code
        assert objects(done.stderr)[-1]["message"].startswith("svead-stream: ")


def test_the_commands_beside_the_worker_talk_to_people() -> None:
    done = run("-m", "svead_kafka", "--log-format", "json", "tail", "--topic", "t", "--count", "0")
    assert (done.returncode, done.stderr) == (1, "svead-stream: --count must be at least 1, not 0\n")


def test_uncaught_exceptions_are_one_object_each() -> None:
    text = python(
        "import threading\nlogs.set_up('json', 'info', False)\n"
        "thread = threading.Thread(target=lambda: 1 / 0, name='helper')\nthread.start(); thread.join()\n"
        "class Gone:\n    def __del__(self): raise KeyError('gone')\nGone()\n"
        "print('two', 'words', file=sys.stderr)\nlogging.error('déjà\\nvu')\nraise OSError('at last')"
    )
    found = objects(text)
    told = {one["logger"]: one for one in found if one["logger"] != "uncaught"}
    assert told["stderr"]["message"] == "two words"
    assert told["root"]["message"] == "déjà\nvu"
    uncaught = [one for one in found if one["logger"] == "uncaught"]
    said = [one["message"] for one in uncaught]
    assert said[::2] == ["ZeroDivisionError('division by zero') in thread helper", "OSError('at last')"]
    assert said[1].startswith("KeyError('gone') in <function Gone.__del__")
    assert all(one["exception"].startswith("Traceback") for one in uncaught)


@pytest.mark.parametrize(
    ("level", "verbose", "shown"),
    [
        ("error", False, {"svead_kafka.worker error"}),
        ("info", False, {"svead_kafka.worker error", "svead_kafka.worker info", "other info"}),
        ("debug", False, {"svead_kafka.worker error", "svead_kafka.worker info", "svead_kafka.worker debug",
                          "other info"}),
        ("debug", True, {"svead_kafka.worker error", "svead_kafka.worker info", "svead_kafka.worker debug",
                         "other info", "kafka.net debug", "kafka.net warning"}),
        ("error", True, {"svead_kafka.worker error"}),
    ],
)  # fmt: skip
def test_only_what_is_serious_enough_is_shown_and_the_worker_hears_the_client_all_the_same(
    level: str, verbose: bool, shown: set[str]
) -> None:
    said = python(
        f"logs.set_up('text', {level!r}, {verbose})\n"
        "class Heard(logging.Handler):\n    def emit(self, record): print('heard', record.name, file=sys.stderr)\n"
        "logging.getLogger('kafka').addHandler(Heard(logging.WARNING))\n"
        "for name in ('svead_kafka.worker error', 'svead_kafka.worker info', 'svead_kafka.worker debug',\n"
        "             'other info', 'other debug', 'kafka.net debug', 'kafka.net warning'):\n"
        "    logger, level = name.split(' ')\n    getattr(logging.getLogger(logger), level)(name)"
    )
    lines = said.splitlines()
    assert "heard kafka.net" in lines
    assert {line.split(" ", 3)[3] for line in lines if not line.startswith("heard")} == shown


def test_the_first_start_says_that_it_compiles_is_alive_meanwhile_and_ends_when_asked(tmp_path: Path) -> None:
    [port] = free_ports(1)
    log, cache = tmp_path / "log", tmp_path / "cache"
    words = [sys.executable, "-m", "svead_kafka", "--input", "in", "--output", "out", "--log-format", "json"]
    with log.open("wb") as out:
        # Nothing is compiled yet for a processor that is named.
        own = {"NUMBA_CACHE_DIR": str(cache), "NUMBA_CPU_NAME": "generic"}
        process = subprocess.Popen([*words, "--metrics-port", str(port)], stderr=out, env=os.environ | own)
    try:
        until(lambda: "compiling" in log.read_text(), log.read_text)
        assert ask(port, "/healthz")[0] == 200
        status, body = ask(port, "/readyz")
        assert (status, body["reason"]) == (503, "compiling")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
    finally:
        process.kill()
    told, *_ = objects(log.read_text())  # the compiler may swallow the exit, which is asked for again when it is done
    assert f"to be kept in {cache}" in told["message"]
    assert "NUMBA_CACHE_DIR" in told["message"]
