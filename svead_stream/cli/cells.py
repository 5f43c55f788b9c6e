"""What cells and names of columns say by themselves: numbers in text, words that tell of times and ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# What a column is, is decided on its first cells. Nearly all must agree: the rest are bad rows.
FIRST = 10_000
NEARLY_ALL = 0.9

# What stands for a missing value where other cells are numbers, in small letters.
_MISSING = pa.array(
    [
        *("", "na", "n/a", "<na>", "n.a.", "nan", "-nan", "null", "nil", "none", "missing", "?", "-", "--", "."),
        "\\n",  # of MySQL and PostgreSQL
        *("#n/a", "#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!"),  # of spreadsheets
    ]
)
_NUMBER = r"^[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|infinity|nan)$"
_WORD_ENDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # as in createdAt and HTTPTime
_WORD = re.compile(r"\d+|[^\W\d_]+")
_TIMES = {"time", "timestamp", "stamp", "ts", "date", "datetime", "epoch", "unixtime", "utc", "clock", "when"}
_IDS = {"id", "uuid", "guid"}
_LAST_OF_IDS = {"key", "index", "idx", "no", "nr", "number"}  # but a number of something is an honest count


def is_text(kind: pa.DataType) -> bool:
    """Whether cells of this type are strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether cells of this type are numbers; true and false are none."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def first_filled(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """The first cells that are not missing; blank text and words such as `-` are missing too."""
    filled = cells.drop_null()
    if is_text(cells.type):
        filled = filled.filter(pc.invert(_are_missing(pc.utf8_trim_whitespace(filled))))
    return filled.slice(0, FIRST)


def floats(cells: pa.ChunkedArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Cells as numbers, missing ones as NaN, and which of them are no numbers."""
    wrong = np.zeros(len(cells), dtype=np.bool_)
    try:
        numbers = pc.cast(cells, pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        try:
            texts = pc.utf8_trim_whitespace(pc.cast(cells, pa.string()))
        except pa.ArrowNotImplementedError:  # lists and the like
            return np.full(len(cells), np.nan), cells.is_valid().to_numpy().copy()
        texts = pc.if_else(_are_missing(texts), None, texts)
        right = pc.match_substring_regex(texts, _NUMBER, ignore_case=True)
        wrong = ~pc.fill_null(right, True).to_numpy()
        numbers = pc.cast(pc.if_else(right, texts, None), pa.float64())
    return numbers.to_numpy().astype(np.float64, copy=False), wrong


def _are_missing(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.is_in(pc.utf8_lower(texts), _MISSING)


def says_time(name: str) -> bool:
    """Whether the name of a column says that it is a clock: `timestamp`, `event_time`, `createdAt`."""
    parts = words(name)
    return not _TIMES.isdisjoint(parts) or (len(parts) > 1 and parts[-1] == "at")


def says_id(name: str) -> bool:
    """Whether the name of a column says that it tells rows apart: `id`, `userId`, `order number`."""
    parts = words(name)
    return not _IDS.isdisjoint(parts) or (bool(parts) and parts[-1] in _LAST_OF_IDS)


def words(name: str) -> list[str]:
    """The parts of a name in small letters: `userId`, `user_id` and `User ID` are user and id."""
    return [word.lower() for word in _WORD.findall(_WORD_ENDS.sub(" ", name))]


def found_twice(names: Sequence[str]) -> str | None:
    """A name that is there more than once."""
    name, n = Counter(names).most_common(1)[0] if names else ("", 0)
    return name if n > 1 else None


def shorten(cell: object) -> str:
    """A cell as it is shown in messages."""
    shown = repr(cell)
    return shown if len(shown) <= 40 else shown[:37] + "..."
