"""The exceptions of the package.

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
