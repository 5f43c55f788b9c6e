"""Options: from the command line, the environment and files; and what must never be printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from svead_kafka import ConfigurationError, Options
from svead_kafka import cli as command_line
from svead_kafka.client import Clients, read_client_config
from svead_kafka.options import describe

SECRET = "correct-horse-battery"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command line up to the point where a worker would begin, and answers its options."""
    import svead_kafka.worker

    seen: list[Options] = []

    class Idle:
        def __init__(self, options: Options) -> None:
            seen.append(options)

        def warm_up(self) -> None: ...

        def run(self) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr(svead_kafka.worker, "Worker", Idle)
    monkeypatch.setattr(command_line, "_set_up_logging", lambda verbose: None)
    monkeypatch.setattr(command_line.signal, "signal", lambda *_: None)
    monkeypatch.setattr(command_line.gc, "freeze", lambda: None)

    def run(*words: str, **environment: str) -> Options:
        CliRunner(env=environment).invoke(command_line.kafka, words, catch_exceptions=False, standalone_mode=False)
        return seen.pop()

    return run


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(parsed: Any, tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text(
        "input = ['a', 'b']\noutput = 'from-file'\ngroup = 'from-file'\nmax-batch = 7\nnormal_after = 300\n"
        "include_event = false\nalert_rate = 0.05\n"
    )
    options = parsed(
        "--config", str(file), "--output", "from-line", SVEAD_KAFKA_GROUP="from-env", SVEAD_KAFKA_OUTPUT="from-env"
    )
    assert (options.input, options.output, options.group) == (("a", "b"), "from-line", "from-env")
    assert (options.max_batch, options.alert_rate, options.include_event) == (7, 0.05, False)
    assert dict(options.detector) == {"normal_after": 300}
    assert options.state == "from-line-state"


def test_every_option_of_the_worker_is_on_the_command_line(parsed: Any) -> None:
    given = {one.name for one in command_line.kafka.params}
    missing = set(Options.names()) - given - {"detector", "client"}
    assert not missing
    everything = parsed("--input", "a,b", "--output", "o", "--features", "x, y", "--no-event", "--memory", "none")
    assert everything.features == ("x", "y")
    assert everything.detector == {"memory": None}


def test_an_unknown_name_in_the_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text("inputs = ['a']\n")
    answer = CliRunner().invoke(command_line.kafka, ["--config", str(file)])
    assert answer.exit_code == 2
    assert "'inputs', which is no option" in answer.output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input": []}, "needs an input topic"),
        ({"input": "in"}, "must be a list"),
        ({"output": ""}, "needs an output topic"),
        ({"output": "in"}, "'in' is used twice"),
        ({"output": "no spaces"}, "no topic name"),
        ({"start": "now"}, "earliest or latest"),
        ({"alert_rate": 1.5}, "between 0 and 1"),
        ({"max_batch": 0}, "max_batch must be positive"),
        ({"commit_every": -1}, "must not be negative"),
    ],
)
def test_options_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Options(**({"input": ["in"], "output": "out"} | changes))


def test_client_properties_come_in_the_names_of_kafkas_own_tools(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# a comment\nsecurity.protocol=SASL_SSL\nsasl.mechanism = PLAIN\nssl.truststore.location=/ca.pem\n"
        f'sasl.jaas.config=org.apache.kafka.Plain required username="me" password="{SECRET}";\n'
        "ssl.check.hostname=false\nrequest.timeout.ms=1234\n"
    )
    assert read_client_config(file) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "ssl_cafile": "/ca.pem",
        "sasl_plain_username": "me",
        "sasl_plain_password": SECRET,
        "ssl_check_hostname": False,
        "request_timeout_ms": 1234,
    }


@pytest.mark.parametrize("line", [f"sasl.passwort={SECRET}", f"{SECRET}", f"acks={SECRET}", f"group.id={SECRET}"])
def test_errors_in_client_properties_do_not_tell_secrets(tmp_path: Path, line: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(line)
    with pytest.raises(ConfigurationError) as caught:
        read_client_config(file)
    assert SECRET not in str(caught.value)


def test_secrets_are_in_no_text_of_the_options() -> None:
    options = Options(input=["in"], output="out", client={"sasl_plain_password": SECRET})
    Clients(options)
    counts = {"in": 4, "out": 4}
    assert SECRET not in repr(options) + str(options) + "".join(describe(options, counts))


def test_the_start_lines_say_what_will_be_done() -> None:
    options = Options(input=["in"], output="out", features=["a"], ignore=["id"], dead_letters="dead")
    text = "\n".join(describe(options, {"in": 4, "out": 2}))
    for part in ("in (4 partitions)", "out (2 partitions)", "features: a, not id", "to dead", "from out-state"):
        assert part in text
