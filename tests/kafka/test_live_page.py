"""The live page of a worker: what it shows of committed events, and that the worker does not depend on it."""

from __future__ import annotations

import json
import logging
import urllib.request
from collections import Counter
from typing import Any
from urllib.error import URLError

import pytest
from broker import free_ports
from streams import PATIENCE, Stream, events, until, work, working
from svead_kafka import ConfigurationError, Options, Worker
from svead_kafka.live import Record


def shown(port: int) -> dict[str, Any]:
    """What the page shows; no rows as long as nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data", timeout=PATIENCE) as answer:
            data: dict[str, Any] = json.load(answer)
            return data
    except URLError:
        return {"rows": 0}


def until_shown(port: int, rows: int) -> dict[str, Any]:
    until(lambda: shown(port)["rows"] == rows, lambda: f"{shown(port)['rows']} rows shown")
    return shown(port)


def test_all_partitions_are_on_one_page_and_incidents_outlive_a_restart(stream: Stream) -> None:
    [port] = free_ports(1)
    options = stream.options(serve=str(port))
    everything = events(4_000, fault=160)
    stream.send(everything[:3_600])  # the last fault goes on
    with working(options):
        page = until_shown(port, 3_600)
    assert page["title"] == f"{options.group}: {stream.input}"
    alerts = {place for place, one in stream.scored(options).items() if one["alert"]}
    assert page["alerts"] == len(alerts)
    assert {alert["where"] for alert in page["table"]} == {f"{t}/{p}/{o}" for t, p, o in alerts}
    told = [json.loads(value) for _, _, value, _ in stream.told(options)]
    count = Counter(one["state"] for one in told)
    incidents = page["incidents"]
    assert (incidents["total"], incidents["open"]) == (count["open"], count["open"] - count["closed"])
    assert incidents["open"] >= 4  # one a partition
    assert len({incident["number"] for incident in incidents["kept"]}) == count["open"]  # models count their own
    for incident in incidents["kept"]:
        mine = [alert for alert in page["table"] if alert["incident"] == incident["number"]]
        assert (mine[0]["row"], mine[-1]["row"]) == (incident["row"], incident["last"])
        assert (mine[0]["where"], len(mine)) == (incident["where"], incident["alerts"])

    stream.send(everything[3_600:])
    with working(options):
        later = until_shown(port, 400)["incidents"]
    left = [incident["where"] for incident in later["kept"] if incident["row"] == 0]
    assert left == ["before this page began"] * incidents["open"]
    assert later["open"] == 0


def test_a_page_that_fails_is_switched_off_and_nothing_else(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("a mistake of the page")

    monkeypatch.setattr(Record, "add", fail)
    stream.send(events(200))
    options = stream.options(serve="0")
    with caplog.at_level(logging.ERROR, logger="svead_kafka"):
        work(stream, options, 200)
    assert len(stream.scored(options)) == 200
    # The client has warnings of its own on a busy machine.
    told = [record.getMessage() for record in caplog.records if record.name.startswith("svead")]
    assert told == ["the live page failed and is switched off; the worker goes on"]


def test_where_to_listen_is_checked_before_anything_else() -> None:
    with pytest.raises(ConfigurationError, match="serve='here': it must be PORT or HOST:PORT"):
        Options(input=["in"], output="out", serve="here")
    with pytest.raises(ConfigurationError, match="has 5 characters: give 16 or more"):
        Options(input=["in"], output="out", serve="0.0.0.0:0", serve_token="short")
    with pytest.raises(ConfigurationError, match=r"--serve 192\.0\.2\.1:1: cannot listen there"):
        Worker(Options(input=["in"], output="out", serve="192.0.2.1:1")).warm_up()
