"""Running the command line in this process: what a user would see, without starting Python each time."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import svead_stream
from svead_stream.cli import _run


class Outcome(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()

    @property
    def said(self) -> str:
        """Stderr but for the line that tells which columns are used."""
        return "".join(line for line in self.err.splitlines(keepends=True) if not line.startswith("using "))


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the detector once: the first command would say that it does."""
    svead_stream.warm_up(one_by_one=False)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Call with the arguments of a command line; `stdin` are the bytes in the pipe."""

    def call(*args: Any, stdin: bytes = b"") -> Outcome:
        out, err = io.BytesIO(), io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))  # type: ignore[type-var]
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="utf-8", write_through=True))
            patch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding="utf-8", write_through=True))
            code = _run([str(arg) for arg in args], debug=False)
            sys.stdout.flush()
            return Outcome(code, out.getvalue(), err.getvalue().decode())

    return call


@pytest.fixture(scope="session")
def rows() -> Any:
    """Three correlated sensors with a few faults: 1,200 rows and their truth."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1_200, 3))
    X[:, 1] += X[:, 0]
    truth = rng.random(1_200) < 0.02
    X[truth] += rng.choice([-6.0, 6.0], size=(truth.sum(), 3))
    return np.round(X, 4), truth


@pytest.fixture
def sensors(rows: Any, tmp_path: Path) -> Path:
    """The same as a CSV, with a time, a category and a label."""
    X, truth = rows
    lines = ["time,heat,load,speed,mode,fault"]
    for i, (row, fault) in enumerate(zip(X.tolist(), truth.tolist(), strict=True)):
        cells = ",".join(map(str, row))
        lines.append(f"2026-01-01T{i // 60 % 24:02}:{i % 60:02},{cells},{'fast' if i % 3 else 'slow'},{int(fault)}")
    path = tmp_path / "sensors.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
