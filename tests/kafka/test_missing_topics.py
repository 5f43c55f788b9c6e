"""Commands that are given a topic or a broker that is not there say so, and don't wait for it in silence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from broker import free_ports
from streams import Run, Stream
from svead_kafka.tools import client, send


@pytest.fixture
def rows(tmp_path: Path) -> str:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"x": 1}\n' * 3)
    return str(file)


def test_a_missing_topic_is_told_with_what_to_do(bootstrap: str, run: Run, rows: str) -> None:
    commands = {
        ("send", rows): "--create N makes it, with N partitions",
        ("answer", "--source", "in/0/1", "--anomaly"): "it should be the worker's --feedback topic",
        ("tail",): "it should be the worker's --output or --incidents topic",
    }
    for words, remedy in commands.items():
        line = f"svead-stream: topic 'not-there' does not exist; {remedy}"
        assert run(*words, "--topic", "not-there", "--bootstrap", bootstrap) == (1, [line])
    wrong = "svead-stream: 'not/a/name' is no topic name; use letters, digits, '.', '_' and '-'"
    assert run("tail", "--topic", "not/a/name", "--bootstrap", bootstrap) == (1, [wrong])


def test_a_missing_broker_is_told(run: Run, rows: str) -> None:
    [port] = free_ports(1)
    line = f"svead-stream: no broker answers at 127.0.0.1:{port}; does it run, and is --bootstrap right?"
    for words in (["send", rows, "--topic", "t"], ["tail", "--topic", "t"], ["reset", "--output", "out"]):
        assert run(*words, "--bootstrap", f"127.0.0.1:{port}") == (1, [line])


def test_a_long_send_shows_on_a_terminal_how_far_it_is(
    bootstrap: str, rows: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(bootstrap, "progress", partitions=1)
    assert send(client(bootstrap, None), rows, stream.input) == 3
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert send(client(bootstrap, None), rows, stream.input, rate=8) == 3
    assert " rows/s" in capsys.readouterr().err
    assert len(stream.read(stream.input)) == 6
