"""The streaming benchmark on tiny data: it measures, goes on where it was stopped, reports peers that are missing."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import _peers
import _streams
import numpy as np
import pytest
import streaming

DETECTORS = "svead,river HalfSpaceTrees,river LODA"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data set of 700 points in 3 features, 5 % of them far out."""
    rng = np.random.default_rng(0)
    y = (rng.random(700) < 0.05).astype(np.int64)
    X = rng.normal(size=(700, 3)) * np.where(y == 1, 6.0, 1.0)[:, None]
    folder = tmp_path / "data"
    folder.mkdir()
    np.savez(folder / "far.npz", X=X, y=y)
    return folder


def _run(data: Path, results: Path, *more: str) -> None:
    streaming.main(["--data", str(data), "--results", str(results), *more])


def test_every_detector_gets_a_line_and_every_stream_a_row(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_streams, "DRIFT_NEEDS", 500)
    _run(data, tmp_path / "results", "--detectors", DETECTORS)
    printed = capsys.readouterr()
    lines = {line.split(" | ")[0]: line.split(" | ")[1:] for line in printed.out.splitlines() if line.startswith("| ")}
    for name in ("svead-stream", "river HalfSpaceTrees", "river LODA"):
        assert 0.0 <= float(lines[f"| {name}"][0]) <= 1.0
    assert "svead-stream on far/stationary" in printed.err
    with (tmp_path / "results" / "streaming.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * (1 + len(_streams.DRIFTS))
    ours = [row for row in rows if row["detector"] == "svead-stream" and row["kind"] == "stationary"]
    assert float(ours[0]["auc"]) > 0.9


def test_a_second_run_measures_nothing_again_and_survives_a_line_cut_short(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(data, tmp_path, "--detectors", "river LODA")
    first = capsys.readouterr()
    file = tmp_path / "streaming" / "river-LODA.jsonl"
    file.write_text(file.read_text() + '\n{"detector": "river LODA", "str')
    _run(data, tmp_path, "--detectors", "river LODA")
    second = capsys.readouterr()
    assert "river LODA on far" in first.err
    assert second.err == ""
    assert second.out == first.out
    _run(data, tmp_path, "--detectors", "river LODA", "--again", "LODA")
    assert "river LODA on far" in capsys.readouterr().err


def test_a_missing_peer_is_named_in_the_table(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(setting: _peers.Setting) -> _peers.Step:
        raise ModuleNotFoundError("No module named 'absent'", name="absent")

    monkeypatch.setattr(streaming, "DETECTORS", (_peers.Detector("absent Peer", "minmax", absent),))
    _run(data, tmp_path)
    assert "| absent Peer | not installed: No module named 'absent'" in capsys.readouterr().out


def test_a_slow_peer_is_stopped_and_marked(data: Path, tmp_path: Path) -> None:
    stream = next(_streams.streams(data, 0, 5_000, 5_000))
    slow = replace(_peers.DETECTORS[1], start=lambda setting: lambda block: np.zeros(len(block)))
    result = streaming.measure(slow, stream, limit=0.0)
    assert result["slow"]
    assert result["points"] == 0


def test_a_peer_that_never_works_is_listed_with_its_error(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(setting: _peers.Setting) -> _peers.Step:
        raise RuntimeError("cannot")

    monkeypatch.setattr(streaming, "DETECTORS", (_peers.Detector("broken Peer", "minmax", broken),))
    _run(data, tmp_path)
    row = json.loads((tmp_path / "streaming" / "broken-Peer.jsonl").read_text())
    assert row["error"] == "RuntimeError: cannot"
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| broken Peer"))
    assert "judged on 0 of 1 streams" in line
    assert "RuntimeError" in line


def test_a_failure_counts_as_chance_and_ranks_are_over_common_streams(tmp_path: Path) -> None:
    store = streaming.Store(tmp_path)
    for name, aucs in {"good": [0.9, 0.8, 0.7], "fails once": [0.6, 0.9, None], "unfinished": [1.0]}.items():
        for k, auc in enumerate(aucs):
            row = {"detector": name, "stream": f"s{k}", "kind": "stationary", "share": 0.1, "points": 9, "seconds": 3.0}
            store.add(row | ({"error": "RuntimeError: cannot"} if auc is None else {"auc": auc, "ap": auc}))
    lines = streaming.table(store, {"s0", "s1", "s2"}, {}).splitlines()
    cells = {line.split(" | ")[0]: line.split(" | ")[1:4] for line in lines if line.startswith("| ")}
    assert cells["| good"] == ["0.800", "0.800", "1.3"]
    assert cells["| fails once"] == ["0.667", "0.533", "1.7"]
    assert cells["| unfinished"][0].startswith("not compared")


@pytest.mark.parametrize("kind", _streams.DRIFTS)
def test_a_drifting_stream_keeps_the_points_of_its_data_set(data: Path, kind: str) -> None:
    X, y = _streams.load(data / "far.npz")
    stream = _streams.drifting("far", X, y, kind, 0, 5_000)
    assert len(stream.y) == len(y)
    assert stream.y.sum() == y.sum()
    again = _streams.drifting("far", X, y, kind, 0, 5_000)
    assert np.array_equal(stream.X, again.X)


def test_bursts_put_anomalies_side_by_side(data: Path) -> None:
    X, y = _streams.load(data / "far.npz")
    stream = _streams.drifting("far", X, y, "bursts", 0, 5_000)
    runs = np.flatnonzero(np.diff(np.concatenate([[0], stream.y])) == 1)
    assert len(runs) <= -(-y.sum() // 20)
    assert runs[0] >= stream.warm_up * 0.9


def test_recovery_finds_when_alerts_are_back_to_normal() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(6_000) < 0.05).astype(np.int64)
    scores = rng.random(6_000) + y
    scores[3_000:3_500] += 2.0  # everything looks strange for 500 points
    stream = _streams.Stream("made", "abrupt", 0, np.zeros((6_000, 1)), y, 256, 3_000)
    settled = scores.copy()
    settled[3_000:3_500] -= 2.0
    found = streaming.recovery(stream, scores, settled)
    assert 450 <= found["alerts_back_after"] <= 500
    assert found["auc_after"] < min(found["auc_before"], found["auc_settled"])


def test_recurring_regimes_take_turns_with_anomalies_evenly_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_streams, "TURN", 40)
    rng = np.random.default_rng(0)
    y = (np.arange(440) % 11 == 0).astype(np.int64)
    centre = rng.integers(0, 3, 440)
    X = rng.normal(size=(440, 2)) + 50.0 * centre[:, None]
    stream = _streams.drifting("made", X, y, "recurring", 0, 5_000)
    normal = (stream.X[stream.y == 0, 0] / 50.0).round().astype(int)
    turns = normal[: 3 * 3 * 40].reshape(9, 40)
    assert (turns == turns[:, :1]).all()
    assert np.array_equal(turns[:3, 0], turns[3:6, 0])
    assert sorted(turns[:3, 0]) == [0, 1, 2]
    assert np.ptp(np.diff(np.flatnonzero(stream.y == 1))) <= 1
