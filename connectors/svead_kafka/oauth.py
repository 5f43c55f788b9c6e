"""Tokens for SASL's OAUTHBEARER from an HTTP endpoint, by the client-credentials grant (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode, urlsplit

from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from svead_kafka.errors import ConfigurationError

_TIMEOUT = 10.0  # seconds
_USED = 0.8  # share of its life after which a token is renewed
_SHORT_LIFE = 300.0  # seconds that a token is taken to live if the endpoint does not say
_REFUSALS = (400, 401, 403)


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Gets a token from the endpoint and keeps it until most of its life is over.

    Parameters
    ----------
    url
        The token endpoint.
    client_id, client_secret
        Sent to it as HTTP's basic authorization.
    scope
        What the token is to be good for, if the endpoint wants to know.
    extensions
        For the broker, ``name=value`` separated by commas.
    """

    def __init__(self, url: str, client_id: str, client_secret: str, scope: str = "", extensions: str = "") -> None:
        super().__init__()
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigurationError("sasl.oauthbearer.token.endpoint.url must begin with https:// or http://")
        self._url = url
        # As it is, without the escapes of the standard: so do Java's client and librdkafka unless told otherwise.
        secret = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._headers = {"Authorization": f"Basic {secret}", "Accept": "application/json"}
        self._form = urlencode({"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})).encode()
        self._extensions = dict(one.strip().split("=", 1) for one in extensions.split(",") if "=" in one)
        self._token, self._until = "", 0.0
        self._lock = threading.Lock()

    def token(self) -> str:
        """A token that is good for a while; several clients share one."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._token, life = self._ask()
                self._until = time.monotonic() + _USED * life
            return self._token

    def extensions(self) -> dict[str, str]:
        """What else the broker is told."""
        return self._extensions

    def _ask(self) -> tuple[str, float]:
        request = urllib.request.Request(self._url, self._form, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
                answer: Any = json.load(response)
            return str(answer["access_token"]), float(answer.get("expires_in", _SHORT_LIFE))
        except urllib.error.HTTPError as error:
            error.close()
            told = f"the token endpoint {self._place} answers {error.code} {error.reason}"
            if error.code in _REFUSALS:
                raise SaslAuthenticationFailedError(f"{told}: see client id, client secret and scope") from None
            raise KafkaConnectionError(told) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KafkaConnectionError(f"no token from {self._place}: {error}") from None

    @property
    def _place(self) -> str:
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.hostname}{parts.path}"  # without what may be secret
