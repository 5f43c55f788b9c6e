"""The exceptions of the package.

    SveadError
     ├── SnapshotError    bytes that are not a snapshot, are damaged, or come from a newer version
     └── MissingExtra     an optional library is not installed

Wrong values, in parameters or in events, are ValueErrors.
"""

from __future__ import annotations

from typing import Any


class SveadError(Exception):
    """Base of all exceptions that are the package's own."""


class SnapshotError(SveadError):
    """Bytes that cannot be read as a snapshot."""


class MissingExtra(SveadError):
    """An optional library is not installed; the message names the command that installs it."""


def whole(name: str, value: Any, low: int, high: int, low_shown: str = "") -> None:
    """Refuse a parameter that is not a whole number from low to high."""
    if not hasattr(value, "__index__") or isinstance(value, bool) or not low <= value <= high:
        least = f"{low_shown} = {low}" if low_shown else str(low)
        raise ValueError(f"{name}={value!r}: it must be a whole number from {least} to {high}")
