"""The exceptions of the package, and how their messages show a value.

    SveadError
     ├── SnapshotError    bytes that are not a snapshot, are damaged, or come from a newer version
     └── MissingExtra     an optional library is not installed

Wrong values, in parameters or in events, are ValueErrors.
"""

from __future__ import annotations


class SveadError(Exception):
    """Base of all exceptions that are the package's own."""


class SnapshotError(SveadError):
    """Bytes that cannot be read as a snapshot."""


class MissingExtra(SveadError, ImportError):
    """An optional library is not installed; the message names the command that installs it."""


def brief(value: object, most: int = 60) -> str:
    """A value as a message shows it."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= most else shown[: most - 3] + "..."
