"""Packages that import a part when it is first asked for: command lines show their help before NumPy is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from svead_stream.errors import MissingExtra


def exports(
    package: str, modules: Mapping[str, str], extra: str = "", libraries: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package
        Its name.
    modules
        Public names, and the module of the package that each is in.
    extra, libraries
        The extra that brings the libraries without which nothing of the package works.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        for library in libraries:
            if find_spec(library) is None:
                raise MissingExtra(
                    f"{package} needs {library}, which is not installed: pip install 'svead-stream[{extra}]'"
                )
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get, lambda: sorted([*vars(import_module(package)), *modules])
