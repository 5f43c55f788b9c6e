"""A broker that wants TLS and a password."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Cluster
from clusters import do_without, started
from streams import PATIENCE, Stream, command, events, spawn

PASSWORD = 'open "sesame'
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def quoted(text: str) -> str:
    """As Java's login configuration has it."""
    return '"' + text.replace('"', '\\"') + '"'


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate to trust; the broker's key is in a store beside it."""
    if shutil.which("keytool") is None:
        do_without("keytool, which comes with Java, is not installed")
    path = tmp_path_factory.mktemp("keys") / "certificate.pem"
    keytool = ["keytool", "-keystore", str(path.with_name("store.p12")), "-storepass", "changeit", "-alias", "broker"]
    make = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=localhost", "-ext", "san=ip:127.0.0.1", "-validity", "2"]
    for words in (make, ["-exportcert", "-rfc", "-file", str(path)]):
        subprocess.run([*keytool, *words], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def cluster(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node with a second, secure listener."""
    login = f"{LOGIN} user_alice={quoted(PASSWORD)};"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login.replace(
            "\\", "\\\\"
        ),  # a file of properties halves them
        "ssl.keystore.location": str(certificate.with_name("store.p12")),
        "ssl.keystore.password": "changeit",
    }
    yield from started(Cluster(tmp_path_factory.mktemp("kafka-secure"), secure=settings))


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
    options = stream.options(bootstrap=cluster.secure_bootstrap)
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
    options = stream.options(bootstrap=cluster.secure_bootstrap)
    config = client_config(tmp_path, certificate, "open barley")
    # On a busy machine the client may not come as far as the password before its time is over, so it tries on and on.
    words = command(options, "--client-config", config, "--max-retries", "1000")
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    assert done.returncode == 1
    assert "refuses the worker" in done.stderr
    assert "Authentication failed" in done.stderr
    assert "barley" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
