"""What is said of compiling: something when it is done, nothing when what was compiled is found on the disk."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from svead_stream.warm import telling_of_compilation

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


def test_it_is_told_once_and_not_again_when_the_result_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    file.write_text(SOURCE)
    said: list[str] = []
    for _ in range(2):
        with telling_of_compilation(said.append):
            assert load(file).two(1) == 2
    first, second = said
    assert first.startswith("compiling the detector")
    assert f"kept in {tmp_path}" in first
    assert "NUMBA_CACHE_DIR" in first
    assert second.startswith("compiled in")


def test_what_cannot_be_kept_is_told_each_time(tmp_path: Path) -> None:
    file = tmp_path / "sums.py"
    file.write_text(SOURCE.replace("(cache=True)", ""))
    said: list[str] = []
    for _ in range(2):
        with telling_of_compilation(said.append):
            load(file).two(1)
    assert len(said) == 4
    assert "at every start, for want of a folder" in said[2]
    assert "NUMBA_CACHE_DIR" in said[2]


KERNELS = """
import sys
from svead_stream.kernels.compiled import kernel

@kernel
def one(x):
    return x + 1

@kernel
def two(x):
    return one(x) + one(1) + one(2)

assert two(1) == 7
print([len(one.signatures), len(one.part.signatures)], two.stats.cache_path)
"""


def run(folder: Path, **environment: str) -> str:
    """Run kernels where Numba itself finds no place for a cache: neither named, nor beside the source, nor at home."""
    (folder / "__pycache__").write_text("no folder")
    (folder / "file.py").write_text(KERNELS)
    known = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    nowhere = {"HOME": str(folder / "__pycache__"), "XDG_CACHE_HOME": str(folder / "__pycache__")}
    done = subprocess.run(
        [sys.executable, folder / "file.py"], env=known | nowhere | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_parts_of_kernels_are_compiled_once_for_all_constants_and_kept_with_them(tmp_path: Path) -> None:
    """Without a place of Numba's own they are kept among the temporary files, where nobody else can write."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    told = run(tmp_path, TMPDIR=str(temporary))
    [folder] = temporary.iterdir()
    assert told.startswith(f"[0, 1] {folder}")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(list(folder.rglob("*.nbi"))) == 1
    folder.chmod(0o777)  # anybody may have put something there
    assert run(tmp_path, TMPDIR=str(temporary)) == "[0, 1] None"
