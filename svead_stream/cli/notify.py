"""Telling others of an incident: a command is run, or JSON is posted to a webhook, while the stream goes on.

Delivery is at least once. What fails is tried again a few times, and a worker that was killed may send a notification
once more after its restart; the `Idempotency-Key` is then the same, so that receivers can drop repeats. What is queued
is in memory only: what cannot be delivered in time is counted, said and given up.

Addresses and commands often carry secrets. Messages name a webhook by scheme and host alone, a command not at all, and
no text of an exception is handed on, since many quote the address.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self
from urllib.error import URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

_COMMAND_SECONDS = 30.0
_WEBHOOK_SECONDS = 10.0
_LONGEST_PAUSE = 60.0  # seconds, also for a server that asks for more

# What a command finds in its environment, and the field of the record it is.
_VARIABLES = {
    "SVEAD_INCIDENT": "incident",
    "SVEAD_STATE": "state",
    "SVEAD_START": "start",
    "SVEAD_END": "end",
    "SVEAD_SCORE": "peak",
}


def _to_stderr(text: str) -> None:
    print(f"svead-stream: {text}", file=sys.stderr, flush=True)


class Notifier:
    """Deliver records to a command, a webhook, both or none, without making the stream wait.

    Each destination has a queue and a thread of its own. Records are delivered in order. Where a queue is full, its
    oldest `update` makes room; without one, the new record is dropped. A delivery that fails is tried again with
    growing pauses.

    Parameters
    ----------
    command
        Run by the shell once per record, with the record as a line of JSON on its standard input and `SVEAD_INCIDENT`,
        `SVEAD_STATE`, `SVEAD_START`, `SVEAD_END` and `SVEAD_SCORE` in its environment, empty where the record has
        none. What it prints goes to stderr. After 30 seconds it is killed with all processes it started. If it fails it
        is run again, unless the shell cannot find or run it (exit codes 126 and 127).
    webhook
        An http or https address that gets the record as the body of a POST. A user name and password in it become a
        Basic `Authorization` header. Lost connections, no answer in 10 seconds, 429 and 5xx are tried again, and
        `Retry-After` is heeded up to a minute. Other answers are final. Redirects are not followed: they would turn
        the POST into a GET, or take it to another host.
    headers
        Sent to the webhook, in place of ours where they have the same name.
    attempts
        How often a record is tried at most.
    capacity
        How many records may wait for each destination.
    say
        Gets a line when something was not delivered. It is called from other threads, too.

    Raises
    ------
    ValueError
        If the webhook is no http or https address, a header cannot be sent, or a number is below 1.

    Examples
    --------
    >>> from svead_stream.cli.notify import Notifier
    >>> notifier = Notifier(command='test "$SVEAD_STATE" = open')
    >>> notifier.send({"incident": 1, "state": "open", "start": "2026-01-01T10:00:00Z"})
    >>> notifier.close(timeout=60)
    >>> notifier.sent, notifier.failed, notifier.dropped
    (1, 0, 0)
    """

    def __init__(
        self,
        command: str | None = None,
        webhook: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        attempts: int = 5,
        capacity: int = 1000,
        say: Callable[[str], None] = _to_stderr,
        *,
        _pause: float = 0.5,  # seconds before the second attempt
        _timeout: float | None = None,  # seconds for one attempt
    ) -> None:
        for name, value in (("attempts", attempts), ("capacity", capacity)):
            if value < 1:
                raise ValueError(f"{name} is {value}: give 1 or more")
        channels: list[_Command | _Webhook] = []
        if command is not None:
            channels.append(_Command(command, _timeout or _COMMAND_SECONDS))
        if webhook is not None:
            channels.append(_Webhook(webhook, headers, _timeout or _WEBHOOK_SECONDS))
        self._destinations = tuple(_Destination(one, attempts, capacity, say, _pause) for one in channels)
        # At the end of the interpreter, or of a notifier that nobody closed, threads must not go on.
        weakref.finalize(self, _give_up, self._destinations)

    def __repr__(self) -> str:
        return f"<Notifier: {', '.join(one.name for one in self._destinations) or 'no destination'}>"

    @property
    def sent(self) -> int:
        """Records delivered, counted for each destination."""
        return sum(one.sent for one in self._destinations)

    @property
    def failed(self) -> int:
        """Records given up after the last attempt or at the end, counted for each destination."""
        return sum(one.failed for one in self._destinations)

    @property
    def dropped(self) -> int:
        """Records for which there was no room, or that came after the end, counted for each destination."""
        return sum(one.dropped for one in self._destinations)

    def send(self, record: dict[str, Any]) -> None:
        """Queue a record and return at once. Never raises; the record may be changed afterwards."""
        try:
            notice = _notice(record)
        except Exception as error:  # whatever is wrong with a record, the stream goes on
            for one in self._destinations:
                one.refuse(f"a notification cannot be written as JSON ({type(error).__name__})")
            return
        for one in self._destinations:
            one.put(notice)

    def close(self, timeout: float = 10.0) -> None:
        """Deliver what is queued, give up what is left after `timeout` seconds, and say how much that was.

        A pause before another attempt ends at once, and `Retry-After` counts no longer. A command that still runs at
        the end is killed. Closing again does nothing.
        """
        deadline = time.monotonic() + timeout
        try:
            for one in self._destinations:
                one.hurry()
            for one in self._destinations:
                one.wait_until_idle(deadline - time.monotonic())
        finally:  # also when Ctrl-C ends the wait
            _give_up(self._destinations)
        for one in self._destinations:
            one.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Notice(NamedTuple):
    """A record, ready to be sent."""

    body: bytes  # canonical JSON
    key: str  # the same for the same record
    label: str  # for messages
    variables: dict[str, str]
    is_update: bool


def _notice(record: dict[str, Any]) -> _Notice:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False, default=str)
    fields: dict[str, Any] = json.loads(text)
    variables = {name: _as_variable(fields.get(field)) for name, field in _VARIABLES.items()}
    label = f"incident {variables['SVEAD_INCIDENT']} {variables['SVEAD_STATE']}"
    body = text.encode()
    key = hashlib.sha256(body).hexdigest()
    return _Notice(body, key, " ".join(label.split())[:80], variables, fields.get("state") == "update")


def _as_variable(value: Any) -> str:
    """As text that an environment can hold."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text.replace("\0", "").encode("utf-8", "replace").decode()


