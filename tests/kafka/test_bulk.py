"""What leaves a worker, without a broker: values encoded together, clients of another make, limits of time stamps."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from svead_kafka import Options
from svead_kafka.bulk import fits
from svead_kafka.events import Event, all_scored, scored
from svead_kafka.outgoing import Outgoing
from svead_kafka.stamps import Stamps

from svead_stream.record import Verdict

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**53), 2**53)
VERDICTS = st.builds(
    Verdict,
    NUMBERS,
    NUMBERS,
    st.booleans(),
    st.none() | st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=3),
    st.none() | st.integers(1, 9),
)
NEVER = 2**63 - 1


def record(offset: int = 0, value: bytes = b'{"a": 1, "b": ","}', timestamp: int = 1_700_000_000_000) -> Any:
    return SimpleNamespace(
        topic='t"é', partition=3, offset=offset, value=value, key=None, headers=[], timestamp=timestamp
    )


@settings(max_examples=50)
@given(st.lists(VERDICTS, max_size=8), st.integers(0, 2**62), st.booleans())
def test_values_encoded_together_are_those_encoded_one_by_one(
    verdicts: list[Verdict], offset: int, include_event: bool
) -> None:
    results = [(Event(record(offset + i), (), ()), verdict) for i, verdict in enumerate(verdicts)]
    singly = [scored(event, verdict, 2, include_event) for event, verdict in results]
    assert all_scored(results, 2, include_event) == singly


def test_a_client_of_another_make_gets_its_records_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[bytes] = []
    producer = SimpleNamespace(send=lambda topic, **message: sent.append(message["value"]))
    with caplog.at_level(logging.WARNING):
        assert not fits(producer)
    assert "records are sent one by one" in caplog.text
    out = Outgoing(producer, Options(input=["t"], output="out"), {"t": 4, "out": 4}, {})
    results = [(Event(record(i), (), ()), Verdict(0.5, 0.5, False)) for i in range(3)]
    out.scored(TopicPartition("t", 3), results)
    assert sent == all_scored(results, 3, True)


@pytest.mark.parametrize(
    ("configs", "before", "after"),
    [
        ({}, NEVER, NEVER),
        ({"message.timestamp.after.max.ms": "3600000"}, NEVER, 3_600_000),
        ({"message.timestamp.before.max.ms": "10", "message.timestamp.after.max.ms": str(NEVER)}, 10, NEVER),
        ({"message.timestamp.difference.max.ms": "5000"}, 5000, 5000),  # before Kafka 3.6
        ({"message.timestamp.difference.max.ms": "5000", "message.timestamp.after.max.ms": "900"}, 5000, 900),
        ({"message.timestamp.after.max.ms": "1", "message.timestamp.type": "LogAppendTime"}, NEVER, NEVER),
        ({"retention.ms": "1000", "cleanup.policy": "compact"}, NEVER, NEVER),
        ({"retention.ms": "-1"}, NEVER, NEVER),
    ],
)
def test_a_time_stamp_is_kept_if_the_topic_takes_it(configs: dict[str, str], before: int, after: int) -> None:
    stamps = Stamps({"out": configs})
    now = int(time.time() * 1000)
    for limit, sign in ((before, -1), (after, 1)):
        beyond = now + sign * min(limit + 10_000, now)
        fitting = stamps.fitting("out", record(timestamp=beyond))
        assert fitting == (beyond if limit == NEVER else None)
        first, last = stamps.usual("out")
        assert (first <= beyond <= last) == (fitting is not None)
    assert stamps.fitting("out", record(timestamp=now)) == now
    assert stamps.fitting("out", record(timestamp=-1)) is None
    assert stamps.describe() == []


def test_an_unheard_of_topic_takes_everything() -> None:
    first, last = Stamps().usual("out")
    assert first == 0
    assert last > 4e12
