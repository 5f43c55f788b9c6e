"""The sample: uniform over rows with all their copies, and a function of the data and the seed alone."""

from __future__ import annotations

import numpy as np
import pytest
from svead_spark.column_stats import ColumnStats
from svead_spark.draw import HeavyHitters, fingerprints, first_to_ring, waits

from svead_stream.geometry import spreads


def naive_sample(keys, size):
    """Every copy of every value with its ring, sorted: needs all of the data at once."""
    rings = []
    for key, copies in zip(*np.unique(keys, return_counts=True), strict=True):
        time = 0.0
        for i in range(copies):
            time += waits(np.array([key], np.uint64), i)[0] / (copies - i)
            rings.append((time, int(key)))
    return [key for _, key in sorted(rings)[:size]]


def sample_of_parts(parts, size, slots):
    """As a cluster does it; None if the slots did not suffice."""
    total = HeavyHitters(slots)
    for part in parts:
        hitters = HeavyHitters(slots)
        for batch in np.array_split(part, 3):
            hitters.add_rows(batch)
        total.add(*hitters.kept(), hitters.error)
    keys = total.candidates(size)
    if keys is None:
        return None
    there, counts = np.unique(np.concatenate(parts), return_counts=True)
    counts = counts[np.searchsorted(there, keys)]
    return keys[first_to_ring(keys, counts, size)].tolist()


@pytest.mark.parametrize("n_parts", [1, 2, 7])
@pytest.mark.parametrize("data", ["distinct", "few values", "skewed"])
def test_the_sample_of_any_parts_is_that_of_all_rows(data, n_parts):
    rng = np.random.default_rng(0)
    values = {
        "distinct": np.arange(6000.0),
        "few values": rng.integers(12, size=6000).astype(float),
        "skewed": np.floor(rng.pareto(0.5, size=6000)),
    }[data]
    keys = fingerprints(rng.permutation(values)[:, None], seed=3)
    parts = np.array_split(keys, np.sort(rng.integers(6000, size=n_parts - 1)))
    assert sample_of_parts(parts, 40, 16 * 40) == naive_sample(keys, 40)


def test_too_few_slots_are_noticed_and_never_change_the_sample():
    keys = fingerprints(np.arange(20_000.0)[:, None], seed=1)
    expected = naive_sample(keys, 50)
    results = [sample_of_parts(np.array_split(keys, 4), 50, slots) for slots in (50, 100, 800, 30_000)]
    assert results[0] is None
    assert all(result == expected for result in results if result is not None)
    assert results[2] == results[3] == expected


def test_each_value_is_drawn_in_proportion_to_its_copies_with_the_variance_of_drawing_without_replacement():
    copies = np.array([50, 30] + [1] * 20)
    X = np.repeat(np.arange(22.0), copies)[:, None]
    drawn = np.zeros((3000, 22))
    for seed in range(len(drawn)):
        keys = fingerprints(X, seed)
        code = {key: i for i, key in enumerate(keys[np.cumsum(copies) - 1].tolist())}
        for key in sample_of_parts([keys], 10, 160):
            drawn[seed, code[key]] += 1
    share = copies / 100
    variance = 10 * share * (1 - share) * 90 / 99  # hypergeometric
    assert drawn.sum(axis=1).tolist() == [10] * 3000
    assert np.abs(drawn.mean(axis=0) - 10 * share).max() < 4.5 * np.sqrt(variance.max() / 3000)
    np.testing.assert_allclose(drawn[:, :2].var(axis=0), variance[:2], rtol=0.12)
    assert drawn[:, 2:].max() == 1


def test_fingerprints_see_the_order_of_values_the_seed_and_what_is_missing_but_no_bit_patterns():
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    X = np.array([[1, 2], [2, 1], [0.0, np.nan], [-0.0, other_nan], [np.nan, 0.0]])
    keys = fingerprints(X, 0)
    assert keys[2] == keys[3]
    assert len(set(keys.tolist())) == 4
    assert not set(keys.tolist()) & set(fingerprints(X, 1).tolist())


def test_column_statistics_of_parts_make_the_scales_of_the_whole_despite_large_offsets():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(999, 5)) * [1, 1e-3, 5, 0, 1] + [0, 1e6, 0, 3, 0]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = np.nan
    whole = ColumnStats(5)
    for part in np.array_split(X, 7):
        stats = ColumnStats(5)
        for batch in np.array_split(part, 3):
            stats.add(batch)
        whole.merge(ColumnStats.from_bytes(stats.to_bytes()))
    assert whole.rows == 999
    for scaling in ("none", "std", "range"):
        np.testing.assert_allclose(whole.scales(scaling, X[:0])[:4], spreads(X[:, :4], scaling), rtol=1e-7)
        assert whole.scales(scaling, X[:0])[4] == 0
    assert whole.scales("iqr", X)[:4].tolist() == spreads(X[:, :4], "iqr").tolist()


def test_a_column_known_in_few_rows_is_known_to_the_frame():
    X = np.full((100, 2), np.nan)
    X[:, 0] = 1.0
    X[:2, 1] = 5.0, 7.0
    stats = ColumnStats(2)
    stats.add(X)
    more = stats.completed(X[50:])
    assert more.shape == (52, 2)
    assert sorted(more[-2:, 1].tolist()) == [5.0, 7.0]
    assert np.isnan(more[-2:, 0]).all()
    assert stats.scales("iqr", X[50:]).tolist() == [1.0, 1.0]
