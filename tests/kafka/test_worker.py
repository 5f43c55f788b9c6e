"""A worker on a real broker: what it writes, what it survives, what it says."""

from __future__ import annotations

import itertools
import logging
import pickle
import threading
import time
import urllib.request
from types import SimpleNamespace
from typing import Any

import jsonschema
import orjson
import pytest
import svead_kafka.state_topic
from broker import Cluster, free_ports
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaTimeoutError
from river import anomaly, compose, preprocessing
from streams import PATIENCE, Stream, events, until, work, working
from svead_kafka import ConfigurationError, GaveUp, Options, StateError, Worker
from svead_kafka.assignment import Assignment
from svead_kafka.client import Clients, prepare_topics, wait_for_topics

from svead_stream.record import schema

SOURCE = TopicPartition("in", 0)


def test_every_event_comes_out_once_with_key_timestamp_and_headers(stream: Stream) -> None:
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap)
    for i, value in enumerate(events(400)):
        headers = [("n", b"%d" % i)] if i % 2 else None
        producer.send(
            stream.input, value, key=b"k%d" % i, partition=i % 4, timestamp_ms=1_600_000_000_000 + i, headers=headers
        )
    producer.flush()
    producer.close()
    options = stream.options()
    work(stream, options, 400)

    sent = {(record.partition, record.offset): record for record in stream.read(stream.input)}
    out = stream.read(options.output)
    assert len(out) == len(sent) == 400
    for record in out:
        value = orjson.loads(record.value)
        source = sent[record.partition, value["source"]["offset"]]
        assert (record.key, record.timestamp, record.headers) == (source.key, source.timestamp, source.headers)
        assert value["event"] == orjson.loads(source.value)
    # Within a partition the order is kept.
    for partition in range(4):
        offsets = [orjson.loads(r.value)["source"]["offset"] for r in out if r.partition == partition]
        assert offsets == list(range(100))


def test_scored_events_are_as_the_schema_in_the_package_says(stream: Stream) -> None:
    validator = jsonschema.Draft202012Validator(schema())
    stream.send(events(1200))
    options = stream.options(top_features=4)
    work(stream, options, 1200)
    values = list(stream.scored(options).values())
    for value in values:
        validator.validate(value)
        assert value.keys() - {"top_features"} == {"score", "p_value", "alert", "source", "event"}
        assert value["alert"] == (value["p_value"] <= 0.01) == ("top_features" in value)
    alerts = [value for value in values if value["alert"]]
    assert alerts
    for alert in alerts:
        shares = [one["share"] for one in alert["top_features"]]
        assert shares == sorted(shares, reverse=True)
        assert {one["feature"] for one in alert["top_features"]} == {"x0", "x1", "x2", "x3"}


def test_bad_messages_arrive_in_the_dead_letters_byte_for_byte_and_are_not_learned(stream: Stream) -> None:
    good = events(600)
    bad: list[bytes | None] = [b"\x00\xff", b"", None, b"[1]", b'{"x0": "a"}', b"nul", b'{"a":1}' + b"," * 950_000]
    mixed: list[bytes | None] = [*good[:300], *bad, *good[300:]]
    one = Stream(stream.bootstrap, "mixed", partitions=1)
    one.send(mixed)
    options = one.options(features=["x0", "x1", "x2", "x3"])
    work(one, options, len(mixed))

    letters = one.read(options.dead_letters or "")
    assert [letter.value for letter in letters] == bad
    for i, letter in enumerate(letters):
        about = dict(letter.headers)
        assert about["svead-topic"] == one.input.encode()
        assert (about["svead-partition"], about["svead-offset"]) == (b"0", b"%d" % (300 + i))
        assert about["svead-reason"]
        assert about["svead-timestamp"] == b"%d" % letter.timestamp

    clean = Stream(stream.bootstrap, "clean", partitions=1)
    clean.send(good)
    without = clean.options(features=["x0", "x1", "x2", "x3"])
    work(clean, without, len(good))
    assert [v["score"] for v in one.scored(options).values()] == [v["score"] for v in clean.scored(without).values()]


