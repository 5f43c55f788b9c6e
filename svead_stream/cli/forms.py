"""Numbers that are written otherwise: decimal commas, thousands, units, yes and no. Found out by the first cells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from svead_stream.cli.batches import Batch
from svead_stream.cli.cells import FIRST, NEARLY_ALL, first_filled, is_text, shorten
from svead_stream.cli.sources import Source
from svead_stream.cli.words import listed

_SIGN, _EXPONENT = r"[+-]?", r"(?:[eE][+-]?\d+)?"
_THIN = " '’\u00a0\u202f"  # between thousands, besides . and ,
_ANY = rf"{_SIGN}(?:\d(?:[\d.,{_THIN}]*\d)?[.,]?|[.,]\d+){_EXPONENT}"
_LETTER = r"(?:[^\W\d_]|[%‰°µμΩ²³$€£¥₹₽₩])"
_UNIT = rf"{_LETTER}(?:{_LETTER}|[/·*^23]){{0,11}}"
_CURRENCY = r"[$€£¥₹₽₩]|[A-Z]{3} "
_WITH_UNIT = re.compile(rf"({_CURRENCY})?\s*{_ANY}\s*({_UNIT})?")  # Arrow would take longer to compile it than to match
_GROUPED_OR_SMALL = re.compile(r"[+-]?(\d{1,3}|[1-9]\d{0,2}\.\d{3})")
_FEW = 20
_UNSURE = "?"  # a decimal sign that cannot be told from one between thousands
_NONE = ""  # in whole numbers and words
_TRUTH = {"true": "1", "yes": "1", "false": "0", "no": "0"}


def _written(decimal: str, group: str) -> str:
    """The pattern of numbers with this decimal sign, and perhaps a sign between thousands."""
    whole = rf"\d{{1,3}}(?:{group}\d{{3}})+|\d{{1,3}}(?:[{_THIN}]\d{{3}})+|\d+"
    return rf"^{_SIGN}(?:(?:{whole})(?:{decimal}\d*)?|{decimal}\d+){_EXPONENT}$"


_PATTERNS = {".": _written(r"\.", ","), ",": _written(",", r"\.")}


class NumberForm(NamedTuple):
    """How the numbers of a column are written.

    Parameters
    ----------
    decimal
        The decimal sign.
    before, after
        The unit.
    is_truth
        Whether the cells are true and false, or yes and no.

    """

    decimal: str = "."
    before: str = ""
    after: str = ""
    is_truth: bool = False

    def plain(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """Cells as numbers are usually written; those of another form stay as they are."""
        texts = _with_usual_minus(pc.utf8_trim_whitespace(cells))
        if self.is_truth:
            words = pc.utf8_lower(texts)
            for word, number in _TRUTH.items():
                texts = pc.if_else(pc.equal(words, word), number, texts)
            return texts
        numbers = _without_unit(texts, self) if self.before or self.after else texts
        fits = pc.match_substring_regex(numbers, _PATTERNS[self.decimal])
        group = r"\." if self.decimal == "," else ","
        bare = pc.replace_substring_regex(numbers, rf"{group}|[{_THIN}]", "")
        if self.decimal == ",":
            bare = pc.replace_substring(bare, ",", ".")
        return pc.if_else(fits, bare, numbers)


class Forms:
    """Finds out how the columns of a source are written, and rewrites them as plain numbers.

    Parameters
    ----------
    source
        Where rows come from.
    decimal
        The decimal sign, if it is known.

    """

    def __init__(self, source: Source, decimal: str | None = None) -> None:
        self._source = source
        self._decimal = decimal
        self._known: dict[str, NumberForm | None] = {}

    def rewrite(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches, with what `Batch.readable` needs."""
        for batch in batches:
            texts = {
                name: cells
                for name, cells in zip(batch.table.column_names, batch.table.columns, strict=True)
                if is_text(cells.type) and self._known.get(name, True)
            }
            texts |= {name: cells for name, cells in batch.plain.items() if name in texts}
            new = {name: cells for name, cells in texts.items() if name not in self._known}
            if new:
                self._look(new)
            plain = {name: form.plain(cells) for name, cells in texts.items() if (form := self._known.get(name))}
            yield replace(batch, plain=batch.plain | plain) if plain else batch

    def _look(self, columns: dict[str, pa.ChunkedArray]) -> None:
        """Decide how columns are written that are seen for the first time; those without a cell wait."""
        filled = {name: texts for name, cells in columns.items() if len(texts := cells.drop_null().slice(0, FIRST))}
        usual = {name: texts for name, texts in filled.items() if _is_plain(texts)}
        others = {name: pc.utf8_trim_whitespace(first_filled(columns[name])) for name in filled if name not in usual}
        first = usual | {name: texts for name, texts in others.items() if len(texts)}
        self._known |= dict.fromkeys(first)
        odd = {name: form for name in first if name not in usual and (form := _form(first[name])) is not None}
        sign, is_sure = self._sign_of_all({form.decimal for form in odd.values()}, usual)
        forms = {name: _with_decimal(form, sign, self._decimal) for name, form in odd.items()}
        if sign == ",":  # there 1.234 is no fraction
            forms |= {name: NumberForm(",") for name, texts in usual.items() if _is_grouped(texts)}
        said = []
        for name, form in forms.items():
            plain = form.plain(first[name])
            changed = pc.index(pc.not_equal(plain, first[name]), True).as_py()
            if changed >= 0:
                self._known[name] = form
                if not form.is_truth:
                    said.append(f"{shorten(first[name][changed].as_py())} in {name} is read as {plain[changed]}")
        if said:
            doubt = "" if is_sure else "; --decimal . or , tells whether that is right"
            self._source.say(f"{self._source.name}: {listed(said, 4)}{doubt}")
        grouped = (
            [] if self._decimal or sign == "," else [name for name, texts in usual.items() if _may_be_grouped(texts)]
        )
        if grouped:
            shown = first[grouped[0]].filter(pc.match_substring(first[grouped[0]], "."))[0].as_py()
            names = listed(grouped, 4)
            self._source.say(
                f"{self._source.name}: {shown!r} in {names} is read as a fraction; --decimal , makes it whole"
            )

    def _sign_of_all(self, found: set[str], usual: dict[str, pa.ChunkedArray]) -> tuple[str, bool]:
        """The decimal sign of the source, and whether that is sure: `1,234` alone may be a fraction or thousands."""
        if self._decimal is not None:
            return self._decimal, True
        if "," in found:
            return ",", True
        if _UNSURE not in found:
            return ".", True
        if "." in found or not all(map(_is_grouped_or_whole, usual.values())):
            return ".", True
        return ("." if self._source.delimiter == "," else ","), False


