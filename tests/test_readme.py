"""The README's code works by copy and paste: every block is run in order, or says why it is not."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```", re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of the blocks that are run."""
    found = BLOCK.finditer(page.read_text())
    return [(block["language"], block["code"]) for block in found if block["reason"] is None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder in which `svead-stream` is the one of this tree."""
    program = tmp_path / "bin" / "svead-stream"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from svead_stream.cli import main; main()' \"$@\"\n")
    program.chmod(0o755)
    return tmp_path


def test_every_block_is_run_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    path = os.environ["PATH"]
    env = os.environ | {"PATH": f"{folder / 'bin'}:{path}", "PYTHONPATH": str(README.parent)}
    names: dict[str, object] = {"__name__": "readme"}
    ran = set()
    for language, code in blocks(README):
        ran.add(language)
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, str(README), "exec"), names)
        else:
            assert language == "sh", f"a block of {language!r} is not run by this test"
            done = subprocess.run(["bash", "-eo", "pipefail", "-c", code], env=env, capture_output=True, text=True)
            assert done.returncode == 0, f"{code}\n{done.stderr}"
    assert ran == {"python", "sh"}
    assert (folder / "report.html").exists()
    assert (folder / "scored.parquet").exists()


@pytest.mark.parametrize("page", sorted(README.parent.glob("docs/*.md")), ids=lambda page: page.name)
def test_the_python_of_the_documentation_runs(page: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for language, code in blocks(page):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, str(page), "exec"), names)


def test_the_files_that_it_links_to_are_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README.read_text())
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
