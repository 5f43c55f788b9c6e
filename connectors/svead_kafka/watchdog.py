"""Against calls that never return: a bound on those that are known to hang, and an end of the process for the rest.

The client's `commit_transaction` has no timeout and can wait for ever when the coordinator goes away at the wrong
moment. It is called with a bound, after which the producer is given up. Should anything else hang, the process ends
itself, so that its supervisor can start it afresh. Both are always safe: what was committed is committed, and whoever
comes next begins there.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

from kafka.errors import KafkaTimeoutError

from svead_kafka.errors import EXIT_STALLED

log = logging.getLogger(__name__)

_LOOK = 0.1  # seconds between two looks at the clock


def bounded(call: Callable[[], None], seconds: float, hurry: threading.Event, less: float) -> None:
    """Run a call that may hang, and wait for it so long; its thread is left behind if it does.

    Once there is a hurry, it is given only so many seconds more, if that is less.

    Raises
    ------
    KafkaTimeoutError
        If the call has not returned in time.
    """
    done = threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="svead-bounded", daemon=True).start()
    began = time.monotonic()
    end, hurried = began + seconds, False
    while not done.wait(_LOOK):
        now = time.monotonic()
        if hurry.is_set() and not hurried:
            end, hurried = min(end, now + less), True
        if now > end:
            raise KafkaTimeoutError(f"the cluster did not answer in {now - began:.0f} s")
    if failure:
        raise failure[0]


def _end() -> None:
    os._exit(EXIT_STALLED)  # exit() would wait for the threads that hang


def _stacks() -> str:
    """Where each thread is, through the log and not beside it: that may be one object a line."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )


class Watchdog:
    """A thread that acts when nobody has called `beat` for too long.

    Parameters
    ----------
    timeout
        Seconds without a beat that are taken for a stall.
    on_stall
        What to do then; by default the process ends with status 76.
    """

    def __init__(self, timeout: float, on_stall: Callable[[], None] = _end) -> None:
        self.timeout = timeout
        self.on_stall = on_stall
        self.doing = "starting"
        self._last = time.monotonic()
        self._is_watching = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="svead-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._last = time.monotonic()
        self._is_watching = True
        self._thread.start()

    def beat(self, doing: str) -> None:
        """Say that there was progress, and what comes next."""
        self.doing = doing
        self._last = time.monotonic()

    @property
    def silent(self) -> float:
        """Seconds since the last beat; none as long as nobody watches, while the detector is being compiled."""
        return time.monotonic() - self._last if self._is_watching else 0.0

    def stop(self) -> None:
        """End the watch."""
        self._is_watching = False
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(min(1.0, self.timeout / 4)):
            silent = time.monotonic() - self._last
            if silent > self.timeout:
                log.critical("no progress for %.0f s while %s: ending the process", silent, self.doing)
                log.critical("what the threads were at:\n%s", _stacks())
                self.on_stall()
                return
