"""Batches in every codec: what others send compressed is read, and our own output is compressed as it was asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import confluent_kafka
import kafka.codec
import pytest
from broker import Cluster
from kafka import KafkaProducer
from kafka.record import MemoryRecords
from streams import PATIENCE, Stream, command, events, work
from svead_kafka.patches import UnreadableBatch

CODECS = ["gzip", "snappy", "lz4", "zstd"]
PACKAGES = {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}


def send_compressed(stream: Stream, codec: str, values: list[bytes]) -> None:
    """Half of the values by kafka-python, half by librdkafka, each in one batch of a partition."""
    middle = len(values) // 2
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap, compression_type=codec, linger_ms=1000)
    for value in values[:middle]:
        producer.send(stream.input, value=value, partition=0)
    producer.flush()
    producer.close()
    other = confluent_kafka.Producer(
        {"bootstrap.servers": stream.bootstrap, "compression.type": codec, "linger.ms": 1000}
    )
    for value in values[middle:]:
        other.produce(stream.input, value, partition=1)
    assert other.flush(PATIENCE) == 0


def codecs_of(cluster: Cluster, topic: str) -> set[int]:
    """Numbers of the codecs of what is stored of a topic, apart from the marks that end transactions."""
    files = (cluster.nodes[0].folder / "data").glob(f"{topic}-[0-9]*/*.log")
    batches = [batch for file in files for batch in MemoryRecords(file.read_bytes())]
    return {batch.compression_type for batch in batches if not batch.is_control_batch}


def read_by_librdkafka(bootstrap: str, topic: str, count: int) -> list[Any]:
    """Values as another client sees them, read_committed."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"witness-{topic}", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < count:
        messages = consumer.consume(count, timeout=PATIENCE)
        assert messages, f"{len(found)} of {count} messages read"
        assert not any(message.error() for message in messages)
        found += [message.value() for message in messages]
    consumer.close()
    return found


def test_batches_of_every_codec_by_two_clients_are_scored(stream: Stream, cluster: Cluster) -> None:
    values = events(400)
    for i, codec in enumerate(CODECS):
        send_compressed(stream, codec, values[100 * i : 100 * (i + 1)])
    assert codecs_of(cluster, stream.input) == {1, 2, 3, 4}
    options = stream.options()
    work(stream, options, 400)
    found = stream.scored(options)
    ids = {one["event"]["id"] for one in found.values()}
    assert ids == {f"e{i}" for i in range(400)}


@pytest.mark.parametrize("codec", CODECS)
def test_the_output_is_compressed_as_the_client_settings_say(stream: Stream, cluster: Cluster, codec: str) -> None:
    stream.send(events(200))
    options = stream.options(client={"compression_type": codec})
    work(stream, options, 200)
    number = CODECS.index(codec) + 1
    for topic in (options.output, options.state):
        assert codecs_of(cluster, topic) == {number}
    assert len(set(read_by_librdkafka(stream.bootstrap, options.output, 200))) == 200


@pytest.mark.parametrize("codec", sorted(PACKAGES))
def test_a_codec_that_is_not_installed_is_named_with_its_package_and_the_place(
    stream: Stream, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_compressed(stream, codec, events(20))
    monkeypatch.setattr(kafka.codec, f"has_{codec}", lambda: False)
    places = "|".join(f"{stream.input}/{partition} offsets 0 to 9" for partition in (0, 1))
    with pytest.raises(UnreadableBatch, match=f"({places}) are compressed .* {codec} .* install {PACKAGES[codec]}"):
        stream.read(stream.input)


def test_a_codec_that_is_not_installed_ends_the_worker_with_one_line(stream: Stream) -> None:
    stream.send(events(4))  # one for each partition
    send_compressed(stream, "zstd", events(20))
    without = "import runpy, sys; sys.modules['zstandard'] = None; runpy.run_module('svead_kafka', run_name='__main__')"
    words = [sys.executable, "-c", without, *command(stream.options())[3:]]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1, done.stderr
    assert re.search(r"-in/[01] offsets 1 to 10 are compressed .* install zstandard", done.stderr.splitlines()[-1])
    assert "trying again" not in done.stderr
    assert "Traceback" not in done.stderr
