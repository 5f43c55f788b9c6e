"""The benchmark of real streams on tiny data: it scores, goes on where it was stopped, names what is missing."""

from __future__ import annotations

from pathlib import Path

import _peers
import _rcf
import _real
import numpy as np
import pytest
import real

OURS_AND_FLOOR = "svead,trivial"


@pytest.fixture(autouse=True)
def _one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_real, "MACHINES", (7,))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A series of NAB's form with one peak, and a run of SKAB's with a lasting fault."""
    rng = np.random.default_rng(0)
    for name in ("nab", "skab"):
        (tmp_path / "data" / name).mkdir(parents=True)
    value, window = rng.normal(size=600), np.full(600, -1)
    window[400:420], value[402] = 0, 30.0
    weight = np.where(window >= 0, 0.9, -1.0)
    probation = np.arange(600) < 90
    path = tmp_path / "data" / "nab" / "peak.npz"
    np.savez(path, value=value, window=window, weight=weight, probation=probation, n_windows=1)
    X, y = rng.normal(size=(700, 3)), np.zeros(700, dtype=np.int64)
    X[600:], y[600:] = X[600:] + 8.0, 1
    np.savez(tmp_path / "data" / "skab" / "fault.npz", X=X, y=y)
    return tmp_path / "data"


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
        shorter = {"X": run["X"][:650], "y": run["y"][:650]}
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
    assert "wrong.npz has the keys ['value']; value, window" in capsys.readouterr().err


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
    assert real.score(detector, one, 0)[:3].tolist() == [0.0, 0.0, 1.0]


def test_the_floor_counts_deviations_from_what_was_seen_before() -> None:
    step = real._deviations(_peers.Setting(2, 0, np.zeros((0, 2))))
    X = np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [6.0, 5.0]])
    # A constant feature says nothing; 6 lies 4 above the mean of 1, 3, 2, whose deviation is sqrt(2 / 3).
    assert step(X) == pytest.approx([0.0, 0.0, 0.0, 4.0 / np.sqrt(2.0 / 3.0) / 2.0])
