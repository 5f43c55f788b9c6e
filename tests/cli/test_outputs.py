"""Files that `score` writes: there whole or not at all, and said to be missing when something went wrong."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import svead_stream
from svead_stream.cli import run as run_module
from svead_stream.cli import sources
from svead_stream.cli.run import Run

OUTPUTS = {"-o": "o.csv", "--incidents": "i.csv", "--rejects": "r.jsonl", "--save": "m.svead", "--report": "r.html"}


@pytest.fixture
def outputs(tmp_path: Path) -> list[Any]:
    """Options that name every file that can be written; each of them has something older in it."""
    folder = tmp_path / "out"
    folder.mkdir()
    for name in OUTPUTS.values():
        (folder / name).write_text("older")
    return [word for option, name in OUTPUTS.items() for word in (option, folder / name)]


def found(tmp_path: Path) -> dict[str, str]:
    return {path.name: path.read_text(errors="replace")[:5] for path in (tmp_path / "out").iterdir()}


BEFORE = dict.fromkeys(OUTPUTS.values(), "older")


def test_a_run_that_ends_well_replaces_all_files(run: Any, sensors: Path, tmp_path: Path, outputs: list[Any]) -> None:
    (tmp_path / "out" / "o.csv").chmod(0o640)
    assert run("score", sensors, *outputs).code == 0
    after = found(tmp_path)
    assert after.keys() == BEFORE.keys()
    assert "older" not in after.values()
    assert (tmp_path / "out" / "o.csv").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("options", [["--strict"], ["--label", "mode"], ["--features", "heat,no"], ["--memory", "2d"]])
def test_an_error_leaves_the_files_that_were_there_and_says_so(
    run: Any, sensors: Path, tmp_path: Path, outputs: list[Any], options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources.Source.read, "__defaults__", (20_000,))  # rows are written before the end is read
    text = sensors.read_text().replace("time,", "when,").replace("2026-01-01T", "")
    sensors.write_text(text + "1,2\n")
    result = run("score", sensors, *outputs, *options)
    assert result.code in (1, 2)
    assert "; nothing was written" in result.err.splitlines()[-1]
    assert found(tmp_path) == BEFORE


def test_an_error_without_files_says_nothing_of_them(run: Any) -> None:
    assert "written" not in run("score", "-", "--strict", stdin=b"a,b\n1,2\n3\n").err


def test_a_report_that_cannot_be_made_leaves_no_model_either(
    run: Any, sensors: Path, tmp_path: Path, outputs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(data: Any) -> str:
        raise ValueError("no page")

    monkeypatch.setattr(run_module, "render", fails)
    assert run("score", sensors, *outputs).code == 1
    assert found(tmp_path) == BEFORE


def test_rejects_are_kept_where_they_are_all_that_there_is(run: Any, tmp_path: Path, outputs: list[Any]) -> None:
    result = run("score", "-", *outputs, stdin=b"{oops\n")
    assert result.code == 1
    assert result.err.endswith("no row could be scored; nothing else was written\n")
    assert found(tmp_path) == BEFORE | {"r.jsonl": '{"sou'}


def test_a_full_disk_is_a_line(run: Any, sensors: Path, tmp_path: Path) -> None:
    for option in ("-o", "--incidents", "--report"):
        result = run("score", sensors, "-q", option, "/dev/full", *([] if option == "-o" else ["-o", tmp_path / "o"]))
        assert result.code == 1
        assert "cannot write /dev/full: No space left on device" in result.err
        assert len(result.err.splitlines()) == 1
        assert not (tmp_path / "o").exists()


def test_ctrl_c_keeps_the_rows_so_far(
    run: Any, sensors: Path, tmp_path: Path, outputs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Run.write

    def interrupted(self: Run, *args: Any) -> None:
        write(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "write", interrupted)
    result = run("score", sensors, *outputs)
    assert result.code == 128 + signal.SIGINT
    folder = tmp_path / "out"
    assert f"interrupted after 1,200 rows, kept in {folder / 'o.csv'}: {folder / 'm.svead'} and" in result.err
    assert len((folder / "o.csv").read_text().splitlines()) == 1_201
    after = found(tmp_path)
    assert [after["m.svead"], after["r.html"]] == ["older", "older"]
    assert after.keys() == BEFORE.keys()


def test_a_link_stays_one_and_a_pipe_is_written_as_it_is(run: Any, sensors: Path, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("older")
    (tmp_path / "link.csv").symlink_to("there.csv")
    assert run("score", sensors, "-o", tmp_path / "link.csv").code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert len((tmp_path / "there.csv").read_text().splitlines()) == 1_201
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run("score", "-", "--incidents", tmp_path / "pipe", stdin=b"a\n1\n").code == 0
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_parquet_goes_to_stdout_when_it_is_complete(run: Any, sensors: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.parquet"
    assert run("score", sensors, "-o", out).code == 0
    assert run("score", sensors, "--output-format", "parquet").out == out.read_bytes()
    assert run("score", sensors, "--output-format", "parquet", "--label", "mode").out == b""


# what is said


def test_what_is_used_and_what_is_not_is_always_said_in_a_line(run: Any, sensors: Path) -> None:
    told = "using heat, load, speed; not using time (clock), mode (text)\n"
    assert run("score", sensors, "--ignore", "fault").err == told
    assert run("watch", sensors, "--idle", "0", "-x", "fault").err.startswith(told)


def test_columns_of_numbers_with_too_many_words_are_named_with_one(run: Any) -> None:
    data = "a,b\n" + "".join(f"{i % 7},{'high' if i % 5 == 0 else i}\n" for i in range(100))
    assert run("score", "-", stdin=data.encode()).err.startswith(
        "using a; not using b (text such as 'high' among numbers)\n"
    )


def test_a_name_with_a_line_end_stays_in_its_line(run: Any) -> None:
    data = b"".join(json.dumps({"a\nb": i % 7, "c": "\x1b[2J"}).encode() + b"\n" for i in range(30))
    assert run("score", "-", stdin=data).err.startswith("using 'a\\nb'; not using c (text)\n")


def test_quiet_leaves_warnings_and_errors(run: Any, sensors: Path, tmp_path: Path) -> None:
    result = run("score", sensors, "--label", "fault", "-q", "--save", tmp_path / "m")
    assert (result.code, result.err) == (0, "")
    assert svead_stream.load(tmp_path / "m").n_seen_ == 1_200
    assert run("watch", sensors, "--idle", "0", "--quiet").err == ""
    assert run("score", "-", "-q", stdin=b"a,b\n1,2\n3\n").err.startswith("1 row not scored")


def test_columns_that_are_not_there_are_told_before_anything_is_compiled(
    run: Any, sensors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svead_stream, "warm_up", lambda **_: pytest.fail("compiles for nothing"))
    assert "--label faul: no such column; did you mean 'fault'?" in run("score", sensors, "--label", "faul").err


def test_what_was_separated_by_spaces_comes_out_with_tabs_so_that_empty_cells_stay(run: Any) -> None:
    rows = "".join(f"{i % 7} {i % 5}.5\n" for i in range(60))
    lines = run("score", "-", stdin=("a  b\n" + rows).encode()).lines
    assert lines[0].split("\t")[:3] == ["a", "b", "score"]
    assert {line.count("\t") for line in lines} == {6}
