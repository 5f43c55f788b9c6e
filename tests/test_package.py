"""The package as a whole: what it exports, how it is imported, where its kernels are cached."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import svead_stream

PUBLIC = {
    "ConformalFilter",
    "MissingExtra",
    "SVEAD",
    "SnapshotError",
    "StreamingSVEAD",
    "SveadError",
    "from_bytes",
    "load",
    "save",
    "warm_up",
}


def python(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_public_names_are_these():
    assert set(svead_stream.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(svead_stream, name).__module__.startswith("svead_stream")
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = svead_stream.nothing_such
    assert set(dir(svead_stream)) >= PUBLIC


def test_importing_the_package_loads_nothing_heavy():
    loaded = python("import sys, svead_stream, json; print(json.dumps(list(sys.modules)))")
    assert not {"numpy", "numba", "river", "sklearn"} & set(json.loads(loaded))


def test_warm_up_compiles_what_a_stream_needs():
    counted = python(
        "import svead_stream as s, json;"
        "from svead_stream.kernels import lasting as l, ranks as a, refresh as r, stream as k;"
        "s.warm_up();"
        "kernels = [k.score_event, k.learn_event, r.refresh, k.stream, l.to_scores, a.rank];"
        "before = [len(f.signatures) for f in kernels];"
        "m = s.StreamingSVEAD();"
        "[(m.score_one({'a': i}), m.learn_one({'a': i})) for i in range(600)];"
        "m.score_learn_many([[1.0]]);"
        "print(json.dumps([before, [len(f.signatures) for f in kernels]]))"
    )
    before, after = json.loads(counted)
    assert before == after
    assert all(before)


def test_without_a_place_for_a_cache_kernels_work_uncached(tmp_path):
    """Numba is told that no folder can be written, as in a read-only install without a home."""
    out = python(
        "import numba.core.caching as c;"
        "c._CacheLocator.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError('read-only'));"
        "from svead_stream.kernels.simd import kernel;"
        "f = kernel(lambda x: x + 1);"
        "print(f(1), type(f._cache).__name__)"
    )
    assert out.split() == ["2", "NullCache"]


def test_a_loop_and_a_mini_batch_in_two_threads_do_not_disturb_each_other():
    from concurrent.futures import ThreadPoolExecutor

    X = np.random.default_rng(0).normal(size=(5000, 5))
    expected = svead_stream.StreamingSVEAD(seed=1).score_learn_many(X)
    with ThreadPoolExecutor(4) as pool:
        models = [svead_stream.StreamingSVEAD(seed=1) for _ in range(4)]
        for scores in pool.map(lambda model: model.score_learn_many(X), models):
            np.testing.assert_array_equal(scores, expected)
