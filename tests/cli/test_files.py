"""Files as they come: what each kind is read as, also through a pipe, or the one line that says why not."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import pickle
import re
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svead_stream.cli import dialects
from svead_stream.cli.sources import GrowingSource
from svead_stream.cli.tables import CsvOptions, read

SMALL = ("--n-partitions", "2", "--n-anchors", "2", "--output-format", "jsonl")
ROWS = [(0.5, 3), (1.5, 1), (2.5, 4), (-1.0, 1), (2.25, 5), (0.0, 9), (1.25, 2)]
AB = [{"a": a, "b": b} for a, b in ROWS]
CSV = "a,b\n" + "".join(f"{a},{b}\n" for a, b in ROWS)


@dataclass
class File:
    """A kind of file, and what becomes of it."""

    data: str | bytes
    reads: list[dict[str, Any]] | None = field(default_factory=lambda: AB)  # the rows, those columns that matter
    options: tuple[str, ...] = ()
    name: str = "table"
    says: str = ""  # in a line on stderr
    rejects: tuple[int, ...] = ()  # lines that are set aside

    @property
    def bytes(self) -> bytes:
        return self.data.encode() if isinstance(self.data, str) else self.data


def refused(data: str | bytes, says: str, *options: str, name: str = "table") -> File:
    return File(data, None, options, name, says)


def columns(**cells: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def with_column(texts: list[str], delimiter: str = ",") -> str:
    """A CSV with a column x of these cells beside an ordinary one."""
    return f"x{delimiter}b\n" + "".join(f"{text}{delimiter}{i % 3}\n" for i, text in enumerate(texts))


def x(*values: Any) -> list[dict[str, Any]]:
    return columns(x=list(values), b=[i % 3 for i in range(len(values))])


TABLE = pa.table({"a": [a for a, _ in ROWS], "b": [b for _, b in ROWS]})


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def arrow(table: pa.Table, new: Callable[..., Any] = pa.ipc.new_file) -> bytes:
    sink = io.BytesIO()
    with new(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def compressed(codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as out:
        out.write(CSV.encode())
    return bytes(sink.getvalue())


def zipped(**members: str) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_dot_", ".").replace("_in_", "/"), text)
    return sink.getvalue()


def tarred() -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        member = tarfile.TarInfo("table.csv")
        member.size = len(CSV)
        archive.addfile(member, io.BytesIO(CSV.encode()))
    return sink.getvalue()


def sqlite() -> bytes:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE x (a REAL)")
    return database.serialize()


def npy() -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.zeros(3))
    return sink.getvalue()


LINES = "".join(json.dumps(row) + "\n" for row in AB)
LATIN = ("größe,b,ort\n" + "".join(f"{a},{b},Köln\n" for a, b in ROWS)).encode("cp1252")
LATIN_ROWS = [{"größe": a, "b": b, "ort": "Köln"} for a, b in ROWS]

FILES = {
    # CSV and its dialects
    "a CSV": File(CSV),
    "a TSV": File(CSV.replace(",", "\t"), name="table.tsv"),
    "semicolons between cells": File(CSV.replace(",", ";")),
    "bars between cells": File(CSV.replace(",", "|")),
    "runs of spaces between cells, aligned to the right": File(
        "    a   b\n" + "".join(f"{a:>5}  {b:>2} \n" for a, b in ROWS)
    ),
    "spaces and tabs between cells, as asked for": File(CSV.replace(",", " \t"), options=("--delimiter", "space")),
    "quoted cells apart by spaces": File(
        'a b "my note"\n' + "".join(f'{a}  {b}   "two  words"\n' for a, b in ROWS),
        [r | {"my note": "two  words"} for r in AB],
    ),
    "a separator in the header's quotes": File(CSV.replace("a,b", '"a;;;",b'), [{"a;;;": a, "b": b} for a, b in ROWS]),
    "more commas in the header's units than separators": File(
        CSV.replace(",", ";").replace("a;b", "a (m, s, kg);b"), [{"a (m, s, kg)": a, "b": b} for a, b in ROWS]
    ),
    "lines that end with CR and LF": File(CSV.replace("\n", "\r\n")),
    "lines that end with CR alone": File(CSV.replace("\n", "\r")),
    "the last line without an end": File(CSV.rstrip()),
    "empty lines before, between and after": File("\n\n" + CSV.replace("\n", "\n\n") + "\n\n"),
    "line ends between quotes": File(
        "a,b,note\n" + "".join(f'{a},{b},"one\ntwo, ""three"""\n' for a, b in ROWS),
        [row | {"note": 'one\ntwo, "three"'} for row in AB],
    ),
    "a line end in a name": File('"a\nheat",b\n' + CSV[4:], [{"a\nheat": a, "b": b} for a, b in ROWS]),
    "a separator at the end of every line": File(CSV.replace("\n", ",\n")),
    "a separator at the end of every row and not of the header": File(CSV.replace("\n", ",\n").replace("a,b,", "a,b")),
    "spaces around cells": File(CSV.replace(",", " , ")),
    "a row as long as a block": File(
        CSV.replace("a,b\n", "a,b,c\n").replace("0.5,3\n", f"0.5,3,{'y' * (1 << 20)}\n"),
        AB[:1],
        rejects=(3, 4, 5, 6, 7, 8),
    ),
    "one row": File("a,b\n1,2\n", [{"a": 1, "b": 2}]),
    "rows with too few and too many cells": File(CSV + "1\n1,2,3\n", rejects=(9, 10)),
    "a word among numbers": File("a,b\n" + "1,2\n" * 20 + "1,oops\n", [{"a": 1, "b": 2}] * 20, rejects=(22,)),
    "nothing": refused("", "is empty: there is not even a header"),
    "a header alone": refused("a,b\n", "no rows to score"),
    "names that come twice": refused("a,a\n1,2\n", "two columns are named 'a'"),
    "no header, and the same word twice": refused("M,3,M\nM,4,M\n", "say --no-header if it has none"),
    "rows that begin with numbers of their own, as R writes them": File(
        '"a","b"\n' + "".join(f'"{i}",{a},{b}\n' for i, (a, b) in enumerate(ROWS, 1)),
        [{"column1": i} | row for i, row in enumerate(AB, 1)],
    ),
    "rows that begin with names of their own, apart by spaces": File(
        '"a" "b"\n' + "".join(f'"Nr. {i}" {a} {b}\n' for i, (a, b) in enumerate(ROWS)),
        [{"column1": f"Nr. {i}"} | row for i, row in enumerate(AB)],
    ),
    "decimal commas that make more cells": File(
        "a,b\n" + "1,5,2\n" * 3 + "2,5\n", [{"a": 2, "b": 5}], rejects=(2, 3, 4)
    ),
    "one cell a line, of text": refused("up\n1:2\n3:4\n", "if it is several, --delimiter tells them apart"),
    "words and numbers without a header": File(
        "x1,1.5,3\nx2,2.5,1\nx3,0.5,4\n",
        [{"1.5": 2.5}, {"1.5": 0.5}],
        says="'1.5' looks like a value (--no-header",
    ),
    "text and no numbers": refused("name\nx\ny\n", "no column of numbers to use among name"),
    "a separator of two signs": refused(CSV, "is not a single character of ASCII", "--delimiter", "::"),
    "the separator in a first line for Excel": File("sep=;\n" + CSV.replace(",", ";")),
    # what stands around the table
    "comments before the header": File('# made by "x\n# today\n' + CSV),
    "comments before the header and between rows": File("# by x, y\n" + CSV.replace("\n", "\n# seen, too\n")),
    "comments between rows only": File(CSV.replace("1.5,1", "# a new day\n1.5,1")),
    "comments that begin with another sign, as asked for": File(
        "% by x\n" + CSV.replace("1.5,1", "% noon, or so\n1.5,1"), options=("--comment", "%")
    ),
    "the header in a comment": File("# by x\n# a b\n" + CSV[4:].replace(",", " ")),
    "a name that begins like a comment": File(CSV.replace("a,b", "#a,b"), [{"#a": a, "b": b} for a, b in ROWS]),
    "a preamble before the header": File(
        "Report of the day\nstation: 7\n\n" + CSV, says="the table begins in line 4, after 3 lines of something else"
    ),
    "no header": File(
        CSV[4:], [{"column1": a, "column2": b} for a, b in ROWS], says="has no header, only numbers in its first line"
    ),
    "no header, with dates": File(
        "".join(f"2026-01-0{i + 1},{a},{b}\n" for i, (a, b) in enumerate(ROWS)),
        [{"column2": a, "column3": b} for a, b in ROWS],
        says="has no header",
    ),
    "names that only count": File(CSV.replace("a,b", "0,1"), [{"0": a, "1": b} for a, b in ROWS]),
    "names that are numbers, as asked for": File(
        CSV.replace("a,b", "7,9"), [{"7": a, "9": b} for a, b in ROWS], options=("--header",)
    ),
    # numbers
    "decimal commas": File(CSV.replace(",", ";").replace(".", ","), says="'0,5' in a is read as 0.5"),
    "decimal commas alone in a column": File("a\n0,5\n1,25\n-3,75\n", columns(a=[0.5, 1.25, -3.75])),
    "decimal commas between quotes, as asked for": File(
        with_column(['"1,234"', '"2,5"']), x(1.234, 2.5), ("--decimal", ",")
    ),
    "commas that may be decimal or not": File(
        with_column(["1,234", "2,345"], ";"), x(1.234, 2.345), says="is read as 1.234; --decimal . or , tells"
    ),
    "commas that may be decimal or not, beside words and units": File(
        "x;b;c\n1,234;yes;5kg\n2,345;no;6kg\n",
        columns(x=[1.234, 2.345], b=[1, 0], c=[5, 6]),
        says="--decimal . or , tells",
    ),
    "commas between thousands, as asked for": File(
        with_column(["1,234", "2,345"], ";"), x(1234, 2345), ("--decimal", ".")
    ),
    "commas between thousands beside decimal points": File(
        "x;b\n1,234;0.5\n2,345;1.5\n", columns(x=[1234, 2345], b=[0.5, 1.5])
    ),
    "thousands as in English": File(with_column(['"1,234,567.8"', '"12"']), x(1234567.8, 12), says="read as 1234567.8"),
    "thousands as in German": File(with_column(["1.234,5", "2.345", "7"], ";"), x(1234.5, 2345, 7)),
    "points between thousands beside decimal commas": File(
        "x;b\n1.234;0,5\n2.345;1,5\n", columns(x=[1234, 2345], b=[0.5, 1.5])
    ),
    "points that may be between thousands": File(
        with_column(["950", "1.200", "12.000"], ";"),
        x(950, 1.2, 12),
        says="'1.200' in x is read as a fraction; --decimal ,",
    ),
    "thousands with spaces": File(with_column(["1 234", "12 345,5", "1\u00a0000"], ";"), x(1234, 12345.5, 1000)),
    "addresses that could be thousands": File(
        with_column(["192.168.100.200", "192.168.100.201"]), columns(x=["192.168.100.200", "192.168.100.201"])
    ),
    "units with decimal points beside decimal commas": File(
        "x;b\n1.5 m;0,5\n2.25 m;1,5\n", columns(x=[1.5, 2.25], b=[0.5, 1.5])
    ),
    "a minus of its own": File(with_column(["\u22121.5", "2.5"]), x(-1.5, 2.5)),
    "minus as accounts have it": File(
        "x;b\n1.234,50-;(5)\n7,25;($ 6)\n-1,5;$7\n",
        columns(x=[-1234.5, 7.25, -1.5], b=[-5, -6, 7]),
        says="in x is read as",
    ),
    "units": File(
        "t,w,p,c\n20 °C,3.5kg,12%,$5\n-1.5 °C,4kg,9%,$6.25\n",
        columns(t=[20, -1.5], w=[3.5, 4], p=[12, 9], c=[5, 6.25]),
        says="'20 °C' in t is read as 20",
    ),
    "units that differ are text": File(
        with_column(["5 s", "3 ms", "2 min"]), [{"x": "5 s"}, {"x": "3 ms"}, {"x": "2 min"}]
    ),
    "words for missing values among numbers": File(
        with_column(["1", "-", ".", "--", "missing", "n.a.", "<NA>", "\\N", "#DIV/0!", "#VALUE!", "NA", "", "2"]),
        x(1, *[None] * 11, 2),
    ),
    "words for missing values among text stay as they are": File(
        "x,b\nred,1\n-,2\nNA,3\nmissing,4\n", columns(x=["red", "-", "NA", "missing"], b=[1, 2, 3, 4])
    ),
    "true and false in a CSV": File(with_column(["true", "False", "TRUE"]), x(1, 0, 1)),
    "yes and no in a CSV": File(with_column(["yes", "No", "yes"]), x(1, 0, 1)),
    "true and false in JSON": File('{"x": true, "b": 0}\n{"x": false, "b": 1}\n', x(True, False)),
    "true and false in Parquet": File(parquet(pa.table({"x": [True, False], "b": [0, 1]})), x(True, False)),
    # encodings
    "UTF-8 with a mark": File(codecs.BOM_UTF8 + CSV.encode()),
    "UTF-16 with a mark, low byte first": File(codecs.BOM_UTF16_LE + CSV.encode("utf-16-le")),
    "UTF-16 with a mark, high byte first": File(codecs.BOM_UTF16_BE + CSV.encode("utf-16-be")),
    "UTF-16 without a mark, low byte first": File(CSV.encode("utf-16-le")),
    "UTF-16 without a mark, high byte first": File(CSV.encode("utf-16-be")),
    "UTF-32": File(CSV.encode("utf-32")),
    "JSON lines in UTF-16": File(LINES.encode("utf-16")),
    "Windows-1252, also known as Latin-1": File(LATIN, LATIN_ROWS, says="is not UTF-8: read as Windows-1252"),
    "an encoding that is asked for": File(
        LATIN.decode("cp1252").encode("mac-roman"), LATIN_ROWS, options=("--encoding", "mac-roman")
    ),
    "a bad byte in a row of UTF-8": File(CSV.encode() + b"\xff,1\n", rejects=(9,)),
    "a bad byte in a row of too many cells": File(CSV.encode() + b"\xff,1,2\n", rejects=(9,)),
    "Latin letters that come late": File(
        b"a,b,c\n" + (b"1,2," + b"y" * 200_000 + b"\n") * 8 + b"3,4,\xe9\n" * 3,
        [{"a": 1, "b": 2}] * 8,
        says="has rows that are not UTF-8: --encoding cp1252",
        rejects=(10, 11, 12),
    ),
    "an encoding that there is none of": refused(CSV, "'klingon' is no encoding", "--encoding", "klingon"),
    "NULs in a cell and at the end": File(
        CSV.encode() + CSV[4:].encode() + b"1\x00,2\n" + b"\x00" * 20, AB + AB, rejects=(16, 17)
    ),
    # JSON
    "JSON lines": File(LINES, name="table.jsonl"),
    "JSON lines in a file that is named CSV": File(LINES, name="table.csv"),
    "nested JSON": File(
        '{"a": {"b": 1, "c": {"d": 2}}}\n{"a": {"b": 3}}\n', [{"a": {"b": 1, "c": {"d": 2}}}, {"a": {"b": 3}}]
    ),
    "JSON with missing fields": File(
        '{"a": 1}\n{"b": 2}\n{"a": 3, "b": null}\n', [{"a": 1}, {"b": 2}, {"a": 3, "b": None}]
    ),
    "a bad line of JSON": File(LINES + "{oops\n[1]\n", rejects=(8, 9)),
    "a JSON array": File(json.dumps(AB), name="table.json"),
    "a JSON array over many lines": File(json.dumps(AB, indent=2)),
    "a JSON array with brackets in its text": File(
        json.dumps([row | {"note": '}], "\\ {['} for row in AB], indent=1), [row | {"note": '}], "\\ {['} for row in AB]
    ),
    "a JSON array that is cut off": File(json.dumps(AB)[:-4], AB[:-1], rejects=(1,)),
    "a JSON array of nothing": refused("[]\n", "no rows to score"),
    "JSON objects on one line": File("".join(map(json.dumps, AB))),
    "JSON lines with commas between": File(LINES.replace("}", "},")),
    "a null among JSON lines": File('{"a": 1}\nnull\n{"a": 2}\n', columns(a=[1, 2]), rejects=(2,)),
    "half a pair of surrogates in JSON": File(
        LINES.replace("}", ', "s": "\\ud83d"}'), [row | {"s": "\ud83d"} for row in AB]
    ),
    "nested JSON with a name twice": refused('{"a.b": 1, "a": {"b": 2}}\n', "two columns are named 'a.b'"),
    "JSON objects over several lines": File("\n".join(json.dumps(row, indent=4) for row in AB)),
    "JSON of columns": refused(
        json.dumps({"a": [1, 2], "b": [3, 4]}), "is one JSON object of columns (a, b): write a row"
    ),
    "JSON of columns as pandas writes it": refused(
        json.dumps({"a": {"0": 1, "1": 2}, "b": {"0": 3, "1": 4}}), "is one JSON object of columns (a, b)"
    ),
    "JSON with the rows inside": refused(json.dumps({"status": "ok", "data": AB}), "jq -c '.data[]' takes them out"),
    # Parquet and Arrow
    "Parquet": File(parquet(TABLE), name="table.parquet"),
    "Parquet in a file that is named CSV": File(parquet(TABLE), name="table.csv"),
    "Parquet with nested columns": File(
        parquet(pa.table({"a": [{"b": 1, "c": 2.5}, {"b": 3, "c": 4.5}]})),
        [{"a.b": 1, "a.c": 2.5}, {"a.b": 3, "a.c": 4.5}],
    ),
    "Parquet with decimals": File(
        parquet(pa.table({"a": [Decimal("1.50"), Decimal("2.25")], "b": [1, 2]})), [{"b": 1}, {"b": 2}]
    ),
    "Parquet with text in a dictionary": File(
        parquet(TABLE.append_column("s", pa.array(["x"] * len(ROWS)).dictionary_encode())),
        [row | {"s": "x"} for row in AB],
    ),
    "Feather": File(arrow(TABLE), name="table.feather"),
    "an Arrow stream": File(arrow(TABLE, pa.ipc.new_stream), name="table.arrows"),
    "Arrow with views of text": File(
        arrow(TABLE.append_column("s", pa.array(["x"] * len(ROWS), pa.string_view()))), [row | {"s": "x"} for row in AB]
    ),
    "Parquet with a name twice": refused(
        parquet(pa.table([[1], [2]], ["a", "a"])), "two columns are named 'a': give them names of their own"
    ),
    "Parquet that is cut off": refused(parquet(TABLE)[:-9], "is not Parquet"),
    "Arrow that is cut off": refused(arrow(TABLE)[:200], "is not Arrow"),
    # compressed
    "gzip": File(gzip.compress(CSV.encode())),
    "bzip2": File(bz2.compress(CSV.encode())),
    "xz": File(lzma.compress(CSV.encode())),
    "zstd": File(compressed("zstd")),
    "lz4": File(compressed("lz4")),
    "Parquet in gzip": File(gzip.compress(parquet(TABLE)), name="table.parquet.gz"),
    "a zip archive with a table": File(zipped(__MACOSX_in__x="junk", table_dot_csv=CSV), name="table.zip"),
    "a zip archive with JSON": File(zipped(table_dot_json=LINES)),
    "a zip archive with two tables": refused(zipped(x_dot_csv=CSV, y_dot_csv=CSV), "holds x.csv, y.csv"),
    "a zip archive with nothing in it": refused(zipped(), "holds nothing"),
    "a zip archive that is cut off": refused(zipped(x_dot_csv=CSV)[:-30], "the zip archive cannot be read"),
    "gzip that is cut off": refused(gzip.compress(CSV.encode() * 50)[:-40], "cannot decompress"),
    # no tables
    "an Excel workbook": refused(zipped(xl_in_workbook_dot_xml=""), "is an Excel workbook", name="table.xlsx"),
    "an old Excel workbook": refused(
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "save it as CSV", name="table.xls"
    ),
    "an OpenDocument sheet": refused(
        zipped(mimetype="application/vnd.oasis.opendocument.spreadsheet"), "save the sheet as CSV"
    ),
    "a tar archive": refused(tarred(), "is a tar archive", name="table.tar.gz"),
    "a picture": refused(b"\x89PNG\r\n\x1a\n" + bytes(40), "is an image"),
    "a PDF": refused("%PDF-1.7\n%\u00e2\n", "is a PDF"),
    "an SQLite database": refused(sqlite(), "is an SQLite database"),
    "an HDF5 file": refused(b"\x89HDF\r\n\x1a\n" + bytes(40), "is an HDF5 file"),
    "a pickle": refused(pickle.dumps([1, 2]), "is a Python pickle"),
    "a NumPy array": refused(npy(), "numpy.savetxt"),
    "a web page instead of the download": refused("<!DOCTYPE html><html><body>Log in</body></html>", "is a web page"),
    "a saved model": refused(b"SVEADSNP" + bytes(40), "--load takes it"),
    "any other bytes": refused(bytes(range(256)) * 8, "is not text"),
}


