"""The two ways out: a command that is run, an address that is posted to. One attempt each; `notify.py` tries again.

Addresses and commands often carry secrets. Messages name a webhook by scheme and host alone, a command not at all, and
no text of an exception is handed on, since many quote the address.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

# What a command finds in its environment, and the field of the record it is.
_VARIABLES = {
    "SVEAD_INCIDENT": "incident",
    "SVEAD_STATE": "state",
    "SVEAD_START": "start",
    "SVEAD_END": "end",
    "SVEAD_SCORE": "peak",
}


class Notice(NamedTuple):
    """A record, ready to be sent."""

    body: bytes  # canonical JSON
    key: str  # the same for the same record
    label: str  # for messages
    variables: dict[str, str]
    is_update: bool


def notice_of(record: dict[str, Any]) -> Notice:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str)
    fields: dict[str, Any] = json.loads(text)
    variables = {name: _as_variable(fields.get(field)) for name, field in _VARIABLES.items()}
    label = f"incident {variables['SVEAD_INCIDENT']} {variables['SVEAD_STATE']}"
    body = text.encode()
    key = hashlib.sha256(body).hexdigest()
    return Notice(body, key, " ".join(label.split())[:80], variables, fields.get("state") == "update")


def _as_variable(value: Any) -> str:
    """As text that an environment can hold."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text.replace("\0", "").encode("utf-8", "replace").decode()


class DeliveryError(Exception):
    """An attempt that failed: why, and whether another one makes sense."""

    def __init__(self, why: str, is_final: bool = False, asked: float = 0.0) -> None:
        super().__init__(why)
        self.is_final = is_final
        self.asked = asked  # seconds for which the receiver wants to be left alone


class Command:
    """Runs a command of the shell."""

    name = "command"

    def __init__(self, command: str, timeout: float) -> None:
        self._command = command
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._is_abandoned = False
        self._lock = threading.RLock()  # between the start of a process and giving up, which may be a finalizer's

    def deliver(self, notice: Notice) -> None:
        """One attempt."""
        with self._lock:
            if self._is_abandoned:
                raise DeliveryError("no time was left", is_final=True)
            process = self._process = subprocess.Popen(
                self._command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=2,  # our stdout is for records
                env=os.environ | notice.variables,
                start_new_session=True,  # a group to be killed as a whole, and out of reach of Ctrl-C
            )
        with process:
            try:
                process.communicate(notice.body + b"\n", self._timeout)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise DeliveryError(f"killed after {self._timeout:g} s") from None
            finally:
                with self._lock:
                    self._process = None
        code = process.returncode
        if code:
            raise DeliveryError(f"exit code {code}" if code > 0 else f"signal {-code}", is_final=code in (126, 127))

    def abandon(self) -> None:
        """Kill what runs; start nothing more."""
        with self._lock:
            self._is_abandoned = True
            if self._process is not None:
                _kill(self._process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Webhook:
    """Posts to an address."""

    def __init__(self, webhook: str, headers: Mapping[str, str], timeout: float) -> None:
        parts = _checked(webhook)
        user, _, host = parts.netloc.rpartition("@")
        self.name = describe(webhook)
        self._url = urlunsplit((parts.scheme, host, parts.path or "/", parts.query, ""))
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", "User-Agent": "svead-stream"}
        if user:
            pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        for name, value in headers.items():
            if not (name.isascii() and name and _is_plain(name, " :") and _is_plain(value)):
                raise ValueError("a header for the webhook has characters that cannot be sent: check names and values")
            self._headers[name] = value  # of two spellings, urllib takes the later
        self._opener = OpenerDirector()  # without redirects, files and FTP; any status is an answer
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            self._opener.add_handler(handler)

    def deliver(self, notice: Notice) -> None:
        """One attempt."""
        headers = {"Idempotency-Key": notice.key} | self._headers
        request = Request(self._url, notice.body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                status, retry_after = answer.status, answer.headers.get("Retry-After")
        except (OSError, HTTPException) as error:
            raise self._failure(error) from None
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            raise DeliveryError(f"answered {status}, a redirect: give the address it leads to", is_final=True)
        is_final = status != 429 and status < 500
        raise DeliveryError(f"answered {status}", is_final, 0.0 if is_final else _seconds(retry_after))

    def abandon(self) -> None:
        """Nothing can end an attempt but its timeout; its thread does not keep the process alive."""

    def _failure(self, error: Exception) -> DeliveryError:
        """Why there was no answer, in words that hold nothing of the address."""
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(cause, TimeoutError):
            return DeliveryError(f"no answer in {self._timeout:g} s")
        if isinstance(cause, ssl.SSLError):
            is_final = isinstance(cause, ssl.SSLCertVerificationError)
            return DeliveryError(f"no TLS connection ({cause.reason})", is_final)
        if isinstance(cause, socket.gaierror):
            return DeliveryError("the host is not known")
        if isinstance(cause, OSError) and cause.errno is not None:
            return DeliveryError(os.strerror(cause.errno))
        return DeliveryError(type(cause).__name__)


def describe(webhook: str) -> str:
    """Name a webhook by scheme and host, with the port if it has one: all else may be secret.

    Examples
    --------
    >>> describe("https://user:password@hooks.example.com:8443/services/T0/token?key=1")
    'https://hooks.example.com:8443'
    """
    try:
        parts = _checked(webhook)
    except ValueError:
        return "webhook"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _checked(webhook: str) -> SplitResult:
    """The parts of an address that can be posted to. What is wrong is said without the address."""
    if not webhook.isascii() or not _is_plain(webhook, " "):
        raise ValueError("the webhook has spaces or special characters in it: percent-encode them")
    try:
        parts = urlsplit(webhook)
        is_port_valid = parts.port != 0
    except ValueError:  # whose text can quote a password
        is_port_valid = False
    if not is_port_valid:
        raise ValueError("the webhook has no valid host and port: give an address such as https://example.com/path")
    if parts.scheme not in ("http", "https"):
        found = f"begins with {parts.scheme}://" if "://" in webhook else "has no scheme"
        raise ValueError(f"the webhook {found}: give an address that begins with http:// or https://")
    if not parts.hostname:
        raise ValueError("the webhook has no host: give an address such as https://example.com/path")
    return parts


def _is_plain(text: str, forbidden: str = "") -> bool:
    """Whether a header or an address can hold it: Latin-1, no control characters."""
    return all(" " <= c <= "\xff" and c != "\x7f" and c not in forbidden for c in text)


def _seconds(retry_after: str | None) -> float:
    """What `Retry-After` asks for: seconds or a date; 0 where it makes no sense."""
    if not retry_after:
        return 0.0
    with suppress(ValueError):
        return float(min(max(0, int(retry_after)), 1_000_000))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    return 0.0
