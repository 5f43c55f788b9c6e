"""Types as users see them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import svead_stream
from svead_stream import SVEAD, ConformalFilter, SnapshotError, StreamingSVEAD

ROOT = Path(__file__).parents[1]


def test_a_users_script_passes_mypy_strictly_but_for_what_is_wrong_in_it() -> None:
    script = ROOT / "tests" / "typed_user.py"
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(script)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    wrong = {i for i, line in enumerate(script.read_text().splitlines(), 1) if "# WRONG" in line}
    assert {int(i) for i in re.findall(r"typed_user\.py:(\d+): error", told)} == wrong, told


def test_a_model_of_another_class_than_asked_for_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.svead"
    svead_stream.save(ConformalFilter(StreamingSVEAD()), path)
    assert type(svead_stream.load(path, ConformalFilter)) is type(svead_stream.load(path)) is ConformalFilter
    for kind in (StreamingSVEAD, SVEAD):
        with pytest.raises(SnapshotError, match=f"the snapshot holds a 'ConformalFilter', not a '{kind.__name__}'"):
            svead_stream.load(path, kind)
        with pytest.raises(SnapshotError, match="holds a 'ConformalFilter'"):
            svead_stream.from_bytes(path.read_bytes(), kind)
