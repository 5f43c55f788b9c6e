"""The package as a whole: what it exports, how it is imported, where its kernels are cached."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import svead_stream

ROOT = Path(__file__).parents[1]

PUBLIC = {
    "ConformalFilter",
    "Incident",
    "MissingExtra",
    "SVEAD",
    "SnapshotError",
    "StreamingSVEAD",
    "SveadError",
    "Verdict",
    "Verdicts",
    "from_bytes",
    "load",
    "register",
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


WITHOUT_EXTRAS = "import sys; sys.modules.update(sklearn=None, pyarrow=None, pandas=None, polars=None);"


def test_streams_need_neither_scikit_learn_nor_pyarrow(tmp_path):
    code = (
        "import json, numpy as np, svead_stream as s;"
        "model = s.ConformalFilter(s.StreamingSVEAD(n_partitions=2, n_anchors=2, seed=1));"
        "model.judge_many(np.arange(40.0).reshape(20, 2), ['a', 'b']);"
        "event = {'a': 900.0, 'b': None};"
        "model.learn_one(event);"
        f"s.save(model, {str(tmp_path / 'model')!r});"
        f"again = s.load({str(tmp_path / 'model')!r});"
        "print(json.dumps([again.n_seen_, again.score_one(event) == model.score_one(event)]));"
        "print(json.dumps(again.detector.explain_one(event)))"
    )
    out = python(WITHOUT_EXTRAS + code).splitlines()
    assert json.loads(out[0]) == [21, True]
    assert json.loads(out[1]) == {"a": 1.0}
    python(WITHOUT_EXTRAS + f"from svead_stream.cli import main; main(['inspect', {str(tmp_path / 'model')!r}])")


def test_the_version_is_that_of_the_package():
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert described["project"]["version"] == svead_stream.__version__


def test_a_batch_detector_without_scikit_learn_is_an_error_that_names_the_extra(tmp_path):
    svead_stream.save(svead_stream.SVEAD(n_partitions=2).fit(np.arange(10.0)[:, None]), tmp_path / "model")
    for way in ("svead_stream.SVEAD", f"svead_stream.load({str(tmp_path / 'model')!r})"):
        out = python(
            WITHOUT_EXTRAS + f"import svead_stream\ntry: {way}\nexcept ImportError as error: print(repr(error))"
        )
        words = "SVEAD needs scikit-learn, which is not installed: pip install 'svead-stream[batch]'"
        assert out == f'MissingExtra("{words}")\n'


@pytest.mark.parametrize("command", [["score", "-"], ["watch", "FILE"], ["demo"]])
def test_commands_on_files_without_pyarrow_end_with_one_line_that_names_the_extra(command, tmp_path):
    (tmp_path / "FILE").write_text("a\n1\n")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS + f"from svead_stream.cli import main; main({command})"],
        capture_output=True, text=True, cwd=tmp_path, input="a\n1\n",
    )  # fmt: skip
    assert done.returncode == 1
    expected = f"'{command[0]}' needs pyarrow, which is not installed: pip install 'svead-stream[files]'"
    assert done.stderr == f"svead-stream: {expected}\n"


def test_warm_up_compiles_what_a_stream_needs():
    """Whatever the rules are given in: other types of numbers would be another copy of everything."""
    counted = python(
        "import svead_stream as s, json;"
        "from svead_stream.kernels import mini_batch as b, online as k, ranks as a, refresh as r;"
        "s.warm_up();"
        "kernels = [k.score_event, k.learn_event, b.run, k.attribute, r.refresh, a.p_value, a.judge_event];"
        "before = [len(f.signatures) for f in kernels];"
        "m = s.ConformalFilter(s.StreamingSVEAD(), hold_off=7.5, burn_in=3);"
        "[m.judge_one({'a': i}) for i in range(600)];"
        "m.judge_many([[1.0]]);"
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
        "from svead_stream.kernels.compiled import kernel;"
        "f = kernel(lambda x: x + 1);"
        "print(f(1), f.stats.cache_path)"
    )
    assert out.split() == ["2", "None"]


def test_a_numba_with_another_cache_is_refused_loudly():
    """Kernels of different releases would be mixed up without a word."""
    out = python(
        "import numba.core.caching as c\n"
        "init = c.Cache.__init__\n"
        "def changed(self, function): init(self, function); del self._cache_path\n"
        "c.Cache.__init__ = changed\n"
        "try: import svead_stream.kernels.search\n"
        "except ImportError as error: print(error)"
    )
    assert "keeps its cache in another way" in out


def test_tests_run_with_the_newest_numba_that_is_allowed():
    [requirement] = [one for one in metadata.requires("svead-stream") if one.startswith("numba")]
    bound = re.search(r"<0\.(\d+)", requirement)
    assert int(metadata.version("numba").split(".")[1]) == int(bound[1]) - 1, f"{requirement}: try the newest"


def test_a_loop_and_a_mini_batch_in_two_threads_do_not_disturb_each_other():
    from concurrent.futures import ThreadPoolExecutor

    X = np.random.default_rng(0).normal(size=(5000, 5))
    expected = svead_stream.StreamingSVEAD(seed=1).score_learn_many(X)
    with ThreadPoolExecutor(4) as pool:
        models = [svead_stream.StreamingSVEAD(seed=1) for _ in range(4)]
        for scores in pool.map(lambda model: model.score_learn_many(X), models):
            np.testing.assert_array_equal(scores, expected)
