"""A broker that wants TLS and a password, a certificate, or a token."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from broker import Cluster
from clusters import do_without, started
from kafka.errors import KafkaConnectionError, KafkaError
from streams import PATIENCE, Stream, command, events, spawn, work
from svead_kafka import ConfigurationError, Worker
from svead_kafka.client import Clients
from svead_kafka.oauth import ClientCredentials
from svead_kafka.properties import read_client_config

PASSWORD = 'open "sesame'
KEY_PASSWORD = "12345678"  # digits are text here, too
CLIENT_SECRET = "s3cret/with+signs="
NO_SIGNATURE = {"alg": "none"}
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def quoted(text: str) -> str:
    """As Java's login configuration has it."""
    return '"' + text.replace('"', '\\"') + '"'


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate to trust; beside it are the broker's key in a store, and a client's in a store and as PEM."""
    for program in ("keytool", "openssl"):
        if shutil.which(program) is None:
            do_without(f"{program} is not installed")
    folder = tmp_path_factory.mktemp("keys")
    for store, name in (("store", "certificate"), ("client", "trusted")):
        keytool = ["keytool", "-keystore", str(folder / f"{store}.p12"), "-storepass", "changeit", "-alias", store]
        make = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
        for words in (make, ["-exportcert", "-rfc", "-file", str(folder / f"{name}.pem")]):
            subprocess.run([*keytool, *words], check=True, capture_output=True)
    return folder / "certificate.pem"


@pytest.fixture(scope="module")
def key(certificate: Path) -> Path:
    """The client's key and certificate, made as the worker says where it is given a store."""
    store, path = certificate.with_name("client.p12"), certificate.with_name("client.pem")
    config = certificate.with_name("store.properties")
    config.write_text(f"ssl.keystore.location={store}\nssl.keystore.password=changeit\n")
    with pytest.raises(
        ConfigurationError, match=r"PKCS12 file, and PEM is needed: openssl pkcs12 -in \S+ -out"
    ) as caught:
        read_client_config(config)
    words = str(caught.value).partition("needed: ")[2].partition(",")[0].replace("keystore.pem", str(path)).split()
    passwords = ["-passin", "pass:changeit", "-passout", f"pass:{KEY_PASSWORD}"]
    subprocess.run([*words, *passwords], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def cluster(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node with listeners that want a password, a certificate, or a token."""
    login = f"{LOGIN} user_alice={quoted(PASSWORD)};"
    oauth = f'{OAUTH} unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="scores";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login.replace(
            "\\", "\\\\"
        ),  # a file of properties halves them
        "ssl.keystore.location": str(certificate.with_name("store.p12")),
        "ssl.keystore.password": "changeit",
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.truststore.type": "PEM",
        "listener.name.mtls.ssl.truststore.location": str(certificate.with_name("trusted.pem")),
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": oauth,
    }
    yield from started(Cluster(tmp_path_factory.mktemp("kafka-secure"), secure=settings))


class Tokens(BaseHTTPRequestHandler):
    """An endpoint that gives a token, without a signature, to who knows the secret."""

    given: ClassVar[list[str]] = []  # what was asked for
    life = 3600.0  # seconds

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        known = base64.b64encode(f"scorer:{CLIENT_SECRET}".encode()).decode()
        if self.headers["Authorization"] != f"Basic {known}":
            self.send_error(401)
            return
        self.given.append(form)
        claims = {"sub": "scorer", "scope": "scores", "iat": time.time() - 5, "exp": time.time() + self.life}
        parts = [
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (NO_SIGNATURE, claims)
        ]
        body = json.dumps(
            {"access_token": ".".join([*parts, ""]), "expires_in": self.life, "token_type": "Bearer"}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def endpoint() -> Iterator[str]:
    Tokens.given.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()


def client_config(folder: Path, certificate: Path, password: str) -> str:
    login = f"{LOGIN} username={quoted('alice')} password={quoted(password)};"
    lines = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", f"sasl.jaas.config={login}"]
    path = folder / "client.properties"
    path.write_text("\n".join([*lines, f"ssl.ca.location={certificate}", "bootstrap.timeout.ms=10000"]))
    return str(path)


def test_a_worker_speaks_tls_with_a_password_and_keeps_it_to_itself(
    cluster: Cluster, certificate: Path, tmp_path: Path
) -> None:
    stream = Stream(cluster.bootstrap, "secure")
    stream.send(events(200))
    options = stream.options(bootstrap=cluster.secure["SASL_SSL"])
    config = client_config(tmp_path, certificate, PASSWORD)
    process = spawn(command(options, "--client-config", config, "--verbose"), tmp_path / "log")
    try:
        stream.wait_committed(stream.options(), 200)
    finally:
        process.terminate()
        code = process.wait(timeout=PATIENCE)
    assert code == 0
    assert len(stream.scored(stream.options())) == 200
    assert "sesame" not in (tmp_path / "log").read_text()


def test_a_wrong_password_ends_the_worker_with_a_clear_line(
    cluster: Cluster, certificate: Path, tmp_path: Path
) -> None:
    stream = Stream(cluster.bootstrap, "refused")
    options = stream.options(bootstrap=cluster.secure["SASL_SSL"])
    config = client_config(tmp_path, certificate, "open barley")
    # On a busy machine the client may not come as far as the password before its time is over, so it tries on and on.
    words = command(options, "--client-config", config, "--max-retries", "1000")
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert done.returncode == 1
    assert "refuses the worker" in done.stderr
    assert "Authentication failed" in done.stderr
    assert "barley" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def properties(folder: Path, *lines: str) -> Path:
    path = folder / "client.properties"
    path.write_text("\n".join(lines))
    return path


def test_a_worker_shows_a_certificate_from_a_file(
    cluster: Cluster, certificate: Path, key: Path, tmp_path: Path
) -> None:
    stream = Stream(cluster.bootstrap, "mtls")
    stream.send(events(40))
    lines = ["security.protocol=SSL", f"ssl.truststore.location={certificate}", "ssl.truststore.type=PEM"]
    lines += [f"ssl.keystore.location={key}", "ssl.keystore.type=PEM", f"ssl.key.password={KEY_PASSWORD}"]
    client = read_client_config(properties(tmp_path, *lines))
    work(stream, stream.options(bootstrap=cluster.secure["MTLS"], client=client), 40)
    assert len(stream.scored(stream.options())) == 40
    without = read_client_config(properties(tmp_path, *lines[:2], "bootstrap.timeout.ms=1000"))
    with pytest.raises(KafkaError):
        Clients(stream.options(bootstrap=cluster.secure["MTLS"], client=without)).admin()


def test_keys_and_certificates_can_stand_in_the_properties_themselves(
    cluster: Cluster, certificate: Path, key: Path, tmp_path: Path
) -> None:
    stream = Stream(cluster.bootstrap, "inline")
    trusted = certificate.read_text().replace("\n", "\\n")
    text = key.read_text().replace("\n", "\\n\\\n  ")  # as Java has it, over several lines
    lines = ["security.protocol=SSL", f"ssl.truststore.certificates={trusted}", f"ssl.key.password={KEY_PASSWORD}"]
    lines += [f"ssl.keystore.certificate.chain={text}", ""]
    client = read_client_config(properties(tmp_path, *lines))
    admin = Clients(stream.options(bootstrap=cluster.secure["MTLS"], client=client)).admin()
    assert stream.input in admin.list_topics()
    admin.close()


@pytest.mark.parametrize("password", [[], ["ssl.key.password=87654321"]])
def test_a_key_without_its_password_is_refused_at_once(
    certificate: Path, key: Path, tmp_path: Path, password: list[str]
) -> None:
    with pytest.raises(ConfigurationError, match=r"is ssl\.key\.password right") as caught:
        read_client_config(properties(tmp_path, f"ssl.keystore.location={key}", *password))
    assert "87654321" not in str(caught.value)


def oauth_lines(style: str, endpoint: str, secret: str) -> list[str]:
    """The same in the words of Java's client and of librdkafka."""
    if style == "java":
        login = f'{OAUTH} clientId="scorer" clientSecret="{secret}" scope="scores";'
        return [
            f"sasl.oauthbearer.token.endpoint.url={endpoint}",
            f"sasl.jaas.config={login}",
            "sasl.mechanism=OAUTHBEARER",
        ]
    said = {"method": "oidc", "client.id": "scorer", "client.secret": secret, "scope": "scores"}
    lines = [f"sasl.oauthbearer.{name}={value}" for name, value in (said | {"token.endpoint.url": endpoint}).items()]
    return [*lines, "sasl.mechanisms=OAUTHBEARER"]


@pytest.mark.parametrize("style", ["java", "librdkafka"])
def test_a_worker_gets_one_token_and_shows_it_wherever_it_is_asked(
    cluster: Cluster, certificate: Path, endpoint: str, tmp_path: Path, style: str
) -> None:
    stream = Stream(cluster.bootstrap, "oauth")
    stream.send(events(40))
    lines = [
        "security.protocol=SASL_SSL",
        f"ssl.ca.location={certificate}",
        *oauth_lines(style, endpoint, CLIENT_SECRET),
    ]
    client = read_client_config(properties(tmp_path, *lines))
    work(stream, stream.options(bootstrap=cluster.secure["OAUTH"], client=client), 40)
    assert len(stream.scored(stream.options())) == 40
    assert Tokens.given == ["grant_type=client_credentials&scope=scores"]


def test_a_token_is_renewed_before_its_end(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = ClientCredentials(endpoint, "scorer", CLIENT_SECRET, extensions="logicalCluster=lkc-1, pool=a=b")
    assert tokens.token() == tokens.token()
    assert tokens.extensions() == {"logicalCluster": "lkc-1", "pool": "a=b"}
    monkeypatch.setattr(Tokens, "life", 0.0)
    tokens = ClientCredentials(endpoint, "scorer", CLIENT_SECRET)
    tokens.token()
    tokens.token()
    assert Tokens.given == ["grant_type=client_credentials"] * 3
    with pytest.raises(KafkaConnectionError, match=r"no token from http://127\.0\.0\.1/"):
        ClientCredentials("http://127.0.0.1:1/", "scorer", CLIENT_SECRET).token()


def test_a_wrong_secret_ends_the_worker_at_once_and_is_not_told(
    cluster: Cluster, certificate: Path, endpoint: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["security.protocol=SASL_SSL", f"ssl.ca.location={certificate}", *oauth_lines("java", endpoint, "barley")]
    client = read_client_config(properties(tmp_path, *lines))
    stream = Stream(cluster.bootstrap, "oauth-refused")
    with pytest.raises(ConfigurationError, match=r"token endpoint http://127\.0\.0\.1/token answers 401") as caught:
        Worker(stream.options(bootstrap=cluster.secure["OAUTH"], client=client)).run()
    assert "barley" not in str(caught.value) + caplog.text
