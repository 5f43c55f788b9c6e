"""Telling others of an incident: a command is run, or JSON is posted to a webhook, while the stream goes on.

Delivery is at least once. What fails is tried again a few times, and a worker that was killed may send a notification
once more after its restart; the `Idempotency-Key` is then the same, so that receivers can drop repeats. What is queued
is in memory only: what cannot be delivered in time is counted, said and given up.
"""

from __future__ import annotations

import random
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import Any, Self

from svead_stream.cli.deliver import Command, DeliveryError, Notice, Webhook, notice_of

_COMMAND_SECONDS = 30.0
_WEBHOOK_SECONDS = 10.0
_LONGEST_PAUSE = 60.0  # seconds, also for a server that asks for more


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
        channels: list[Command | Webhook] = []
        if command is not None:
            channels.append(Command(command, _timeout or _COMMAND_SECONDS))
        if webhook is not None:
            channels.append(Webhook(webhook, headers, _timeout or _WEBHOOK_SECONDS))
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
            notice = notice_of(record)
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


class _Destination:
    """A queue, and the thread that empties it."""

    def __init__(
        self, channel: Command | Webhook, attempts: int, capacity: int, say: Callable[[str], None], pause: float
    ) -> None:
        self.name = channel.name
        self.sent = self.failed = self.dropped = 0
        self._channel = channel
        self._attempts = attempts
        self._capacity = capacity
        self._say = say
        self._pause = pause
        self._queue: deque[Notice] = deque()
        self._is_busy = self._is_closing = self._is_over = self._is_loss_said = False
        self._skips_pause = False
        self._changed = threading.Condition()  # guards all of the above
        self._thread = threading.Thread(target=self._work, name="svead-notify", daemon=True)
        self._thread.start()

    def put(self, notice: Notice) -> None:
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

    def _deliver(self, notice: Notice) -> str | None:
        """Try until it works; or say why it does not."""
        for attempt in range(1, self._attempts + 1):
            try:
                self._channel.deliver(notice)
                return None
            except DeliveryError as error:
                failure = error
            except Exception as error:  # no memory, no processes: the thread must live on
                failure = DeliveryError(type(error).__name__)
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
