"""AWS's Random Cut Forest, a Java library, behind the interface of the other detectors.

Maven fetches its jars once into ``.cache`` at the project's root; Java compiles and runs the one file in ``rcf/``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _peers import Floats, Setting, Step

HERE = Path(__file__).parent / "rcf"
CACHE = Path(__file__).parent.parent / ".cache"


class NoForest(Exception):
    """The machine cannot run the forest; the message says what is missing."""


def _jars() -> Path:
    """The folder with the library's jars, fetched when it is not there yet."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NoForest(f"{program} is not installed")
    pom = HERE / "pom.xml"
    match = re.search(r"<rcf\.version>(.+?)</rcf\.version>", pom.read_text())
    assert match, f"no <rcf.version> in {pom}"
    folder = CACHE / f"rcf-{match[1]}"
    if not (folder / "complete").exists():
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise NoForest(f"Maven could not fetch it: {' '.join((done.stdout + done.stderr).split())[:200]}")
        (folder / "complete").touch()
    return folder


def _forest(setting: Setting, wanted: int, shingle: int) -> Step:
    """Start a forest with the library's defaults on normalised values; it takes a whole stream at once."""
    # One processor, as all the others have.
    command = ["java", "-XX:ActiveProcessorCount=1", "-cp", f"{_jars()}/*", str(HERE / "Rcf.java")]
    command += [str(setting.n_features), str(setting.seed), str(shingle)]

    def step(X: Floats) -> Floats:
        done = subprocess.run(command, input=X.astype(">f8").tobytes(), capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"java failed: {done.stderr.decode(errors='replace')[:200]}")
        return np.frombuffer(done.stdout, dtype=">f8").reshape(-1, 2)[:, wanted].astype(np.float64)

    return step


def random_cut_forest(setting: Setting) -> Step:
    """A forest that gives its scores; it sees one row at a time, as all the others do."""
    return _forest(setting, 0, shingle=1)


def random_cut_forest_grades(shingle: int = 1) -> Callable[[Setting], Step]:
    """A forest that gives the grades of its own thresholding: 0, or above 0 where it says that a row is an anomaly.

    A shingle is that many rows in a row, which the forest sees as one point.
    """
    return lambda setting: _forest(setting, 1, shingle)
