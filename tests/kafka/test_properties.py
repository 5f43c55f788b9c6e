"""Client properties: the words of several clients, what cannot work, and what must never be printed."""

from __future__ import annotations

from pathlib import Path

import kafka.codec
import pytest
from svead_kafka import ConfigurationError
from svead_kafka.properties import checked, read_client_config

SECRET = "correct-horse-battery"
# Of nobody, valid for a hundred years, its key thrown away.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBdjCCARugAwIBAgIUNaI+couiehGVM2vgYzS2ecXkIdcwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMTgxMjU0NThaGA8yMTI2MTAyNTEyNTQ1
OFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIxz
pwYwLpYvUYTdcdvCaxW1MAfA+d2apERm2hl32aI6riLpLh68HQv+TxKaNO1dMtat
ogtGSq3Ejoct0lWNl8GjUzBRMB0GA1UdDgQWBBRLqhVyP6M3ReGYdt+ysT2bBSyY
AzAfBgNVHSMEGDAWgBRLqhVyP6M3ReGYdt+ysT2bBSyYAzAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0kAMEYCIQDJkhjkftfLqAwYksvnW/bHBKoOgfYgL8BR
XbnJUnZ5TAIhAOPIPHnHTN/Jy9KqKogURrL+nJ7CoBz9L7uKCBVfZnjd
-----END CERTIFICATE-----
"""


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_text(CERTIFICATE)
    return path


def read(folder: Path, *lines: str) -> dict[str, object]:
    file = folder / "client.properties"
    file.write_text("\n".join(lines))
    return read_client_config(file)


def test_client_properties_come_in_the_names_of_kafkas_own_tools(tmp_path: Path, trusted: Path) -> None:
    found = read(
        tmp_path, "# a comment", "", "security.protocol=SASL_SSL", "sasl.mechanism = PLAIN",
        f"ssl.truststore.location={trusted}", "ssl.truststore.type=PEM",
        "sasl.jaas.config=org.apache.kafka.Plain required \\", f'    username="me" password="{SECRET}";',
        "ssl.check.hostname=false", "request.timeout.ms=1234", "compression.type=none",
    )  # fmt: skip
    assert found == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "ssl_cafile": str(trusted),
        "sasl_plain_username": "me",
        "sasl_plain_password": SECRET,
        "ssl_check_hostname": False,
        "request_timeout_ms": 1234,
        "compression_type": None,
    }


def test_client_properties_come_in_the_names_of_librdkafka(tmp_path: Path, trusted: Path) -> None:
    found = read(
        tmp_path, "security.protocol=SASL_SSL", "sasl.mechanisms=SCRAM-SHA-512", "sasl.username=me",
        "sasl.password=007", f"ssl.ca.location={trusted}", "ssl.endpoint.identification.algorithm=none",
        "compression.codec=zstd",
    )  # fmt: skip
    assert found == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "ssl_cafile": str(trusted),
        "sasl_plain_username": "me",
        "sasl_plain_password": "007",
        "ssl_check_hostname": False,
        "compression_type": "zstd",
    }


@pytest.mark.parametrize(
    "line",
    [f"sasl.passwort={SECRET}", f"{SECRET}", f"acks={SECRET}", f"group.id={SECRET}", f"request.timeout.ms={SECRET}",
     f"check.crcs={SECRET}", f"sasl.oauthbearer.client.secret={SECRET}", f"sasl.oauthbearer.method={SECRET}",
     f"compression.type={SECRET}",
     f"security.protocol={SECRET}", f"ssl.keystore.certificate.chain={SECRET}", f"ssl.truststore.certificates={SECRET}",
     f'sasl.jaas.config=X required clientSecret="{SECRET}";'],
)  # fmt: skip
def test_errors_in_client_properties_do_not_tell_secrets(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, line)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["compression.type=brotli"], "must be one of none, gzip, snappy, lz4, zstd$"),
        (["security.protocol=TLS"], "security.protocol must be one of PLAINTEXT, SSL"),
        (["security.protocol=SASL_SSL"], "sasl.mechanism must be one of .*SCRAM-SHA-512"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"], "PLAIN needs username and password"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER"], "sasl.oauthbearer.token.endpoint.url"),
        (["sasl.oauthbearer.client.id=me"], "OAuth needs sasl.oauthbearer.token.endpoint.url, .*client.secret, too"),
        (["sasl.oauthbearer.method=default"], "must be oidc"),
        (["ssl.keystore.location=/nowhere.pem"], "/nowhere.pem .* cannot be read: No such file"),
        (["request.timeout.ms=soon"], "'request_timeout_ms' must be a whole number"),
        (["ssl.check.hostname=perhaps"], "'ssl_check_hostname' must be true or false"),
    ],
)
def test_properties_that_cannot_work_are_refused_before_anything_is_tried(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(tmp_path, *lines)


def test_a_store_of_java_is_refused_with_the_commands_that_convert_it(tmp_path: Path, trusted: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed and more")
    with pytest.raises(ConfigurationError, match=r"a JKS file, .* keytool -importkeystore .*; openssl .* -nokeys -out"):
        read(tmp_path, f"ssl.truststore.location={store}", f"ssl.truststore.password={SECRET}")
    with pytest.raises(ConfigurationError, match=r"ssl\.truststore\.password is for stores"):
        read(tmp_path, f"ssl.truststore.location={trusted}", f"ssl.truststore.password={SECRET}")


def test_a_codec_for_the_output_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked({"compression_type": "lz4"}) == {"compression_type": "lz4"}
    monkeypatch.setattr(kafka.codec, "lz4", None)
    with pytest.raises(
        ConfigurationError, match=r"compression\.type lz4 needs a package that is not there: install lz4"
    ):
        checked({"compression_type": "lz4"})
