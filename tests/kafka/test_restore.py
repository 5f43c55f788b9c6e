"""A restored model is the one that was left: restarts, rebalances, hidden state, offsets that somebody moved."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest
import svead_kafka.state_topic
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from streams import Stream, events, sum_of, until, work, working
from svead_kafka import StateError, Worker
from svead_kafka.client import Clients
from svead_kafka.topics import Topics


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
    assert stream.told(broken) == stream.told(straight) != []


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
            until(lambda: sum_of(first.metrics.events) > 0 and sum_of(second.metrics.events) > 0)
    work(stream, alone, 4000)
    assert stream.scored(shared) == stream.scored(alone)
    assert stream.told(shared) == stream.told(alone) != []


@pytest.mark.parametrize("max_models", [1000, 3])
def test_a_model_per_key_survives_restarts_and_leaving_memory(stream: Stream, max_models: int) -> None:
    keys = [b"k%d" % (i * i % 11) for i in range(700)] + [None] * 20
    stream.send(events(720), keys=keys)
    short: dict[str, Any] = {"model_per": "key", "burn_in": 0, "alert_rate": 0.1, "hold_off": 5}
    straight = stream.options("straight", **short)
    broken = stream.options("broken", **short, max_models=max_models, snapshot_every=100, max_batch=60)
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
    assert stream.told(broken) == stream.told(straight) != []
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
    Topics(hidden).prepare(Clients(hidden))
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


def test_models_made_with_other_options_are_not_used_unknowingly(stream: Stream) -> None:
    stream.send(events(80))
    work(stream, stream.options(), 80)
    changed = stream.options(ignore=["x0"])
    with pytest.raises(StateError, match=r"ignore: \[\] then, \['x0'\] now"):
        Worker(changed).run()
    stream.send(events(40, seed=1))
    work(stream, stream.options(ignore=["x0"], if_changed="restart"), 120)
    assert len(stream.scored(changed)) == 120


def _owned(worker: Worker) -> int:
    return len(worker._assignment.settled()) if worker._assignment is not None else 0
