"""The examples in the docstrings work."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import svead_stream


def modules() -> list[str]:
    found = pkgutil.walk_packages(svead_stream.__path__, "svead_stream.")
    return [module.name for module in found if ".kernels" not in module.name]


@pytest.mark.parametrize("name", modules())
def test_docstrings_show_what_happens(name: str) -> None:
    module: ModuleType = importlib.import_module(name)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=options).failed == 0


def test_there_are_examples_of_the_public_classes() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    for name in ("StreamingSVEAD", "SVEAD", "ConformalFilter"):
        (found,) = finder.find(getattr(svead_stream, name), name)
        assert found.examples, name
