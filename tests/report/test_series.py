"""The features' own course: what is thinned for drawing is what a slow loop over all rows says."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from svead_stream.report import Recorder
from svead_stream.report.bins import digits
from svead_stream.report.series import N_BINS, N_CELLS, N_NAMES, Series


def filled(values: dict[str, np.ndarray], parts: int) -> Series:
    """A series that got its rows in so many batches."""
    series, n = Series(), len(next(iter(values.values())))
    for rows in np.array_split(np.arange(n), parts):
        series.add({name: column[rows] for name, column in values.items()}, len(rows))
    return series


def made(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    values = {"level": rng.normal(size=n).cumsum(), "noise": rng.normal(100, 3, n), "gone": rng.normal(size=n)}
    values["noise"][rng.random(n) < 0.1] = np.nan
    values["gone"][n // 3 :] = np.nan
    values["level"][n // 2] = np.inf  # no value, either
    return values


def test_every_bin_has_the_extremes_the_mean_and_the_missing_values_of_its_rows() -> None:
    n = 19_001
    values = made(n)
    drawn = filled(values, 37).to_json(values)
    width = drawn["width"]
    assert width == 8
    for feature in drawn["features"]:
        column = np.where(np.isfinite(values[feature["name"]]), values[feature["name"]], np.nan)
        bins = [column[i : i + width] for i in range(0, n, width)]
        known = [one[~np.isnan(one)] for one in bins]
        for kind, by_hand in (("low", np.min), ("high", np.max), ("mean", np.mean)):
            expected = [float(by_hand(one)) if len(one) else None for one in known]
            assert [v is None for v in feature[kind]] == [v is None for v in expected]
            told = [v for v in feature[kind] if v is not None]
            assert told == pytest.approx([v for v in expected if v is not None], rel=1e-5)
        assert feature["missing"] == [int(np.isnan(one).sum()) for one in bins]


@pytest.mark.parametrize("parts", [1, 37, 1_500])
def test_the_usual_range_is_told_by_rows_before_whatever_the_batches(parts: int) -> None:
    values = made(1_500)
    series = filled(values, parts)
    if parts == 1:
        for row in (31, 32, 500, 1_030, 1_499):
            for name, column in values.items():
                known = column[max(0, row // 32 * 32 - 1_024) : row // 32 * 32]
                known = known[np.isfinite(known)]
                expected = np.quantile(known, (0.05, 0.5, 0.95)).tolist() if len(known) else None
                assert series.usual(row, name) == (expected and pytest.approx(expected))
        assert series.usual(3, "nothing such") is None
    whole = filled(values, 1)
    assert series.to_json(values) == whole.to_json(values)
    assert series.drift() == whole.drift()
    usual = series.to_json(values)["features"][0]["usual"]
    assert usual["at"][:3] == [0, 32, 64]
    assert usual["low"][0] is None


def test_a_move_is_measured_in_units_of_the_spread() -> None:
    rng = np.random.default_rng(3)
    n = 5_000
    steady, step = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
    step[n // 2 :] += 3.6  # two times the range of nine tenths
    told = filled({"steady": steady, "step": step, "constant": np.ones(n)}, 5).drift()
    assert told["steady"]["change"] == pytest.approx(0, abs=0.1)
    assert told["step"]["change"] == pytest.approx(2, abs=0.15)
    assert told["constant"]["change"] == 0
    assert told["step"]["rows"] == 1_024
    assert told["step"]["first"] == pytest.approx(np.quantile(step[:1_024], (0.05, 0.5, 0.95)).tolist(), rel=1e-4)
    assert told["step"]["last"] == pytest.approx(np.quantile(step[-1_024:], (0.05, 0.5, 0.95)).tolist(), rel=1e-4)
    short = filled({"step": step[2_450:2_550]}, 1).drift()["step"]
    assert short["rows"] == 32
    assert filled({"few": np.arange(9.0)}, 1).drift()["few"]["rows"] == 0


def test_features_that_come_late_were_missing_before() -> None:
    series = Series()
    for start in range(0, 3_000, 100):
        names = ["a"] if start < 1_500 else ["a", *(f"late {i}" for i in range(99))]
        series.add({name: np.arange(start, start + 100.0) for name in names}, 100)
    drawn = series.to_json(["a", "late 5"])
    first, late = drawn["features"]
    assert drawn["width"] == 16  # a hundred features have fewer bins each
    assert first["high"][-1] == late["high"][-1] == 2_999
    assert first["missing"] is None
    assert sum(late["missing"]) == 1_500
    assert series.drift()["late 5"]["missing_share"] == 0.5
    assert series.drift()["late 5"]["change"] is None


def test_thousands_of_features_and_ever_new_ones_are_bounded() -> None:
    rng = np.random.default_rng(4)
    series = Series()
    tracemalloc.start()
    for _ in range(3):
        series.add({f"f{i}": column for i, column in enumerate(rng.random((5_000, 500)))}, 500)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 250e6
    drawn = series.to_json(["f7", "f4999"])
    assert all(len(one["mean"]) <= 64 for one in drawn["features"])
    for i in range(12):
        series.add({f"new {i} {k}": np.zeros(1) for k in range(1_000)}, 1)
    assert len(series.names) == N_NAMES
    for n_features in (1, 24, 100, 700):
        few = filled({str(i): np.arange(5_000.0) for i in range(n_features)}, 2).to_json(["0"])
        assert len(few["features"][0]["mean"]) * n_features <= N_CELLS
        assert len(few["features"][0]["mean"]) <= N_BINS


def test_of_many_features_those_to_blame_and_those_that_moved_are_kept() -> None:
    recorder = Recorder()
    values = {f"f{i}": np.arange(2_000.0) * (i == 250) for i in range(400)}
    for start in range(0, 2_000, 500):
        part = {name: column[start : start + 500] for name, column in values.items()}
        recorder.add_rows(np.ones(500), np.zeros(500, dtype=bool), np.full(500, 2.0), values=part)
    recorder.add_shares({"f300": 0.9, "f7": 0.1})
    told = recorder.to_json()["features"]
    assert told["total"] == 400
    assert len(told["kept"]) == 200
    assert [one["name"] for one in told["kept"][:4]] == ["f300", "f7", "f250", "f0"]


def test_numbers_are_as_short_as_they_may_be() -> None:
    values = np.array([0.0, 1 / 3, -12_345.678, 1e300, 1e-300, 5e-324, 1.7e308, 99_999.9, np.nan, -np.inf])
    assert digits(values)[:5] == [0.0, 0.33333, -12346.0, 1e300, 1e-300]
    assert digits(values)[7:] == [100_000.0, None, None]
    assert all(v is None or v == pytest.approx(w, rel=1e-4) for v, w in zip(digits(values), values, strict=True))
    some = np.random.default_rng(5).lognormal(0, 4, 1_000)
    assert all(len(repr(v)) <= 12 for v in digits(some))
