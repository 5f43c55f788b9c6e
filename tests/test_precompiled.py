"""Kernels that come compiled with the package: nothing is left to compile, and scores are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from svead_stream.kernels.precompiled import KINDS, kinds_for, kinds_here

ROOT = Path(__file__).parents[1]

USE = """
import hashlib
import sys
import numpy as np
import svead_stream
from svead_stream.warm import telling_of_compilation

said = []
X = np.random.default_rng(1).normal(size=(700, 3))
X[::90] *= 5
with telling_of_compilation(said.append):
    judge = svead_stream.ConformalFilter(svead_stream.StreamingSVEAD(seed=1))
    scores = judge.judge_many(X).scores
    if sys.argv[1:] == ["everything"]:
        judge.judge_one({0: 9.0, 1: 0.0, 2: 0.0})
        judge.feedback_one({0: 9.0, 1: 0.0, 2: 0.0}, True)
        svead_stream.ConformalFilter.from_bytes(judge.to_bytes()).judge_many(X)
        svead_stream.StreamingSVEAD.from_batch(svead_stream.SVEAD().fit(X), X).score_one({0: 1.0})
print(svead_stream.__file__, len(said) > 0, hashlib.sha256(scores.tobytes()).hexdigest())
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel holds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob("*.whl")
    assert "-none-any" not in wheel.name  # it is for this Python and this kind of machine
    zipfile.ZipFile(wheel).extractall(folder / "package")
    return folder / "package"


def use(package: Path, empty: Path, *words: str) -> list[str]:
    """Whether anything was compiled, and the scores, where nothing was compiled before."""
    own = {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(empty)}
    done = subprocess.run(
        [sys.executable, "-c", USE, *words], env=os.environ | own, capture_output=True, text=True, cwd=package
    )
    assert done.returncode == 0, done.stderr
    file, *told = done.stdout.split()
    assert Path(file).parents[1] == package
    return told


def test_the_first_score_of_an_installed_package_waits_for_no_compiler(package: Path, tmp_path: Path) -> None:
    objects = package / "svead_stream" / "kernels" / "objects"
    kept = objects.rename(package / "kept")
    shutil.rmtree(objects, ignore_errors=True)
    compiled, here = use(package, tmp_path / "none")
    assert compiled == "True"
    for kind in kinds_here():
        shutil.copytree(kept / kind, objects / kind)
        assert use(package, tmp_path / kind, "everything") == ["False", here]
        shutil.rmtree(objects)


def test_the_fastest_kind_that_fits_is_taken() -> None:
    everything = ",".join(f"+{feature}" for needed in KINDS.values() for feature in needed)
    assert kinds_for(everything) == list(KINDS) == ["x86-64-v4", "x86-64-v3"]
    assert kinds_for(everything.replace("+avx512bw", "-avx512bw")) == ["x86-64-v3"]
    assert kinds_for(everything.replace("+fma", "-fma")) == []
