"""Words that messages have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def counted(n: int, word: str) -> str:
    """So many of something: `1 row`, `1,200 rows`.

    Examples
    --------
    >>> counted(1, "incident"), counted(12_000, "incident"), counted(2, "labelled stretch")
    ('1 incident', '12,000 incidents', '2 labelled stretches')
    """
    return f"{n:,} {word}" + ("" if n == 1 else "es" if word.endswith("ch") else "s")


def listed(words: Sequence[str], most: int = 8) -> str:
    """Some words, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about a name that is unknown: which of some names it is like; nothing if it is like none.

    Examples
    --------
    >>> did_you_mean("Temprature", ["time", "temperature"]), did_you_mean("x", ["time", "temperature"])
    ("; did you mean 'temperature'?", '')
    """
    folded = {one.casefold(): one for one in names}
    near = get_close_matches(name.casefold(), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def printable(name: str) -> str:
    """A name as it stands in a line: one with line ends or other controls in it is quoted."""
    return name if name.isprintable() else repr(name)
