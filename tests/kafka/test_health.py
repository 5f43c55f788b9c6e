"""What a worker answers to those who watch over it, from its first second to its last."""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from broker import Cluster, free_ports
from streams import PATIENCE, QUICK, Stream, events, until, working
from svead_kafka import ConfigurationError, Options, Worker
from svead_kafka.assignment import Assignment
from svead_kafka.client import Clients
from svead_kafka.health import Health
from svead_kafka.metrics import Metrics
from svead_kafka.watchdog import Watchdog


def ask(port: int, path: str) -> tuple[int, Any]:
    """Status and body of a page; (0, "") if nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            status, body = answer.status, answer.read().decode()
    except HTTPError as error:
        status, body = error.code, error.read().decode()
    except (URLError, ConnectionError):
        return 0, ""
    return status, body if path == "/metrics" else json.loads(body)


def reason(port: int) -> str | None:
    """Why a worker is not ready; None if it is."""
    status, body = ask(port, "/readyz")
    assert (status == 200) == (status != 0 and body["ready"])
    return None if status == 200 else body["reason"] if status else "nobody answers"


def wait_ready(port: int) -> None:
    until(lambda: reason(port) is None, lambda: str(ask(port, "/readyz")))


class Gate:
    """Holds a worker up at the call of a method, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
        self._open = threading.Event()
        inner = getattr(kind, name)

        def wait(*given: Any) -> Any:
            assert self._open.wait(PATIENCE)
            return inner(*given)

        monkeypatch.setattr(kind, name, wait)

    def open(self) -> None:
        self._open.set()


def test_it_is_alive_all_the_time_and_ready_while_it_does_its_part(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    [port] = free_ports(1)
    stream.send(events(40))
    methods = {
        "compiling": (Worker, "_compile"),
        "connecting": (Clients, "look_for_broker"),
        "joining": (Assignment, "poll"),
        "restoring": (Assignment, "_look_up"),
        "leaving": (Worker, "_leave"),
    }
    gates = {phase: Gate(monkeypatch, *method) for phase, method in methods.items()}
    options = stream.options(metrics_port=port)
    with working(options) as worker:
        for phase, gate in gates.items():
            if phase == "leaving":
                wait_ready(port)
                assert "svead_ready 1.0" in ask(port, "/metrics")[1]
                stream.wait_committed(options, 40)
                worker.stop()
            until(lambda phase=phase: reason(port) == phase, lambda: str(ask(port, "/readyz")))  # type: ignore[misc]
            status, body = ask(port, "/healthz")
            assert (status, body["alive"]) == (200, True)
            assert "svead_ready 0.0" in ask(port, "/metrics")[1]
            gate.open()
    assert ask(port, "/healthz") == (0, "")


def test_a_worker_without_partitions_is_ready_and_counters_begin_at_zero(stream: Stream) -> None:
    ports = free_ports(2)
    one = Stream(stream.bootstrap, "one", partitions=1)
    first, second = (one.options(metrics_port=port, client=QUICK) for port in ports)
    with working(first) as owner, working(second) as spare:

        def shared() -> bool:
            owned = [worker._assignment for worker in (owner, spare)]
            return sorted(len(one.partitions) for one in owned if one is not None and one.is_restored) == [0, 1]

        until(shared)
        for port in ports:
            wait_ready(port)
        shown = [ask(port, "/metrics")[1] for port in ports]
    label = f'partition="0",topic="{one.input}"'
    counters = (
        "events", "alerts", "incidents", "incidents_closed", "dead_letters", "answers_refused", "missing_values",
        "missing_times", "backward_times",
    )  # fmt: skip
    for name in counters:
        assert any(f"svead_{name}_total{{{label}}} 0.0" in page for page in shown)
    for verdict in ("anomaly", "false_alarm", "unknown"):
        assert any(f'svead_answers_total{{{label},verdict="{verdict}"}} 0.0' in page for page in shown)


def test_a_loop_that_does_not_beat_is_not_alive() -> None:
    [port] = free_ports(1)
    stalled = threading.Event()
    watchdog = Watchdog(0.05, on_stall=stalled.set)
    health = Health(Metrics(), watchdog, lambda: "")
    health.serve(port, "127.0.0.1")
    health.serve(port, "127.0.0.1")
    try:
        watchdog._last -= 60  # compiling takes as long as it takes
        assert ask(port, "/healthz") == (200, {"alive": True, "doing": "starting", "seconds": 0.0})
        watchdog.start()
        watchdog.beat("scoring")
        assert stalled.wait(PATIENCE)
        status, body = ask(port, "/healthz")
        assert (status, body["alive"], body["doing"]) == (503, False, "scoring")
        assert body["seconds"] > 0
        assert ask(port, "/readyz") == (200, {"ready": True})
        assert ask(port, "/") == (404, {"pages": ["/metrics", "/healthz", "/readyz"]})
        assert "# TYPE svead_events_total counter" in ask(port, "/metrics")[1]
        taken = Worker(Options(input=["in"], output="out", metrics_port=port))
        with pytest.raises(ConfigurationError, match=rf"cannot listen on 127.0.0.1 port {port} \(Address already"):
            taken.warm_up()
    finally:
        watchdog.stop()
        health.close()


def test_brokers_that_are_lost_and_found_are_told_once(
    stream: Stream, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    [port] = free_ports(1)
    stream.send(events(40))
    options = stream.options(metrics_port=port)
    node = cluster.nodes[0]
    with caplog.at_level(logging.WARNING, logger="svead_kafka"), working(options):
        stream.wait_committed(options, 40)
        wait_ready(port)
        until(lambda: "svead_broker_up 1.0" in ask(port, "/metrics")[1])
        node.stop()
        try:
            until(lambda: reason(port) == "broker lost")
            assert ask(port, "/healthz")[0] == 200
            assert "svead_broker_up 0.0" in ask(port, "/metrics")[1]
        finally:
            node.start()
            node.wait()
        wait_ready(port)
        stream.send(events(40, seed=1))
        stream.wait_committed(options, 80)
        assert "svead_broker_up 1.0" in ask(port, "/metrics")[1]
    told = [record.getMessage() for record in caplog.records if record.name == "svead_kafka.brokers"]
    assert [line.split(" after ")[0].split(": ")[0] for line in told] == ["broker lost", "broker found again"], told
    assert stream.bootstrap in told[0]
