"""Files that are there whole or not at all: written beside their names, and renamed at the end of the run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from svead_stream.cli.errors import DataError


class Drafts:
    """The files of a run. Until they are kept, what stood under their names before stands there still."""

    def __init__(self) -> None:
        self._drafts: dict[str, str] = {}  # where each is written, by where it belongs
        self._scratch: list[str] = []
        self.kept = False  # whether any file has its name by now

    def place(self, path: str) -> str:
        """Where to write a file for now; devices and pipes, which cannot be renamed to, are written as they are."""
        target = os.path.realpath(path)
        if os.path.exists(target) and not os.path.isfile(target):
            return path
        self._drafts[target] = f"{target}.{os.getpid()}.part"
        return self._drafts[target]

    def scratch(self) -> str:
        """Where to write what is passed on at the end: it is removed with the run."""
        handle, path = tempfile.mkstemp(prefix="svead-stream-")
        os.close(handle)
        self._scratch.append(path)
        return path

    def keep(self, only: str | None = None) -> None:
        """Give the files that were written their names, or one of them, and drop the others."""
        for target, draft in self._drafts.items():
            if os.path.exists(draft) and (only is None or os.path.realpath(only) == target):
                with writing(target):
                    if os.path.exists(target):
                        shutil.copymode(target, draft)
                    os.replace(draft, target)
                self.kept = True
        self.drop()

    def drop(self) -> None:
        """Remove what was written; nothing that was kept."""
        for path in [*self._drafts.values(), *self._scratch]:
            Path(path).unlink(missing_ok=True)
        self._drafts.clear()
        self._scratch.clear()


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Say which file could not be written, and why: a full disk, most likely."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DataError(f"cannot write {'stdout' if path == '-' else path}: {reason}") from error
