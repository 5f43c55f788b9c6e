"""What is said of compiling: something when it is done, nothing when what was compiled is found on the disk."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any

import pytest
from svead_kafka import Options, Worker
from svead_kafka.compiling import telling_of_compilation

SOURCE = """
import numba

@numba.njit(cache=True)
def one(x):
    return x + 1

@numba.njit(cache=True)
def two(x):
    return one(x)
"""


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_told_once_and_not_again_when_the_result_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "sums.py"
    file.write_text(SOURCE)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            with telling_of_compilation():
                assert load(file).two(1) == 2
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("compiling the detector")
    assert f"kept in {tmp_path}" in first
    assert second.startswith("compiled in")


def test_what_cannot_be_kept_is_told_each_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "sums.py"
    file.write_text(SOURCE.replace("(cache=True)", ""))
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            with telling_of_compilation():
                load(file).two(1)
    assert len(caplog.records) == 4
    assert "each time, for want of a folder" in caplog.records[2].getMessage()


def test_a_worker_warms_up_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(Options(input=["in"], output="out"))
    with caplog.at_level(logging.INFO):
        worker.warm_up()  # the session has compiled everything before
        monkeypatch.setattr(worker, "_compile", lambda: pytest.fail("a second time"))
        worker.warm_up()
    assert caplog.records == []
