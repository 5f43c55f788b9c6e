"""Every example runs, and prints what the README of the examples shows.

SVEAD_REFRESH=1 writes what they print now into that README.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
README = FOLDER / "README.md"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")


def shown(script: str) -> tuple[int, int]:
    """Where in the README the output of a script stands."""
    text = README.read_text()
    start = text.index("```text\n", text.index(f"({script})")) + len("```text\n")
    return start, text.index("```", start)


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_example_prints_what_its_readme_shows(script: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(FOLDER / script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    start, end = shown(script)
    text = README.read_text()
    if os.environ.get("SVEAD_REFRESH"):
        README.write_text(text[:start] + done.stdout + text[end:])
        return
    expected = text[start:end]
    assert NUMBER.sub("#", done.stdout) == NUMBER.sub("#", expected)
    # Numbers may differ a little where another processor rounds differently.
    ours, theirs = ([float(n.replace(",", "")) for n in NUMBER.findall(one)] for one in (done.stdout, expected))
    assert ours == pytest.approx(theirs, rel=0.1, abs=0.02)


def test_the_readme_names_every_example() -> None:
    text = README.read_text()
    assert [script for script in SCRIPTS if f"({script})" not in text] == []
