"""The package as a whole: what it exports, and what its import costs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import svead_kafka


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_the_public_names_are_these() -> None:
    names = {"ConfigurationError", "GaveUp", "Options", "StateError", "Worker", "WorkerError"}
    assert set(svead_kafka.__all__) == names
    for name in names:
        assert getattr(svead_kafka, name).__module__.startswith("svead_kafka.")
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = svead_kafka.nothing_such
    assert set(dir(svead_kafka)) >= names


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = python("import sys, svead_kafka; print(*sys.modules)").split()
    assert not {"numpy", "numba", "river", "kafka"} & set(loaded)


@pytest.mark.parametrize("library", ["kafka", "orjson", "prometheus_client"])
@pytest.mark.parametrize("name", ["Worker", "Options"])
def test_without_its_libraries_the_package_says_how_to_install_them(library: str, name: str) -> None:
    said = python(
        f"import sys\nsys.modules['{library}'] = None\nfrom svead_stream import MissingExtra\n"
        f"try: from svead_kafka import {name}\nexcept MissingExtra as error: print(error)"
    )
    assert said.startswith(f"svead_kafka needs {library}, which is not installed")
    assert "pip install 'svead-stream[kafka]'" in said
