"""Tells when no broker can be reached any more, and when one can again.

The client tries to connect again for as long as it takes, and its `poll` returns nothing meanwhile, just as if no
events came. So somebody has to look whether any connection is open.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from svead_kafka.metrics import Metrics

log = logging.getLogger(__name__)

_LOOK = 0.5  # seconds between two looks
_GRACE = 3.0  # seconds without a connection that are no news: the client opens and closes some now and then


class BrokerWatch:
    """A thread that looks whether a client is connected.

    Parameters
    ----------
    bootstrap
        Where the brokers are, for the log.
    metrics
        The worker's.
    """

    def __init__(self, bootstrap: str, metrics: Metrics) -> None:
        self.is_lost = False
        self._bootstrap = bootstrap
        self._up = metrics.broker_up
        self._is_connected: Callable[[], bool] | None = None
        self._last = 0.0  # when a connection was last seen
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="svead-brokers", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def watch(self, is_connected: Callable[[], bool] | None) -> None:
        """Look at another client; at none while the worker has none, and tells itself why."""
        with self._lock:
            self._is_connected = is_connected
            if not self.is_lost:
                self._last = time.monotonic()
            if is_connected is None:
                self._up.set(0)

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK):
            self.look()

    def look(self) -> None:
        """Tell what has changed."""
        with self._lock:
            if self._is_connected is None:
                return
            up = self._is_connected()
            silent = time.monotonic() - self._last
            if up and self.is_lost:
                # A warning like the other one: who sees that must see this.
                log.warning("broker found again after %.0f s: going on", silent)
            elif not up and not self.is_lost and silent > _GRACE:
                log.warning("broker lost: no connection to %s for %.0f s; waiting for it", self._bootstrap, silent)
            self._up.set(up)
            self.is_lost = not up and silent > _GRACE
            if up:
                self._last = time.monotonic()
