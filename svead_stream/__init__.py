"""Anomaly detection in event streams with stochastic Voronoi ensembles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svead_stream.lazy import exports

if TYPE_CHECKING:
    from svead_stream.batch import SVEAD
    from svead_stream.errors import MissingExtra, SnapshotError, SveadError
    from svead_stream.judging import ConformalFilter, Incident, Verdict, Verdicts
    from svead_stream.snapshot import from_bytes, load, register, save
    from svead_stream.streaming import StreamingSVEAD
    from svead_stream.warm import warm_up

__version__ = "0.2.0.dev0"

_MODULES = {
    "SVEAD": "batch",
    "ConformalFilter": "judging",
    "Incident": "record",
    "Verdict": "record",
    "Verdicts": "record",
    "register": "snapshot",
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
    "Incident",
    "MissingExtra",
    "SnapshotError",
    "StreamingSVEAD",
    "SveadError",
    "Verdict",
    "Verdicts",
    "from_bytes",
    "load",
    "register",
    "save",
    "warm_up",
]

if not TYPE_CHECKING:  # else every name would be known to type checkers, also one that is misspelled
    __getattr__, __dir__ = exports(__name__, _MODULES)