def score(run: Any, *args: Any, **kwargs: Any) -> tuple[int, list[dict[str, Any]], str]:
    result = run("score", *args, *SMALL, **kwargs)
    return result.code, [json.loads(line) for line in result.lines], result.err


@pytest.mark.parametrize("kind", FILES)
def test_files_are_read_as_they_are(run: Any, tmp_path: Path, kind: str) -> None:
    file = FILES[kind]
    path = tmp_path / file.name
    path.write_bytes(file.bytes)
    rejects = tmp_path / "rejects.jsonl"
    for place, stdin in ((path, b""), ("-", file.bytes)):
        code, rows, said = score(run, place, *file.options, "--rejects", rejects, stdin=stdin)
        assert file.says in said
        assert not re.search("Traceback|unexpected|Exception ignored", said), said
        if file.reads is None:
            assert (bool(code), rows) == (True, [])
            assert len([line for line in said.splitlines() if line.startswith("svead-stream: ")]) == 1
            continue
        assert code == 0, said
        wanted = [{name: row.get(name) for name in expected} for row, expected in zip(rows, file.reads, strict=True)]
        assert wanted == file.reads
        assert tuple(sorted(json.loads(line)["line"] for line in rejects.read_text().splitlines())) == file.rejects


def test_rows_of_another_width_than_a_very_wide_header_leave_it_as_it_is() -> None:
    names = [f"column_{i}" for i in range(20_000)]  # more than a cell holds, with any other separator
    dialect = dialects.find("table", f"{','.join(names)}\n{'12345678,' * 20_001}\n".encode(), CsvOptions())
    assert (dialect.names, dialect.delimiter, dialect.skip) == (names, ",", 1)


