"""`score --dry-run`: what would be used, and how, before anything is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TOLD = """\
column  type     role
time    text     clock
heat    float    feature
load    float    feature
speed   float    feature
mode    text     not used: text
fault   integer  label

line  time                  heat  """


@pytest.mark.parametrize("pipe", [False, True])
def test_columns_and_first_rows_are_shown_and_nothing_is_written(
    run: Any, sensors: Path, tmp_path: Path, pipe: bool
) -> None:
    before = set(tmp_path.iterdir())
    written = ["-o", tmp_path / "o", "--save", tmp_path / "m", "--report", tmp_path / "r", "--rejects", tmp_path / "x"]
    words = ["--label", "fault", "--dry-run", *written]
    result = run("score", "-" if pipe else sensors, *words, stdin=sensors.read_bytes() if pipe else b"")
    assert (result.code, result.err) == (0, "")
    assert result.out.decode().startswith(TOLD)
    rows = [line.split() for line in result.lines[len(TOLD.splitlines()) :]]
    cells = [line.split(",") for line in sensors.read_text().splitlines()[1:6]]
    assert rows == [[str(i), f"{row[0]}:00Z", *row[1:4]] for i, row in enumerate(cells, start=2)]
    assert set(tmp_path.iterdir()) == before


def test_roles_are_those_that_the_options_give(run: Any, sensors: Path, tmp_path: Path) -> None:
    def roles(*words: Any) -> dict[str, str]:
        lines = run("score", sensors, "--dry-run", *words).lines
        return {line.split()[0]: line.split(maxsplit=2)[2] for line in lines[1 : lines.index("")]}

    assert roles("--one-hot", "mode", "-x", "fault") == {
        "time": "clock",
        **dict.fromkeys(("heat", "load", "speed"), "feature"),
        "mode": "features, one for each value",
        "fault": "not used: --ignore",
    }
    assert roles("-f", "heat")["load"] == "not used: not among --features"
    assert run("score", sensors, "-f", "heat,load", "--save", tmp_path / "m").code == 0
    assert roles("--load", tmp_path / "m")["speed"] == "not used: not in the model"


def test_missing_cells_bad_rows_and_many_features_are_told(run: Any) -> None:
    names = [f"c{i}" for i in range(12)]
    rows = [",".join(str((i * k) % 7) for k in range(12)) for i in range(60)]
    rows[0] = "," + rows[0].partition(",")[2]
    data = "\n".join([",".join([*names, "none"]), *(row + "," for row in rows), "1,2"]) + "\n"
    lines = run("score", "-", "--dry-run", stdin=data.encode()).lines
    assert lines[13].split(maxsplit=2) == ["none", "empty", "not used: no value in the first rows"]
    assert lines[16].split()[1] == "missing"
    assert lines[-4:] == [
        "and 4 more features",
        "",
        "1 of the first 61 rows would not be scored, first of all:",
        "stdin, line 62 has 2 cells where the header has 13",
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a,b\n", "no rows to score"),
        (b"name\nx\n", "no column of numbers"),
        (b"a,y\n1,0.3\n", "0.3' is none of these"),
    ],
)
def test_what_would_fail_fails(run: Any, data: bytes, words: str) -> None:
    result = run("score", "-", "--dry-run", *(["--label", "y"] if b"y" in data else []), stdin=data)
    assert result.code in (1, 2)
    assert words in result.err


def test_numbers_that_are_written_otherwise_are_numbers(run: Any) -> None:
    rows = "".join(f"{i % 7},{i % 10};{20 + i % 5} °C;{i % 3} %\n" for i in range(60))
    result = run(
        "score", "-", "--dry-run", "-x", "wet", "--encoding", "latin-1", stdin=("a;b;wet\n" + rows).encode("latin-1")
    )
    assert [line.split()[1] for line in result.lines[1:4]] == ["float", "integer", "text"]


def test_the_first_moment_of_a_clock_is_shown(run: Any) -> None:
    result = run("score", "-", "--time", "s", "--dry-run", stdin=b"s,x\n0,5\n0.5,6\n,7\n1,7\n")
    assert [line.split()[1] for line in result.lines[4:]] == ["time", "0.0", "0.5", "missing", "1.0"]
