"""Columns of the input come out as they went in, whatever they are and whichever format they go to."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svead_stream.cli import sources
from svead_stream.record import FIELDS

slow = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.sampled_from("ab \",;'é\n"), min_size=1, max_size=5).filter(lambda word: word.strip() == word)


@st.composite
def columns(draw: Any, kinds: dict[str, Any]) -> dict[str, list[Any]]:
    """Some columns of one kind each, and one that can be learned."""
    n = draw(st.integers(1, 6))
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=4))
    of = {f"{kind}{i}": draw(st.lists(kinds[kind], min_size=n, max_size=n)) for i, kind in enumerate(chosen)}
    return of | {"x": draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))}


def of_input(table: pa.Table) -> pa.Table:
    return table.drop_columns([name for name in FIELDS if name in table.column_names])


CELLS = {
    "integer": INTEGERS.map(str),
    "float": FLOATS.map(repr),
    "flag": st.sampled_from(["true", "false"]),
    "code": st.integers(0, 999).map("{:05}".format),
    "word": WORDS,
    "day": st.dates(date(1990, 1, 1), date(2090, 1, 1)).map(str),
    "gap": st.sampled_from(["", "7"]),
    "mixed": INTEGERS.map(str) | FLOATS.map(repr) | WORDS,
}


def as_csv(table: dict[str, list[Any]], delimiter: str) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerows([table, *zip(*table.values(), strict=True)])
    return out.getvalue().encode()


@slow
@given(table=columns(CELLS), delimiter=st.sampled_from([",", ";", "\t"]))
def test_from_csv_to_csv_every_cell_is_the_same(run: Any, table: dict[str, list[str]], delimiter: str) -> None:
    result = run("score", "-", "--delimiter", delimiter, stdin=as_csv(table, delimiter))
    assert result.code == 0, result.err
    rows = list(csv.reader(io.StringIO(result.out.decode(), newline=""), delimiter=delimiter))
    assert [row[: len(table)] for row in rows] == [list(table), *map(list, zip(*map(_texts, table.values())))]  # noqa: B905


def _texts(column: list[Any]) -> list[str]:
    return [str(cell) for cell in column]


@slow
@given(table=columns(CELLS))
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_from_csv_to_types_cells_have_the_values_that_they_say(
    run: Any, table: dict[str, list[str]], format: str
) -> None:
    result = run("score", "-", "--delimiter", ";", "--output-format", format, stdin=as_csv(table, ";"))
    assert result.code == 0, result.err
    if format == "parquet":
        rows = pa.parquet.read_table(pa.BufferReader(result.out)).to_pylist()
    else:
        rows = [json.loads(line, parse_constant=pytest.fail) for line in result.lines]
    for name, cells in table.items():
        found = [row[name] for row in rows]
        kinds = {type(one) for one in found if one is not None}
        assert len(kinds) <= 1
        for cell, one in zip(cells, found, strict=True):
            assert _says(str(cell), one, name.rstrip("0123456789"))


def _says(cell: str, value: Any, kind: str) -> bool:
    if value is None:
        return cell == ""
    if isinstance(value, str):
        return kind in ("word", "code", "day", "mixed", "integer") and value == cell
    if isinstance(value, bool):
        return kind == "flag" and value == (cell == "true")
    if isinstance(value, int):
        return kind in ("integer", "gap", "mixed", "x") and value == int(cell)
    return kind in ("float", "mixed") and value == float(cell) and not (cell.isdigit() and int(value) != int(cell))


ARROW: dict[str, tuple[pa.DataType, Any]] = {
    "tiny": (pa.uint8(), st.integers(0, 255)),
    "integer": (pa.int64(), INTEGERS),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "decimal": (pa.decimal128(20, 4), st.decimals(-10, 10, places=4)),
    "flag": (pa.bool_(), st.booleans()),
    "word": (pa.string(), st.text(max_size=5)),
    "large": (pa.large_string(), WORDS),
    "category": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b"])),
    "day": (pa.date32(), st.dates()),
    "time": (pa.timestamp("us", "UTC"), st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC))),
    "list": (pa.list_(pa.int64()), st.lists(INTEGERS, max_size=3)),
}


@st.composite
def tables(draw: Any) -> pa.Table:
    rows = draw(columns({name: st.none() | values for name, (_, values) in ARROW.items()}))
    types = {name: kind for name, (kind, _) in ARROW.items()}
    return pa.table({name: pa.array(cells, types.get(name.rstrip("0123456789"))) for name, cells in rows.items()})


def as_parquet(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    pa.parquet.write_table(table, out)
    return out.getvalue().to_pybytes()


@slow
@given(table=tables())
def test_from_parquet_to_parquet_types_and_values_are_the_same(run: Any, table: pa.Table) -> None:
    data = as_parquet(table)
    result = run("score", "-", "--output-format", "parquet", stdin=data)
    assert result.code == 0, result.err
    before, after = (pa.parquet.read_table(pa.BufferReader(one)) for one in (data, result.out))
    assert of_input(after).schema.equals(before.schema)
    assert of_input(after).equals(before)


@slow
@given(table=tables())
def test_from_parquet_to_json_lines_numbers_are_numbers_and_times_are_iso(run: Any, table: pa.Table) -> None:
    result = run("score", "-", "--output-format", "jsonl", stdin=as_parquet(table))
    assert result.code == 0, result.err
    rows = [json.loads(line, parse_constant=pytest.fail, parse_float=Decimal) for line in result.lines]
    for row, expected in zip(rows, table.to_pylist(), strict=True):
        assert {name: row[name] for name in expected} == {name: _in_json(value) for name, value in expected.items()}


def _in_json(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, date) else value


@slow
@given(table=tables())
def test_from_parquet_to_csv_nothing_fails_and_lists_are_json(run: Any, table: pa.Table) -> None:
    result = run("score", "-", "--output-format", "csv", stdin=as_parquet(table))
    assert result.code == 0, result.err
    rows = list(csv.DictReader(io.StringIO(result.out.decode(), newline="")))
    for name in table.column_names:
        found = [row[name] for row in rows]
        if name.startswith("list"):
            assert found == ["" if one is None else json.dumps(one).replace(" ", "") for one in table[name].to_pylist()]
        elif name.startswith(("integer", "tiny", "decimal")):
            assert found == ["" if one is None else str(one) for one in table[name].cast(pa.string()).to_pylist()]


@slow
@given(rows=st.lists(st.dictionaries(st.text(max_size=3).map("k".__add__), INTEGERS | WORDS | st.none()), max_size=5))
def test_from_json_lines_to_json_lines_rows_are_as_they_stood(run: Any, rows: list[dict[str, Any]]) -> None:
    lines = [json.dumps(row | {"x": 1.50}) for row in rows]
    result = run("score", "-", stdin="".join(line + "\n" for line in ['{"x": 2e0}', *lines]).encode())
    assert result.code == 0, result.err
    assert [line[: len(old) - 1] for line, old in zip(result.lines[1:], lines, strict=True)] == [
        line[:-1] for line in lines
    ]


def test_a_cell_of_a_csv_has_quotes_only_if_it_needs_them_and_empty_text_is_not_missing(run: Any) -> None:
    lines = ['1,"",,NA', '2,,"",a', '3,"x, y","say ""it""",b c', "4,-, ,d"]
    result = run("score", "-", stdin="\n".join(["x,a,b,c", *lines]).encode())
    assert [line.split(",0,1,")[0] for line in result.lines[1:]] == lines
    result = run("score", "-", stdin="\n".join(["x,a,b,c", *lines]).encode() + b"\n5,\xff,,\n6,1,,NA\n")
    assert [line.split(",0,1,")[0] for line in result.lines[1:]] == [*lines, "6,1,,NA"]


