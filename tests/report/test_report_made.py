"""What a report says of how it came to be, so that it explains itself later."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from pages import page, recorded

from svead_stream import report
from svead_stream.cli import _run
from svead_stream.cli.command_line import command_line
from svead_stream.cli.options import names_option


def test_the_command_the_columns_and_the_settings_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    lines = [
        f"2024-03-01 {i // 60:02}:{i % 60:02},{x:.3f},{y:.3f},a,{i % 7 == 0:d}"
        for i, (x, y) in enumerate(rng.normal(size=(900, 2)))
    ]
    Path("some file.csv").write_text(
        "\n".join(["time,heat,load,note,fault", *lines, "2024-03-01 16:00,x,1,a,0"]) + "\n"
    )
    given = ["score", "some file.csv", "-o", "out.csv", "-x", "fault", "--seed", "3", "--report", "r.html"]
    assert _run(given, debug=True) == 0
    found = re.search(r'id="data">(.*?)</script>', Path("r.html").read_text(), re.S)
    data = json.loads(found[1])  # type: ignore[index]
    assert data["made"] == {
        "command": "svead-stream score 'some file.csv' --output out.csv --report r.html --ignore fault --seed 3",
        "features": "heat, load",
        "clock": "time",
        "not used": data["made"]["not used"],
        "rows rejected": "1",
    }
    assert "note (" in data["made"]["not used"]
    assert "fault (left out by --ignore)" in data["made"]["not used"]
    assert data["settings"]["seed"] == 3
    assert [one["name"] for one in data["features"]["kept"]]
    assert sum(map(len, (one["mean"] for one in data["features"]["kept"]))) == 1_800


def test_what_may_be_secret_is_left_out_and_flags_are_spelled() -> None:
    told: list[str] = []

    @click.command()
    @click.argument("path")
    @click.option("-w", "--webhook")
    @click.option("--on-incident")
    @click.option("--serve-token")
    @click.option("--learn/--no-learn", default=True)
    @click.option("--strict", is_flag=True)
    @click.option("--rate", default=1.0)
    @names_option("-f", "--features")
    def some(**_: Any) -> None:
        told.append(command_line())

    words = "FILE -w https://x/key --on-incident 'curl key' --serve-token key --no-learn --strict -f a,b -f c"
    assert CliRunner().invoke(some, words, catch_exceptions=False).exit_code == 0
    assert told == [
        "svead-stream some FILE --webhook ... --on-incident ... --serve-token ... --no-learn --strict --features a,b,c"
    ]
    assert command_line() == ""


def test_the_licence_of_what_is_bundled_goes_with_it() -> None:
    licence = (Path(report.__file__).parent / "vendor" / "LICENSE").read_text()
    assert "Copyright (c) 2022 Leon Sorokin" in licence
    assert licence in page(recorded(n=10))
    described = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "svead_stream/report/vendor/LICENSE" in described["project"]["license-files"]
