"""What a file is, by its first bytes: names are often wrong, and pipes have none."""

from __future__ import annotations

import re

from svead_stream.cli.errors import DataError

START = 4096  # bytes to look at
_AS_CSV = "save it as CSV and give that"
_UNPACK = "unpack it and give the table inside"

_TABLES = {
    "parquet": re.compile(rb"PAR1"),
    "arrow": re.compile(rb"ARROW1|\xff\xff\xff\xff..[\x00-\x3f]\x00", re.DOTALL),  # a file, or a stream of batches
}
_JSON = re.compile(rb'\s*(\{\s*["}]|\[\s*[\[{\]])')

# What is no table, and what to do about it.
_OTHERS = {
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an old Excel or Office file", _AS_CSV),
    rb"FEA1": ("Feather of version 1", "write it again with a newer library, or as Parquet"),
    rb"ORC[\x00-\x1f\x80-\xff]": ("an ORC file", "convert it to Parquet"),
    rb"Obj\x01": ("an Avro file", "convert it to Parquet or JSON lines"),
    rb"SQLite format 3\x00": ("an SQLite database", "export a table as CSV: sqlite3 -header -csv FILE 'SELECT ...'"),
    rb"\x89HDF\r\n\x1a\n": ("an HDF5 file", "export a table as CSV or Parquet"),
    rb"MATLAB 5\.0 MAT-file": ("a MATLAB file", "export a table as CSV"),
    rb"\x93NUMPY": ("a NumPy array", "write it as CSV: numpy.savetxt('x.csv', x, delimiter=',')"),
    rb"\x80[\x02-\x05][\x00-\x1f\x80-\xff}\])c]": ("a Python pickle", "write the table in it as CSV or Parquet"),
    rb"SVEADSNP": ("a saved model", "--load takes it"),
    rb"%PDF-": ("a PDF", "find the table it was made of"),
    rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|II\*\x00|MM\x00\*|RIFF....WEBP|BM.{8}\x36\x00\x00\x00": ("an image", ""),
    rb"\x7fELF|MZ\x90": ("a program", ""),
    rb"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", _UNPACK),
    rb"Rar!\x1a\x07": ("a RAR archive", _UNPACK),
    rb".{257}ustar": ("a tar archive", _UNPACK),
    rb"(?i)\s*(<!doctype html|<html)": ("a web page", "perhaps a login or an error instead of the download"),
    rb"\s*<\?xml": ("XML", _AS_CSV),
}
_NO_TABLES = {re.compile(magic, re.DOTALL): told for magic, told in _OTHERS.items()}
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})
_HALF = 0.5


def recognise(name: str, start: bytes) -> str | None:
    """The format, if the first bytes tell; an error if they are no table; else None.

    Parameters
    ----------
    name
        Of the source.
    start
        Its first bytes, decompressed.

    """
    for format, magic in _TABLES.items():
        if magic.match(start):
            return format
    for magic, (what, remedy) in _NO_TABLES.items():
        if magic.match(start):
            raise no_table(name, what, remedy)
    if looks_binary(start):
        raise no_table(name, "not text", "")
    return None


def is_json(text: bytes) -> bool:
    """Whether text begins like JSON, and unlike any header of a CSV."""
    return _JSON.match(text) is not None


def no_table(name: str, what: str, remedy: str) -> DataError:
    """The error for something that holds no rows that could be read."""
    return DataError(f"{name} is {what}, not a table that can be read" + (f": {remedy}" if remedy else ""))


def looks_binary(start: bytes) -> bool:
    """Whether bytes are not text in any encoding: control characters, but for the NULs of UTF-16 and UTF-32."""
    start = start.removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")[:START]
    if b"\n" in start:
        start = start.rstrip(b"\x00")  # room at the end of a log that was never written
    if nul_share(start, 0) > _HALF or nul_share(start, 1) > _HALF:
        start = start.replace(b"\x00", b"")
    n_controls = len(start) - len(start.translate(None, _CONTROLS))
    return n_controls > len(start) / 10


def nul_share(start: bytes, parity: int) -> float:
    """The share of NULs among every other byte."""
    half = start[parity:START:2]
    return half.count(0) / len(half) if half else 0.0
