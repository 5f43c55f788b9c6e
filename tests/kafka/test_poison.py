"""Messages that the client cannot read as they are: dead letters where they can be had, else a line that names them."""

from __future__ import annotations

import pytest
from broker import Cluster
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import calc_crc32c
from streams import Stream, events, work
from svead_kafka import ConfigurationError, GaveUp, Worker

# A name, in bytes that are not UTF-8: Latin-1, a surrogate, the beginning of a character.
NAMES = [b"gr\xf6\xdfe", b"\xed\xa0\x80", b"a\xe2\x82"]
BACKSLASHED = ["gr\\xf6\\xdfe", "\\xed\\xa0\\x80", "a\\xe2\\x82"]


class AnyName(str):
    """A header name that is sent as the bytes it was made of."""

    raw: bytes

    def encode(self, *_: str) -> bytes:
        return self.raw


def named(raw: bytes) -> AnyName:
    name = AnyName(raw.decode("latin-1"))
    name.raw = raw
    return name


def poison(stream: Stream, name: bytes, compression: str | None) -> None:
    """Twenty events in one batch, the tenth of them with a bad name among its headers."""
    producer = KafkaProducer(bootstrap_servers=stream.bootstrap, compression_type=compression, linger_ms=1000)
    for i, value in enumerate(events(20)):
        headers = [("fine", b"1"), (named(name), b"\xff\x00"), ("empty", b"")] if i == 9 else [("fine", b"1")]
        producer.send(
            stream.input, value=value, key=b"\xfe", headers=headers, partition=0, timestamp_ms=1_700_000_000_000
        )
    producer.close()


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_header_name_that_is_no_text_makes_a_dead_letter_and_its_neighbours_are_scored(
    stream: Stream, compression: str | None
) -> None:
    for name in NAMES:
        poison(stream, name, compression)
    options = stream.options()
    work(stream, options, 60)
    bad = [9, 29, 49]
    assert [offset for _, _, offset in stream.scored(options)] == [i for i in range(60) if i not in bad]
    letters = stream.read(options.dead_letters or "")
    assert [letter.value for letter in letters] == [events(20)[9]] * 3
    for letter, name, offset in zip(letters, BACKSLASHED, bad, strict=True):
        headers = dict(letter.headers)
        assert letter.key == b"\xfe"
        assert letter.headers[:3] == [("fine", b"1"), (name, b"\xff\x00"), ("empty", b"")]
        assert headers["svead-reason"] == b"the name of a header is not UTF-8"
        assert headers["svead-offset"] == str(offset).encode()


def damage(cluster: Cluster, place: TopicPartition, offset: int, where: int, mend_checksum: bool) -> None:
    """Change a byte of a stored batch: the broker hands it out as it is on disk."""
    folder = cluster.nodes[0].folder / "data" / f"{place.topic}-{place.partition}"
    with next(folder.glob("*.log")).open("r+b") as file:
        data, start = bytearray(file.read()), 0
        while (batch := DefaultRecordBatch(data[start:])).base_offset < offset:
            start += batch.size_in_bytes
        data[start + DefaultRecordBatch.HEADER_STRUCT.size + where] ^= 0x55
        if mend_checksum:
            covered = data[start + DefaultRecordBatch.ATTRIBUTES_OFFSET : start + batch.size_in_bytes]
            at = start + DefaultRecordBatch.CRC_OFFSET
            data[at : at + 4] = calc_crc32c(covered).to_bytes(4, "big")
        file.seek(0)
        file.write(data)


@pytest.mark.parametrize(
    ("mend_checksum", "kind", "words"),
    [(False, GaveUp, "failed crc check"), (True, ConfigurationError, "Invalid record size")],
)
def test_a_damaged_batch_ends_the_worker_with_its_place_and_can_be_left_behind(
    stream: Stream, cluster: Cluster, mend_checksum: bool, kind: type[Exception], words: str
) -> None:
    place = TopicPartition(stream.input, 0)
    for batch in range(3):
        producer = KafkaProducer(bootstrap_servers=stream.bootstrap, linger_ms=1000)
        for value in events(10, seed=batch):
            producer.send(place.topic, value=value, partition=0)
        producer.close()
    damage(cluster, place, 10, where=0, mend_checksum=mend_checksum)
    options = stream.options(max_retries=1)
    with pytest.raises(kind, match=words) as caught:
        Worker(options).run()
    assert f"{stream.input}/0 offsets 10 to 19 cannot be read" in str(caught.value)
    assert "delete the records of this partition before 20" in str(caught.value)
    assert [offset for _, _, offset in stream.scored(options)] == list(range(10))
    admin = KafkaAdminClient(bootstrap_servers=stream.bootstrap)
    admin.delete_records({place: 20})
    admin.close()
    work(stream, options, 30)
    assert [offset for _, _, offset in stream.scored(options)] == [*range(10), *range(20, 30)]
