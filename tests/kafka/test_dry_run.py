"""A dry run says what a worker would do and what is in its way, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Cluster, free_ports
from clusters import started
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)
from streams import Run, Stream, command, events, until, work
from svead_kafka import ConfigurationError, Options, Worker
from svead_kafka.client import Clients
from svead_kafka.topics import Topics


@pytest.fixture
def dry(run: Run) -> Run:
    """A dry run with some options: its exit code and what it says, without the plan."""

    def dry(options: Options, *more: str) -> tuple[int, list[str]]:
        code, lines = run(*command(options, "--dry-run", *more)[3:])
        return code, [line for line in lines if not line.startswith("ok       plan: ")]

    return dry


def problems(lines: list[str]) -> list[str]:
    return [line.removeprefix("problem  ") for line in lines if line.startswith("problem ")]


def test_a_new_group_would_run_and_nothing_is_created(stream: Stream, dry: Run, run: Run) -> None:
    stream.send(events(40))
    options = stream.options(dead_letters=None, incidents=None)
    code, lines = dry(options)
    assert (code, lines[-1]) == (0, "a worker would run")
    assert f"ok       topic {stream.input}: 4 partitions, read allowed" in lines
    assert f"ok       topic {options.output}: would be created, with 4 partitions" in lines
    assert f"ok       {stream.input}/3: goes on at 0, 10 behind the end, new models" in lines
    assert dry(options)[1] == lines  # the second finds what the first has found
    _, full = run(*command(options, "--dry-run")[3:])
    assert any(line.startswith(f"ok       plan: reading {stream.input} (4 partitions) at") for line in full)

    words = [word for word in command(options, "--dry-run")[3:] if word != "--create-topics"]
    code, lines = run(*words)
    assert code == 1
    assert problems(lines) == [
        f"topic {topic}: it does not exist; create it, or add --create-topics"
        for topic in (options.output, options.state)
    ]
    assert lines[-1] == "a worker would not run; problems: 2"


def test_state_that_would_be_taken_over_or_refused_is_told(stream: Stream, dry: Run) -> None:
    stream.send(events(40))
    options = stream.options()
    work(stream, options, 40)
    stream.send(events(8, seed=1))
    code, lines = dry(options)
    assert (code, problems(lines)) == (0, [])
    assert f"ok       {stream.input}/0: goes on at 10, 2 behind the end, saved models: 1" in lines
    assert f"ok       group {options.group}: 0 members" in lines

    code, lines = dry(options, "--memory", "7777")
    assert (code, len(problems(lines))) == (1, 4)
    told = f"the models of {stream.input}/0 were made with other options (memory: 20000 then, 7777.0 now); "
    assert told in problems(lines)[0]
    code, lines = dry(options, "--memory", "7777", "--if-changed", "restart")
    assert (code, problems(lines)) == (0, [])
    work(stream, options, 48)  # it was left as it was
    assert len(stream.scored(options)) == 48


def test_topics_that_are_missing_or_too_small_are_told(
    stream: Stream, dry: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = stream.options()
    Topics(options).prepare(Clients(options))
    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    topics = {options.output: {"max.message.bytes": "20000"}, stream.input: {"compression.type": "zstd"}}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs) for topic, configs in topics.items()])
    admin.close()
    until(lambda: dry(options)[0] == 1)  # new settings take a moment
    _, lines = dry(options)
    assert f"room: topic {options.output!r} takes messages of 20000 bytes" in problems(lines)[0]
    assert "ok       codecs: gzip, snappy, lz4, zstd can be read here; written: none" in lines
    monkeypatch.setattr("svead_kafka.dry_run.has_codec", lambda name: name != "zstd")
    assert f"codecs: {stream.input} has zstd, which needs a package: install zstandard" in problems(dry(options)[1])

    code, lines = dry(stream.options(input=["not-there"]))
    assert code == 1
    assert problems(lines) == ["topic not-there: it does not exist; the input is never created by a worker"]


def test_a_broker_out_of_reach_is_told(dry: Run) -> None:
    [port] = free_ports(1)
    code, lines = dry(Options(bootstrap=f"127.0.0.1:{port}", input=["in"], output="out"))
    assert code == 1
    assert "no broker answers" in problems(lines)[0]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node that heeds access rules, where there are any, and creates the topics that are asked for."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "auto.create.topics.enable": "true",
    }
    yield from started(Cluster(tmp_path_factory.mktemp("kafka-strict"), settings=settings))


def allow(cluster: Cluster, who: str, operation: ACLOperation, kind: ResourceType, name: str) -> None:
    """Let somebody do this with it; what nobody was allowed is forbidden from then on."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    admin.create_acls([ACL(f"User:{who}", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name))])
    admin.close()


def test_permissions_that_lack_are_told(strict: Cluster, dry: Run, run: Run) -> None:
    stream = Stream(strict.bootstrap, "allowed")
    options = stream.options()
    Topics(options).prepare(Clients(options))
    assert dry(options)[0] == 0
    allow(strict, "*", ACLOperation.READ, ResourceType.TOPIC, options.output)
    allow(strict, "bob", ACLOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "fixed")
    allow(strict, "bob", ACLOperation.READ, ResourceType.GROUP, options.group)
    until(lambda: len(problems(dry(options, "--transactional-id", "fixed")[1])) >= 3)  # rules take a moment
    code, lines = dry(options, "--transactional-id", "fixed")
    found = problems(lines)
    assert code == 1
    assert found[0] == f"topic {options.output}: 4 partitions, but this user lacks Write; allow it"
    assert found[1].startswith(f"group {options.group}: ")
    assert found[1].endswith("; allow Read")
    assert found[2] == "transactional id: this user may not use fixed; allow Describe and Write"

    allow(strict, "bob", ACLOperation.WRITE, ResourceType.TOPIC, options.state)
    line = f"topic {options.state}: this user may not see it; allow Describe"
    until(lambda: line in problems(dry(options)[1]))
    line = f"svead-stream: topic {options.state!r} must not be seen by this user; its owner can allow it"
    assert run("tail", "--topic", options.state, "--bootstrap", strict.bootstrap) == (1, [line])


def test_a_worker_that_lacks_a_permission_ends_at_once(
    strict: Cluster, dry: Run, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(strict.bootstrap, "forbidden")
    options = stream.options()
    stream.send(events(40))
    Topics(options).prepare(Clients(options))
    allow(strict, "bob", ACLOperation.WRITE, ResourceType.TOPIC, options.output)
    allow(strict, "*", ACLOperation.DESCRIBE, ResourceType.TOPIC, options.output)
    until(lambda: any("lacks Write" in problem for problem in problems(dry(options)[1])))  # rules take a moment
    with pytest.raises(ConfigurationError, match=rf"{options.output}.*allow the user to .* write"):
        Worker(options).run()
    allow(strict, "bob", ACLOperation.READ, ResourceType.GROUP, options.group)
    until(lambda: any(problem.startswith("group ") for problem in problems(dry(options)[1])))
    with pytest.raises(ConfigurationError, match="allow the user to read the group"):
        Worker(options).run()
    assert "trying again" not in caplog.text


def test_a_broker_that_creates_topics_may_do_so(strict: Cluster, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"x": 1}\n' * 3)
    words = ["send", str(file), "--topic", "made-by-sending", "--bootstrap", strict.bootstrap]
    assert run(*words) == (0, ["sent 3 events to made-by-sending"])