def test_what_json_and_csv_have_no_type_for_is_text(run: Any) -> None:
    cells = {
        "x": [1, 2],
        "raw": [b"ab", b"\xff"],
        "many": pa.array([[Decimal("1.50"), None], None], pa.list_(pa.decimal128(9, 2))),
        "when": pa.array([datetime(2026, 3, 1, 12), None], pa.timestamp("s", "Europe/Zurich")),
        "inner": [[{"at": datetime(2026, 3, 1), "n": 1.0}, None], []],
    }
    data = as_parquet(pa.table(cells))
    result = run("score", "-", "--output-format", "jsonl", stdin=data)
    start = '{"x":1,"raw":"ab","many":[1.50,null],"when":"2026-03-01T13:00:00.000+01:00",'
    assert result.lines[0].startswith(start + '"inner":[{"at":"2026-03-01T00:00:00.000000","n":1.0},null]')
    assert result.lines[1].startswith(r'{"x":2,"raw":"\\xff","many":null,"when":null,"inner":[]')
    result = run("score", "-", "--output-format", "csv", stdin=data)
    assert result.lines[1].startswith('1,ab,"[1.50,null]",2026-03-01 13:00:00.000+0100,"[{""at"":""2026-')
    assert result.lines[2].startswith(r"2,\xff,,,[],")


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_times_in_json_lines_stay_as_they_stood(run: Any, format: str) -> None:
    times = ["2026-03-01T12:00:00+02:00", "2026-03-02", "2026-03-03T01:02:03.5Z"]
    lines = [json.dumps({"x": i, "m": {"n": 2, "at": time}, "t": time, "y": 1}) for i, time in enumerate(times)]
    result = run("score", "-", "--output-format", format, stdin="\n".join(lines[:2] * 50 + lines[2:]).encode())
    assert result.code == 0, result.err
    if format == "parquet":
        table = pa.parquet.read_table(pa.BufferReader(result.out))
    else:
        kinds = {"t": pa.string(), "m.at": pa.string()}
        table = pa.csv.read_csv(pa.BufferReader(result.out), convert_options=pa.csv.ConvertOptions(column_types=kinds))
    assert table.column_names[:5] == ["x", "m.n", "m.at", "t", "y"]
    assert table["t"].to_pylist() == table["m.at"].to_pylist() == [*times[:2] * 50, times[2]]


