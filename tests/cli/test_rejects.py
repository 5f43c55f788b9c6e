"""Input that is not what it should be: named by line, set aside, and never a traceback."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svead_stream.cli import sources
from svead_stream.cli.sources import Source
from svead_stream.cli.tables import CsvOptions, read

GOOD = "".join(f"{i % 7},{i % 5}\n" for i in range(60))


def rejects_of(run: Any, tmp_path: Path, data: bytes, *options: str) -> list[dict[str, Any]]:
    path = tmp_path / "rejects.jsonl"
    result = run("score", "-", "--rejects", path, *options, stdin=data)
    assert result.code == 0, result.err
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_bad_rows_of_a_csv_are_named_by_line_and_kept(run: Any, tmp_path: Path) -> None:
    data = b"a,b\n" + GOOD.encode() + b"1,2,3\n\n4,oops\n\xff\xfe,1\n5\n6,7\n"
    found = rejects_of(run, tmp_path, data)
    by_line = {one["line"]: (one["reason"], one["text"]) for one in found}
    assert by_line == {
        62: ("has 3 cells where the header has 2", "1,2,3"),
        64: ("has 'oops' in column 'b', which is not a number", "4,oops"),
        65: ("is not UTF-8 text", "\\xff\\xfe,1"),
        66: ("has 1 cell where the header has 2", "5"),
    }
    result = run("score", "-", stdin=data)
    assert len(result.lines) == 1 + 61
    assert result.said.startswith("4 rows not scored (--rejects FILE keeps them):\n  stdin, line 62 has 3 cells")


def test_bad_json_lines_are_named_by_line_and_kept(run: Any, tmp_path: Path) -> None:
    lines = ['{"a": 1, "b": 2}'] * 30 + ["{oops", "[1, 2]", "", '{"a": "x", "b": 1}', '{"a": 3, "b": null}', "7"]
    found = rejects_of(run, tmp_path, "\n".join(lines).encode() + b'\n{"a": \xff}\n')
    assert [one["line"] for one in found] == [31, 32, 36, 37, 34]
    reasons = {one["line"]: one["reason"] for one in found}
    assert reasons[31].startswith("is not JSON: ")
    assert reasons[32] == "is [1, 2], not an object"
    assert reasons[34] == "has 'x' in column 'a', which is not a number"


def test_events_without_anything_to_score_are_rows_all_the_same(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources.Source.read, "__defaults__", (64,))
    data = b'{"a": 1, "t": "x"}\n' * 400 + b'{"t": "y"}\n' * 20 + b"{}\n" * 40 + b'{"a": 2}\n'
    result = run("score", "-", stdin=data)
    assert (result.code, result.said) == (0, "")
    assert [b'"y"' in line for line in result.out.splitlines()] == [400 <= i < 420 for i in range(461)]
    result = run("score", "-", stdin=b"{}\noops\n")
    assert result.code == 1
    assert "line 1 has no fields" in result.err


def test_strict_stops_at_the_first_bad_row_with_one_line(run: Any) -> None:
    result = run("score", "-", "--strict", stdin=b"a,b\n1,2\n3,x\n4\n" * 1)
    assert result.code == 1
    assert result.said == "svead-stream: stdin, line 4 has 1 cell where the header has 2\n"


def test_a_few_words_among_numbers_are_bad_rows_and_not_another_type(run: Any) -> None:
    data = "a,b\n" + GOOD + "broken,1\n" + GOOD
    result = run("score", "-", stdin=data.encode())
    assert "stdin, line 62 has 'broken' in column 'a'" in result.err
    assert len(result.lines) == 121


def test_many_bad_rows_are_summed_up(run: Any) -> None:
    result = run("score", "-", stdin=("a,b\n" + GOOD * 5 + "1\n" * 40).encode())
    assert result.said.splitlines()[0].startswith("40 rows not scored")
    assert result.err.splitlines()[-1] == "  and 35 more"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "stdin is empty"),
        (b"a,b\n", "no rows to score"),
        (b"a,a\n1,2\n", "two columns are named 'a'"),
        (b"name\nx\ny\nz\n", "no column of numbers to use among name"),
        (gzip.compress(b"a,b\n" + GOOD.encode() * 50)[:-40], "cannot decompress"),
        (b"PAR1 and then nothing", "is not Parquet"),
        (b"{oops\n", "no row could be scored"),
        (b'{"a": ' * 90_000 + b"1" + b"}" * 90_000 + b"\n", "no row could be scored"),
    ],
)
def test_input_that_cannot_be_used_is_exit_code_1_and_a_sentence(run: Any, data: bytes, words: str) -> None:
    result = run("score", "-", stdin=data)
    assert result.code == 1
    assert words in result.err.splitlines()[-1]
    assert "Traceback" not in result.err


def test_more_names_than_were_asked_for_are_an_error(run: Any) -> None:
    data = b"{" + b",".join(b'"k%d": %d' % (i, i) for i in range(500)) + b"}\n"
    result = run("score", "-", "--max-features", "400", stdin=data)
    assert result.code == 1
    assert "more than max_features=400" in result.err.splitlines()[-1]


@pytest.mark.parametrize(
    "args",
    [
        ["nothing"],
        ["score"],
        ["score", "no-such-file.csv"],
        ["score", "-", "-"],
        ["score", "-", "--alert-rate", "2"],
        ["score", "-", "--alert-rate", "0.001", "--alert-window", "10"],
        ["score", "-", "--n-partitions", "0"],
        ["score", "-", "--memory", "soon"],
        ["score", "-", "--one-hot", "nowhere"],
        ["score", "-", "--label", "nowhere"],
        ["watch", "-"],
        ["inspect", "no-such-model"],
    ],
)
def test_wrong_usage_is_exit_code_2_and_a_line(run: Any, args: list[str]) -> None:
    result = run(*args, stdin=b"a,b\n1,2\n")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert "--help')" in result.err


def test_an_input_is_never_written_over(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + GOOD)
    for option in ("-o", "--report", "--rejects", "--save"):
        result = run("score", path, option, path)
        assert result.code == 2
        assert "is an input as well" in result.err
    assert path.read_text() == "a,b\n" + GOOD


@pytest.mark.parametrize("option", ["-o", "--report", "--rejects", "--save"])
def test_a_place_that_cannot_be_written_is_found_out_before_the_work(run: Any, tmp_path: Path, option: str) -> None:
    result = run("score", "-", option, tmp_path / "nowhere" / "x", stdin=b"a\n1\n")
    assert result.code == 2
    assert result.out == b""
    assert "is not a folder one can write to" in result.err


def test_a_model_file_that_is_none_is_a_sentence(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"this was never a model, only some bytes")
    for args in (["inspect", path], ["score", "-", "--load", path]):
        result = run(*args, stdin=b"a\n1\n")
        assert result.code == 1
        assert result.err.startswith("svead-stream: this is no snapshot")
        assert len(result.err.splitlines()) == 1


cells = st.text(st.sampled_from('ab",\n;1 é'), max_size=6)


@given(rows=st.lists(st.tuples(cells, cells), max_size=40), size=st.integers(7, 60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_never_cut_a_quoted_cell(tmp_path: Path, rows: list[tuple[str, str]], size: int) -> None:
    quoted = ['"' + '","'.join(cell.replace('"', '""') for cell in row) + '"\n' for row in rows]
    path = tmp_path / "quoted.csv"
    path.write_text("x,y\n" + "".join(quoted), newline="")
    block, sources.BLOCK = sources.BLOCK, 1 << 20
    try:
        source = Source(str(path))
        source.read = lambda n=size: Source.read(source, size)  # type: ignore[method-assign]
        found = [
            tuple(row.values()) for batch in read(source, "csv", CsvOptions(",")) for row in batch.table.to_pylist()
        ]
        source.close()
    finally:
        sources.BLOCK = block
    assert found == [row for row in rows if any(row)]
