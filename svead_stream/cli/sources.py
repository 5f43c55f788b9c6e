"""Where rows come from: a file, a pipe or a growing file, plain or compressed, as blocks of whole lines."""

from __future__ import annotations

import codecs
import io
import lzma
import os
import select
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

import click
import pyarrow as pa

from svead_stream.cli import encodings, kinds
from svead_stream.cli.archives import open_table
from svead_stream.cli.encodings import Decoder
from svead_stream.cli.errors import DataError

BLOCK = 1 << 20  # bytes: some ten thousand rows, so that a call of the kernel is worth its while
FIRST_ROWS = 100  # what columns are is decided on at least so many, also where a pipe brings one at a time
_LONGEST_ROW = 1 << 26
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",  # an empty one
}
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4", ".xz", ".zip"}
_TO_STDOUT = ("--output", "--incidents")  # what - stands for there; elsewhere it would be the name of a file
FORMATS = {  # by the ends of names, also of what is written
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
}


class Block(NamedTuple):
    """Whole lines, and the number of the first of them in its file."""

    data: bytes
    first_line: int


class Source:
    """One input: its bytes, decompressed and in UTF-8, and how far they have been read.

    Parameters
    ----------
    path
        Of the file; - is stdin.
    encoding
        Of its text; found out if None.
    say
        Called with what was found out and may be wrong.

    """

    def __init__(self, path: str, encoding: str | None = None, say: Callable[[str], None] | None = None) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else path
        self._say = say or (lambda text: click.echo(text, err=True))
        self._said: set[str] = set()
        self.encoding = encoding or "utf-8"
        self._asked = encoding
        self.n_read = 0  # bytes of the file itself, compressed or not: for the progress bar
        self.size: int | None = None
        self.delimiter = ","  # of a CSV, as soon as its header is read
        if path == "-":
            self._raw: IO[bytes] = sys.stdin.buffer
        else:
            self._raw = Path(path).open("rb")  # noqa: SIM115 - closed by close()
            self.size = os.fstat(self._raw.fileno()).st_size or None
        self.can_seek = path != "-" and self._raw.seekable()  # a name may be that of a pipe
        self._ahead = b""
        self._ahead = self._read_raw(BLOCK)
        self._inner = path  # the name that tells the format
        self._peeked = b""
        self._closed = ExitStack()
        if path != "-":
            self._closed.callback(self._raw.close)
        with self._closed.pop_all() as closed:  # unless all goes well
            self._read = self._decompressed(closed)
            self._closed = closed.pop_all()
        self._decode: Decoder | None = None  # of what comes after

    def _decompressed(self, closed: ExitStack) -> Callable[[int], bytes]:
        compression = next((name for magic, name in _MAGIC.items() if self._ahead.startswith(magic)), None)
        self.is_compressed = compression is not None
        if compression is None:
            return self._read_raw
        if compression == "xz":
            return lzma.open(io.BufferedReader(Readable(self._read_raw))).read
        if compression == "zip":
            table = open_table(self.name, self.path if self.can_seek else None, self._read_raw)
            closed.callback(table.close)
            self._inner = table.name
            return table.read
        return pa.CompressedInputStream(pa.PythonFile(Readable(self._read_raw), "r"), compression).read  # type: ignore[no-any-return]

    def _read_raw(self, n: int) -> bytes:
        """Whatever is there, up to n bytes, without waiting for all n: pipes are read as they fill."""
        if self._ahead:
            data, self._ahead = self._ahead[:n], self._ahead[n:]
            return data
        data = bytes(self._raw.read1(n))  # type: ignore[attr-defined]
        while data and len(data) < n and self._has_more():  # a pipe gives 64 KB at a time: two rows of a wide table
            more = self._raw.read1(n - len(data))  # type: ignore[attr-defined]
            if not more:
                break
            data += more
        self.n_read += len(data)
        return data

    def _has_more(self) -> bool:
        """Whether a pipe holds more by now."""
        try:
            return not self.can_seek and bool(select.select([self._raw], [], [], 0.0)[0])
        except (OSError, ValueError):  # no pipe: a file on some systems, or bytes in memory
            return False

    def read(self, n: int = BLOCK) -> bytes:
        """The next bytes, at most about n; none at the end."""
        if self._peeked:
            data, self._peeked = self._peeked[:n], self._peeked[n:]
            return data
        try:
            while data := self._read(n):
                data = self._decoded(data)
                if data:
                    return data
        except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise DataError(f"{self.name}: cannot decompress after {self.n_read:,} bytes: {error}") from error
        return b""

    def peek(self, n_lines: int = 1, end: Callable[[], bool] | None = None) -> bytes:
        """The first text, without consuming it.

        Parameters
        ----------
        n_lines
            How many lines at least, if there are so many and they are no longer than a block; one at any length.
        end
            For a growing file: see `blocks`.

        """
        self._fill(n_lines, end)
        if self._peeked and self._decode is None:  # as long as all is UTF-8, more may tell better
            self._settle_encoding()
        return self._peeked

    def start(self) -> bytes:
        """The first bytes, decompressed and not decoded, without consuming them."""
        self._fill(1)
        return self._peeked

    def _fill(self, n_lines: int, end: Callable[[], bool] | None = None) -> None:
        while not self._has_lines(n_lines):
            ahead, self._peeked = self._peeked, b""
            more = self.read()
            self._peeked = ahead + more
            if not more and (end is None or end()):
                break

    def _has_lines(self, n: int) -> bool:
        ahead = self._peeked
        n_found = ahead.count(b"\n") or ahead[:-1].count(b"\r")
        is_json = ahead[:BLOCK].lstrip().startswith((b"[", b"{"))  # which needs no lines
        return n_found >= n or len(ahead) >= (BLOCK if n_found or is_json else _LONGEST_ROW)

    def _settle_encoding(self) -> None:
        if self._asked is not None:
            self.encoding = encodings.byte_order(self._asked, self._peeked)
        else:
            self.encoding = encodings.find(self._peeked)
            if self.encoding == encodings.LATIN:
                self.say(f"{self.name} is not UTF-8: read as Windows-1252; --encoding NAME if it is another")
        if self.encoding != "utf-8":
            self._decode = Decoder(self.encoding)
        start = self._decoded(self._peeked).removeprefix(codecs.BOM_UTF8)
        if encodings.has_only_cr(start):
            self._decode = self._decode or Decoder("utf-8")
            self._decode.only_cr = True
            start = start.replace(b"\r", b"\n")
        self._peeked = start

    def _decoded(self, data: bytes) -> bytes:
        try:
            return data if self._decode is None else self._decode(data)
        except UnicodeError as error:  # some encodings do not go on after what they cannot read
            raise DataError(f"{self.name} is not {self.encoding}: {error}; --encoding NAME if it is another") from error

    def say(self, text: str) -> None:
        """Tell the user, once, what was found out and may be wrong."""
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def close(self) -> None:
        """Close the file; a pipe is left alone."""
        self._closed.close()

    def format(self, asked: str | None) -> str:
        """csv, jsonl, parquet or arrow: as asked, or by what the first bytes look like, or by the name."""
        if asked is not None:
            return asked
        format = kinds.recognise(self.name, self.start())
        if format is not None:
            return format
        suffixes = [s.lower() for s in Path(self._inner).suffixes]
        if suffixes and suffixes[-1] in _COMPRESSED:
            suffixes.pop()
        named = FORMATS.get(suffixes[-1]) if suffixes else None
        if named in ("parquet", "arrow"):
            return named
        start = self.peek()
        if kinds.is_json(start):
            return "jsonl"
        return named or ("jsonl" if start.lstrip().startswith(b"{") else "csv")

    def pieces(self, end: Callable[[], bool] | None = None, first_rows: int = 0) -> Iterator[bytes]:
        """All bytes as they come; `end` and `first_rows` as for `blocks`."""
        more = self.peek(1 + first_rows, end)  # a header is no row
        self._peeked = b""
        while more:
            yield more
            more = self.read()
            while not more and end is not None and not end():
                more = self.read()

    def blocks(
        self,
        quoted: bool,
        end: Callable[[], bool] | None = None,
        first_rows: int = 0,
        clean: Callable[[bytes], bytes] | None = None,
    ) -> Iterator[Block]:
        """Blocks that end where a line ends.

        Parameters
        ----------
        quoted
            Whether a line can hold line ends between double quotes, as in CSV.
        end
            For a growing file: called when there is nothing more to read for now, tells whether to stop.
        first_rows
            How many the first block holds at least, if there are so many.
        clean
            Called with whole lines, to put others in their place.

        """
        rest, tail, line = b"", b"", 1
        for more in chain(self.pieces(end, first_rows), [b""]):
            is_over = not more
            if clean is not None:
                lines = tail + more
                whole = len(lines) if is_over else lines.rfind(b"\n") + 1
                more, tail = clean(lines[:whole]), lines[whole:]
            data = rest + more
            cut = len(data) if is_over else _last_line_end(data, quoted)
            if cut:
                yield Block(data[:cut], line)
                line += data.count(b"\n", 0, cut)
            rest = data[cut:]
            if len(rest) + len(tail) > _LONGEST_ROW:
                raise DataError(f"{self.name}: line {line} is longer than {_LONGEST_ROW >> 20} MB: not a table")


