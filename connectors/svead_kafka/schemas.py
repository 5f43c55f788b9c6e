"""Avro schemas: where they come from, and what of a schema decides how a message is read.

One schema for all messages is in a file. Where each message begins with a schema id, the schemas are in a directory, a
file for each, or in a schema registry, which is asked over HTTP.

Why a schema is looked for once
-------------------------------
What an id stands for never changes, so a schema that was found is kept for ever. One that the directory or the registry
lacks is another matter: it may be added later, and a replay after a crash would then read events that were dead letters
the first time. Waiting for it would be no better, as anybody who can write to the input could stop the worker with five
bytes. So a message whose schema is not there is a dead letter, like any other that cannot be read. A directory is read
once, at the start. And who adds a schema for messages that are dead letters stops the worker before that: one that was
stopped has saved all of its models and replays nothing.

A registry that does not answer says nothing about a message. Then nothing is decided, and the worker tries again.
"""

from __future__ import annotations

import base64
import json
import math
import os
import ssl
import time
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from kafka.errors import KafkaError

from svead_kafka.errors import ConfigurationError

_TIMEOUT = 5.0  # seconds for one request; with all pauses and attempts it stays far below the watchdog's patience
_PAUSES = (0.5, 1.0)  # seconds between attempts
_ASK_AGAIN = 60.0  # seconds after which a schema that could not be had is asked for again
_MOST_ABSENT = 10_000  # ids remembered that stand for no schema: messages may hold any
_LARGEST = 16 * 1024 * 1024  # bytes of an answer
_MOST_REFERENCES = 1000
_NOT_FOUND = (40401, 40402, 40403)  # how a registry says that it has no such subject, version or schema
_BY_ID = "by id"

