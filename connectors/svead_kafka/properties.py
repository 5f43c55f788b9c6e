"""Client properties from a file, in the words of Java's client, of librdkafka or of kafka-python.

An error names the property, and files, but no other value: any of them may be a secret.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.net.sasl import SASL_MECHANISMS

from svead_kafka.errors import ConfigurationError
from svead_kafka.oauth import ClientCredentials
from svead_kafka.patches import PACKAGES

CODECS = ("gzip", "snappy", "lz4", "zstd")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

# Exactly-once rests on these: a file must not change them.
_OURS = {
    "bootstrap_servers", "group_id", "enable_auto_commit", "isolation_level", "auto_offset_reset", "transactional_id",
    "enable_idempotence", "acks", "partition_assignment_strategy", "partitioner", "key_serializer", "value_serializer",
    "key_deserializer", "value_deserializer",
}  # fmt: skip
# What the Java client and librdkafka call things that kafka-python has under another name.
_ALIASES = {
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_username": "sasl_plain_username",
    "sasl_password": "sasl_plain_password",
    "ssl_ca_location": "ssl_cafile",
    "ssl_truststore_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_keystore_location": "ssl_certfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "ssl_ca_pem": "ssl_truststore_certificates",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain",
    "ssl_key_pem": "ssl_keystore_key",
    "compression_codec": "compression_type",
    "sasl_oauthbearer_client_credentials_client_id": "sasl_oauthbearer_client_id",
    "sasl_oauthbearer_client_credentials_client_secret": "sasl_oauthbearer_client_secret",
}
_JAAS = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
# What Java says within sasl.jaas.config.
_IN_JAAS = {
    "username": "sasl_plain_username",
    "password": "sasl_plain_password",
    "clientId": "sasl_oauthbearer_client_id",
    "clientSecret": "sasl_oauthbearer_client_secret",
    "scope": "sasl_oauthbearer_scope",
}
# Java's and librdkafka's ways to say that tokens come from an endpoint, which is the only way here.
_TOKENS_BY_HTTP = {
    "sasl_login_callback_handler_class": ("OAuthBearerLoginCallbackHandler",),
    "sasl_oauthbearer_method": ("oidc",),
    "sasl_oauthbearer_jwt_retriever_class": ("ClientCredentialsJwtRetriever", "DefaultJwtRetriever"),
}


def read_client_config(path: Path) -> dict[str, Any]:
    """Client properties from a file in the form that Kafka's own tools read: ``name=value`` lines, ``#`` comments.

    Names may be Java's (``security.protocol``), librdkafka's or kafka-python's (``security_protocol``). A backslash at
    the end of a line goes on in the next one.
    """
    given: dict[str, str] = {}
    for number, text in _lines(path):
        name, equals, value = text.partition("=")
        if not equals:
            # The line itself may be a secret: only its place is told.
            raise ConfigurationError(f"line {number} of {path} has no '=': client properties are name=value lines")
        plain = name.strip().replace(".", "_").replace("-", "_")
        given |= _from_jaas(value) if plain == "sasl_jaas_config" else {_ALIASES.get(plain, plain): value.strip()}
    found = _tls(given) | _oauth(given)
    return checked(found | {name: _typed(name, text) for name, text in given.items()})


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that say something, with the number of the first one where several are one."""
    begun, first = "", 0
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        text = line.strip()
        if not begun and (not text or text.startswith(("#", "!"))):
            continue
        first = first or number
        begun += text
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
        else:
            yield first, begun
            begun, first = "", 0


def _from_jaas(value: str) -> dict[str, str]:
    found = {name: re.sub(r"\\(.)", r"\1", text) for name, text in _JAAS.findall(value)}
    extensions = ",".join(
        f"{name.removeprefix('extension_')}={text}" for name, text in found.items() if name.startswith("extension_")
    )
    known = {_IN_JAAS[name]: text for name, text in found.items() if name in _IN_JAAS}
    return known | ({"sasl_oauthbearer_extensions": extensions} if extensions else {})


