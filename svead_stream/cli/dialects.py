"""How a CSV is written, found out from its first lines: separator, header, comments, what stands before the table."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import click

from svead_stream.cli.cells import NEARLY_ALL, found_twice
from svead_stream.cli.errors import DataError
from svead_stream.cli.words import counted

SPACES = " "  # the separator of files whose cells are apart by any number of spaces and tabs
COMMENT = "#"
_SEPARATORS = ",;\t|"
_WORDS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": SPACES, "spaces": SPACES}
_LONGEST_HEADER = 1000  # lines: names may hold line ends
_SAMPLE = 100  # lines to look at
_QUOTED = re.compile(r'"[^"]*"')
_EXCEL = re.compile(r'"?sep=(.)"?\s*')  # the first line of some exports
_NUMBER = re.compile(r"\s*[+-]?(\d[\d.,]*|[.,]\d+)([eE][+-]?\d+)?\s*")
_DATE = re.compile(r"\s*(\d{4}[-/]\d\d?[-/]\d\d?|\d\d?[./-]\d\d?[./-]\d{2,4})\b")
_GROWING = re.compile(r"\d+( \d+)+|\d*\.?\d+( \d*\.?\d+){2,}")
_MISSING = re.compile(r"\s*(NA|NaN|nan|NULL|null|None)\s*")
_SPACES = re.compile(rb'("[^"\n]*")|[ \t]+')
_LINE_ENDS = re.compile(rb"^ | (?=\r?$)", re.MULTILINE)


@dataclass(frozen=True)
class CsvOptions:
    """What the user says of a CSV; None is found out.

    Parameters
    ----------
    delimiter
        One character, or a word for one.
    header
        Whether the first line names the columns.
    comment
        How lines begin that are passed over.
    decimal
        The decimal sign of its numbers.

    """

    delimiter: str | None = None
    header: bool | None = None
    comment: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        for option, sign in (("--delimiter", self.separator), ("--comment", self.comment)):
            if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in '"\r\n\0'):
                raise click.UsageError(f"{option} {sign!r} is not a single character of ASCII, other than a quote")

    @property
    def separator(self) -> str | None:
        """The character."""
        return self.delimiter if self.delimiter is None else _WORDS.get(self.delimiter.lower(), self.delimiter)


class Dialect(NamedTuple):
    """How a CSV is written."""

    names: list[str]
    delimiter: str
    skip: int  # lines before the first row
    comment: str | None  # lines that begin so are no rows; None if no line is known to be one
    said: list[str]  # what was found out and may be wrong

    @property
    def clean(self) -> Callable[[bytes], bytes] | None:
        """What to do with lines before they are cut into rows."""
        if self.comment is None and self.delimiter != SPACES:
            return None
        return self._clean

    def _clean(self, lines: bytes) -> bytes:
        if self.comment is not None and self.comment.encode() in lines:
            lines = re.sub(rb"^[ \t]*%s[^\n]*" % re.escape(self.comment.encode()), b"", lines, flags=re.MULTILINE)
        return _single_spaces(lines) if self.delimiter == SPACES else lines


def _single_spaces(lines: bytes) -> bytes:
    lines = _SPACES.sub(lambda found: found[1] or b" ", lines)
    return _LINE_ENDS.sub(b"", lines)


def find(name: str, start: bytes, options: CsvOptions) -> Dialect:
    """How a CSV is written, by its first bytes.

    Parameters
    ----------
    name
        Of the source, for messages.
    start
        Its first bytes: a line at least, better many.
    options
        What is known already.

    """
    lines = _first_lines(start)
    asked, skip = options.separator, _n_leading(lines, None)
    if (excel := _EXCEL.fullmatch(lines[skip])) and any(map(str.strip, lines[skip + 1 :])):
        asked, skip = asked or excel[1], skip + 1
    n_comments = _n_leading(lines[skip:], options.comment or COMMENT)
    comments, body = lines[skip : skip + n_comments], lines[skip + n_comments :]
    if not body:  # a header that looks like a comment, and nothing else so far
        comments, body = [], lines[skip:]
    skip += len(comments)
    delimiter = asked or _separator(body)
    cells, n_lines = _header(name, body, delimiter)
    rows = _rows(body[n_lines:], delimiter)
    comment = options.comment
    said = []
    if comments and (names := _names_in_comment(comments[-1].strip(), cells, delimiter)) is not None:
        cells, rows, n_lines = names, [cells, *rows], 0
        comments = comments[:-1]
    elif (len(cells) == 1 or not _fit(cells, rows)) and (found := _after_preamble(body, asked)) is not None:
        n_before, delimiter = found
        cells, n_lines = _header(name, body[n_before:], delimiter)
        rows = _rows(body[n_before + n_lines :], delimiter)
        skip += n_before
        said.append(f"{name}: the table begins in line {skip + 1}, after {counted(n_before, 'line')} of something else")
    has_header = options.header
    if has_header is None:
        has_header = not _is_data(cells, rows)
        if not has_header:
            said.append(f"{name} has no header, only numbers in its first line (--header if these are names)")
        elif (odd := _like_a_value(cells)) is not None:
            said.append(
                f"{name}: the first line is read as names; {odd!r} looks like a value (--no-header if it is one)"
            )
    if comments:
        comment = options.comment or COMMENT
    if rows and all(len(row) == len(cells) + 1 and not row[-1].strip() for row in rows):
        cells = [*cells, ""]  # rows end with a separator, the header does not
    elif _have_names(cells, rows):
        cells = ["", *cells]
    return Dialect(_names(name, cells, has_header), delimiter, skip + (n_lines if has_header else 0), comment, said)


def _first_lines(start: bytes) -> list[str]:
    text = start.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n", _LONGEST_HEADER)[:_LONGEST_HEADER]
    return lines if any(line.strip() for line in lines) else [text]


def _n_leading(lines: Sequence[str], comment: str | None) -> int:
    """How many lines at the beginning are empty or comments."""
    for i, line in enumerate(lines):
        line = line.strip()
        if line and not (comment and line.startswith(comment)):
            return i
    return 0 if comment is None else len(lines)


def _separator(lines: list[str]) -> str:
    """The one that the header has most of, unless the rows after it have another number of cells by it."""
    header, n_lines = _first_row(lines)
    bare = _QUOTED.sub("", header)  # a name may hold any separator between quotes
    usual = sorted(_SEPARATORS, key=bare.count, reverse=True)
    candidates = [separator for separator in usual if separator in bare]
    for separator in candidates or [SPACES, *usual]:
        cells, rows = _rows([header], separator), _rows(lines[n_lines:], separator)
        if cells and rows and _fit(cells[0], rows) and (separator != SPACES or len(cells[0]) > 1):
            return separator
    return usual[0]


def _fit(header: list[str], rows: list[list[str]]) -> bool:
    """Whether at least half of the rows have as many cells as the header, or one more that is empty, or a name."""
    n = len(header)
    if _have_names(header, rows):
        return True
    n_fitting = sum(len(row) == n or (len(row) == n + 1 and not row[-1].strip()) for row in rows)
    return 2 * n_fitting >= len(rows)


def _have_names(header: list[str], rows: list[list[str]]) -> bool:
    """Whether rows begin with names or numbers of their own, of which the header says nothing: R writes them so."""
    if len(header) < 2 or len(rows) < 2 or any(len(row) != len(header) + 1 for row in rows):
        return False
    first = [row[0] for row in rows]
    return len(set(first)) == len(first) and (_counts(first) or not any(map(_is_number, first)))


def _header(name: str, lines: list[str], delimiter: str) -> tuple[list[str], int]:
    """The cells of the first row, and how many lines it has."""
    row, n_lines = _first_row(lines)
    rows = _rows([row], delimiter)
    if not rows:
        raise DataError(f"{name}: the first row is too long for a header")
    return rows[0], n_lines


def _first_row(lines: list[str]) -> tuple[str, int]:
    """The first row of a CSV: a line, or several if one ends between quotes; a quote that stays open is a stray one."""
    n_quotes = 0
    for i, line in enumerate(lines, start=1):
        n_quotes += line.count('"')
        if n_quotes % 2 == 0:
            return "\n".join(lines[:i]), i
    return lines[0], 1


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of some lines; none if they cannot be told apart."""
    lines = lines[:_SAMPLE]
    if delimiter == SPACES:
        lines = [_single_spaces(line.encode("utf-8", "replace")).decode() for line in lines]
    try:
        return [row for row in csv.reader(io.StringIO("\n".join(lines), newline="\n"), delimiter=delimiter) if row]
    except csv.Error:  # a cell of more than 128 KB
        return []