class _DeliveryError(Exception):
    """An attempt that failed: why, and whether another one makes sense."""

    def __init__(self, why: str, is_final: bool = False, asked: float = 0.0) -> None:
        super().__init__(why)
        self.is_final = is_final
        self.asked = asked  # seconds for which the receiver wants to be left alone


class _Destination:
    """A queue, and the thread that empties it."""

    def __init__(
        self, channel: _Command | _Webhook, attempts: int, capacity: int, say: Callable[[str], None], pause: float
    ) -> None:
        self.name = channel.name
        self.sent = self.failed = self.dropped = 0
        self._channel = channel
        self._attempts = attempts
        self._capacity = capacity
        self._say = say
        self._pause = pause
        self._queue: deque[_Notice] = deque()
        self._is_busy = self._is_closing = self._is_over = self._is_loss_said = False
        self._skips_pause = False
        self._changed = threading.Condition()  # guards all of the above
        self._thread = threading.Thread(target=self._work, name="svead-notify", daemon=True)
        self._thread.start()

    def put(self, notice: _Notice) -> None:
        """Queue a record, if need be in the place of another."""
        with self._changed:
            before = self.dropped
            if not self._is_over and self._makes_room():
                self._queue.append(notice)
                self._changed.notify_all()
            else:
                self.dropped += 1
            is_news = self.dropped > before and not self._is_loss_said
            self._is_loss_said |= is_news
        if is_news:
            why = "after the end" if self._is_over else f"{self._capacity:,} wait already"
            self._tell(f"a notification was dropped, {why}; further ones are only counted")

    def _makes_room(self) -> bool:
        """Whether there is room, now that the oldest update had to go."""
        if len(self._queue) < self._capacity:
            return True
        for i, one in enumerate(self._queue):
            if one.is_update:
                del self._queue[i]
                self.dropped += 1
                return True
        return False

    def refuse(self, why: str) -> None:
        """Count a record that cannot be sent."""
        with self._changed:
            self.failed += 1
        self._tell(why)

    def hurry(self) -> None:
        """Skip the pause that is or comes next, and from now on do not wait as long as receivers ask."""
        with self._changed:
            self._is_closing = self._skips_pause = True
            self._changed.notify_all()

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until nothing is left to do, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue and not self._is_busy, max(seconds, 0.0))

    def give_up(self) -> None:
        """End the thread and what it does, as far as this can be done from outside."""
        with self._changed:
            if self._is_over:
                return
            self._is_over = True
            left = len(self._queue) + self._is_busy
            self.failed += left
            self._queue.clear()
            self._changed.notify_all()
        self._channel.abandon()
        if left:
            self._tell(f"{left:,} notification{'s' * (left > 1)} not delivered: no time was left")

    def join(self) -> None:
        """Wait for a thread that has nothing to do but end. One in the midst of an attempt is left alone."""
        if not self._is_busy:
            self._thread.join(1.0)

    def _tell(self, text: str) -> None:
        with suppress(Exception):  # stderr may be gone
            self._say(f"{self.name}: {text}")

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_over)
                if self._is_over:
                    return
                notice = self._queue.popleft()
                self._is_busy = True
                if not self._queue:
                    self._is_loss_said = False  # another jam is news again
            problem = self._deliver(notice)
            with self._changed:
                self._is_busy = False
                if self._is_over:
                    return
                self.sent += problem is None
                self.failed += problem is not None
                self._changed.notify_all()
            if problem is not None:
                self._tell(f"{notice.label} not delivered: {problem}")

    def _deliver(self, notice: _Notice) -> str | None:
        """Try until it works; or say why it does not."""
        for attempt in range(1, self._attempts + 1):
            try:
                self._channel.deliver(notice)
                return None
            except _DeliveryError as error:
                failure = error
            except Exception as error:  # no memory, no processes: the thread must live on
                failure = _DeliveryError(type(error).__name__)
            if failure.is_final or attempt == self._attempts or not self._rest(attempt, failure.asked):
                break
        return f"{failure} ({attempt} attempt{'s' * (attempt > 1)})"

    def _rest(self, attempt: int, asked: float) -> bool:
        """Pause before another attempt, unless all is over."""
        with self._changed:
            seconds = _pause_after(attempt, self._pause, 0.0 if self._is_closing else asked)
            self._changed.wait_for(lambda: self._is_over or self._skips_pause, seconds)
            self._skips_pause = False
            return not self._is_over


