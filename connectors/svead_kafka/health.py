"""What a worker answers on its port: `/metrics` for Prometheus, `/healthz` and `/readyz` for who starts and stops it.

`/healthz` asks whether the process should be ended: 200 as long as the loop beats, also while it waits for a broker
that is gone, since a restart would not bring it back. `/readyz` asks whether the worker does its part: 200 once it is
in the group and the models of its partitions, of which there may be none, are restored.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from functools import partial
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from svead_kafka.errors import ConfigurationError
from svead_kafka.metrics import Metrics
from svead_kafka.watchdog import Watchdog

log = logging.getLogger(__name__)


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request, so that a slow reader keeps no probe waiting."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request to the metrics port from %s failed", client_address, exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = 10  # seconds; who connects and says nothing is let go

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds: they are no news."""


class Health:
    """The pages, and the server that shows them.

    Parameters
    ----------
    metrics, watchdog
        The worker's.
    unready
        Says why the worker is not ready; nothing if it is.
    """

    def __init__(self, metrics: Metrics, watchdog: Watchdog, unready: Callable[[], str]) -> None:
        self.server: WSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._metrics = make_wsgi_app(metrics.registry)
        self._watchdog = watchdog
        self._unready = unready
        metrics.ready.set_function(lambda: float(not unready()))

    def serve(self, port: int, host: str) -> None:
        """Answer on a port, from a thread of its own; a second call changes nothing.

        Raises
        ------
        ConfigurationError
            If nobody can listen there.
        """
        if self.server is not None:
            return
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            kind = type("_Server", (_Server,), {"address_family": family})
            server: WSGIServer = make_server(host, port, self._answer, server_class=kind, handler_class=_Handler)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {host} port {port} ({error.strerror}): give another --metrics-port or --metrics-host"
            ) from error
        serve = partial(server.serve_forever, poll_interval=0.1)  # seconds that closing may take
        self.server, self._thread = server, threading.Thread(target=serve, name="svead-health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the port."""
        if self.server is not None and self._thread is not None:
            self.server.shutdown()
            self.server.server_close()
            self._thread.join()
            self.server = self._thread = None

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        pages = {"/healthz": self._alive, "/readyz": self._ready}
        path = environ["PATH_INFO"]
        if path == "/metrics":
            page: Iterable[bytes] = self._metrics(environ, start_response)
            return page
        if path in pages:
            good, body = pages[path]()
            status = "200 OK" if good else "503 Service Unavailable"
        else:
            status, body = "404 Not Found", {"pages": ["/metrics", *pages]}
        data = json.dumps(body).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
        return [data]

    def _alive(self) -> tuple[bool, dict[str, Any]]:
        silent = self._watchdog.silent
        good = silent <= self._watchdog.timeout
        return good, {"alive": good, "doing": self._watchdog.doing, "seconds": round(silent, 1)}

    def _ready(self) -> tuple[bool, dict[str, Any]]:
        reason = self._unready()
        if not reason:
            return True, {"ready": True}
        return False, {"ready": False, "reason": reason, "doing": self._watchdog.doing}
