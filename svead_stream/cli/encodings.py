"""Text in other encodings and with other line ends, turned into UTF-8 with LF while it is read."""

from __future__ import annotations

import codecs

from svead_stream.cli.kinds import nul_share

LATIN = "cp1252"  # Windows' own, and Latin-1 where that has letters
_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_MOST = 0.9  # of the high bytes of UTF-16 are 0 in tables of numbers
_FEW = 0.1
BAD_LINES = 3  # from so many on it is the encoding of the file, and not a bad row
_NOT_TEXT = "\udcff"  # which no encoding has: it becomes a byte that UTF-8 has not, so that its row is set aside


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return _NOT_TEXT, error.end


codecs.register_error("svead-mark", _mark)


class Decoder:
    """Turns bytes of one encoding into UTF-8, piece by piece.

    Parameters
    ----------
    encoding
        Of the bytes; UTF-8 passes as it is.
    only_cr
        Whether lines end with CR alone.

    """

    def __init__(self, encoding: str, only_cr: bool = False) -> None:
        self._decoder = None
        if encoding != "utf-8":
            self._decoder = codecs.getincrementaldecoder(encoding)("svead-mark")
        self.only_cr = only_cr

    def __call__(self, data: bytes) -> bytes:
        if self._decoder is not None:
            data = self._decoder.decode(data).encode("utf-8", "surrogateescape")
        return data.replace(b"\r", b"\n") if self.only_cr else data


def find(start: bytes) -> str:
    """The encoding of a text: by the mark at its beginning, or by what its bytes look like.

    Parameters
    ----------
    start
        The first bytes.

    """
    for bom, encoding in _BOMS.items():
        if start.startswith(bom):
            return encoding
    even, odd = nul_share(start, 0), nul_share(start, 1)
    if odd > _MOST and even < _FEW:
        return "utf-16-le"
    if even > _MOST and odd < _FEW:
        return "utf-16-be"
    return LATIN if _is_latin(start) else "utf-8"


def byte_order(asked: str, start: bytes) -> str:
    """The encoding that was asked for, and where that leaves open the order of bytes, what they look like."""
    if asked not in ("utf-16", "utf-32"):
        return asked
    found = find(start)
    return found if found.startswith(asked) else f"{asked}-le"


def is_utf8(data: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def has_only_cr(text: bytes) -> bool:
    """Whether lines end with CR alone; one at the very end may still be followed by LF."""
    return b"\n" not in text and b"\r" in text[:-1]


def _is_latin(start: bytes) -> bool:
    """Whether the letters beyond ASCII are of one byte each: in the header, or in some lines and never as in UTF-8."""
    if start.isascii() or not (b"\n" in start or b"\r" in start):  # half a line may end within a letter
        return False
    lines = start.splitlines()
    if len(lines) > 1 and not start.endswith((b"\n", b"\r")):
        lines.pop()
    beyond = [line for line in lines if not line.isascii()]
    bad = [line for line in beyond if not is_utf8(line)]
    if len(bad) < len(beyond) or not bad:
        return False
    return len(bad) >= BAD_LINES or bad[0] is lines[0]