def _give_up(destinations: Iterable[_Destination]) -> None:
    for one in destinations:
        one.give_up()


_CHANCE = random.Random()  # its own: nobody else's numbers change


def _pause_after(attempt: int, first: float, asked: float = 0.0) -> float:
    """Seconds before the next attempt: doubled each time, with jitter, and no less than the receiver asked for."""
    doubled: float = first * 2 ** min(attempt - 1, 10)
    return min(_LONGEST_PAUSE, max(asked, doubled * _CHANCE.uniform(0.5, 1.5)))


class _Command:
    """Runs a command of the shell."""

    name = "command"

    def __init__(self, command: str, timeout: float) -> None:
        self._command = command
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._is_abandoned = False
        self._lock = threading.RLock()  # between the start of a process and giving up, which may be a finalizer's

    def deliver(self, notice: _Notice) -> None:
        with self._lock:
            if self._is_abandoned:
                raise _DeliveryError("no time was left", is_final=True)
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
                raise _DeliveryError(f"killed after {self._timeout:g} s") from None
            finally:
                with self._lock:
                    self._process = None
        code = process.returncode
        if code:
            raise _DeliveryError(f"exit code {code}" if code > 0 else f"signal {-code}", is_final=code in (126, 127))

    def abandon(self) -> None:
        """Kill what runs; start nothing more."""
        with self._lock:
            self._is_abandoned = True
            if self._process is not None:
                _kill(self._process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class _Webhook:
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

    def deliver(self, notice: _Notice) -> None:
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
            raise _DeliveryError(f"answered {status}, a redirect: give the address it leads to", is_final=True)
        is_final = status != 429 and status < 500
        raise _DeliveryError(f"answered {status}", is_final, 0.0 if is_final else _seconds(retry_after))

    def abandon(self) -> None:
        """Nothing can end an attempt but its timeout; its thread does not keep the process alive."""

    def _failure(self, error: Exception) -> _DeliveryError:
        """Why there was no answer, in words that hold nothing of the address."""
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(cause, TimeoutError):
            return _DeliveryError(f"no answer in {self._timeout:g} s")
        if isinstance(cause, ssl.SSLError):
            is_final = isinstance(cause, ssl.SSLCertVerificationError)
            return _DeliveryError(f"no TLS connection ({cause.reason})", is_final)
        if isinstance(cause, socket.gaierror):
            return _DeliveryError("the host is not known")
        if isinstance(cause, OSError) and cause.errno is not None:
            return _DeliveryError(os.strerror(cause.errno))
        return _DeliveryError(type(cause).__name__)


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
