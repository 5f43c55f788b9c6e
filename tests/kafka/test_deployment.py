"""The deployment examples: valid by the schemas of their tools, with options that exist, and in agreement."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click import ClickException
from svead_kafka import ConfigurationError, Options
from svead_kafka.cli import kafka, options_from
from svead_kafka.errors import EXIT_GAVE_UP, EXIT_STALLED

from svead_stream.parameters import DETECTOR

FOLDER = Path(__file__).parents[2] / "examples" / "kafka"
UNIT = FOLDER / "systemd" / "svead-kafka@.service"
LEAVES_WITHIN = 10  # seconds that a worker takes at most to leave, about
KUBERNETES = ("1.27", "1.31", "1.34")  # versions to be valid for
PREFIX = "SVEAD_KAFKA_"


@dataclass
class Example:
    """How an example starts a worker."""

    words: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)


def manifests() -> dict[str, Any]:
    """The Kubernetes objects by their kind."""
    return {one["kind"]: one for one in yaml.safe_load_all((FOLDER / "kubernetes" / "worker.yaml").read_text())}


def compose() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    return services


def unit() -> dict[str, list[str]]:
    """The settings of the systemd unit; those that are there several times, in their order."""
    settings: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if re.match(r"\w+=", line):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def dockerfile() -> dict[str, str]:
    """The variables that the image sets."""
    text = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ")
    [words] = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("ENV ")]
    return dict(word.split("=", 1) for word in words)


def certificate_of_somebody(folder: Path) -> str:
    """In place of that which the examples leave to their reader."""
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=somebody"]
    subprocess.run(
        [*words, "-keyout", str(folder / "key"), "-out", str(folder / "own")], check=True, capture_output=True
    )
    return (folder / "own").read_text()


def in_kubernetes(folder: Path) -> Example:
    """The container, with what is mounted into it in a folder."""
    found = manifests()
    pod = found["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    files = {
        "/etc/svead/config": found["ConfigMap"]["data"],
        "/etc/svead/secret": found["Secret"]["stringData"],
    }
    for number, content in enumerate(files.values()):
        (folder / str(number)).mkdir()
        for name, text in content.items():
            text = certificate_of_somebody(folder) if name == "ca.pem" else _moved(text, files, folder)
            (folder / str(number) / name).write_text(text)
    words = [_moved(word, files, folder) for word in container["args"]]
    # A value that is taken from elsewhere is known in the cluster only.
    environment = {one["name"]: one.get("value", "from-elsewhere") for one in container["env"]}
    return Example(words, dockerfile() | environment)


def _moved(text: str, places: Iterable[str], folder: Path) -> str:
    """A text in which folders of the container are folders of the test, numbered as they come."""
    for number, place in enumerate(places):
        text = text.replace(place, str(folder / str(number)))
    return text


def in_systemd(folder: Path) -> Example:
    settings = unit()
    [start] = settings["ExecStart"]
    _, command, *words = start.replace("%d", str(folder)).replace("%i", "machines").split()
    certificate = folder / "ca.pem"
    certificate.write_text(certificate_of_somebody(folder))
    secrets = (FOLDER / "systemd" / "client.properties").read_text()
    assert "/etc/ssl/kafka.pem" in secrets
    (folder / "client.properties").write_text(secrets.replace("/etc/ssl/kafka.pem", str(certificate)))
    assert command == "kafka"
    words = [word.replace("/etc/svead", str(FOLDER / "systemd")) for word in words]
    file = (FOLDER / "systemd" / "machines.env").read_text().splitlines()
    lines = settings["Environment"] + [line for line in file if line and not line.startswith("#")]
    return Example(words, dict(line.split("=", 1) for line in lines))


def in_compose(folder: Path) -> Example:
    return Example([], {name: str(value) for name, value in compose()["worker"]["environment"].items()})


def in_docker(folder: Path) -> Example:
    """The image with the least that has to be said."""
    return Example(["--input", "in", "--output", "out"], dockerfile())


def in_the_readme(folder: Path) -> Example:
    text = (FOLDER / "README.md").read_text()
    lines = text.split("# worker.toml", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    (folder / "worker.toml").write_text("\n".join(line.strip() for line in lines))
    return Example(["--config", str(folder / "worker.toml")])


EXAMPLES = (in_kubernetes, in_systemd, in_compose, in_docker, in_the_readme)


def options_of(example: Example, monkeypatch: pytest.MonkeyPatch) -> Options:
    """The options that a worker would have, read as the command reads them."""
    known = {parameter.envvar for parameter in kafka.params}
    unknown = [name for name in example.environment if name.startswith(PREFIX) and name not in known]
    assert not unknown, f"no option of the command is set by {', '.join(unknown)}"
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    context = kafka.make_context("kafka", list(example.words))
    mine = {*Options.names(), *(parameter.name for parameter in DETECTOR), "client_config"}
    return options_from(context, {name: value for name, value in context.params.items() if name in mine})


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_setting_of_an_example_is_an_option_with_a_value_that_it_takes(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_of(example(tmp_path), monkeypatch)
    assert options.input
    assert options.output


@pytest.mark.parametrize(
    ("words", "environment", "found"),
    [
        ("--input in --output out", {"SVEAD_KAFKA_METRIC_PORT": "9464"}, "SVEAD_KAFKA_METRIC_PORT"),
        ("--input in --output out", {"SVEAD_KAFKA_METRICS_PORT": "many"}, "'many'"),
        ("--input in --output out", {"SVEAD_KAFKA_STATE": "in"}, "topic 'in' is used twice"),
        ("--input in --outputs out", {}, "--outputs"),
    ],
)
def test_a_setting_that_is_none_would_be_found(
    words: str, environment: dict[str, str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises((AssertionError, ClickException, ConfigurationError), match=found):
        options_of(Example(words.split(), environment), monkeypatch)


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_kubernetes_objects_are_valid_by_its_strict_schema(version: str) -> None:
    for one in manifests().values():
        kubernetes_validate.validate(one, version, strict=True)


def test_the_strict_schema_finds_a_name_that_is_none() -> None:
    deployment = manifests()["Deployment"]
    deployment["spec"]["template"]["spec"]["terminationGraceSeconds"] = 30
    with pytest.raises(kubernetes_validate.ValidationError, match="terminationGraceSeconds"):
        kubernetes_validate.validate(deployment, KUBERNETES[-1], strict=True)


def test_the_kubernetes_objects_fit_together() -> None:
    found = manifests()
    template = found["Deployment"]["spec"]["template"]
    pod, labels = template["spec"], template["metadata"]["labels"]
    [container] = pod["containers"]
    for selector in (found["Deployment"]["spec"]["selector"], found["PodDisruptionBudget"]["spec"]["selector"]):
        assert selector["matchLabels"].items() <= labels.items()
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == volumes.keys()
    assert volumes["config"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    assert volumes["secret"]["secret"]["secretName"] == found["Secret"]["metadata"]["name"]
    mounted = {one["mountPath"]: volumes[one["name"]] for one in container["volumeMounts"]}
    [cache] = [one["value"] for one in container["env"] if one["name"] == "NUMBA_CACHE_DIR"]
    assert "emptyDir" in mounted[cache], "the root is read-only, so compiled kernels need another place"
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsUser"] == int(re.findall(r"USER (\d+)", (FOLDER / "Dockerfile").read_text())[0])


def test_probes_and_scrapes_ask_where_the_worker_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = manifests()["Deployment"]["spec"]["template"]
    [container] = template["spec"]["containers"]
    [port] = container["ports"]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert [probe["port"] for probe in probes.values()] == [port["name"]] * 3
    assert [probe["path"] for probe in probes.values()] == ["/healthz", "/healthz", "/readyz"]
    annotations = template["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == "/metrics"
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"][0]
    [(service, scraped_port)] = [target.split(":") for target in scraped["targets"]]
    assert service in compose()
    [exposed] = re.findall(r"EXPOSE (\d+)", (FOLDER / "Dockerfile").read_text())
    ports = [port["containerPort"], annotations["prometheus.io/port"], scraped_port, exposed]
    toml = tomllib.loads(manifests()["ConfigMap"]["data"]["worker.toml"])
    ports += [toml["metrics_port"], compose()["worker"]["environment"]["SVEAD_KAFKA_METRICS_PORT"]]
    assert set(map(int, ports)) == {int(dockerfile()["SVEAD_KAFKA_METRICS_PORT"])}
    # From outside of the container the address of the machine itself is not reached.
    for where in (toml["metrics_host"], compose()["worker"]["environment"]["SVEAD_KAFKA_METRICS_HOST"]):
        assert where == "0.0.0.0"


def test_every_supervisor_waits_longer_than_a_worker_takes_to_leave() -> None:
    [in_unit] = unit()["TimeoutStopSec"]
    graces = {
        manifests()["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
        int(compose()["worker"]["stop_grace_period"].removesuffix("s")),
        int(in_unit),
    }
    assert len(graces) == 1
    assert min(graces) >= 2 * LEAVES_WITHIN


def test_every_supervisor_starts_a_worker_again_that_asks_for_it() -> None:
    [never] = unit()["RestartPreventExitStatus"]
    assert unit()["Restart"] == [compose()["worker"]["restart"]] == ["on-failure"]
    assert {int(code) for code in never.split()} == {1, 2}
    assert not {EXIT_GAVE_UP, EXIT_STALLED} & {1, 2}


def test_what_compose_mounts_and_waits_for_is_there() -> None:
    services = compose()
    for service in services.values():
        for waited in service.get("depends_on", {}):
            assert waited in services
        for volume in service.get("volumes", ()):
            assert (FOLDER / volume.split(":")[0]).exists(), volume


def verified(folder: Path, text: str) -> str:
    """What systemd says of a unit, whose program is replaced by one that is surely there."""
    if shutil.which("systemd-analyze") is None:
        reason = "systemd-analyze is not installed (Debian package systemd)"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and CI needs it", pytrace=False)
        pytest.skip(reason)
    (folder / UNIT.name).write_text(text.replace("/opt/svead/bin/svead-stream", shutil.which("true") or "/bin/true"))
    path = folder / UNIT.name.replace("@", "@machines")
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    return "\n".join(line for line in done.stderr.splitlines() if "svead-kafka" in line) + "!" * done.returncode


def test_systemd_takes_the_unit_without_a_complaint(tmp_path: Path) -> None:
    assert verified(tmp_path, UNIT.read_text()) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("RestartSec=5", "RestartSeconds=5", "RestartSeconds"),
        ("TimeoutStopSec=30", "TimeoutStopSec=long", "time value"),
        ("Type=exec", "Type=execute", "service type"),
    ],
)
def test_systemd_would_complain_about_a_setting_that_is_none(
    tmp_path: Path, right: str, wrong: str, complaint: str
) -> None:
    text = UNIT.read_text()
    assert right in text
    assert complaint in verified(tmp_path, text.replace(right, wrong))


def test_the_readme_names_every_file() -> None:
    text = (FOLDER / "README.md").read_text()
    files = [path.name for path in FOLDER.rglob("*") if path.is_file()]
    assert [name for name in files if name not in text and name != "README.md"] == []