def _typed(name: str, text: str) -> Any:
    """A value as the client wants it, by what it has for it otherwise."""
    default = _defaults().get(name)
    if isinstance(default, bool):
        if text.lower() not in _TRUTHS:
            raise ConfigurationError(f"client property {name!r} must be true or false")
        return _TRUTHS[text.lower()]
    if isinstance(default, int | float) or (default is None and name.endswith(("_ms", "_bytes"))):
        if not re.fullmatch(r"-?\d+", text):
            raise ConfigurationError(f"client property {name!r} must be a whole number")
        return int(text)
    if name == "compression_type" and text.lower() == "none":
        return None
    return text


def _defaults() -> dict[str, Any]:
    return {**KafkaAdminClient.DEFAULT_CONFIG, **KafkaProducer.DEFAULT_CONFIG, **KafkaConsumer.DEFAULT_CONFIG}


def checked(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties, if every name is one that a client knows and the worker leaves to the user, and they can work."""
    known = _defaults()
    for name in properties:
        if name in _OURS:
            raise ConfigurationError(f"client property {name!r} is set by the worker itself; take it out")
        if name not in known:
            raise ConfigurationError(f"unknown client property {name!r}; see the options of kafka-python")
        if name in _FILES and properties[name] is not None and not Path(properties[name]).is_file():
            raise ConfigurationError(f"client property {name!r} names a file that is not there")
    _check_codec(properties.get("compression_type"))
    _check_login(properties)
    return dict(properties)


def has_codec(codec: str) -> bool:
    """Whether the package that the client needs for a codec is installed."""
    is_there, _ = KafkaProducer._COMPRESSORS[codec]
    return bool(is_there())


def _check_codec(codec: str | None) -> None:
    if codec is None:
        return
    if codec not in CODECS:
        raise ConfigurationError(f"compression.type must be one of none, {', '.join(CODECS)}")
    if not has_codec(codec):
        raise ConfigurationError(
            f"compression.type {codec} needs a package that is not there: install {PACKAGES[codec]}"
        )


def _check_login(properties: Mapping[str, Any]) -> None:
    """Refuse what the client would only stumble over when it connects, and then try again and again."""
    protocol, mechanism = properties.get("security_protocol", "PLAINTEXT"), properties.get("sasl_mechanism", "")
    if protocol not in _PROTOCOLS:
        raise ConfigurationError(f"security.protocol must be one of {', '.join(_PROTOCOLS)}")
    if not protocol.startswith("SASL"):
        return
    if mechanism not in SASL_MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism must be one of {', '.join(SASL_MECHANISMS)}")
    by_password = mechanism == "PLAIN" or mechanism.startswith("SCRAM")
    if by_password and not {"sasl_plain_username", "sasl_plain_password"} <= properties.keys():
        raise ConfigurationError(f"sasl.mechanism {mechanism} needs username and password, as in sasl.jaas.config")
    if mechanism == "OAUTHBEARER" and properties.get("sasl_oauth_token_provider") is None:
        raise ConfigurationError("sasl.mechanism OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url")


def _oauth(given: dict[str, str]) -> dict[str, Any]:
    """Takes what is said of OAuth out of the properties; returns what the client is to have instead."""
    for name, usual in _TOKENS_BY_HTTP.items():
        if name in given and given.pop(name).rpartition(".")[2] not in usual:
            raise ConfigurationError(f"client property {name!r} must be {usual[0]}: there is no other way here")
    prefix = "sasl_oauthbearer_"
    said = {name.removeprefix(prefix): given.pop(name) for name in list(given) if name.startswith(prefix)}
    if not said:
        return {}
    parts = {"url": "token_endpoint_url", "client_id": "client_id", "client_secret": "client_secret"}
    optional = {"scope": "scope", "extensions": "extensions"}
    missing = [name for name in parts.values() if not said.get(name)]
    if missing:
        raise ConfigurationError(f"OAuth needs {', '.join(prefix + name for name in missing)}, too".replace("_", "."))
    unknown = sorted(said.keys() - {*parts.values(), *optional.values()})
    if unknown:
        raise ConfigurationError(f"unknown client property {prefix + unknown[0]!r}; there are {', '.join(said)}")
    words = {ours: said[name] for ours, name in (parts | optional).items() if name in said}
    return {"sasl_oauth_token_provider": ClientCredentials(**words)}


def _tls(given: dict[str, str]) -> dict[str, Any]:
    """Takes out what only Java knows of TLS, and PEM text; returns what the client is to have instead."""
    for store, file in (("keystore", "ssl_certfile"), ("truststore", "ssl_cafile")):
        given.pop(f"ssl_{store}_type", None)  # the file itself shows what it is
        if f"ssl_{store}_password" in given and _is_pem(given, file):
            raise ConfigurationError(f"ssl.{store}.password is for stores; of a key in PEM there is ssl.key.password")
        given.pop(f"ssl_{store}_password", None)
        _refuse_stores(given, file, store)
    found: dict[str, Any] = {}
    if "ssl_endpoint_identification_algorithm" in given:  # Java's is https, or nothing; librdkafka's https or none
        found["ssl_check_hostname"] = given.pop("ssl_endpoint_identification_algorithm").lower() == "https"
    chain, key, trusted = (
        given.pop(name, "").replace("\\n", "\n")
        for name in ("ssl_keystore_certificate_chain", "ssl_keystore_key", "ssl_truststore_certificates")
    )
    if not (chain or trusted or {"ssl_cafile", "ssl_certfile"} & given.keys()):
        return found
    try:
        context = _context(given, chain, key, trusted)
    except (OSError, ValueError) as error:  # OpenSSL's errors are of the first kind
        raise ConfigurationError(
            f"TLS: key or certificates cannot be used ({error}); is ssl.key.password right?"
        ) from None
    if chain or trusted:
        context.check_hostname = found.get("ssl_check_hostname", True)
        found["ssl_context"] = context
    return found


def _context(given: Mapping[str, str], chain: str, key: str, trusted: str) -> ssl.SSLContext:
    """TLS with these keys and certificates, from files or as text; also shows whether they can be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trusted or "ssl_cafile" in given:
        context.load_verify_locations(given.get("ssl_cafile"), cadata=trusted or None)
    else:
        context.load_default_certs()
    password = given.get("ssl_password", "")  # never asked for at the terminal
    if chain:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # readable by its owner alone
            file.write(f"{chain}\n{key}\n")
            file.flush()
            context.load_cert_chain(file.name, password=password)
    elif "ssl_certfile" in given:
        context.load_cert_chain(given["ssl_certfile"], given.get("ssl_keyfile"), password=password)
    return context


def _is_pem(given: Mapping[str, str], name: str) -> bool:
    return name in given and b"-----BEGIN " in _content(given[name], name)


def _content(path: str, name: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} ({name}) cannot be read: {error.strerror}") from None


def _refuse_stores(given: Mapping[str, str], name: str, store: str) -> None:
    """Java's own stores need its own libraries; how to turn them into PEM is one line."""
    if name not in given or _is_pem(given, name):
        return
    path = given[name]
    what, first = "PKCS12", ""
    if _content(path, name)[:4] == b"\xfe\xed\xfe\xed":
        what, first = "JKS", f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12; "
        path += ".p12"
    only = "-nokeys " if store == "truststore" else ""
    raise ConfigurationError(
        f"ssl.{store}.location is a {what} file, and PEM is needed: {first}openssl pkcs12 -in {path} {only}-out "
        f"{store}.pem, and name that file (a key's password is ssl.key.password)"
    )