def _with_usual_minus(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers with the minus of the keyboard, before them: `−5`, and `5-`, `(5)` and `-$5` as accounts have it."""
    texts = pc.replace_substring(texts, "−", "-")
    texts = pc.replace_substring_regex(texts, r"^(?:\((.*\d.*)\)|([^-]*\d[^-]*)-)$", r"-\1\2")
    return pc.replace_substring_regex(texts, rf"^-\s*({_CURRENCY})\s*", r"\1-")


def _is_plain(texts: pa.ChunkedArray) -> bool:
    try:
        pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _form(texts: pa.ChunkedArray) -> NumberForm | None:
    """How nearly all of some cells are written; None if they are no numbers. The decimal sign may be unsure."""
    enough = NEARLY_ALL * len(texts)
    texts = _with_usual_minus(texts)
    if sum(pc.equal(pc.utf8_lower(texts), word).to_pylist().count(True) for word in _TRUTH) >= enough:
        return NumberForm(_NONE, is_truth=True)
    found = [_WITH_UNIT.fullmatch(text) for text in texts.to_pylist()]
    units = Counter(("", "") if one is None else (one[1] or "", one[2] or "") for one in found)
    bare = units.pop(("", ""), 0)
    unit, n = units.most_common(1)[0] if units else (("", ""), 0)
    form = NumberForm(_UNSURE, *unit) if n > bare else NumberForm(_UNSURE)
    numbers = _without_unit(texts, form)
    n_dots, n_commas = (_n_matching(numbers, _PATTERNS[sign]) for sign in ".,")
    if max(n_dots, n_commas) < enough:
        return None
    if not _n_matching(numbers, "[.,]"):
        return form._replace(decimal=_NONE)
    if n_dots > n_commas:
        return form._replace(decimal=".")
    if n_commas > n_dots and _n_matching(numbers, ","):
        return form._replace(decimal=",")
    return form  # 1,234 and 1.234.567, which may also be no number at all


def _without_unit(texts: pa.ChunkedArray, form: NumberForm) -> pa.ChunkedArray:
    if not form.before and not form.after:
        return texts
    before, after = map(re.escape, (form.before, form.after))
    return pc.replace_substring_regex(texts, rf"^(?:{before})?\s*({_ANY})\s*(?:{after})?$", r"\1")


def _n_matching(texts: pa.ChunkedArray, pattern: str) -> int:
    return int(pc.sum(pc.match_substring_regex(texts, pattern)).as_py() or 0)


def _with_decimal(form: NumberForm, sign: str, asked: str | None) -> NumberForm:
    """The form with its decimal sign: its own if that is clear, but no comma against the user's point."""
    is_clear = form.decimal == "." or (form.decimal == "," and asked != ".")
    return form if is_clear else form._replace(decimal=sign)


def _is_grouped_or_whole(texts: pa.ChunkedArray) -> bool:
    """Whether plain numbers would also be numbers if the point stood between thousands."""
    return _n_matching(texts, _PATTERNS[","]) == len(texts)


def _may_be_grouped(texts: pa.ChunkedArray) -> bool:
    """Whether plain numbers look as if the point stood between thousands: 950 and 1.200, but neither 0.125 nor 1.5."""
    start = texts.slice(0, _FEW).to_pylist()  # most columns need no second look
    if not all(map(_GROUPED_OR_SMALL.fullmatch, start)):
        return False
    cells = start if len(texts) <= _FEW else texts.to_pylist()
    n_points = sum("." in cell for cell in cells)
    return 0 < n_points < len(cells) and all(map(_GROUPED_OR_SMALL.fullmatch, cells))


def _is_grouped(texts: pa.ChunkedArray) -> bool:
    return _is_grouped_or_whole(texts) and _n_matching(texts, r"\.") > 0
