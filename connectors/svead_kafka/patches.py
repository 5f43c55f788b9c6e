"""Where the client library does something else than a worker needs, mended in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.coordinator.base import BaseCoordinator
from kafka.errors import CorruptRecordError, FencedInstanceIdError, KafkaError, UnsupportedCodecError
from kafka.net import transport
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

PACKAGES = {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}  # that the client needs for a codec


class UnreadableBatch(KafkaError):  # type: ignore[misc]
    """Messages that the client cannot read, and could not the next time, either."""


class RawName(str):
    """The name of a header whose bytes are not UTF-8, with backslashes in place of those that are no text."""

    __slots__ = ()


class _Tolerant(bytearray):
    """Bytes of a record in which names of headers are text, whatever they are."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Tolerant(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return super().decode(encoding, errors)
        except UnicodeDecodeError:
            return RawName(super().decode(encoding, "backslashreplace"))


def _hear_last_words(kind: Any) -> None:
    """Let a connection read what the broker says just before it hangs up.

    The client throws away what it has received together with the end of the connection. A broker that refuses a
    password says so and hangs up at once, so on a busy machine the worker would never learn why.
    """
    receive = kind._sock_recv

    def receive_all(self: Any) -> tuple[bytes, Any]:
        data, error = receive(self)
        return data, None if data else error  # the error comes again with the next call

    kind._sock_recv = receive_all


def _read_any_name(kind: Any) -> None:
    """Let a batch be read in which a header has a name that is not UTF-8.

    Brokers and other clients take any bytes there. The client gives up the whole batch, so that one such record would
    stop its partition for ever.
    """
    read = kind._read_msg

    def read_anything(self: Any) -> Any:
        try:
            return read(self)
        except UnicodeDecodeError:
            self._buffer = _Tolerant(self._buffer)  # slower, so only for batches that need it
            return read(self)  # from the start of the record, since a failure does not move on

    kind._read_msg = read_anything


def _tell_the_place(kind: Any) -> None:
    """Let the error that a batch cannot be read say where it is, in words of topic, partition and offsets.

    The client's own errors do not all say so, and some are no Kafka errors but those of a codec. It also keeps the
    rest of what it had fetched, which yields nothing and would be asked again and again.
    """
    unpack, take = kind._unpack_records, kind.take

    def unpack_and_keep(self: Any, place: Any, records: Any, *more: Any) -> Any:
        self.fetched = records
        return unpack(self, place, records, *more)

    def take_or_tell(self: Any, count: int | None = None) -> Any:
        try:
            return take(self, count)
        except Exception as error:
            self.drain()
            raise _unreadable(self, error) from None

    kind._unpack_records, kind.take = unpack_and_keep, take_or_tell


def _unreadable(part: Any, error: Exception) -> KafkaError:
    topic, partition = part.topic_partition
    first = part.next_fetch_offset
    last = next((end for end in _ends(part.fetched) if end >= first), first)
    place = f"{topic}/{partition} offsets {first} to {last}"
    if isinstance(error, UnsupportedCodecError):
        codec = next((name for name in PACKAGES if name in str(error)), None)
        remedy = f": install {PACKAGES[codec]}" if codec else ""
        return UnreadableBatch(f"{place} are compressed in a way that cannot be read here ({error}){remedy}")
    how = f"cannot be read ({error}); to go on behind them, delete the records of this partition before {last + 1}"
    # What fails its checksum may be intact on another broker, or come intact the next time.
    kind = CorruptRecordError if "crc" in str(error) else UnreadableBatch
    return kind(f"{place} {how}")


def _ends(records: Any) -> list[int]:
    """The last offset of each batch of what was fetched."""
    return [batch.last_offset for batch in MemoryRecords(records._buffer) if batch.magic == 2]


def _remember_fencing(kind: Any) -> None:
    """Let a member of a group know that another one has its name; the client only says so in its log."""
    beat = kind._send_heartbeat_request

    async def beat_and_remember(self: Any) -> Any:
        try:
            return await beat(self)
        except FencedInstanceIdError as error:
            self.fenced = error
            raise

    kind._send_heartbeat_request = beat_and_remember


def _tell_of_fencing(kind: Any) -> None:
    """Let a poll raise what a heartbeat has found: else a worker without events would go on as if it were a member."""
    poll = kind.poll

    def poll_or_tell(self: Any, *positional: Any, **named: Any) -> Any:
        fenced = getattr(self._coordinator, "fenced", None)
        if fenced is not None:
            raise fenced
        return poll(self, *positional, **named)

    kind.poll = poll_or_tell


_PATCHES: list[tuple[Callable[[Any], None], Any, str]] = [
    (_hear_last_words, transport.KafkaTCPTransport, "_sock_recv"),
    (_hear_last_words, transport.KafkaSSLTransport, "_sock_recv"),
    (_read_any_name, DefaultRecordBatch, "_read_msg"),
    (_remember_fencing, BaseCoordinator, "_send_heartbeat_request"),
    (_tell_of_fencing, KafkaConsumer, "poll"),
    (_tell_the_place, Fetcher.PartitionRecords, "_unpack_records"),
]
for _patch, _kind, _method in _PATCHES:
    if _method in vars(_kind):  # else it is another client than the one that needs it
        _patch(_kind)
