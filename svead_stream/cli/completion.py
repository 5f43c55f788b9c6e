"""What a shell completes after options for columns: their names, from the files that are on the command line.

The Tab key wants its answer at once, so nothing heavy is imported but for Parquet, and a header is all that is read.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

_START = 1 << 20  # bytes that a header, or the first object of JSON lines, fits in
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}


def complete_columns(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Names that begin like what is typed; of several with commas between, the last is completed.

    Parameters
    ----------
    ctx
        Of the command, with the files that were given before.
    param
        The option.
    incomplete
        What is typed so far.
    """
    before, comma, typed = incomplete.rpartition(",") if param.multiple else ("", "", incomplete)
    given = set(before.split(","))
    found: list[str] = []
    with contextlib.suppress(Exception):  # a message would end up in the middle of what is being typed
        found = list(dict.fromkeys(_names(ctx)))
    return [before + comma + name for name in found if name.startswith(typed) and name not in given]


def _names(ctx: click.Context) -> Iterator[str]:
    for path in map(Path, ctx.args):  # an option without its value ends parsing: what stands before it is left there
        if path.is_file():  # reading a pipe would take from it
            yield from _names_in(path, ctx.params)


def _names_in(path: Path, options: dict[str, Any]) -> list[str]:
    with _opened(path) as file:
        data = file.read(_START)
    if data.startswith(b"PAR1"):
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(path).names)
    text = _decoded(data).lstrip()
    if text.startswith(("{", "[")):
        return _keys(json.JSONDecoder().raw_decode(text.removeprefix("[").lstrip())[0])
    lines = io.StringIO(text, newline=None)
    delimiter = options.get("delimiter") or max(",;\t|", key=lines.readline().count)
    lines.seek(0)
    cells = [cell.strip() for cell in next(csv.reader(lines, delimiter=delimiter))]
    if options.get("header") is False:
        return [f"column{i}" for i in range(1, len(cells) + 1)]
    is_text = all(cell.isprintable() for cell in cells)  # unlike a file that is compressed in another way
    return [cell for cell in cells if cell] if is_text else []


def _opened(path: Path) -> IO[bytes]:
    packed = _PACKED.get(path.suffix.lower())
    if packed is None:
        return path.open("rb")
    import importlib

    opened: IO[bytes] = importlib.import_module(packed).open(path)
    return opened


def _decoded(data: bytes) -> str:
    """The text, of which the last character may be cut in two."""
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _keys(row: dict[str, Any], prefix: str = "") -> list[str]:
    """Names of the fields, of nested ones like `outer.inner`."""
    names = []
    for key, value in row.items():
        names += _keys(value, f"{prefix}{key}.") if isinstance(value, dict) else [prefix + key]
    return names
