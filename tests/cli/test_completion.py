"""What the Tab key offers: values of options, and the columns of the files on the command line."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.shell_completion import ShellComplete

from svead_stream.cli import cli


def offered(*words: object) -> list[str]:
    """What is offered for the last of these words."""
    *before, last = map(str, words)
    return [item.value for item in ShellComplete(cli, {}, "svead-stream", "").get_completions(before, last)]


FILES = {
    "plain.csv": b"heat,load\n1,2\n",
    "semicolons.csv": b'\xef\xbb\xbf"heat";load \r\n1;2\r\n',
    "quoted.tsv": b'"heat"\tload\n1\t2\n',
    "latin.csv": "heat,load,größe\n1,2,3\n".encode("latin-1"),
    "wide.csv": "heat,load\n1,2\n".encode("utf-16"),
    "old.csv": b"heat,load\r1,2\r",
    "packed.csv.gz": gzip.compress(b"heat,load\n1,2\n"),
    "lines.jsonl": b'{"heat": 1, "load": {"left": 2}}\n{"heat": 2}\n',
    "array.json": b'[\n  {"heat": 1, "load": 2},\n  {"heat": 2}]',
}


@pytest.mark.parametrize("name", FILES)
def test_names_come_from_the_header_of_any_kind_of_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    found = offered("score", tmp_path / name, "--features", "")
    assert found[0] == "heat"
    assert found[1] == ("load.left" if name == "lines.jsonl" else "load")
    assert found[2:] == (["größe"] if name == "latin.csv" else [])


def test_the_schema_of_parquet_is_enough(tmp_path: Path) -> None:
    pq.write_table(pa.table({"heat": [1.0], "load": [2.0]}), tmp_path / "a.parquet")
    assert offered("score", tmp_path / "a.parquet", "-f", "l") == ["load"]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("score", "-f"), ("score", "--ignore"), ("score", "--one-hot"), ("score", "--time"), ("score", "--label"),
        ("watch", "--label"), ("spark score", "-x"), ("kafka send", "--key"),
    ],
)  # fmt: skip
def test_every_option_for_columns_completes_them(sensors: Path, command: str, option: str) -> None:
    assert offered(*command.split(), sensors, option, "") == ["time", "heat", "load", "speed", "mode", "fault"]


def test_the_last_of_several_names_is_completed_and_none_is_offered_twice(sensors: Path, tmp_path: Path) -> None:
    assert offered("score", sensors, "-f", "time,load,") == [
        f"time,load,{x}" for x in ("heat", "speed", "mode", "fault")
    ]
    assert offered("score", sensors, "-f", "heat,s") == ["heat,speed"]
    (tmp_path / "more.csv").write_text("heat,humidity\n1,2\n")
    assert offered("score", sensors, tmp_path / "more.csv", "-x", "h") == ["heat", "humidity"]


def test_what_was_said_of_the_file_counts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a:b,c\n1:2,3\n")
    assert offered("score", tmp_path / "a.csv", "--delimiter", ":", "-f", "") == ["a", "b,c"]
    assert offered("score", tmp_path / "a.csv", "--no-header", "-f", "") == ["column1", "column2"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2]", b"PAR1 but no more", b"\x28\xb5\x2f\xfd\x04\x00\x41", b"\xff\xfe\x00"]
)
def test_a_file_that_cannot_be_read_offers_nothing_and_says_nothing(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd").write_bytes(content)
    assert offered("score", tmp_path / "odd", tmp_path, tmp_path / "absent", "-f", "") == []
    assert capsys.readouterr() == ("", "")


def test_values_that_are_one_of_some_words_are_offered() -> None:
    assert offered("score", "x.csv", "--scaling", "m") == ["mixed"]
    assert offered("kafka", "--model-per", "") == ["partition", "key"]
    assert offered("spark", "score", "--output-format", "") == ["parquet", "csv", "json", "orc"]


def test_nothing_heavy_is_imported_to_complete_the_columns_of_a_csv(sensors: Path) -> None:
    code = (
        "import sys\nfrom svead_stream.cli import main\ntry: main()\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'numba', 'river', 'pyarrow'} & set(sys.modules)))"
    )
    typed = {
        "_SVEAD_STREAM_COMPLETE": "bash_complete",
        "COMP_WORDS": f"svead-stream score {sensors} -f lo",
        "COMP_CWORD": "4",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | typed, capture_output=True, check=True, text=True
    )
    assert (done.stdout, done.stderr) == ("plain,load\n[]\n", "")