# columns that are not what they were in the first rows


@pytest.fixture
def score_parts(run: Any, tmp_path: Path) -> Callable[..., pa.Table]:
    """Score files one after the other, so that each is at least one batch, to a file with types."""

    def of(*parts: str, suffix: str = "parquet") -> pa.Table:
        names = [tmp_path / f"{i}.{'jsonl' if part.startswith('{') else 'csv'}" for i, part in enumerate(parts)]
        for name, part in zip(names, parts, strict=True):
            name.write_text(part)
        result = run("score", *names, "-o", tmp_path / f"out.{suffix}", "-x", "y")
        assert result.code == 0, result.err
        assert not list(tmp_path.glob("out.*.*"))
        read = pa.parquet.read_table if suffix == "parquet" else pa.feather.read_table
        return of_input(read(tmp_path / f"out.{suffix}"))

    return of


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("1", "2.5", [1.0, 2.5]),
        ("", "7", [None, 7]),
        ("", "", [None, None]),
        ("10115", "01067", ["10115", "01067"]),
        (str(2**53 + 1), "0.5", [str(2**53 + 1), "0.5"]),
        ("true", "3", ["true", "3"]),
        ("4", "four", ["4", "four"]),
        ("1", str(2**70), ["1", str(2**70)]),
    ],
)
def test_a_type_that_was_too_narrow_becomes_wider(
    score_parts: Any, first: str, second: str, expected: list[Any], suffix: str
) -> None:
    table = score_parts(f"x,y\n1,{first}\n", f"x,y\n1,{second}\n", suffix=suffix)
    assert table["y"].to_pylist() == expected
    assert not pa.types.is_null(table["y"].type)


def test_a_column_that_comes_later_or_changes_its_kind_has_room_in_parquet(score_parts: Any) -> None:
    table = score_parts('{"x": 1, "y": [1]}\n', '{"x": 2.5, "z": "a"}\n{"x": 3, "y": "b"}\n')
    assert table.to_pylist() == [
        {"x": 1.0, "y": "[1]", "z": None},
        {"x": 2.5, "y": None, "z": "a"},
        {"x": 3.0, "y": "b", "z": None},
    ]


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_categories_may_differ_from_batch_to_batch(run: Any, tmp_path: Path, suffix: str) -> None:
    table = pa.table({"x": [i % 5 for i in range(40_000)], "kind": [f"k{i // 9_000}" for i in range(40_000)]})
    table = table.set_column(1, "kind", table["kind"].dictionary_encode())
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    result = run("score", tmp_path / "in.parquet", "-o", tmp_path / f"out.{suffix}")
    assert result.code == 0, result.err
    read = pa.parquet.read_table if suffix == "parquet" else pa.feather.read_table
    found = of_input(read(tmp_path / f"out.{suffix}"))
    assert found["kind"].to_pylist() == table["kind"].to_pylist()
    assert pa.types.is_dictionary(found["kind"].type) == (suffix == "parquet")


def test_a_type_is_decided_on_all_rows_however_they_are_cut(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c\n" + "".join(f"{i % 7},{i if i < 900 else i / 8},{i:03}\n" for i in range(1_000)))
    run("score", path, "-f", "a", "-o", tmp_path / "whole.parquet")
    monkeypatch.setattr(sources, "BLOCK", 700)
    monkeypatch.setattr(sources.Source.read, "__defaults__", (700,))
    run("score", path, "-f", "a", "-o", tmp_path / "cut.parquet")
    whole, cut = (pa.parquet.read_table(tmp_path / f"{name}.parquet") for name in ("whole", "cut"))
    assert cut.equals(whole)
    assert [str(field.type) for field in whole.schema][:3] == ["int64", "double", "string"]


def test_the_separator_is_that_of_the_input_or_of_the_name(run: Any, tmp_path: Path) -> None:
    for name, delimiter in (("o.csv", ";"), ("o.tsv", "\t"), ("o.tsv.gz", "\t")):
        assert run("score", "-", "-o", tmp_path / name, stdin=b"a;b\n1;2\n").code == 0
        assert pa.input_stream(str(tmp_path / name)).read().startswith(f"a{delimiter}b{delimiter}score".encode())


def test_a_number_that_json_lacks_is_null_there(run: Any) -> None:
    result = run("score", "-", "--output-format", "jsonl", stdin=b"a,b\n1,inf\n2,-inf\n3,0.5\n")
    rows = [json.loads(line, parse_constant=pytest.fail) for line in result.lines]
    assert [row["b"] for row in rows] == [None, None, 0.5]