def _names_in_comment(line: str, row: list[str], delimiter: str) -> list[str] | None:
    """The names of columns, if they are in the comment above the first row."""
    if not any(map(_is_number, row)):
        return None
    for text in (line, line.lstrip(line[:1])):
        cells = _rows([text], delimiter)
        if cells and len(cells[0]) == len(row) and not any(map(_is_number, cells[0])):
            return cells[0]
    return None


def _after_preamble(lines: list[str], asked: str | None) -> tuple[int, str] | None:
    """How many lines stand before the table, and its separator; None if there is no table further down."""
    found = {}
    for separator in asked or (*_SEPARATORS, SPACES):
        parsed = (_rows([line], separator) for line in lines[:_SAMPLE])
        rows = {i: row[0] for i, row in enumerate(parsed) if row}
        if not rows:
            continue
        width = Counter(map(len, [*rows.values()][len(rows) // 2 :])).most_common(1)[0][0]
        table = [i for i, row in rows.items() if len(row) == width]
        header, *data = table
        n_after = sum(i >= header for i in rows)
        n_numbers = sum(any(map(_is_number, rows[i])) for i in data)
        is_table = 2 * n_numbers > len(data) and not any(map(_is_number, rows[header]))
        if width > 1 and header > 0 and is_table and len(table) >= NEARLY_ALL * n_after:
            found[separator] = len(table), header
    if not found:
        return None
    separator = max(found, key=lambda one: found[one][0])
    return found[separator][1], separator


def _is_data(cells: list[str], rows: list[list[str]]) -> bool:
    """Whether a row is no header: numbers and dates only, but not those that only count columns or years."""
    filled = [cell for cell in cells if cell.strip()]
    numbers = [cell for cell in filled if _is_number(cell)]
    others = [cell for cell in filled if not (_is_number(cell) or _DATE.match(cell) or _MISSING.fullmatch(cell))]
    if others or not numbers:
        return False
    return not _counts(filled) or (bool(rows) and _counts(rows[0]))


def _like_a_value(names: list[str]) -> str | None:
    """A name that is a number or begins with a date, unless names are numbers that grow, such as years."""
    odd = [name.strip() for name in names if _is_number(name)]
    if _GROWING.fullmatch(" ".join(odd)) and sorted({*odd}, key=float) == odd:
        return None
    return odd[0] if odd else names[0] if _DATE.match(names[0]) else None


def _counts(cells: list[str]) -> bool:
    numbers = [int(cell) for cell in cells if re.fullmatch(r"\s*\d{1,9}\s*", cell)]
    return len(numbers) == len(cells) > 1 and numbers == list(range(numbers[0], numbers[0] + len(cells)))


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def _names(name: str, cells: list[str], has_header: bool) -> list[str]:
    if not has_header:
        return [f"column{i}" for i in range(1, len(cells) + 1)]
    names = [cell.strip() or f"column{i}" for i, cell in enumerate(cells, 1)]
    if (twice := found_twice(names)) is not None:
        raise DataError(
            f"{name}: two columns are named {twice!r}: give them names of their own, or say --no-header if it has none"
        )
    return names