PIECES = (
    *(
        b"1",
        b"2.5",
        b",",
        b",",
        b"\n",
        b"\n",
        b"\r",
        b'"',
        b"\x00",
        b"\xff",
        b"\xe9",
        b"\xc2\xb0",
        b"x",
        b"#",
        b" ",
        b";",
        b"NA",
    ),
    *(b"{", b"}", b"[", b"]", b'"a":', b"true", b"1.234,5", b"9" * 400, b"\xff\xfe", b"sep=;\n", b"\\", b"2026-01-01"),
)
STARTS = (
    *(b"", b"a,b\n1,2\n", b"a;b\n1,5;2\n", b"a b\n1 2\n", b"# c\na,b\n1,2\n", b'{"a": 1}\n', b'[{"a": 1},'),
    *(b"PAR1", b"ARROW1", b"PK\x03\x04", b"\xff\xff\xff\xff\x10\x00\x00\x00", b"\x1f\x8b", b"\xff\xfea\x00\n\x001\x00"),
)


@given(start=st.sampled_from(STARTS), rest=st.lists(st.sampled_from(PIECES), max_size=30), end=st.integers(0, 3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)
def test_whatever_comes_is_rows_or_rejects_or_one_line(run: Any, start: bytes, rest: list[bytes], end: int) -> None:
    result = run("score", "-", *SMALL, stdin=start + b"".join(rest) + b"\n5,6" * end)
    assert result.code in (0, 1)
    assert not re.search(r"Traceback|unexpected \w+:|Exception ignored", result.err)
    assert sum(line.startswith("svead-stream: ") for line in result.err.splitlines()) == result.code


@pytest.mark.parametrize(
    "kind",
    [
        "UTF-16 with a mark, low byte first",
        "Windows-1252, also known as Latin-1",
        "lines that end with CR alone",
        "runs of spaces between cells, aligned to the right",
        "comments before the header and between rows",
        "decimal commas",
        "a JSON array over many lines",
    ],
)
def test_a_growing_file_is_read_in_the_same_way(tmp_path: Path, kind: str) -> None:
    file = FILES[kind]
    path = tmp_path / "growing"
    written = 8  # so that it can be told what it is
    path.write_bytes(file.bytes[:written])

    def end() -> bool:
        """A byte more each time, in the middle of lines and of characters."""
        nonlocal written
        with path.open("ab") as out:
            out.write(file.bytes[written : written + 1])
        written += 1
        return written > len(file.bytes)

    source = GrowingSource(str(path))
    batches = list(read(source, source.format(None), CsvOptions(), end, first_rows=3))
    source.close()
    assert len(batches) > 1
    assert not any(batch.rejects for batch in batches)
    rows = [row for batch in batches for row in batch.readable.to_pylist()]
    numbers = [{name: float(row[name]) for name in list(row)[:2]} for row in rows]
    assert numbers == [dict(list(row.items())[:2]) for row in file.reads or []]


@pytest.mark.parametrize("kind", ["Parquet", "a zip archive with a table"])
def test_a_name_may_be_that_of_a_pipe(run: Any, tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        pool.submit((tmp_path / "pipe").write_bytes, FILES[kind].bytes)
        code, rows, said = score(run, tmp_path / "pipe")
    assert code == 0, said
    assert [{"a": row["a"], "b": row["b"]} for row in rows] == AB


@pytest.mark.parametrize("kind", ["Parquet", "Feather", "gzip", "a zip archive with a table"])
def test_what_cannot_be_followed_is_refused(run: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "table"
    path.write_bytes(FILES[kind].bytes)
    result = run("watch", path, "--idle", 0)
    assert result.code == 2
    assert "only plain CSV and JSON lines can be followed" in result.err
