"""Who may look at a live page, what they are sent, and what they cannot do to the run."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from svead_stream.cli.serve import Address, address, live_page
from svead_stream.report import Recorder, live
from svead_stream.report.live import LivePage

TOKEN = "correct-horse-battery"
PATIENCE = 120.0


class Answer(NamedTuple):
    status: int
    headers: Any
    body: bytes


class Visited(NamedTuple):
    """A page that is being served, and where."""

    told: str
    port: int

    def ask(self, path: str = "/", method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return Answer(answer.status, answer.headers, body)


def shown(recorder: Recorder) -> dict[str, Any]:
    about = {"title": "x", "seconds": 1.0, "written": "today", "measured": None, "settings": {}}
    return recorder.to_json() | about


@pytest.fixture
def recorder() -> Recorder:
    recorder = Recorder()
    recorder.add_rows(np.ones(30), np.zeros(30, dtype=bool), np.full(30, 2.0))
    return recorder


@pytest.fixture
def visit(recorder: Recorder) -> Iterator[Callable[..., Visited]]:
    """Serves a page; a thread stands for the run that feeds it."""
    ended = threading.Event()
    threads, pages = [], []

    def start(where: str = "0", token: str | None = None) -> Visited:
        page = live_page(lambda: shown(recorder), where, token)

        def run() -> None:
            while not ended.wait(0.02):
                page.update(changed=True)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        pages.append(page)
        found = re.search(r":(\d+)/", page.told)
        assert found is not None
        return Visited(page.told, int(found[1]))

    yield start
    ended.set()
    for thread in threads:
        thread.join(PATIENCE)
    for page in pages:
        page.close()


def test_every_answer_forbids_what_the_page_does_not_need(visit: Any) -> None:
    page = visit()
    assert page.told == f"live page: http://127.0.0.1:{page.port}/"
    answers = [page.ask("/"), page.ask("/data"), page.ask("/nothing"), page.ask("/", "POST"), page.ask("/", "OPTIONS")]
    assert [answer.status for answer in answers] == [200, 200, 404, 501, 501]
    for _, headers, _ in answers:
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert not [name for name in headers if name.lower().startswith("access-control")]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', answers[0].body.decode())
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[^']*'; connect-src 'self'", policy[1]
    )
    assert json.loads(answers[1].body)["rows"] == 30


def test_what_is_known_already_is_not_sent_again(visit: Any) -> None:
    page = visit()
    version = page.ask("/data").headers["ETag"]
    while (answer := page.ask("/data", If_None_Match=version)).status == 200:  # a newer one has come between
        assert answer.headers["ETag"] != version
        version = answer.headers["ETag"]
    assert (answer.status, answer.body) == (304, b"")
    head = page.ask("/data", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["Content-Length"]) > 100


def test_it_is_compressed_for_those_who_can_read_that(visit: Any) -> None:
    page = visit()
    for path in ("/", "/data"):
        plain, zipped = page.ask(path), page.ask(path, Accept_Encoding="gzip, br")
        assert (plain.headers["Content-Encoding"], zipped.headers["Content-Encoding"]) == (None, "gzip")
        assert gzip.decompress(zipped.body)[:14] == plain.body[:14]
        assert len(zipped.body) < len(plain.body)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8765", 200),
        ("[::1]:8765", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("evil.example@localhost.evil", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
def test_a_name_that_somebody_let_point_here_is_refused(visit: Any, host: str, status: int) -> None:
    answer = visit().ask("/data", Host=host)
    assert answer.status == status
    assert status == 200 or len(answer.body.splitlines()) == 1


def test_an_address_that_others_can_reach_has_a_token(visit: Any) -> None:
    page = visit("0.0.0.0:0")
    token = page.told.rpartition("?token=")[2]
    assert len(token) >= 32
    assert page.ask("/data").status == 403
    check_token(page, token)


def test_a_token_that_is_given_is_asked_for_everywhere_and_never_told(visit: Any) -> None:
    page = visit("127.0.0.1:0", TOKEN)
    assert TOKEN not in page.told
    assert "?token= and the token that was given" in page.told
    check_token(page, TOKEN)


def check_token(page: Visited, token: str) -> None:
    guesses = ["", token[:-1], f"{token}%00", "%ff"]
    for wrong in ("/", "/data", "/nothing", *(f"/?token={guess}" for guess in guesses)):
        refused = page.ask(wrong, Cookie="svead=1; {broken", Host="any.name")
        assert refused.status == 403, wrong
        assert len(refused.body.splitlines()) == 1
        assert "Set-Cookie" not in refused.headers
    welcome = page.ask(f"/?token={token}", Host="any.name")
    assert b'content="0; url=/"' in welcome.body  # the token leaves the line of the address
    cookie, *about = welcome.headers["Set-Cookie"].split("; ")
    assert about == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert token not in cookie
    assert page.ask("/data", Cookie=f'other={{"a"; {cookie}', Host="any.name").status == 200
    assert page.ask("/data", Cookie=cookie[:-1], Host="any.name").status == 403


def test_a_token_that_could_be_guessed_is_refused_without_telling_it() -> None:
    with pytest.raises(ValueError, match="has 6 characters: give 16 or more") as refused:
        live_page(dict, "0", "secret")
    assert "secret" not in str(refused.value)


def test_nonsense_is_answered_and_not_shouted_about(visit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    page = visit()
    for sent in (b"GET http://[x HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE) as client:
            client.sendall(sent)
            assert b"400" in client.makefile("rb").read()
    assert capsys.readouterr().err == ""


def test_clients_that_say_nothing_hold_up_nobody(visit: Any) -> None:
    page = visit()
    silent = [socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE) for _ in range(80)]
    try:
        assert page.ask("/data").status == 200
        assert silent[0].recv(1) == b""  # the oldest had to go
    finally:
        for client in silent:
            client.close()


def test_a_port_that_is_taken_is_a_line_that_says_so(visit: Any) -> None:
    page = visit()
    with pytest.raises(ValueError, match=rf"--serve {page.port}: cannot listen there \(Address already in use\)"):
        live_page(dict, str(page.port), None)


def test_pictures_are_taken_only_while_somebody_looks_and_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    now, taken = [1000.0], []
    monkeypatch.setattr(live.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(live, "_PATIENCE", 0.0)

    def data() -> dict[str, Any]:
        taken.append(now[0])
        now[0] += cost
        return {}

    cost = 0.0
    page = LivePage(data)

    def pass_time(seconds: int) -> None:
        for _ in range(10 * seconds):
            now[0] += 0.1
            page.update(changed=True)

    pass_time(60)
    assert len(taken) == 1  # nobody looked
    page.look()
    pass_time(9)
    assert 7 <= len(taken) <= 10
    pass_time(60)
    assert len(taken) <= 12  # he has gone
    cost, before = 1.0, len(taken)
    page.look()
    pass_time(9)
    assert len(taken) == before + 1  # a picture that takes a second is not taken each second
    now[0] += 30
    page.look()
    page.update()
    last = page.look()
    page.update()
    now[0] += 5
    page.update()
    assert page.look() is last  # nothing has changed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9000", Address("127.0.0.1", 9000)),
        ("0", Address("127.0.0.1", 0)),
        ("0.0.0.0:80", Address("0.0.0.0", 80)),
        ("[::]:80", Address("::", 80)),
        ("my-host.lan:80", Address("my-host.lan", 80)),
        *[(wrong, None) for wrong in ("", "x.csv", "65536", "host", "host:", ":80", "::1:80", "1e3", "http://a:80")],
    ],
)
def test_an_address_is_a_port_or_a_host_with_a_port(text: str, found: Address | None) -> None:
    if found is not None:
        assert address(text) == found
        return
    with pytest.raises(ValueError, match=r"it must be PORT or HOST:PORT") as refused:
        address(text)
    assert repr(text) in str(refused.value)
