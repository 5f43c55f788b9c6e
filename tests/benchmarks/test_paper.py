"""The paper's benchmark on tiny data: it writes what it says, goes on when stopped, and its statistics are right."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the benchmarks need the extra 'bench'")
import _paper_methods
import _paper_studies
import paper
from _idk import IDK
from _paper_figures import groups
from _paper_ranks import rank
from _paper_store import Store, load_all
from _paper_tables import likely_reason

FILES = ["22_magic.gamma.npz", "35_SpamBase.npz", "99_own.npz"]  # two that the paper has, one that it has not


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for seed, name in enumerate(FILES):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(90, 3))
        y = np.arange(90) < 30
        X[y] *= 4.0
        np.savez(folder / name, X=X, y=y.astype(np.int64))
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ensembles, and grids of two settings."""
    for module in (_paper_methods, _paper_studies):
        monkeypatch.setattr(module, "T", 10)
    monkeypatch.setattr(_paper_studies, "SIZES", [4, 16])
    monkeypatch.setattr(_paper_studies, "SIZES_T", (5, 10))
    for method in _paper_methods.METHODS:
        few = replace(method, grid=method.grid[4:9:4] or method.grid)
        monkeypatch.setitem(_paper_methods.BY_NAME, method.name, few)


def run(data: Path, results: Path, only: str, *more: str) -> int:
    arguments = ["--data", str(data), "--results", str(results), "--only", only, "--methods", "LOF,IDK"]
    return paper.main([*arguments, "--seeds", "2", *more])


def test_every_experiment_writes_its_tables_and_its_picture(data: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    assert run(data, results, ",".join(paper.EXPERIMENTS), "--largest", "200", "--limit", "5") == 0
    for name in paper.EXPERIMENTS:
        assert (results / f"{name}.md").read_text().startswith("# ")
        assert (results / f"{name}.png").stat().st_size > 5_000
    with (results / "auc_roc.csv").open() as file:
        rows = {row["data set"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"magic.gamma", "SpamBase", "own"}
    assert float(rows["own"]["SVEAD"]) > 0.7
    assert rows["own"]["paper"] == "nan"
    assert rows["magic.gamma"]["paper"] == "0.8241"


def test_an_interrupted_run_goes_on_and_ends_as_if_it_had_not_been(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert run(data, whole, "tables") == 0
    fit, calls = _paper_methods.fit, 0

    def fit_until_stopped(*arguments: Any) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise KeyboardInterrupt
        return fit(*arguments)

    monkeypatch.setattr(_paper_methods, "fit", fit_until_stopped)
    assert run(data, stopped, "tables") == 130
    assert "the same command goes on" in capsys.readouterr().err
    with (stopped / "results.jsonl").open("a") as file:
        file.write('\n{"key": "tables | own')  # as a kill in mid-write leaves it
    assert run(data, stopped, "tables") == 0
    assert (stopped / "auc_roc.csv").read_text() == (whole / "auc_roc.csv").read_text()
    fits = calls
    assert run(data, stopped, "tables") == 0
    assert calls == fits  # nothing is measured twice
    assert run(data, stopped, "tables", "--again", "IDK") == 0
    assert calls > fits


def test_a_time_limit_leaves_settings_out_and_marks_the_method(data: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    arguments = ["--data", str(data), "--results", str(results), "--only", "tables", "--methods", "LOF"]
    assert paper.main([*arguments, "--seeds", "1", "--limit", "0"]) == 0
    keys = Store(results / "results.jsonl").rows
    assert sum("| LOF |" in key for key in keys) == len(FILES)  # one setting each
    assert all("†" in line for line in _lines(results / "tables.md") if line.startswith("| own | 90"))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_large_sets_are_cut_the_same_way_every_time(data: Path) -> None:
    once, again = load_all(data, 60, ["magic.gamma"]), load_all(data, 60, ["magic.gamma"])
    assert [len(d.y) for d in once] == [60, 60, 60]
    assert all(np.array_equal(a.X, b.X) for a, b in zip(once, again, strict=True))
    assert once[0].capped
    assert len(once[0].whole().y) == 90


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--only", "tables"], "--data is needed for tables"), (["--only", "cooking"], "--only cooking: known are")],
)
def test_a_wrong_call_is_told_what_is_right(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        paper.main(arguments)
    assert stop.value.code == 2
    assert says in capsys.readouterr().err


def test_an_empty_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper.main(["--data", str(tmp_path), "--results", str(tmp_path / "r"), "--only", "tables"]) == 1
    assert f"no usable .npz files in {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize("cells", ["sphere", "voronoi"])
def test_idk_is_the_inner_product_of_feature_vectors(cells: str) -> None:
    """Against feature vectors written out in full: t times psi zeros and ones for each point."""
    X = np.random.default_rng(1).normal(size=(40, 2))
    model = IDK(4, t=7, cells=cells, seed=2).fit(X)
    rng = np.random.default_rng(2)
    vectors = np.zeros((40, 7, 4))
    for k in range(7):
        centres = X[rng.choice(40, 4, replace=False)]
        for i, x in enumerate(X):
            apart = [float(np.linalg.norm(x - c)) for c in centres]
            j = int(np.argmin(apart))
            radius = min(float(np.linalg.norm(centres[j] - c)) for o, c in enumerate(centres) if o != j)
            vectors[i, k, j] = apart[j] <= radius or cells == "voronoi"
    flat = vectors.reshape(40, -1)
    np.testing.assert_allclose(model.similarity_, flat @ flat.mean(axis=0) / 7, atol=1e-12)
    np.testing.assert_allclose(model.similarity(X), model.similarity_)


def test_ranks_and_the_critical_difference_are_those_of_the_textbook() -> None:
    """Demsar (2006): four classifiers on 14 data sets have a critical difference of 1.25 at 0.05."""
    values = np.random.default_rng(0).normal(size=(14, 4))
    ranking = rank(values, alpha=0.05)
    assert ranking.difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert ranking.ranks.sum() == pytest.approx(10)
    assert rank(np.array([[3.0, 2.0, 2.0], [9.0, 1.0, 5.0]])).ranks.tolist() == [1.0, 2.75, 2.25]


def test_groups_are_the_longest_runs_within_the_critical_difference() -> None:
    assert groups(np.array([1.0, 1.5, 2.4, 4.0, 4.2]), 1.0) == [(0, 1), (1, 2), (3, 4)]
    assert groups(np.array([1.0, 3.0]), 1.0) == []


def test_the_reason_of_a_deviation_follows_the_evidence() -> None:
    by_scaling = {"none": 0.70, "std": 0.80, "iqr": 0.90, "range": 0.75}
    nan = float("nan")
    assert likely_reason(0.1, 0.80, by_scaling, nan, nan, 100).startswith("scaling: with std alone")
    assert likely_reason(-0.1, 0.99, by_scaling, 0.985, nan, 100).startswith("cap")
    assert likely_reason(-0.1, 0.99, by_scaling, nan, nan, 9).endswith("9 anomalies only, so that each weighs much")
    assert likely_reason(-0.1, 0.99, by_scaling, 0.95, 0.985, 100).startswith("grid")
    assert likely_reason(0.3, 0.60, by_scaling, nan, nan, 100).startswith("search")
