"""Anomaly detection in event streams with stochastic Voronoi ensembles."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svead_stream.alerts import ConformalFilter
    from svead_stream.batch import SVEAD
    from svead_stream.errors import MissingExtra, SnapshotError, SveadError
    from svead_stream.snapshot import from_bytes, load, save
    from svead_stream.streaming import StreamingSVEAD
    from svead_stream.warm import warm_up

__version__ = "0.1.0"

_HOMES = {
    "SVEAD": "batch",
    "ConformalFilter": "alerts",
    "StreamingSVEAD": "streaming",
    "MissingExtra": "errors",
    "SnapshotError": "errors",
    "SveadError": "errors",
    "from_bytes": "snapshot",
    "load": "snapshot",
    "save": "snapshot",
    "warm_up": "warm",
}

__all__ = [
    "SVEAD",
    "ConformalFilter",
    "MissingExtra",
    "SnapshotError",
    "StreamingSVEAD",
    "SveadError",
    "from_bytes",
    "load",
    "save",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    """Import a part when it is first asked for: the command line answers before NumPy and Numba are loaded."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
