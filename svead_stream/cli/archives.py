"""Tables in zip archives, and spreadsheets, which are such archives too."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import IO, NamedTuple

from svead_stream.cli.errors import DataError
from svead_stream.cli.kinds import no_table
from svead_stream.cli.words import listed

_ENCRYPTED = 0x1  # a flag of members

# Files that are zip archives by themselves: a member that tells, what they are, and what to do.
_DOCUMENTS = {
    "xl/workbook.xml": ("an Excel workbook", "save the sheet as CSV and give that"),
    "xl/workbook.bin": ("an Excel workbook", "save the sheet as CSV and give that"),
    "mimetype": ("a spreadsheet or document", "save the sheet as CSV and give that"),
    "word/document.xml": ("a Word document", "save its table as CSV and give that"),
    "Index/Document.iwa": ("a Numbers or Pages document", "export it as CSV and give that"),
    "META-INF/MANIFEST.MF": ("a Java archive", ""),
}


class Member(NamedTuple):
    """A table in an archive."""

    name: str
    read: Callable[[int], bytes]
    close: Callable[[], None]


def open_table(name: str, path: str | None, read: Callable[[int], bytes]) -> Member:
    """The table in an archive.

    Parameters
    ----------
    name
        Of the archive, for messages.
    path
        Of the archive; None if it comes through a pipe.
    read
        Reads the archive.

    """
    try:
        with ExitStack() as opened:
            kept = path or opened.enter_context(_kept(read))  # the table of contents is at the end
            archive = opened.enter_context(zipfile.ZipFile(kept))
            member = _only_table(name, archive)
            table = opened.enter_context(archive.open(member))
            return Member(member.filename, table.read, opened.pop_all().close)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise DataError(f"{name}: the zip archive cannot be read: {error}") from error


def _kept(read: Callable[[int], bytes]) -> IO[bytes]:
    kept = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever asked for it
    while data := read(io.DEFAULT_BUFFER_SIZE):
        kept.write(data)
    return kept


def _only_table(name: str, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    names = set(archive.namelist())
    for told, (what, remedy) in _DOCUMENTS.items():
        if told in names:
            raise no_table(name, what, remedy)
    members = [one for one in archive.infolist() if not one.is_dir() and not _is_hidden(one.filename)]
    if len(members) != 1:
        inside = listed([one.filename for one in members]) or "nothing"
        raise DataError(f"{name} holds {inside}: a zip archive is read if one table is inside; unpack it, and give one")
    if members[0].flag_bits & _ENCRYPTED:
        raise DataError(f"{name} is encrypted: unpack it with its password, and give {members[0].filename}")
    return members[0]


def _is_hidden(name: str) -> bool:
    """Whether a member is not the user's own, such as what macOS adds."""
    return name.startswith("__MACOSX/") or PurePosixPath(name).name.startswith(".")
