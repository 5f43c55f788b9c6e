"""Avro messages for tests, and a schema registry: a small HTTP server that answers as registries do."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import fastavro


def written(schema: Any, value: Any) -> bytes:
    """A body, written by fastavro."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


def wire(schema_id: int, body: bytes) -> bytes:
    """A message in the wire format of schema registries."""
    return b"\x00" + schema_id.to_bytes(4, "big") + body


def of(field: Any) -> dict[str, Any]:
    """The schema of a record with one field."""
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": field}]}


def record(value: bytes) -> Any:
    """A record as the consumer gives it."""
    about = {"key": None, "headers": [], "offset": 0, "topic": "t", "partition": 3, "timestamp": 1_700_000_000_000}
    return SimpleNamespace(value=value, **about)


class Registry:
    """Schemas by id and by subject and version.

    `failures` are statuses to answer with before anything else; `asked` are the paths that were asked for, and
    `authorized` what came as authorization.
    """

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.failures: list[int] = []
        self.asked: list[str] = []
        self.authorized: list[str | None] = []
        self.address = ""

    def add(self, schema_id: int, schema: Any, **more: Any) -> None:
        """A schema under an id."""
        self.pages[f"/schemas/ids/{schema_id}"] = (200, json.dumps({"schema": json.dumps(schema), **more}).encode())

    def add_version(self, subject: str, version: int, schema: Any, **more: Any) -> None:
        """A schema that others refer to; the subject as it is in a path."""
        about = {"subject": subject, "version": version, "id": 1, "schema": json.dumps(schema), **more}
        self.pages[f"/subjects/{subject}/versions/{version}"] = (200, json.dumps(about).encode())

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and body for a path."""
        if self.failures:
            return self.failures.pop(0), b"<html>out of order</html>"
        missing = json.dumps({"error_code": 40403, "message": "Schema not found"}).encode()
        return self.pages.get(path, (404, missing))


@contextmanager
def registry() -> Iterator[Registry]:
    """A registry that runs."""
    made = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            made.authorized.append(self.headers.get("Authorization"))
            status, body = made.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if 300 <= status < 400:
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
