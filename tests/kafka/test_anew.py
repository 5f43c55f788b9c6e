"""reset and replay: models are forgotten and offsets moved, all of it or nothing, and never under a running worker."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from streams import Run, Stream, events, until, work, working
from svead_kafka import ConfigurationError, Options, StateError
from svead_kafka.anew import Anew
from svead_kafka.client import Clients


@pytest.fixture
def one(bootstrap: str, request: pytest.FixtureRequest) -> Stream:
    """One partition with 200 events."""
    stream = Stream(bootstrap, request.node.name, partitions=1)
    stream.send(events(200), keys=[b"k%d" % (i % 3) for i in range(200)])
    return stream


def named(options: Options) -> list[str]:
    return ["--bootstrap", options.bootstrap, "--group", options.group, "--output", options.output]


def scored(stream: Stream, options: Options) -> tuple[list[int], list[float]]:
    """Offsets and scores of the scored events, in the order in which they were written."""
    values = [orjson.loads(record.value) for record in stream.read(options.output)]
    return [value["source"]["offset"] for value in values], [value["score"] for value in values]


def commit(stream: Stream, options: Options, offset: int) -> None:
    member = KafkaConsumer(bootstrap_servers=stream.bootstrap, group_id=options.group, enable_auto_commit=False)
    source = TopicPartition(stream.input, 0)
    member.assign([source])
    member.commit({source: OffsetAndMetadata(offset, "", -1)})
    member.close()


def test_reset_forgets_the_models_and_goes_on_at_the_committed_offsets(one: Stream, run: Run) -> None:
    options = one.options()
    work(one, options, 200)
    line = f"{one.input}/0: at offset 200, as committed; 1 saved model is forgotten"
    assert run("reset", *named(options)) == (0, [line, "nothing was done; add --yes to carry this out"])
    done = f"done: workers of group {options.group!r} will begin there with new models"
    assert run("reset", *named(options), "--yes") == (0, [line, done])
    assert run("reset", *named(options))[1][0].endswith("; 0 saved models are forgotten")
    one.send(events(50, seed=1))
    work(one, one.options(ignore=["x0"]), 250)  # no model is left that other options would not fit
    offsets, scores = scored(one, options)
    assert offsets == list(range(250))

    fresh = Stream(one.bootstrap, "fresh", partitions=1)
    fresh.send(events(50, seed=1))
    work(fresh, fresh.options(ignore=["x0"]), 50)
    assert scores[200:] == scored(fresh, fresh.options())[1]


def test_replay_scores_again_from_where_it_is_told_with_new_models(one: Stream, run: Run) -> None:
    options = one.options(model_per="key", snapshot_every=50, max_batch=40)
    work(one, options, 200)
    code, lines = run("replay", "--from", "earliest", *named(options), "--yes")
    assert code == 0
    assert lines[0] == (
        f"{one.input}/0: offset 200 -> 0; 3 saved models are forgotten; messages 0 to 199 will be scored again"
    )
    assert lines[1] == "what is scored again is written again: scored events, incidents and dead letters come twice"
    work(one, options, 200)
    offsets, scores = scored(one, options)
    assert offsets == [*range(200), *range(200)]
    assert scores[:200] == scores[200:]


def test_where_to_begin_is_an_offset_a_time_or_an_end_and_is_clamped_with_a_word(bootstrap: str) -> None:
    one = Stream(bootstrap, "where", partitions=1)
    options = one.options()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    one.create({options.state: {"num_partitions": 1}})
    for minute in range(60):
        producer.send(one.input, value=b"{}", partition=0, timestamp_ms=1_700_000_000_000 + 60_000 * minute)
    producer.send(one.input, value=b"{}", partition=0)
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.delete_records({TopicPartition(one.input, 0): 20})
    admin.close()

    def planned(begin: str | None) -> str:
        [step] = Anew(Clients(options), begin=begin).plan()
        return str(step).removeprefix(f"{one.input}/0: ").replace(" 0 saved models are forgotten", "")

    assert planned("latest") == "offset none -> 61;"
    commit(one, options, 40)
    assert planned("earliest") == "offset 40 -> 20;; messages 20 to 39 will be scored again"
    assert planned("latest") == "offset 40 -> 61;; messages 40 to 60 WILL NOT BE SCORED"
    assert planned("2023-11-14T22:43:20Z").startswith("offset 40 -> 30;")
    assert planned("2023-11-14T22:43:20.001").startswith("offset 40 -> 31;")
    assert planned("2099-01-01").startswith("offset 40 -> 61;")
    assert planned("7").startswith("offset 40 -> 20;; 7 is gone, the topic begins at 20; messages 20 to 39")
    assert planned("999").startswith("offset 40 -> 61;; 999 is not there yet, the topic ends at 61; messages 40 to 60")
    with pytest.raises(ConfigurationError, match=r"--from must be earliest, .* not 'yesterday'"):
        planned("yesterday")
    commit(one, options, 70)
    with pytest.raises(ConfigurationError, match=r"70 .* beyond its end, 61: .* replay --from earliest"):
        planned(None)


def test_a_group_with_members_is_left_alone(one: Stream) -> None:
    options = one.options()
    anew = Anew(Clients(options))
    with working(options):
        one.wait_committed(options, 200)
        with pytest.raises(ConfigurationError, match=r"has 1 members, at 127\.0\.0\.1: stop its workers"):
            anew.plan()
    plan = anew.plan()
    with working(options) as worker:  # one that comes between plan and deed
        until(lambda: worker._assignment is not None and bool(worker._assignment.settled()))
        with pytest.raises(ConfigurationError, match="has 2 members"):
            anew.carry_out(plan)
        one.send(events(10, seed=1))
        one.wait_committed(options, 210)
    with pytest.raises(StateError, match="has changed meanwhile: nothing was done"):
        anew.carry_out(plan)
    one.send(events(10, seed=2))
    work(one, options, 220)
    assert scored(one, options)[0] == list(range(220))


def test_a_worker_that_comes_in_the_midst_of_it_waits_and_begins_where_it_is_told(one: Stream) -> None:
    options = one.options()
    work(one, options, 200)
    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    with ExitStack() as stack:

        class Slow(Anew):
            def _transact(self, *what: Any) -> None:
                stack.enter_context(working(options))
                until(lambda: len(admin.describe_groups([options.group])[options.group]["members"]) == 2)
                super()._transact(*what)

        anew = Slow(Clients(options), begin="150")
        anew.carry_out(anew.plan())
        until(lambda: len(one.read(options.output)) == 250)
    admin.close()
    assert scored(one, options)[0] == [*range(200), *range(150, 200)]


def test_partitions_can_be_named_and_the_file_of_a_worker_will_do(stream: Stream, run: Run, tmp_path: Path) -> None:
    stream.send(events(80))
    options = stream.options()
    work(stream, options, 80)
    file = tmp_path / "worker.toml"
    file.write_text(f"bootstrap = '{options.bootstrap}'\ngroup = '{options.group}'\noutput = '{options.output}'\n"
                    f"input = '{stream.input}'\nalert_rate = 0.1\n")  # fmt: skip
    config = ["--config", str(file)]
    code, lines = run("replay", *config, "--from", "5", "--partition", "1", "--partition", "3", "--yes")
    assert [line.split(";")[0] for line in lines[:2]] == [
        f"{stream.input}/{number}: offset 20 -> 5" for number in (1, 3)
    ]
    work(stream, options, 80)
    assert len(scored(stream, options)[0]) == 80 + 2 * 15
    wrong: dict[tuple[str, ...], str] = {
        ("--partition", "4"): f"topic {stream.input!r} has no partition 4, only 4 of them",
        ("--input", "nothing"): f"input topic 'nothing' does not exist at {options.bootstrap}",
        ("--state", "nothing"): "state topic 'nothing' does not exist; name the worker's --output or --state",
    }
    for words, line in wrong.items():
        assert run("reset", *config, *words) == (1, [f"svead-stream: {line}"])
    code, lines = run("reset", *config, "--group", "nobody")
    assert (code, lines) == (
        0,
        [f"group 'nobody' has neither offsets nor models of {stream.input}: there is nothing to do"],
    )


def test_answers_that_the_old_models_had_are_not_taken_again(one: Stream) -> None:
    options = one.options(feedback=f"{one.name}-answers")
    one.create({options.feedback: {"num_partitions": 1}})
    source = {"topic": one.input, "partition": 0, "offset": 7}

    def answers(worker: Any, verdict: str) -> float:
        return float(worker.metrics.answers.labels(one.input, "0", verdict)._value.get())

    one.answer(options, [{"is_anomaly": True, "source": source}])
    with working(options) as worker:
        until(lambda: answers(worker, "anomaly") == 1)
    anew = Anew(Clients(options), begin="earliest")
    anew.carry_out(anew.plan())
    one.answer(options, [{"is_anomaly": False, "source": source}])
    with working(options) as worker:
        until(lambda: answers(worker, "false_alarm") == 1)
        assert answers(worker, "anomaly") == 0