def test_without_a_dead_letter_topic_bad_messages_are_counted_and_logged(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    stream.send([b"oops"] * 30)
    options = stream.options(dead_letters=None)
    with caplog.at_level(logging.WARNING), working(options) as worker:
        until(lambda: _total(worker.metrics.dead_letters) == 30)
    assert "no event at" in caplog.text
    assert "not JSON" in caplog.text


@pytest.mark.parametrize("piece", [500_000, 9_000], ids=["whole", "in pieces"])
def test_a_restart_goes_on_with_the_same_scores_from_snapshot_and_replay(
    stream: Stream, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svead_kafka.state_topic, "PIECE", piece)
    stream.send(events(3000))
    straight, broken = stream.options("straight"), stream.options("broken", snapshot_every=400, max_batch=120)
    work(stream, straight, 3000)
    for total in (700, 1600):
        with working(broken) as worker:
            stream.wait_committed(broken, total)
            worker._leave = lambda: None  # type: ignore[method-assign]  # as after a crash: nothing is saved on leaving
    work(stream, broken, 3000)
    assert stream.scored(broken) == stream.scored(straight)


def test_a_second_worker_takes_half_of_the_partitions_and_no_score_changes(stream: Stream) -> None:
    stream.send(events(2000))
    alone, shared = stream.options("alone"), stream.options("shared", max_batch=100, snapshot_every=300)
    work(stream, alone, 4000 - 2000)
    with working(shared) as first:
        stream.wait_committed(shared, 500)
        with working(shared) as second:
            until(lambda: _owned(second) == 2 and _owned(first) == 2)
            stream.send(events(2000, seed=1))
            stream.wait_committed(shared, 4000)
            until(lambda: _total(first.metrics.events) > 0 and _total(second.metrics.events) > 0)
    work(stream, alone, 4000)
    assert stream.scored(shared) == stream.scored(alone)


@pytest.mark.parametrize("max_models", [1000, 3])
def test_a_model_per_key_survives_restarts_and_leaving_memory(stream: Stream, max_models: int) -> None:
    keys = [b"k%d" % (i * i % 11) for i in range(700)] + [None] * 20
    stream.send(events(720), keys=keys)
    straight = stream.options("straight", model_per="key")
    broken = stream.options("broken", model_per="key", max_models=max_models, snapshot_every=100, max_batch=60)
    work(stream, straight, 720)
    for total in (200, 450):
        with working(broken) as worker:
            stream.wait_committed(broken, total)
            worker._leave = lambda: None  # type: ignore[method-assign]
            if max_models == 3:
                until(lambda: worker.metrics.models._value.get() <= 4)
    work(stream, broken, 720)
    expected = stream.scored(straight)
    assert stream.scored(broken) == expected
    # A key's model sees its own events only: the first event of each key in a partition scores 0.
    first: dict[tuple[int, Any], float] = {}
    for record in stream.read(straight.output):
        first.setdefault((record.partition, record.key), orjson.loads(record.value)["score"])
    assert set(first.values()) == {0.0}


def test_state_behind_the_open_transaction_of_another_is_waited_for(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    one = Stream(stream.bootstrap, "hidden", partitions=1)
    one.send(events(300))
    straight, hidden = one.options("straight"), one.options("hidden")
    prepare_topics(Clients(hidden))
    other = KafkaProducer(bootstrap_servers=one.bootstrap, transactional_id=one.name, transaction_timeout_ms=800_000)
    try:
        other.init_transactions()
        other.begin_transaction()
        other.send(hidden.state, key=b'["other", "in", 0]', value=b"{}", partition=0)
        other.flush()
        with working(hidden):
            one.wait_committed(hidden, 300)
        one.send(events(300, seed=1))
        with caplog.at_level(logging.INFO), working(hidden):
            until(lambda: "offsets without state" in caplog.text)
            other.abort_transaction()
            one.wait_committed(hidden, 600)
    finally:
        other.close()
    work(one, straight, 600)
    assert one.scored(hidden) == one.scored(straight)


def test_new_models_behind_the_open_transaction_of_another_are_not_begun_again(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """Where models begin again, with other options, the checkpoint of the old ones stands before theirs."""
    one = Stream(stream.bootstrap, "anew", partitions=1)
    changed: dict[str, Any] = {"ignore": ["x0"], "if_changed": "restart"}
    straight, hidden = one.options("straight", **changed), one.options("hidden", **changed)
    one.send(events(300))
    for run in ("straight", "hidden"):
        work(one, one.options(run), 300)
    one.send(events(300, seed=1))
    work(one, straight, 600)
    other = KafkaProducer(bootstrap_servers=one.bootstrap, transactional_id=one.name, transaction_timeout_ms=800_000)
    other.init_transactions()

    class Overtaken(Worker):
        """Another's transaction begins just before that with the first checkpoint."""

        def _transact(self, *what: Any, **more: Any) -> None:
            if more.get("new"):
                other.begin_transaction()
                other.send(hidden.state, key=b'["other", "in", 0]', value=b"{}", partition=0)
                other.flush()
            super()._transact(*what, **more)

    try:
        with working(hidden, kind=Overtaken):
            one.wait_committed(hidden, 600)
        one.send(events(300, seed=2))
        caplog.clear()
        with caplog.at_level(logging.INFO), working(hidden):
            until(lambda: "offsets without state" in caplog.text or one.committed(hidden) >= 900)
            other.abort_transaction()
            one.wait_committed(hidden, 900)
    finally:
        other.close()
    work(one, straight, 900)
    assert one.scored(hidden) == one.scored(straight)


@pytest.mark.parametrize("back_to", [150, 50], ids=["behind the checkpoint", "before it"])
def test_offsets_that_were_moved_back_lead_to_all_events_again(stream: Stream, back_to: int) -> None:
    one = Stream(stream.bootstrap, "back", partitions=1)
    keys = [b"b" if i == 120 else b"a" for i in range(210)]  # b is seen once, and not saved when a is
    one.send(events(210), keys=keys)
    options = one.options(model_per="key", snapshot_every=100, max_batch=10)
    with working(options) as worker:
        one.wait_committed(options, 210)
        worker._leave = lambda: None  # type: ignore[method-assign]
    member = KafkaConsumer(bootstrap_servers=one.bootstrap, group_id=options.group, enable_auto_commit=False)
    source = TopicPartition(one.input, 0)
    member.assign([source])
    member.commit({source: OffsetAndMetadata(back_to, "", -1)})
    member.close()
    work(one, options, 210)
    seen = [orjson.loads(record.value)["source"]["offset"] for record in one.read(options.output)]
    assert seen == [*range(210), *range(back_to, 210)]


def test_any_river_detector_can_take_the_place_of_the_default(stream: Stream) -> None:
    def detector(seed: int) -> Any:
        return preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=seed, n_trees=3)

    stream.send(events(400))
    how: dict[str, Any] = {"detector": detector, "dumps": pickle.dumps, "loads": pickle.loads}
    straight, broken = stream.options("straight"), stream.options("broken", max_batch=50, snapshot_every=30)
    work(stream, straight, 400, **how)
    with working(broken, **how):
        stream.wait_committed(broken, 150)
    work(stream, broken, 400, **how)
    assert stream.scored(broken) == stream.scored(straight)


def test_a_detector_that_wants_features_of_its_own_is_not_troubled_before_the_first_event() -> None:
    def ratio(x: dict[str, Any]) -> dict[str, Any]:
        return {"each": x["amount"] / x["count"]}

    def detector(seed: int) -> Any:
        return compose.FuncTransformer(ratio) | anomaly.HalfSpaceTrees(seed=seed)

    Worker(Options(input=["in"], output="out"), detector, pickle.dumps, pickle.loads).warm_up()


class Slow(anomaly.HalfSpaceTrees):
    """A detector that takes a twentieth of a second for an event, by a clock that nothing else moves."""

    clock = 0.0

    def learn_one(self, x: dict[str, Any]) -> None:
        Slow.clock += 0.05
        super().learn_one(x)


def test_a_slow_model_gets_small_batches_so_that_it_stays_in_its_group(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: Slow.clock, time=time.time)
    monkeypatch.setattr("svead_kafka.worker.time", clock)
    stream.send(events(1200))  # a minute's work
    options = stream.options()
    with working(options, detector=lambda seed: Slow(seed=seed), dumps=pickle.dumps, loads=pickle.loads) as worker:
        until(lambda: _total(worker.metrics.events) == 1200)
        batches = {sample.labels.get("le"): sample.value for metric in worker.metrics.batch.collect()
                   for sample in metric.samples}  # fmt: skip
    # Only the first batch, before anything is known of the model, may take longer than about a second or two.
    assert batches["+Inf"] - batches["2.5"] <= 1


def test_a_trickle_of_events_says_nothing_of_how_many_can_be_taken_at_once() -> None:
    worker = Worker(Options(input=["in"], output="out"))
    taken = SimpleNamespace(take=lambda events, position: ([], []))
    worker._assignment = SimpleNamespace(partitions={SOURCE: taken})  # type: ignore[assignment]
    worker._transact = lambda *_: None  # type: ignore[method-assign]
    few = [SimpleNamespace(value=b"", key=None, headers=[], offset=0)] * 3
    first = worker._limit
    for _ in range(10):
        worker._batch({SOURCE: few})
    assert worker._limit == first
    worker._batch({SOURCE: few * first})
    assert worker._limit > first


def test_a_slow_model_shows_signs_of_life_while_it_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, beats=[0.0], polls=[0.0])

    class Reader:
        at = 0

        def assign(self, sources: Any) -> None: ...

        def seek(self, source: TopicPartition, offset: int) -> None:
            self.at = offset

        def position(self, source: TopicPartition) -> int:
            return self.at

        def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
            self.at += max_records
            return {SOURCE: [SimpleNamespace(offset=i) for i in range(self.at - max_records, self.at)]}

    def take(events: list[Any], position: int, explain: bool) -> None:
        clock.now += 0.1 * len(events)
        learned.extend(event.offset for event in events)

    learned: list[int] = []
    monkeypatch.setattr("svead_kafka.assignment.time", SimpleNamespace(monotonic=lambda: clock.now))
    assignment = Assignment.__new__(Assignment)
    assignment._reader = Reader()
    assignment._consumer = SimpleNamespace(poll=lambda **_: clock.polls.append(clock.now))
    assignment._decoder = SimpleNamespace(decode=lambda records: (list(records), []))  # type: ignore[assignment]
    assignment._watchdog = SimpleNamespace(beat=lambda _: clock.beats.append(clock.now))  # type: ignore[assignment]
    assignment._rebalances = SimpleNamespace(count=0)  # type: ignore[assignment]
    assignment._replay(SimpleNamespace(source=SOURCE, take=take), 0, 10_000, 0)  # type: ignore[arg-type]
    assert learned == list(range(10_000))
    for times in (clock.beats, clock.polls):
        assert max(b - a for a, b in itertools.pairwise(times)) < 11  # the first ones, before anything is known of it
        assert max(b - a for a, b in itertools.pairwise(times[2:])) < 5


def test_a_new_group_may_begin_at_the_end(stream: Stream) -> None:
    stream.send(events(40))
    options = stream.options(start="latest")
    with working(options):
        stream.wait_committed(options, 40)  # where it begins is committed before anything is scored
        stream.send(events(20, seed=1))
        stream.wait_committed(options, 60)
    assert sorted(place[2] for place in stream.scored(options)) == sorted([10, 11, 12, 13, 14] * 4)


def test_models_made_with_other_options_are_not_used_unknowingly(stream: Stream) -> None:
    stream.send(events(80))
    work(stream, stream.options(), 80)
    changed = stream.options(ignore=["x0"])
    with pytest.raises(StateError, match=r"ignore: \[\] then, \['x0'\] now"):
        Worker(changed).run()
    stream.send(events(40, seed=1))
    work(stream, stream.options(ignore=["x0"], if_changed="restart"), 120)
    assert len(stream.scored(changed)) == 120


def test_missing_topics_are_named(stream: Stream) -> None:
    with pytest.raises(ConfigurationError, match="add --create-topics"):
        Worker(stream.options(create_topics=False)).run()
    with pytest.raises(ConfigurationError, match="input topic 'nowhere' does not exist"):
        Worker(stream.options(input=["nowhere"])).run()


def test_topics_that_the_brokers_show_late_are_waited_for(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    late = f"{stream.name}-late"
    creating = threading.Timer(1.0, stream.create, args=[{late: {"num_partitions": 3}}])
    creating.start()
    try:
        monkeypatch.setattr("svead_kafka.client._NEWS_S", PATIENCE)
        assert wait_for_topics(admin, [stream.input, late]) == {stream.input: 4, late: 3}
        monkeypatch.setattr("svead_kafka.client._NEWS_S", 0.2)
        with pytest.raises(KafkaTimeoutError, match="never-made"):  # a worker tries again after this one
            wait_for_topics(admin, [stream.input, "never-made"])
    finally:
        creating.join()
        admin.close()


def test_an_output_topic_too_small_for_the_events_is_refused(stream: Stream) -> None:
    options = stream.options()
    stream.create({options.output: {"num_partitions": 4, "configs": {"max.message.bytes": "100000"}}})
    with pytest.raises(ConfigurationError, match="--max-event-bytes 83616 or less"):
        Worker(options).run()


def test_metrics_count_what_was_committed_and_listen_on_the_loopback_only(stream: Stream) -> None:
    [port] = free_ports(1)
    stream.send([*events(500), b"bad"])
    options = stream.options(metrics_port=port, snapshot_every=50)
    with working(options) as worker:
        until(lambda: _total(worker.metrics.events) + _total(worker.metrics.dead_letters) == 501)
        until(lambda: [lag.value for one in worker.metrics.lag.collect() for lag in one.samples] == [0.0] * 4)
        assert worker.metrics.server.server_address == ("127.0.0.1", port)
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE).read().decode()
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    totals: dict[str, float] = {}
    for line in lines:
        name, value = line.rsplit(" ", 1)
        totals[name.split("{")[0]] = totals.get(name.split("{")[0], 0.0) + float(value)
    assert totals["svead_events_total"] == 500
    assert totals["svead_dead_letters_total"] == 1
    assert totals["svead_lag"] == 0
    assert totals["svead_snapshot_bytes"] > 0
    for name in ("svead_alerts_total", "svead_batch_seconds_count", "svead_commit_seconds_count",
                 "svead_snapshot_age_seconds", "svead_missing_values_total"):  # fmt: skip
        assert name in totals


def test_a_worker_gives_up_after_its_retries_when_no_broker_answers() -> None:
    [port] = free_ports(1)
    options = Options(bootstrap=f"127.0.0.1:{port}", input=["in"], output="out", max_retries=2)
    threads = threading.active_count()
    with pytest.raises(GaveUp, match=r"3 failures in a row, .*no broker answers"):
        Worker(options).run()
    until(lambda: threading.active_count() <= threads)


def test_kafkas_own_console_consumer_sees_the_same_scored_events(stream: Stream, cluster: Cluster) -> None:
    stream.send(events(200))
    options = stream.options()
    work(stream, options, 200)
    seen = [orjson.loads(line) for line in cluster.console_consumer(options.output, 200)]
    assert sorted(value["event"]["id"] for value in seen) == sorted(f"e{i}" for i in range(200))
    assert {v["event"]["id"]: v["score"] for v in seen} == {
        v["event"]["id"]: v["score"] for v in stream.scored(options).values()
    }


def test_the_state_topic_is_compacted(stream: Stream) -> None:
    stream.send(events(8))
    options = stream.options()
    work(stream, options, 8)
    from kafka.admin import ConfigResource, ConfigResourceType

    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    try:
        answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, options.state)])
    finally:
        admin.close()
    assert answer["topic"][options.state]["cleanup.policy"]["value"] == "compact"


def _owned(worker: Worker) -> int:
    return len(worker._assignment.settled()) if worker._assignment is not None else 0


def _total(counter: Any) -> float:
    """The sum of a counter over all partitions."""
    return sum(sample.value for metric in counter.collect() for sample in metric.samples
               if sample.name.endswith("_total"))  # fmt: skip
