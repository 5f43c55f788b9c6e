"""Tables of thousands of columns: each costs as much as it would in a narrow table, also where rows come in a pipe."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from svead_stream.cli.sources import Source

_PIECE = 1 << 12


class _Pipe(io.RawIOBase):
    """Gives a piece at a time, and there is more at once, as in a pipe that a fast program fills."""

    def __init__(self, data: bytes, ready: int) -> None:
        self._data = io.BytesIO(data)
        self._ready = ready

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._ready

    def readinto(self, buffer: Any) -> int:
        piece = self._data.read(min(len(buffer), _PIECE))
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.fixture
def ready() -> Iterator[int]:
    """A file that can be read without waiting."""
    read, write = os.pipe()
    os.write(write, b"x")
    yield read
    os.close(read)
    os.close(write)


def test_all_that_a_pipe_holds_is_taken_at_once(monkeypatch: pytest.MonkeyPatch, ready: int) -> None:
    data = bytes(range(256)) * 64
    pipe = io.BufferedReader(_Pipe(data, ready))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
    source = Source("-")
    assert source.read() == data
    assert source.n_read == len(data)
    assert source.read() == b""


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_thousands_of_columns_are_scored(run: Any, tmp_path: Path, suffix: str) -> None:
    values = np.random.default_rng(0).normal(size=(5_000, 60)).round(3)
    table = pa.table({f"c{i}": column for i, column in enumerate(values)}).append_column("kind", [["a", "b"] * 30])
    path, out = tmp_path / f"wide.{suffix}", tmp_path / f"out.{suffix}"
    write = pa.csv.write_csv if suffix == "csv" else pa.parquet.write_table
    write(table, path)
    result = run("score", path, "-o", out, "--one-hot", "kind", "--burn-in", "0", "--report", tmp_path / "r.html")
    assert result.code == 0, result.err
    scored = pa.csv.read_csv(out) if suffix == "csv" else pa.parquet.read_table(out)
    assert scored.num_columns == 5_001 + 5
    assert scored.select(table.column_names).equals(table)
