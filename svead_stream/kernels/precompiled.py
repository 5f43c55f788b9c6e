"""Kernels compiled when the package was built, so that nobody waits for the compiler at a first start.

They are object code for processors of a few kinds. Where none fits, or Python or Numba is another one, kernels are
compiled where they run; scores are the same bit for bit.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import get_host_cpu_features
from numba.core.compiler import CompileResult

FOLDER = Path(__file__).with_name("objects")
BUILT_FOR = "SVEAD_STREAM_PRECOMPILE"  # names the kind in the environment of a process that compiles for it

_V3 = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
KINDS = {"x86-64-v4": _V4, "x86-64-v3": _V3}  # LLVM's names, and what a processor must have; the fastest first

_config: Any = numba.config


def _sources() -> str:
    """What changes with the source of any kernel."""
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


SOURCES = _sources()


def kinds_for(features: str) -> list[str]:
    """The kinds that fit a processor with these features, as LLVM lists them: `+fma,-sha`."""
    has = {name[1:] for name in features.split(",") if name.startswith("+")}
    return [kind for kind, needed in KINDS.items() if needed <= has]


@cache
def kinds_here() -> list[str]:
    """The kinds to look for in this process."""
    if BUILT_FOR in os.environ:
        return [os.environ[BUILT_FOR]]
    if _config.CPU_NAME is not None or _config.CPU_FEATURES is not None:  # who names a processor gets code for it
        return []
    if _config.USING_SVML:  # other functions of mathematics than those of the C library, which were built in
        return []
    return kinds_for(get_host_cpu_features())


class Precompiled:
    """What there is of one kernel. Numba's files tell other releases of Numba apart, their names the rest."""

    def __init__(self, function: Any) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}.{sys.implementation.cache_tag}.{SOURCES}"
        self.folders = [FOLDER / kind for kind in kinds_here()]

    def _file(self, folder: Path) -> IndexDataCacheFile:
        return IndexDataCacheFile(str(folder), self.name, SOURCES)

    def load(self, signature: Any, context: Any) -> Any:
        """The kernel for arguments of these types, or None."""
        for folder in self.folders:
            if folder.is_dir() and (reduced := self._file(folder).load(signature)) is not None:
                return CompileResult._rebuild(context, *reduced)
        return None

    def save(self, signature: Any, result: Any) -> None:
        """Into the package: for one kind, since a process compiles for no more."""
        [folder] = self.folders
        folder.mkdir(parents=True, exist_ok=True)
        self._file(folder).save(signature, result._reduce())


def remove_old() -> None:
    """What was compiled of other sources than these."""
    for file in FOLDER.rglob("*.nb[ic]"):
        if SOURCES not in file.name:
            file.unlink(missing_ok=True)
