"""Tables in zip archives, and spreadsheets, which are such archives too."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import IO

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


def open_table(name: str, path: str | None, read: Callable[[int], bytes]) -> tuple[str, Callable[[int], bytes]]:
    """The name of the table in an archive, and a function that reads it.

    Parameters
    ----------
    name
        Of the archive, for messages.
    path
        Of the archive; None if it comes through a pipe.
    read
        Reads the archive.

    """
    kept: str | IO[bytes] = path or _kept(read)  # the table of contents is at the end
    try:
        archive = zipfile.ZipFile(kept)
        member = _only_table(name, archive)
        return member.filename, archive.open(member).read
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise DataError(f"{name}: the zip archive cannot be read: {error}") from error


def _kept(read: Callable[[int], bytes]) -> IO[bytes]:
    kept = tempfile.TemporaryFile()  # noqa: SIM115 - read until the end of the run
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
