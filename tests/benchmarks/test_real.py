"""The benchmark of real streams on tiny data: it scores, goes on where it was stopped, names what is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import _peers
import _rcf
import _real
import _scores
import numpy as np
import pytest
import real

OURS_AND_FLOOR = "svead,trivial"
pytestmark = pytest.mark.usefixtures("one_machine")


def _run(data: Path, results: Path, *more: str) -> None:
    real.main(["--data", str(data), "--results", str(results), *more])


def _lines(printed: str, name: str) -> list[list[str]]:
    return [line.split(" | ")[1:] for line in printed.splitlines() if line.startswith(f"| {name} ")]


def test_every_suite_has_a_table_and_every_detector_a_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(data, tmp_path / "results", "--detectors", OURS_AND_FLOOR, "--seeds", "2")
    printed = capsys.readouterr()
    for title in ("NAB, 1 series", "SKAB, 1 runs", "Demo, 1 machines"):
        assert title in printed.out
    ours, floor = _lines(printed.out, "svead-stream"), _lines(printed.out, "trivial z-score")
    assert [line[0] for line in ours] == ["2", "2", "2"]
    assert all(" ± " in cell for line in ours for cell in line[1:])
    assert [line[0] for line in floor] == ["1", "1", "1"]  # no chance in it: one seed tells all
    assert floor[0][1:3] == ["95.0", "95.0"]
    assert len(_lines(printed.out, "*always alarm*")) == 1
    assert "svead-stream on nab/peak, seed 1" in printed.err


def test_a_second_run_scores_nothing_again_and_knows_a_file_that_has_changed(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(data, tmp_path, "--detectors", "trivial")
    first = capsys.readouterr()
    _run(data, tmp_path, "--detectors", "trivial")
    second = capsys.readouterr()
    assert "trivial z-score on skab/fault, seed 0" in first.err
    assert second.err == ""
    assert second.out == first.out
    with np.load(data / "skab" / "fault.npz") as run:
        shorter = {key: run[key][:650] for key in run}
    np.savez(data / "skab" / "fault.npz", **shorter)
    _run(data, tmp_path, "--detectors", "trivial")
    assert capsys.readouterr().err.splitlines() == ["trivial z-score on skab/fault, seed 0"]
    _run(data, tmp_path, "--detectors", "trivial", "--again", "trivial")
    assert "trivial z-score on nab/peak, seed 0" in capsys.readouterr().err


def test_a_table_of_what_is_known_runs_nothing(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(data, tmp_path, "--table-only")
    printed = capsys.readouterr()
    assert printed.err == ""
    assert _lines(printed.out, "svead-stream") == []


def test_one_folder_is_enough_and_none_is_an_error(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "nab" / "peak.npz").unlink()
    _run(data, tmp_path / "results", "--detectors", "trivial")
    printed = capsys.readouterr()
    assert "NAB" not in printed.out
    assert f"no .npz files in {data / 'nab'}: left out" in printed.err
    with pytest.raises(SystemExit):
        _run(tmp_path / "results", tmp_path / "results")
    assert "one of them is needed" in capsys.readouterr().err


def test_a_file_of_another_form_is_named(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(data / "nab" / "wrong.npz", value=np.zeros(3))
    with pytest.raises(SystemExit):
        _run(data, tmp_path)
    assert "wrong.npz has the keys ['value']; time, value, window" in capsys.readouterr().err


def test_the_forest_is_named_and_left_out_where_there_is_no_maven(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_rcf.shutil, "which", lambda program: None if program == "mvn" else f"/usr/bin/{program}")
    _run(data, tmp_path, "--detectors", "AWS,trivial")
    printed = capsys.readouterr()
    assert "Left out: AWS RandomCutForest (mvn is not installed)." in printed.out
    assert len(_lines(printed.out, "trivial z-score")) == 3


def test_a_peer_that_fails_or_is_not_installed_does_not_end_the_comparison(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(setting: _peers.Setting) -> _peers.Step:
        raise ModuleNotFoundError("No module named 'absent'", name="absent")

    def broken(setting: _peers.Setting) -> _peers.Step:
        raise RuntimeError("cannot")

    detectors = (_peers.Detector("absent", "raw", absent), _peers.Detector("broken", "raw", broken))
    monkeypatch.setattr(real, "REAL_DETECTORS", (*detectors, real.REAL_DETECTORS[-1]))
    _run(data, tmp_path)
    printed = capsys.readouterr().out
    assert "Left out: absent (not installed: No module named 'absent')." in printed
    assert "Left out: broken (RuntimeError on nab/peak: cannot)." in printed
    assert len(_lines(printed, "trivial z-score")) == 3


def test_a_detector_that_cannot_tell_yet_scores_zero(data: Path) -> None:
    one = _real.nab(data / "nab")[0]
    detector = _peers.Detector("early", "raw", lambda setting: lambda X: np.r_[np.inf, np.nan, np.ones(len(X) - 2)])
    assert _scores.score(detector, one, 0)[:3].tolist() == [0.0, 0.0, 1.0]


def test_the_floor_counts_deviations_from_what_was_seen_before() -> None:
    step = real._deviations(_peers.Setting(2, 0, np.zeros((0, 2))))
    X = np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [6.0, 5.0]])
    # A constant feature says nothing; 6 lies 4 above the mean of 1, 3, 2, whose deviation is sqrt(2 / 3).
    assert step(X) == pytest.approx([0.0, 0.0, 0.0, 4.0 / np.sqrt(2.0 / 3.0) / 2.0])


def test_the_forest_gives_scores_or_grades(monkeypatch: pytest.MonkeyPatch) -> None:
    said = np.array([[0.5, 0.0], [3.0, 0.8]], dtype=">f8").tobytes()  # score and grade of each row
    commands = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, said, b"")

    monkeypatch.setattr(_rcf, "_jars", lambda: Path("jars"))
    monkeypatch.setattr(_rcf.subprocess, "run", run)
    setting, X = _peers.Setting(1, 6, np.zeros((0, 1))), np.zeros((2, 1))
    assert _rcf.random_cut_forest(setting)(X).tolist() == [0.5, 3.0]
    assert _rcf.random_cut_forest_grades(shingle=8)(setting)(X).tolist() == [0.0, 0.8]
    assert [command[-3:] for command in commands] == [["1", "6", "1"], ["1", "6", "8"]]
