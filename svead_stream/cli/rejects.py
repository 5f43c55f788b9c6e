"""Rows that were not scored: counted, the first few named, and all of them kept if there is a file for them."""

from __future__ import annotations

import json
from typing import IO

from svead_stream.cli.drafts import writing
from svead_stream.cli.errors import DataError
from svead_stream.cli.tables import Reject
from svead_stream.cli.words import counted


class Rejects:
    """Counts the rows that were not scored, remembers the first few, and writes all of them if there is a file.

    Parameters
    ----------
    path
        Of the file, as the user calls it.
    place
        Where it is written.
    strict
        Whether the first row ends the run.
    """

    SHOWN = 5

    def __init__(self, path: str | None, place: str | None, strict: bool) -> None:
        self.count = 0
        self.first: list[Reject] = []
        self.strict = strict
        self.path = path
        self._place = place
        self._file: IO[str] | None = None

    def add(self, rejects: list[Reject]) -> None:
        """Note rows; the first one ends the run if it is strict."""
        with writing(self.path or ""):
            if self._place is not None and self._file is None:
                self._file = open(self._place, "w", encoding="utf-8")  # noqa: SIM115
            for reject in rejects:
                self.count += 1
                if len(self.first) < self.SHOWN:
                    self.first.append(reject)
                if self._file is not None:
                    self._file.write(json.dumps(reject._asdict(), ensure_ascii=False) + "\n")
                if self.strict:
                    raise DataError(f"{reject.source}, line {reject.line} {reject.reason}")

    def close(self) -> None:
        """Finish the file."""
        if self._file is not None:
            with writing(self.path or ""):
                self._file.close()

    def summary(self) -> list[str]:
        """Lines for stderr: how many, and the first of them by name."""
        if not self.count:
            return []
        where = f", kept in {self.path}" if self.path else " (--rejects FILE keeps them)"
        lines = [f"{counted(self.count, 'row')} not scored{where}:"]
        lines += [f"  {r.source}, line {r.line} {r.reason}" for r in self.first]
        if self.count > len(self.first):
            lines.append(f"  and {self.count - len(self.first):,} more")
        return lines
