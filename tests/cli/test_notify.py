"""Notifications, against a real HTTP server on loopback and real commands: in order, and never in the way."""

from __future__ import annotations

import base64
import gc
import hashlib
import json
import os
import queue
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from svead_stream.cli.deliver import _seconds, describe
from svead_stream.cli.notify import Notifier, _pause_after

LONG = 120.0  # seconds that only a test that fails waits for
SECRETS = ("user7", "passw0rd", "T0KEN", "k3y", "h3ader")


class Seen(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def record(self) -> Any:
        return json.loads(self.body)


class Receiver(ThreadingHTTPServer):
    """Answers as the script says, then always 200. Status 0 is something that is not HTTP."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[tuple[int, dict[str, str]]] = []
        self.seen: queue.Queue[Seen] = queue.Queue()
        self.may_answer = threading.Event()
        self.may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def all_seen(self) -> list[Seen]:
        return list(self.seen.queue)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is part of some tests."""


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.put(Seen(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        self.server.may_answer.wait(LONG)
        status, headers = self.server.script.pop(0) if self.server.script else (200, {})
        if status == 0:
            self.wfile.write(b"T0KEN is no HTTP\r\n\r\n")
            return
        self.send_response(status)
        for name, value in ({"Content-Length": "0"} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Not on stderr."""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def start() -> Iterator[Callable[[], Receiver]]:
    running: list[Receiver] = []

    def start_one() -> Receiver:
        running.append(Receiver())
        threading.Thread(target=running[-1].serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return running[-1]

    yield start_one
    for one in running:
        one.may_answer.set()
        one.shutdown()
        one.server_close()


@pytest.fixture
def receiver(start: Callable[[], Receiver]) -> Receiver:
    return start()


@pytest.fixture
def refused() -> Iterator[str]:
    """An address where nobody listens, and nobody else can."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def make(said: list[str]) -> Iterator[Callable[..., Notifier]]:
    """A notifier with pauses of no length whose messages are in `said`."""
    made: list[Notifier] = []

    def make_one(**options: Any) -> Notifier:
        made.append(Notifier(**{"say": said.append, "_pause": 0.0} | options))
        return made[-1]

    yield make_one
    for one in made:
        one.close(0)


def record(number: int, state: str = "open") -> dict[str, Any]:
    return {"incident": number, "state": state, "start": "2026-01-01T10:00:00Z", "end": None, "peak": 0.75}


def counts(notifier: Notifier) -> tuple[int, int, int]:
    return notifier.sent, notifier.failed, notifier.dropped


# The webhook


def test_a_webhook_gets_the_record_as_json_with_a_key_of_its_content(
    make: Any, receiver: Receiver, said: list[str]
) -> None:
    notifier = make(webhook=receiver.url + "/hook?a=1")
    sent = record(7)
    notifier.send(sent)
    sent["incident"] = 8  # the caller may go on with its dict
    notifier.close(LONG)
    (seen,) = receiver.all_seen()
    assert seen.path == "/hook?a=1"
    assert seen.record == record(7)
    assert seen.headers["content-type"] == "application/json"
    canonical = json.dumps(record(7), sort_keys=True, separators=(",", ":")).encode()
    assert seen.headers["idempotency-key"] == hashlib.sha256(canonical).hexdigest()
    assert counts(notifier) == (1, 0, 0)
    assert said == []


def test_records_arrive_in_the_order_they_were_sent(make: Any, receiver: Receiver) -> None:
    receiver.script = [(200, {}), (503, {}), (500, {}), (200, {}), (0, {})]
    notifier = make(webhook=receiver.url)
    for i in range(30):
        notifier.send(record(i))
    notifier.close(LONG)
    numbers = [one.record["incident"] for one in receiver.all_seen()]
    assert numbers == [0, 1, 1, 1, 2, 2, *range(3, 30)]
    assert counts(notifier) == (30, 0, 0)


@pytest.mark.parametrize("status", [0, 429, 500, 503])
def test_what_may_pass_is_tried_again_with_the_same_key(
    make: Any, receiver: Receiver, said: list[str], status: int
) -> None:
    receiver.script = [(status, {}), (status, {})]
    notifier = make(webhook=receiver.url)
    notifier.send(record(1))
    notifier.close(LONG)
    seen = receiver.all_seen()
    assert len(seen) == 3
    assert len({one.headers["idempotency-key"] for one in seen}) == 1
    assert counts(notifier) == (1, 0, 0)
    assert said == []


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_refusal_is_final_and_the_next_record_is_not_held_up(
    make: Any, receiver: Receiver, said: list[str], status: int
) -> None:
    receiver.script = [(status, {})]
    notifier = make(webhook=receiver.url)
    notifier.send(record(1))
    notifier.send(record(2, "closed"))
    notifier.close(LONG)
    assert [one.record["incident"] for one in receiver.all_seen()] == [1, 2]
    assert counts(notifier) == (1, 1, 0)
    assert said == [f"{receiver.url}: incident 1 open not delivered: answered {status} (1 attempt)"]


def test_attempts_are_bounded_and_a_record_that_fails_is_one_line(
    make: Any, receiver: Receiver, said: list[str]
) -> None:
    receiver.script = [(503, {})] * 3
    notifier = make(webhook=receiver.url, attempts=3)
    notifier.send(record(1))
    notifier.send(record(2))
    notifier.close(LONG)
    assert [one.record["incident"] for one in receiver.all_seen()] == [1, 1, 1, 2]
    assert counts(notifier) == (1, 1, 0)
    assert said == [f"{receiver.url}: incident 1 open not delivered: answered 503 (3 attempts)"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(
    make: Any, start: Callable[[], Receiver], receiver: Receiver, said: list[str], status: int
) -> None:
    other = start()
    receiver.script = [(status, {"Location": other.url + "/T0KEN"})]
    notifier = make(webhook=receiver.url)
    notifier.send(record(1))
    notifier.close(LONG)
    assert len(receiver.all_seen()) == 1
    assert other.all_seen() == []
    assert counts(notifier) == (0, 1, 0)
    assert len(said) == 1
    assert f"answered {status}, a redirect: give the address it leads to" in said[0]
    assert "T0KEN" not in said[0]


def test_a_server_that_never_answers_does_not_hold_up_the_stream(
    make: Any, receiver: Receiver, said: list[str]
) -> None:
    receiver.may_answer.clear()
    notifier = make(webhook=receiver.url)
    for i in range(500):
        notifier.send(record(i))  # would wait for ever
    receiver.seen.get(timeout=LONG)
    assert counts(notifier) == (0, 0, 0)
    notifier.close(0.01)
    assert counts(notifier) == (0, 500, 0)
    assert said == [f"{receiver.url}: 500 notifications not delivered: no time was left"]


def test_an_attempt_without_an_answer_ends_and_is_repeated(make: Any, receiver: Receiver, said: list[str]) -> None:
    receiver.may_answer.clear()
    notifier = make(webhook=receiver.url, attempts=2, _timeout=0.05)
    notifier.send(record(1))
    notifier.close(LONG)
    assert counts(notifier) == (0, 1, 0)
    assert said == [f"{receiver.url}: incident 1 open not delivered: no answer in 0.05 s (2 attempts)"]


def test_a_refused_connection_is_tried_again_and_then_said(make: Any, refused: str, said: list[str]) -> None:
    notifier = make(webhook=refused, attempts=4)
    notifier.send(record(3, "closed"))
    notifier.close(LONG)
    assert counts(notifier) == (0, 1, 0)
    assert said == [f"{refused}: incident 3 closed not delivered: Connection refused (4 attempts)"]


def test_a_user_and_a_password_in_the_address_become_a_header(make: Any, receiver: Receiver) -> None:
    notifier = make(webhook=receiver.url.replace("://", "://user7:p%40ss@") + "/x")
    notifier.send(record(1))
    notifier.close(LONG)
    (seen,) = receiver.all_seen()
    assert seen.headers["authorization"] == "Basic " + base64.b64encode(b"user7:p@ss").decode()
    assert seen.headers["host"] == receiver.url.removeprefix("http://")


def test_given_headers_are_sent_and_replace_ours(make: Any, receiver: Receiver) -> None:
    url = receiver.url.replace("://", "://user7:passw0rd@")
    headers = {"X-Room": "7", "content-type": "text/plain", "AUTHORIZATION": "Bearer k3y"}
    notifier = make(webhook=url, headers=headers)
    notifier.send(record(1))
    notifier.close(LONG)
    (seen,) = receiver.all_seen()
    assert seen.headers["x-room"] == "7"
    assert seen.headers["content-type"] == "text/plain"
    assert seen.headers["authorization"] == "Bearer k3y"


def test_pauses_grow_with_jitter_heed_the_receiver_and_are_bounded() -> None:
    for attempt in range(1, 6):
        middle = 0.5 * 2 ** (attempt - 1)
        pauses = [_pause_after(attempt, 0.5) for _ in range(50)]
        assert all(middle / 2 <= one <= middle * 1.5 for one in pauses)
        assert len(set(pauses)) > 1
    assert _pause_after(1, 0.5, asked=20.0) == 20.0
    assert _pause_after(1, 0.5, asked=1e9) == _pause_after(5_000, 0.5) == 60.0


def test_retry_after_is_seconds_or_a_date_and_nonsense_is_no_matter() -> None:
    assert _seconds("7") == 7.0
    assert _seconds("Fri, 01 Jan 2100 00:00:00 GMT") > 1e6
    assert _seconds("9" * 400) > 1e5
    for text in (None, "", "-5", "soon", "Fri, 01 Jan 1999 00:00:00 GMT", "Fri, 99 Foo", "9" * 5_000):
        assert _seconds(text) == 0.0


# Closing


def test_closing_ends_a_pause_and_waits_no_longer_as_asked(make: Any, receiver: Receiver) -> None:
    receiver.script = [(429, {"Retry-After": "3600"})] * 3
    notifier = make(webhook=receiver.url, attempts=4)
    notifier.send(record(1))
    receiver.seen.get(timeout=LONG)
    notifier.close(LONG)
    assert [one.record for one in receiver.all_seen()] == [record(1)] * 3
    assert counts(notifier) == (1, 0, 0)


def test_closing_gives_up_in_the_midst_of_a_pause(make: Any, refused: str, said: list[str]) -> None:
    notifier = make(webhook=refused, _pause=3600.0)
    notifier.send(record(1))
    notifier.send(record(2))
    notifier.close(0.01)
    assert counts(notifier) == (0, 2, 0)
    assert said == [f"{refused}: 2 notifications not delivered: no time was left"]


def test_what_comes_after_the_end_is_counted_and_said_once(make: Any, receiver: Receiver, said: list[str]) -> None:
    with make(webhook=receiver.url) as notifier:
        notifier.send(record(1))
        notifier.close(LONG)
        notifier.send(record(2))
        notifier.send(record(3))
    notifier.close(LONG)
    assert counts(notifier) == (1, 0, 2)
    assert said == [f"{receiver.url}: a notification was dropped, after the end; further ones are only counted"]


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "svead-notify"]


def test_no_thread_is_left_of_a_notifier_that_was_closed_or_forgotten(receiver: Receiver) -> None:
    before = set(threads())
    with Notifier(command="true", webhook=receiver.url) as notifier:
        assert len(set(threads()) - before) == 2
        assert all(one.daemon for one in threads())
        notifier.send(record(1))
    forgotten = Notifier(command="true", webhook=receiver.url)
    left = set(threads()) - before
    del forgotten
    gc.collect()
    for one in left:
        one.join(LONG)
    assert not set(threads()) - before


def test_a_process_ends_although_a_webhook_never_answers(receiver: Receiver) -> None:
    receiver.may_answer.clear()
    code = f"""
from svead_stream.cli.notify import Notifier
notifier = Notifier(webhook={receiver.url + "/T0KEN"!r}, _timeout=3600)
notifier.send({{"incident": 1, "state": "open"}})
input()
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=-1, text=True)
    receiver.seen.get(timeout=LONG)
    out, err = process.communicate("\n", timeout=LONG)
    assert (process.returncode, out) == (0, "")
    assert err == f"svead-stream: {receiver.url}: 1 notification not delivered: no time was left\n"


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, svead_stream.cli.notify; print({'numpy', 'numba', 'river', 'pyarrow'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


# Queues


def test_a_full_queue_lets_the_oldest_update_go_then_the_newest(make: Any, receiver: Receiver, said: list[str]) -> None:
    receiver.may_answer.clear()
    notifier = make(webhook=receiver.url, capacity=4)
    notifier.send(record(0))
    assert receiver.seen.get(timeout=LONG).record["incident"] == 0  # on its way, no longer in the queue
    states = {1: "open", 2: "update", 3: "update", 4: "closed", 5: "open", 6: "update", 7: "open", 8: "open", 9: "open"}
    for number, state in states.items():
        notifier.send(record(number, state))
    assert counts(notifier) == (0, 0, 5)
    receiver.may_answer.set()
    notifier.close(LONG)
    assert [one.record["incident"] for one in receiver.all_seen()] == [1, 4, 5, 7]
    assert counts(notifier) == (5, 0, 5)
    assert said == [f"{receiver.url}: a notification was dropped, 4 wait already; further ones are only counted"]


def test_a_command_that_hangs_does_not_hold_up_the_webhook(make: Any, receiver: Receiver) -> None:
    notifier = make(command="exec sleep 1000", webhook=receiver.url)
    for i in range(20):
        notifier.send(record(i))
    assert [receiver.seen.get(timeout=LONG).record["incident"] for _ in range(20)] == list(range(20))


def test_a_record_that_is_no_json_is_counted_and_never_raises(make: Any, receiver: Receiver, said: list[str]) -> None:
    class Nameless:
        def __str__(self) -> str:
            raise RuntimeError("T0KEN")

    circular: dict[str, Any] = {}
    circular["self"] = circular
    notifier = make(webhook=receiver.url)
    for bad in ({"score": float("nan")}, circular, {"a": Nameless()}, {1: 1, "a": 2}):
        notifier.send(bad)
    notifier.send({"start": Path("any/thing"), "state": "\ud800\0\n"})
    notifier.close(LONG)
    (seen,) = receiver.all_seen()
    assert seen.record == {"start": "any/thing", "state": "\ud800\0\n"}
    assert counts(notifier) == (1, 4, 0)
    assert len(said) == 4
    assert all("a notification cannot be written as JSON (" in one and "T0KEN" not in one for one in said)


def test_a_voice_that_fails_stops_neither_the_stream_nor_the_deliveries(make: Any, receiver: Receiver) -> None:
    def hoarse(text: str) -> None:
        raise BrokenPipeError(text)

    receiver.script = [(404, {})]
    notifier = make(webhook=receiver.url, say=hoarse)
    notifier.send({"score": float("nan")})
    notifier.send(record(1))
    notifier.send(record(2))
    notifier.close(LONG)
    assert counts(notifier) == (1, 2, 0)


def test_without_a_destination_nothing_happens(make: Any, said: list[str]) -> None:
    with make() as notifier:
        notifier.send(record(1))
    assert counts(notifier) == (0, 0, 0)
    assert repr(notifier) == "<Notifier: no destination>"
    assert said == []


# Secrets and wrong options


def secret(url: str) -> str:
    return url.replace("://", "://user7:passw0rd@") + "/services/T0KEN?key=k3y"


def test_no_secret_is_in_any_message(
    make: Any, receiver: Receiver, refused: str, said: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    receiver.script = [(404, {}), (302, {"Location": "/T0KEN"}), (503, {}), (0, {})]
    options = {"headers": {"X-Key": "h3ader"}, "attempts": 1}
    urls = [receiver.url] * 4 + [refused, receiver.url.replace("http:", "https:")]
    for url in urls:
        notifier = make(webhook=secret(url), **options)
        assert repr(notifier) == f"<Notifier: {url}>"
        notifier.send(record(1))
        notifier.close(LONG)
        assert counts(notifier) == (0, 1, 0)
    receiver.may_answer.clear()
    for timeout, patience in ((0.05, LONG), (None, 0.01)):
        notifier = make(webhook=secret(receiver.url), _timeout=timeout, **options)
        notifier.send(record(1))
        notifier.close(patience)
    notifier = make(command="echo T0KEN > /dev/null; exit 3", attempts=1)
    notifier.send(record(1))
    notifier.close(LONG)
    assert len(said) == len(urls) + 3
    for text in [*said, repr(notifier), *capfd.readouterr()]:
        assert not any(one in text for one in SECRETS), text


@pytest.mark.parametrize(
    ("webhook", "words"),
    [
        ("ftp://user7:passw0rd@example.com/T0KEN", "begins with ftp://: give an address that begins with http://"),
        ("file:///etc/T0KEN", "begins with file://"),
        ("example.com/T0KEN", "has no scheme"),
        ("", "has no scheme"),
        ("https:///T0KEN", "has no host"),
        ("https://user7:passw0rd@/T0KEN", "has no host"),
        ("https://user7:passw0rd#@example.com/T0KEN", "no valid host and port"),
        ("https://example.com:99999/T0KEN", "no valid host and port"),
        ("https://[::1/T0KEN", "no valid host and port"),
        ("https://example.com/T0KEN\r\nX: k3y", "percent-encode"),
        ("https://example.com/T0KEN k3y", "percent-encode"),
        ("https://user7:passw0rd@exämple.com/", "percent-encode"),
    ],
)
def test_what_is_no_web_address_is_refused_without_repeating_it(webhook: str, words: str) -> None:
    with pytest.raises(ValueError, match="the webhook") as caught:
        Notifier(webhook=webhook)
    assert words in str(caught.value)
    assert not any(one in str(caught.value) for one in SECRETS)
    assert caught.value.__cause__ is None
    assert describe(webhook) == "webhook"


@pytest.mark.parametrize("header", [("X-Key", "h3ader\r\nX: 1"), ("h3ader: 1", "x"), ("", "x"), ("X", "h3ader €")])
def test_headers_that_cannot_be_sent_are_refused_without_repeating_them(header: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="a header for the webhook") as caught:
        Notifier(webhook="http://127.0.0.1/", headers=dict([header]))
    assert "h3ader" not in str(caught.value)


def test_numbers_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="attempts is 0: give 1 or more"):
        Notifier(attempts=0)
    with pytest.raises(ValueError, match="capacity is -1: give 1 or more"):
        Notifier(capacity=-1)


def test_a_webhook_is_described_by_scheme_and_host() -> None:
    assert describe("https://hooks.example.com/a/b?c#d") == "https://hooks.example.com"
    assert describe("HTTP://a:b@[::1]:80/c") == "http://[::1]:80"


# The command


def test_a_command_gets_the_record_on_stdin_and_its_fields_in_the_environment(
    make: Any, tmp_path: Path, said: list[str]
) -> None:
    names = ("INCIDENT", "STATE", "START", "END", "SCORE")
    shown = " ".join(f'"[$SVEAD_{name}]"' for name in names)
    out = shlex.quote(str(tmp_path / "out"))
    notifier = make(command=f"cat >> {out}; echo {shown} >> {out}")
    notifier.send(record(7))
    notifier.send(record(7) | {"state": "closed", "end": "2026-01-01T11:00:00Z", "place": "Zürich"})
    notifier.send({})
    notifier.close(LONG)
    lines = (tmp_path / "out").read_text().splitlines()
    assert json.loads(lines[0]) == record(7)
    assert lines[1] == "[7] [open] [2026-01-01T10:00:00Z] [] [0.75]"
    assert json.loads(lines[2])["place"] == "Zürich"
    assert lines[3] == "[7] [closed] [2026-01-01T10:00:00Z] [2026-01-01T11:00:00Z] [0.75]"
    assert lines[4:] == ["{}", "[] [] [] [] []"]
    assert counts(notifier) == (3, 0, 0)
    assert said == []


def test_what_a_command_prints_is_not_on_our_stdout(make: Any, capfd: pytest.CaptureFixture[str]) -> None:
    notifier = make(command="echo hello; echo oh >&2")
    notifier.send(record(1))
    notifier.close(LONG)
    assert tuple(capfd.readouterr()) == ("", "hello\noh\n")


def test_a_command_may_leave_a_long_record_unread(make: Any) -> None:
    notifier = make(command="true")
    notifier.send(record(1) | {"more": "x" * 1_000_000})
    notifier.close(LONG)
    assert counts(notifier) == (1, 0, 0)


def test_a_command_that_fails_is_run_again_and_then_said(make: Any, tmp_path: Path, said: list[str]) -> None:
    out = shlex.quote(str(tmp_path / "out"))
    succeeds_later = f'[ "$SVEAD_INCIDENT" = 2 ] && [ $(grep -c 2 {out}) = 3 ]'
    notifier = make(command=f'echo "$SVEAD_INCIDENT" >> {out}; {succeeds_later} || exit 3', attempts=4)
    notifier.send(record(1))
    notifier.send(record(2))
    notifier.close(LONG)
    assert (tmp_path / "out").read_text().split() == ["1"] * 4 + ["2"] * 3
    assert counts(notifier) == (1, 1, 0)
    assert said == ["command: incident 1 open not delivered: exit code 3 (4 attempts)"]


def test_a_command_that_is_not_there_is_tried_once(make: Any, said: list[str]) -> None:
    notifier = make(command="no-such-command-T0KEN 2> /dev/null")
    notifier.send(record(1))
    notifier.close(LONG)
    assert said == ["command: incident 1 open not delivered: exit code 127 (1 attempt)"]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """A named pipe: who reads it sees its end when the last process that writes is gone."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    yield shlex.quote(str(path)), reader
    os.close(reader)


def test_a_command_that_hangs_is_killed_with_its_children(make: Any, pipe: tuple[str, int], said: list[str]) -> None:
    path, reader = pipe
    notifier = make(command=f"exec 3> {path}; sleep 1000 & sleep 1000", attempts=2, _timeout=0.3)
    notifier.send(record(1))
    notifier.close(LONG)
    assert os.read(reader, 1) == b""
    assert counts(notifier) == (0, 1, 0)
    assert said == ["command: incident 1 open not delivered: killed after 0.3 s (2 attempts)"]


def test_closing_kills_a_command_that_still_runs_with_its_children(
    make: Any, pipe: tuple[str, int], said: list[str]
) -> None:
    path, reader = pipe
    keep = os.open(shlex.split(path)[0], os.O_WRONLY)  # so that the first read waits for the command
    notifier = make(command=f"exec 3> {path}; echo >&3; sleep 1000 & sleep 1000")
    notifier.send(record(1))
    assert os.read(reader, 1) == b"\n"
    os.close(keep)
    notifier.close(0)
    assert os.read(reader, 1) == b""
    assert counts(notifier) == (0, 1, 0)
    assert said == ["command: 1 notification not delivered: no time was left"]