# The logical types that are understood, by what carries them; others are ignored, as Avro asks for.
_LOGICAL = {
    "bytes": {"decimal"},
    "fixed": {"decimal", "uuid"},
    "int": {"date", "time-millis"},
    "long": {
        "time-micros",
        *(f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")),
    },
}
_MOST_DIGITS = 1000  # of a decimal


class RegistryUnavailable(KafkaError):  # type: ignore[misc]
    """The schema registry does not answer: a failure that may pass, like one of the cluster, and is treated as one."""


class NoSchema(Exception):
    """There is no schema with an id, or it is not Avro; the text says which."""


class Schema(NamedTuple):
    """A schema, with the ones that it refers to before it."""

    name: str  # for messages to people
    documents: tuple[Any, ...]


class File:
    """One schema for all messages, which are bare bodies."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.schema = Schema(path.name, (_read(path),))

    @property
    def fingerprint(self) -> str:
        """What the numbers in messages depend on."""
        try:
            text = json.dumps(essential(self.schema.documents[0]), sort_keys=True)
        except (TypeError, KeyError, RecursionError):  # no schema at all, which is found out when it is used
            text = ""
        return sha256(text.encode()).hexdigest()


class Directory:
    """Schemas by id, each in a file ``<id>.avsc``."""

    fingerprint = _BY_ID

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        files = [file for file in sorted(path.glob("*.avsc")) if file.stem.isascii() and file.stem.isdecimal()]
        if not files:
            raise ConfigurationError(f"{path} has no schemas: their files are named by id, such as 7.avsc")
        self.schemas = {int(file.stem): Schema(file.name, (_read(file),)) for file in files}

    def find(self, schema_id: int) -> Schema:
        """The schema with an id; raises `NoSchema`."""
        if schema_id not in self.schemas:
            raise NoSchema(f"schema {schema_id} is not in {self.name}")
        return self.schemas[schema_id]


class Registry:
    """Schemas by id from a schema registry: ``GET /schemas/ids/{id}``.

    Parameters
    ----------
    address
        http or https, with user and password in it if they are needed. They are never printed.
    """

    fingerprint = _BY_ID  # an id stands for the same schema wherever it is kept

    def __init__(self, address: str) -> None:
        parts = _checked(address)
        host = parts.netloc.rpartition("@")[2]
        self.name = f"the schema registry at {parts.scheme}://{host}"
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        self._headers["User-Agent"] = "svead-stream"
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        self._opener = OpenerDirector()  # without redirects, which could carry the password elsewhere; no files, no FTP
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            self._opener.add_handler(handler)
        self._absent: dict[int, tuple[float, str]] = {}  # when it was asked for, and why there is none

    def find(self, schema_id: int) -> Schema:
        """The schema with an id.

        Raises
        ------
        NoSchema
            The registry says that there is none, or it is not Avro.
        RegistryUnavailable
            It says nothing: trying again may help.
        ConfigurationError
            It refuses us, or is no schema registry.
        """
        asked, reason = self._absent.get(schema_id, (-math.inf, ""))
        if time.monotonic() - asked < _ASK_AGAIN:
            raise NoSchema(reason)
        try:
            return self._find(schema_id)
        except NoSchema as error:
            if len(self._absent) >= _MOST_ABSENT:
                self._absent.clear()
            self._absent[schema_id] = (time.monotonic(), str(error))
            raise

    def _find(self, schema_id: int) -> Schema:
        answer = self._get(f"/schemas/ids/{schema_id}")
        if answer is None:
            raise NoSchema(f"schema {schema_id} is not in the registry")
        name = f"schema {schema_id}"
        return Schema(name, tuple(self._documents(answer, name)))

    def _documents(self, answer: dict[str, Any], name: str) -> list[Any]:
        """The schema of an answer, after those that it refers to, each once."""
        seen: set[tuple[str, int]] = set()

        def read(answer: dict[str, Any]) -> list[Any]:
            kind = answer.get("schemaType") or "AVRO"
            if kind != "AVRO":
                raise NoSchema(f"{name} is {kind}, not Avro")
            found: list[Any] = []
            for one in answer.get("references") or ():
                place = (str(one["subject"]), int(one["version"]))
                if place in seen:
                    continue
                seen.add(place)
                if len(seen) > _MOST_REFERENCES:
                    raise NoSchema(f"{name} refers to more than {_MOST_REFERENCES} others")
                referred = self._get(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
                if referred is None:
                    raise NoSchema(f"{name} refers to version {place[1]} of {place[0]!r}, which the registry lacks")
                found += read(referred)
            return [*found, json.loads(answer["schema"])]

        try:
            return read(answer)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise NoSchema(f"{name} cannot be read: {type(error).__name__}") from None

    def _get(self, path: str) -> dict[str, Any] | None:
        """The answer to a request, after a few attempts if need be; None if the registry does not have it."""
        for pause in _PAUSES:
            try:
                return self._ask(path)
            except RegistryUnavailable:
                time.sleep(pause)
        return self._ask(path)

    def _ask(self, path: str) -> dict[str, Any] | None:
        request = Request(self._base + path, headers=self._headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                status, body = answer.status, answer.read(_LARGEST)
        except (OSError, HTTPException) as error:
            raise self._failure(error, path) from None
        if status in (408, 429) or status >= 500:
            raise RegistryUnavailable(f"{self.name} answered {status} to {path}")
        if status in (401, 403):
            raise ConfigurationError(f"{self.name} refuses the worker ({status}): check user and password in --schema")
        try:
            told = json.loads(body)
        except (ValueError, RecursionError):
            told = None
        is_ours = isinstance(told, dict)
        if status == 404 and is_ours and told.get("error_code") in _NOT_FOUND:  # else it is the path that is wrong
            return None
        if status != 200 or not is_ours or not isinstance(told.get("schema"), str):
            raise ConfigurationError(
                f"{self.name} answered {status} to {path}, without a schema: is --schema its address?"
            )
        return dict(told)

    def _failure(self, error: Exception, path: str) -> Exception:
        """Why there was no answer, in words that hold nothing secret of the address."""
        cause = error.reason if isinstance(error, URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ConfigurationError(
                f"{self.name} has a certificate that is not trusted ({cause.reason}): SSL_CERT_FILE can name it"
            )
        if isinstance(cause, TimeoutError):
            return RegistryUnavailable(f"{self.name} did not answer to {path} in {_TIMEOUT:g} s")
        known = isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0
        why = os.strerror(cause.errno) if known else type(cause).__name__  # type: ignore[union-attr]
        return RegistryUnavailable(f"{self.name} did not answer to {path}: {why}")


def source(place: str) -> File | Directory | Registry:
    """Where schemas come from, by what the option says: a file, a directory or an address.

    Raises
    ------
    ConfigurationError
        If it is none of them, or what is there cannot be read.
    """
    if "://" in place:
        return Registry(place)
    path = Path(place)
    if path.is_dir():
        return Directory(path)
    if not path.exists():
        raise ConfigurationError(
            f"no file or directory of schemas at {place}; a registry's address begins with https://"
        )
    return File(path)


def essential(schema: Any) -> Any:
    """What of a schema decides how messages are read; raises TypeError if it is built as no schema can be."""
    if isinstance(schema, list):
        return [essential(one) for one in schema]
    if isinstance(schema, str):
        return schema
    if not isinstance(schema, dict):
        raise TypeError(f"a schema is text, a list or an object, not {schema!r:.50}")
    kept = {name: schema[name] for name in ("name", "namespace", "symbols", "size") if name in schema}
    kept |= {name: essential(schema[name]) for name in ("type", "items", "values") if name in schema}
    if "fields" in schema:
        kept["fields"] = [{"name": one["name"], "type": essential(one["type"])} for one in schema["fields"]]
    kind, logical = schema.get("type"), schema.get("logicalType")
    if isinstance(kind, str) and isinstance(logical, str) and logical in _LOGICAL.get(kind, ()):
        scale = schema.get("scale", 0)
        if logical != "decimal":
            kept["logicalType"] = f"svead-{logical}"
        elif type(scale) is int and 0 <= scale <= _MOST_DIGITS:
            kept |= {"logicalType": "svead-decimal", "scale": scale}
    return kept


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the schema {path} cannot be read: {error}") from None


def _checked(address: str) -> SplitResult:
    """The parts of an address. What is wrong is said without it: it may hold a password."""
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or not address.isascii() or any(c <= " " for c in address):
        raise ConfigurationError(
            "--schema is no address of a registry: give one such as https://user:password@example.com:8081, "
            "with special characters percent-encoded"
        )
    return parts
