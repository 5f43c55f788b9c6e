"""What a column is, by its first cells and its name: numbers to learn, a clock, a counter, an id."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from svead_stream.cli.cells import NEARLY_ALL, first_filled, floats, is_number, is_text, says_id, says_time, shorten
from svead_stream.cli.clocks import Kind, find, goes_forward

_MANY = 0.5  # of the cells: a column of numbers, but for some words
_ROWS = 50  # fewer different integers may be so by chance
_SMALL = 10  # the mean step of a counter of which some rows are missing
_ROUNDING = 1e-3  # by which equal steps of fractions may differ
_INTEGER = r"^\s*[+-]?\d+\s*$"


def clocks(table: pa.Table, names: Iterable[str]) -> dict[str, Kind]:
    """The columns that are clearly clocks, the best first.

    Parameters
    ----------
    table
        The first rows.
    names
        Columns to look at.

    """
    found = {name: kind for name in names if (kind := find(table[name], name)) is not None}

    def rank(name: str) -> tuple[bool, bool]:
        return not says_time(name), not goes_forward(found[name].seconds(first_filled(table[name])))

    return {name: found[name] for name in (sorted(found, key=rank) if len(found) > 1 else found)}


def unfit(cells: pa.ChunkedArray, name: str) -> str | None:
    """Why a column is left out; None if it is a feature.

    Parameters
    ----------
    cells
        The first of the column.
    name
        Of the column.

    """
    if not is_number(cells.type) and not pa.types.is_boolean(cells.type):
        if not is_text(cells.type):
            return str(cells.type)
        first = first_filled(cells)
        wrong = floats(first)[1]
        share = 1 - float(wrong.mean()) if len(first) else 0.0
        if share < NEARLY_ALL:
            mixed = f" such as {shorten(first[int(wrong.argmax())].as_py())} among numbers" if share >= _MANY else ""
            return f"text{mixed}"
    return _serial(cells, name)


def _serial(cells: pa.ChunkedArray, name: str) -> str | None:
    """Whether numbers tell rows apart rather than what is in them: integers that are all different, in order or ids.

    Repeated ones and fractions are measurements, and so are different ones in no order unless the name says more. But
    a time that only grows, or the same fraction added row by row, is none.
    """
    first = first_filled(cells)
    values = floats(first)[0]
    first, values = first.filter(pa.array(np.isfinite(values))), values[np.isfinite(values)]
    if len(values) < _ROWS or pa.types.is_boolean(first.type):
        return None
    steps = np.diff(values)  # 0 where numbers have more digits than a float
    if steps[0] and np.allclose(steps, steps[0], rtol=_ROUNDING, atol=0.0):
        return "looks like a counter"
    if says_time(name) and steps.any() and not (steps < 0).any():
        return "looks like elapsed time"
    if not _are_integers(first) or pc.count_distinct(first).as_py() < len(values):
        return None
    if steps.all() and steps.min() > 0 and steps.mean() <= _SMALL:
        return "looks like a counter"
    return "looks like an id" if says_id(name) else None


def _are_integers(cells: pa.ChunkedArray) -> bool:
    if is_text(cells.type):
        return bool(pc.all(pc.match_substring_regex(cells, _INTEGER), min_count=0).as_py())
    return bool(pa.types.is_integer(cells.type))