def _last_line_end(data: bytes, quoted: bool) -> int:
    cut = last = data.rfind(b"\n") + 1
    # A line end inside an open quote is part of a value. Counting backwards from the end keeps this linear.
    n_quotes = data.count(b'"', 0, cut) if quoted else 0
    while n_quotes % 2 and cut:
        earlier = data.rfind(b"\n", 0, cut - 1) + 1
        n_quotes -= data.count(b'"', earlier, cut)
        cut = earlier
    # No line end outside quotes in a megabyte: a stray quote, rather than one value of that size.
    return cut or (last if len(data) > BLOCK else 0)


class Readable(io.RawIOBase):
    """What the decompressors want: a file object around a function that reads."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._read(size if size >= 0 else BLOCK)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class GrowingSource(Source):
    """A file that is still being written; starts again when it is replaced or cut short, as log rotation does."""

    def __init__(
        self, path: str, encoding: str | None = None, say: Callable[[str], None] | None = None, poll: float = 0.2
    ) -> None:
        super().__init__(path, encoding, say)
        self._poll = poll

    def was_rotated(self) -> bool:
        """Whether the name now stands for another file, or for one shorter than what was read."""
        try:
            now = Path(self.path).stat()
        except FileNotFoundError:
            return False  # between the old file and the new one
        mine = os.fstat(self._raw.fileno())
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino) or now.st_size < self._raw.tell()

    def wait(self) -> bool:
        """Wait for more; tell whether there will be none because the file was rotated."""
        if self.was_rotated():
            return True
        time.sleep(self._poll)
        return False


def check_paths(inputs: tuple[str, ...], outputs: Mapping[str, str | None]) -> None:
    """Refuse to write over an input, twice to the same file, or where nothing can be written.

    An input would be destroyed before it was read, and better now than after an hour of scoring.

    Parameters
    ----------
    inputs
        Files that are read.
    outputs
        Files that are written, by the option that names them; - is stdout.

    """
    named: dict[str, str] = {}
    for option, output in outputs.items():
        if output is None:
            continue
        place = output if output == "-" else os.path.realpath(output)
        if place in named and place != os.devnull:
            raise click.UsageError(f"{named[place]} and {option} both write to {output}: give them names of their own")
        named[place] = option
        if output == "-":
            if option not in _TO_STDOUT:
                raise click.UsageError(f"{option} cannot go to stdout: give the name of a file")
            continue
        folder = Path(output).absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise click.UsageError(f"cannot write {output}: {folder} is not a folder one can write to")
        if not Path(output).exists():
            continue
        for path in inputs:
            if path != "-" and Path(path).exists() and Path(output).samefile(path):
                raise click.UsageError(f"{output} is an input as well: give another name to write to")
