"""How kernels are compiled: when the package is built, or where they first run and then kept on disk."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core.caching import IndexDataCacheFile
from numba.core.registry import CPUDispatcher

from svead_stream.kernels.precompiled import BUILT_FOR, SOURCES, Precompiled

F = TypeVar("F", bound=Callable[..., Any])

_config: Any = numba.config


class _Part(CPUDispatcher):
    """A kernel as part of another one: not callable from Python, and compiled once for all constants it is called with.

    The ways in from Python are most of the code of a small kernel, and would be compiled with every kernel that it is
    part of.
    """

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template([types.unliteral(one) for one in args], kws)


class _Kernel(CPUDispatcher):
    """A kernel as Python calls it, and kept on disk; other kernels get the part."""

    part: Any  # a _Part

    @property
    def _numba_type_(self) -> Any:
        return types.Dispatcher(self.part)


def kernel(function: F, nogil: bool = True) -> F:
    """Compile lazily, without the GIL, cached on disk where a folder for it can be written.

    Kernels get all their arrays from outside: without Numba's allocator there is no counting of references, which
    would cost more than the search of a small partition.
    """
    if _config.DISABLE_JIT:
        return function
    options = {"nopython": True, "nogil": nogil, "error_model": "numpy", "_nrt": False}
    compiled = _Kernel(function, targetoptions=options)
    compiled.part = _Part(function, targetoptions=options | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})
    _keep(compiled)
    return cast(F, compiled)


def short_kernel(function: F) -> F:
    """A kernel that takes a few microseconds: to let go of the GIL and take it again would cost more than it gives."""
    return kernel(function, nogil=False)


class _Cache:
    """Where a kernel comes from, as its dispatcher asks for it: from the package, else from the disk."""

    def __init__(self, function: Any, on_disk: Any) -> None:
        self.precompiled = Precompiled(function)
        self.on_disk = on_disk
        self.cache_path = on_disk.cache_path
        self.flush = on_disk.flush

    def load_overload(self, signature: Any, context: Any) -> Any:
        context.refresh()
        return self.precompiled.load(signature, context) or self.on_disk.load_overload(signature, context)

    def save_overload(self, signature: Any, result: Any) -> None:
        kept = self.precompiled.save if BUILT_FOR in os.environ else self.on_disk.save_overload
        kept(signature, result)


def _keep(compiled: Any) -> None:
    """Cache a kernel on disk: where Numba does, else among the temporary files; nowhere if neither can be written."""
    try:
        compiled.enable_caching()
    except RuntimeError:  # no place that can be written
        with suppress(RuntimeError), _caching_in(_temporary_folder()):
            compiled.enable_caching()
    # Numba stamps a cached function with its own file; these call each other across files. Files of other sources
    # have other names: to read them can fail where types have moved.
    on_disk = compiled._cache
    try:
        if on_disk.cache_path is not None:
            base = f"{on_disk._impl.filename_base}.{SOURCES}"
            on_disk._cache_file = IndexDataCacheFile(on_disk._cache_path, base, SOURCES)
        compiled._cache = _Cache(compiled.py_func, on_disk)
    except (AttributeError, TypeError) as error:
        raise ImportError(
            f"Numba {numba.__version__} keeps its cache in another way than svead-stream knows, and would mix up "
            f"kernels of different releases ({error}): install a Numba that svead-stream's requirements allow"
        ) from error


@cache
def _temporary_folder() -> str:
    """A folder for temporary files that nobody else can write to, since what is cached is run; "" if there is none."""
    if not hasattr(os, "getuid"):
        return ""
    folder = Path(tempfile.gettempdir(), f"svead-stream-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        told = folder.lstat()
    except OSError:
        return ""
    own = stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid() and not told.st_mode & 0o077
    return str(folder) if own else ""


@contextmanager
def _caching_in(folder: str) -> Iterator[None]:
    named, _config.CACHE_DIR = _config.CACHE_DIR, folder
    try:
        yield
    finally:
        _config.CACHE_DIR = named
