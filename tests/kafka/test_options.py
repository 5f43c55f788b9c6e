"""Options: from the command line, the environment and files; and what must never be printed."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka.errors import KafkaConnectionError
from kafka.net import transport
from svead_kafka import ConfigurationError, Options, Worker
from svead_kafka import cli as command_line
from svead_kafka.client import Clients
from svead_kafka.options import describe

SECRET = "correct-horse-battery"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command line up to the point where a worker would begin, and returns its options."""
    import svead_kafka.worker

    seen: list[Options] = []

    class Idle:
        def __init__(self, options: Options) -> None:
            seen.append(options)

        def warm_up(self) -> None: ...

        def run(self) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr(svead_kafka.worker, "Worker", Idle)
    monkeypatch.setattr(command_line.logs, "set_up", lambda *_: None)
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
    assert "sets 'inputs', but it is no option of this command; did you mean 'input'?" in answer.output


def test_old_names_in_the_file_and_in_the_environment_are_errors_that_name_the_new_ones(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text("half_life = 300\n")
    answer = CliRunner().invoke(command_line.kafka, ["--config", str(file)])
    assert answer.exit_code == 2
    assert "sets 'half_life', but --half-life is gone: see --memory" in answer.output
    answer = CliRunner(env={"SVEAD_KAFKA_REFRESH": "512"}).invoke(command_line.kafka, ["--input", "a", "--output", "b"])
    assert answer.exit_code == 2
    assert "SVEAD_KAFKA_REFRESH is set, but --refresh is gone: see --normal-after" in answer.output
    answer = CliRunner(env={"SVEAD_KAFKA_EVENT": "no"}).invoke(command_line.kafka, ["--input", "a", "--output", "b"])
    assert answer.exit_code == 2
    assert "SVEAD_KAFKA_EVENT is set, but --event is now --include-event" in answer.output


def test_names_are_lists_wherever_they_come_from(parsed: Any, tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text("input = 'a, b'\noutput = 'o'\nfeatures = ['x', 'engine heat']\n")
    options = parsed("--config", str(file), "-x", "id", "-x", "at,by", SVEAD_KAFKA_FEATURES="y,engine heat")
    assert (options.input, options.features, options.ignore) == (("a", "b"), ("y", "engine heat"), ("id", "at", "by"))
    assert parsed("--config", str(file)).features == ("x", "engine heat")


def test_alerts_and_detector_can_be_set_by_the_environment(parsed: Any) -> None:
    names = {"ALERT_WINDOW": "500", "PROTECT": "true", "TOP_FEATURES": "2", "MEMORY": "none", "SCALING": "log",
             "INCIDENT_RATE": "5/day", "HOLD_OFF": "15m", "BURN_IN": "1d", "TIME": "meta.ts", "INCIDENTS": "c",
             "ON_INCIDENT": "cat", "WEBHOOK": "http://localhost/"}  # fmt: skip
    options = parsed("--input", "a", "--output", "b", **{f"SVEAD_KAFKA_{name}": value for name, value in names.items()})
    assert (options.alert_window, options.protect, options.top_features) == (500, True, 2)
    assert (options.incident_rate, options.hold_off, options.burn_in) == ("5/day", "15m", "1d")
    assert (options.time, options.incidents) == ("meta.ts", "c")
    assert (options.on_incident, options.webhook) == ("cat", "http://localhost/")
    assert options.detector == {"memory": None, "scaling": "log"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input": []}, "needs an input topic"),
        ({"input": "in"}, "must be a list"),
        ({"output": ""}, "needs an output topic"),
        ({"output": "in"}, "'in' is used twice"),
        ({"output": "no spaces"}, "no topic name"),
        ({"incidents": "out"}, "'out' is used twice"),
        ({"incidents": "out-state"}, "'out-state' is used twice"),
        ({"incidents": "dead", "dead_letters": "dead"}, "'dead' is used twice"),
        ({"incidents": "no spaces"}, "no topic name"),
        ({"feedback": "in"}, "'in' is used twice"),
        ({"feedback": "out-state"}, "'out-state' is used twice"),
        ({"feedback": "no spaces"}, "no topic name"),
        ({"time": "ts", "features": ["x", "ts"]}, "'ts' is the time of the events: it cannot be a feature"),
        ({"incident_rate": "often"}, "'often' is no rate"),
        ({"hold_off": "soon"}, "'soon' is no duration"),
        ({"burn_in": -3}, "burn_in=-3"),
        ({"start": "now"}, "earliest or latest"),
        ({"alert_rate": 1.5}, "between 0 and 1"),
        ({"alert_window": 50}, "give at least 99"),
        ({"top_features": -1}, "top_features=-1"),
        ({"detector": {"n_anchors": 0}}, "n_anchors=0: it must be a whole number from 1 to 65536"),
        ({"detector": {"normal_after": 30_000}}, "at least normal_after"),
        ({"detector": {"memory": "2d"}}, "memory='2d': it must be None or a number"),
        ({"detector": {"half_life": 3}}, "half_life is no parameter: there are n_partitions"),
        ({"max_batch": 0}, "max_batch must be positive"),
        ({"commit_every": -1}, "must not be negative"),
    ],
)
def test_options_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Options(**({"input": ["in"], "output": "out"} | changes))


DECISIVE: dict[str, Any] = {
    "model_per": "key", "features": ["x"], "ignore": ["id"], "max_event_bytes": 1000, "alert_rate": 0.05,
    "alert_window": 500, "protect": True, "detector": {"seed": 3}, "time": "ts", "incident_rate": "5/day",
    "hold_off": "15m", "burn_in": 0, "teach_false_alarms": True,
}  # fmt: skip
INDIFFERENT: dict[str, Any] = {
    "bootstrap": "elsewhere:9092", "dead_letters": "dead", "start": "latest", "max_models": 7, "snapshot_every": 70,
    "commit_every": 7, "max_batch": 7, "top_features": 7, "include_event": False, "create_topics": True,
    "if_changed": "restart", "client": {"request_timeout_ms": 7000}, "transactional_id": "me", "max_retries": 7,
    "stall_timeout": 7.0, "metrics_port": 7000, "metrics_host": "0.0.0.0", "incidents": "incidents",
    "on_incident": "cat", "webhook": "http://localhost/", "feedback": "answers", "instance_id": "worker-1",
}  # fmt: skip


@pytest.mark.parametrize("name", [*DECISIVE, *INDIFFERENT])
def test_the_fingerprint_changes_with_what_the_numbers_depend_on_and_nothing_else(name: str) -> None:
    plain = Options(input=["in"], output="out")
    changed = Options(input=["in"], output="out", **{name: (DECISIVE | INDIFFERENT)[name]})
    assert getattr(changed, name) != getattr(plain, name)
    assert (changed.fingerprint != plain.fingerprint) == (name in DECISIVE)


def test_a_number_of_events_is_the_same_to_the_fingerprint_however_it_was_given(parsed: Any) -> None:
    given = parsed(
        "--input", "in", "--output", "out", "--hold-off", "30", "--burn-in", "256", "--incident-rate", "0.005"
    )
    plain = Options(input=["in"], output="out", hold_off=30, burn_in=256, incident_rate=0.005)
    assert given.fingerprint == plain.fingerprint
    assert parsed("--input", "in", "--output", "out").fingerprint == Options(input=["in"], output="out").fingerprint


def test_state_from_before_there_were_answers_stays_valid() -> None:
    assert "teach_false_alarms" not in Options(input=["in"], output="out", feedback="answers").fingerprint


def test_the_feedback_topic_can_be_set_everywhere(parsed: Any, tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text("input = ['a']\noutput = 'o'\nfeedback = 'from-file'\nteach_false_alarms = true\n")
    options = parsed("--config", str(file))
    assert (options.feedback, options.teach_false_alarms) == ("from-file", True)
    options = parsed("--input", "a", "--output", "o", SVEAD_KAFKA_FEEDBACK="env", SVEAD_KAFKA_TEACH_FALSE_ALARMS="yes")
    assert (options.feedback, options.teach_false_alarms) == ("env", True)
    options = parsed("--config", str(file), "--feedback", "from-line")
    assert options.feedback == "from-line"
    assert parsed("--input", "a", "--output", "o").feedback is None


def test_the_live_page_is_asked_for_with_or_without_an_address(parsed: Any, tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text("input = ['a']\noutput = 'o'\nserve = 9000\n")
    topics = ["--input", "a", "--output", "o"]
    assert parsed(*topics).serve is None
    assert parsed("--serve", *topics).serve == "8765"
    assert parsed(*topics, "--serve", "0.0.0.0:9000").serve == "0.0.0.0:9000"
    options = parsed("--config", str(file), SVEAD_KAFKA_SERVE_TOKEN=SECRET)
    assert (options.serve, options.serve_token) == ("9000", SECRET)


def test_what_a_broker_says_before_it_hangs_up_is_heard() -> None:
    class Connection(transport.KafkaTCPTransport):  # type: ignore[misc]
        def __init__(self, sock: socket.socket) -> None:
            self._sock = sock

        def __str__(self) -> str:
            return "connection"

    ours, brokers = socket.socketpair()
    ours.setblocking(False)
    connection = Connection(ours)
    with ours:
        brokers.sendall(b"wrong password")
        brokers.close()
        assert connection._sock_recv() == (b"wrong password", None)
        data, error = connection._sock_recv()
    assert (data, type(error)) == (b"", KafkaConnectionError)


def test_secrets_are_in_no_text_of_the_options() -> None:
    channels = {"webhook": f"https://hooks.example.com/{SECRET}", "on_incident": f"tell --token {SECRET}"}
    channels["serve_token"] = SECRET
    options = Options(input=["in"], output="out", client={"sasl_plain_password": SECRET}, **channels)  # type: ignore[arg-type]
    Clients(options)
    said = "".join(describe(options, {"in": 4, "out": 4}))
    assert "a command and a webhook will be told of incidents" in said
    assert SECRET not in repr(options) + str(options) + said


def test_a_webhook_that_is_no_address_is_refused_without_telling_it() -> None:
    with pytest.raises(ConfigurationError, match="webhook has no scheme") as caught:
        Worker(Options(input=["in"], output="out", webhook=SECRET))
    assert SECRET not in str(caught.value)


def test_the_start_lines_say_what_will_be_done() -> None:
    options = Options(input=["in"], output="out", features=["a"], ignore=["id"], dead_letters="dead", protect=True)
    text = "\n".join(describe(options, {"in": 4, "out": 2}))
    for part in (
        "in (4 partitions)",
        "out (2 partitions)",
        "features: a, not id",
        "which are not learned",
        "to dead",
        "from out-state",
        "time: Kafka's time stamp",
        "alerts on 1.000% of events",
    ):
        assert part in text
    said = {"incidents": "inc", "time": "meta.ts", "incident_rate": "5/day", "hold_off": "15m", "burn_in": 100}
    text = "\n".join(describe(Options(input=["in"], output="out", **said), {"in": 4, "out": 2, "inc": 3}))  # type: ignore[arg-type]
    for part in (
        "incidents to inc (3 partitions)",
        "time: the field meta.ts",
        "alerts on 1.000% of events, none in the first 100 events of a model",
        "; incidents 5/day, over after 15m without alerts",
    ):
        assert part in text
    assert "answers" not in text
    options = Options(input=["in"], output="out", feedback="answers", teach_false_alarms=True)
    text = "\n".join(describe(options, {"in": 4, "out": 2, "answers": 3}))
    assert "answers from answers (3 partitions), false alarms are learned as normal" in text
