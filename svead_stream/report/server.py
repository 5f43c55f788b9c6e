"""The live page's server: two addresses to read, and nothing to do.

Who may look
------------
On a loopback address everybody on this machine may. A page of the internet, in the browser of one of them, must not:
it cannot read answers from another origin, as no header here allows that, and a name of its own that it lets point to
this machine (DNS rebinding) is refused, since the Host header must name this machine.

On any other address, and wherever one is given, there is a token. The first visit brings it in the address; the browser
gets a cookie for it, which no script can read and no other site can make use of, and leaves for an address without it.
The cookie is made from the token and does not tell it: browsers send cookies to all ports of a host.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from svead_stream.report.live import LivePage

_MOST_CONNECTIONS = 32
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",  # the page has more
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# Not a redirect: to a visit that begins with a link on another site browsers add none of these cookies, not even after
# a redirect. What this page leads to is a visit of our own.
_WELCOME = b'<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>svead-stream</title>\n'


class PageServer:
    """Shows a run that goes on to browsers, from threads of its own.

    Parameters
    ----------
    data
        Gives what the report shows, as far as the run has come; called by the thread that calls `update`.
    host, port
        Where to listen; port 0 is any free one.
    token
        What a visitor must know. On addresses that others can reach, one is made if none is given.

    Attributes
    ----------
    told
        Where a browser finds the page, in a line; a token is told only if it was made here.

    Raises
    ------
    OSError
        If nobody can listen there.
    """

    def __init__(self, data: Callable[[], dict[str, Any]], host: str, port: int, token: str | None = None) -> None:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        ip = ipaddress.ip_address(str(place[0]).partition("%")[0])
        made = token is None and not ip.is_loopback
        if made:
            token = secrets.token_urlsafe(24)
        self._page = LivePage(data)
        self._server = _Server(family, place, self._page, _Guard(host, token))
        port = self._server.server_address[1]
        shown = socket.gethostname() if ip.is_unspecified else f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{port}/"
        asked = f"?token={token}" if made else "?token= and the token that was given" if token else ""
        self.told = f"live page: {address}{asked}"
        serve = partial(self._server.serve_forever, poll_interval=0.1)  # seconds that closing may take
        self._thread = threading.Thread(target=serve, name="svead-page", daemon=True)
        self._thread.start()

    def update(self, changed: bool = False) -> None:
        """Show what there is, if something has changed since it was last shown and somebody looks."""
        self._page.update(changed)

    def close(self) -> None:
        """Free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Guard:
    """Decides who may look."""

    def __init__(self, host: str, token: str | None) -> None:
        self._hosts = _LOOPBACK | {host.lower()}
        self._token = None if token is None else token.encode()
        self._pass = "" if token is None else hmac.digest(token.encode(), b"cookie", hashlib.sha256).hex()

    def refuses_host(self, header: str) -> bool:
        """Whether a name is none of this machine's; with a token, names do not matter."""
        try:
            host = urlsplit(f"//{header}").hostname
        except ValueError:
            host = None
        return self._token is None and host not in self._hosts

    def knows(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token)

    def cookie(self, port: int) -> str:
        return f"{self._named(port)}; Path=/; HttpOnly; SameSite=Strict"

    def lets_in(self, cookies: str, port: int) -> bool:
        if self._token is None:
            return True
        wanted = self._named(port).encode()
        return any(hmac.compare_digest(one.strip().encode(), wanted) for one in cookies.split(";"))

    def _named(self, port: int) -> str:
        return f"svead-stream-{port}={self._pass}"  # a host may have several pages


class _Server(ThreadingTCPServer):
    """A thread for each request; when there are too many, the oldest has to go, so that slow clients hold up nobody."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, family: int, place: Any, page: LivePage, guard: _Guard) -> None:
        self.address_family = family
        self.page, self.guard = page, guard
        self._lock = threading.Lock()
        self._connections: dict[Any, None] = {}  # the oldest first
        super().__init__(place, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            oldest = next(iter(self._connections)) if len(self._connections) >= _MOST_CONNECTIONS else None
            self._connections.pop(oldest, None)
            self._connections[request] = None
        if oldest is not None:
            with suppress(OSError):  # it may have ended by itself
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who goes away in the middle is no news; anything else is a mistake of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One request: its Host, then its token, then its path."""

    server: _Server
    timeout = 10  # seconds; who connects and says nothing, or does not read, is let go
    server_version, sys_version = "svead-stream", ""

    def do_GET(self) -> None:
        guard, port = self.server.guard, self.server.server_address[1]
        try:
            parts = urlsplit(self.path)
        except ValueError:
            return self._say(400, "that is no address")
        given = parse_qs(parts.query).get("token", [""])[0]
        if guard.refuses_host(self.headers.get("Host", "")):
            self._say(403, "this page is for this machine only: open it as localhost, or start it with a token")
        elif given and guard.knows(given):
            self._send(200, "text/html", _WELCOME, {"Set-Cookie": guard.cookie(port)})
        elif not guard.lets_in(self.headers.get("Cookie", ""), port):
            self._say(403, "this page needs its token: open its address with ?token= and the token")
        elif parts.path in ("/", "/data"):
            self._show(parts.path)
        else:
            self._say(404, "there is nothing here: the page is at /")

    do_HEAD = do_GET

    def _show(self, path: str) -> None:
        picture = self.server.page.look()
        version = f'"{picture.version}"'
        if path == "/data" and self.headers.get("If-None-Match") == version:
            return self._send(304, "application/json", b"")
        zips = "gzip" in self.headers.get("Accept-Encoding", "")
        encoding = {"Content-Encoding": "gzip"} if zips else {}
        if path == "/":
            self._send(200, "text/html", picture.zipped_page if zips else picture.page, encoding)
        else:
            body = picture.zipped_data if zips else picture.data
            self._send(200, "application/json", body, {"ETag": version, **encoding})

    def _say(self, status: int, text: str) -> None:
        self._send(status, "text/plain", f"{text}\n".encode())

    def _send(self, status: int, kind: str, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        about = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in (about | dict(more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def end_headers(self) -> None:
        """Every answer has these, errors of the standard library's included."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Pages ask every second: that is no news, and an address may hold a token."""
