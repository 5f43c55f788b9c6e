"""Saved models that a worker must not go on with: why not, in words, and what to do.

A checkpoint says what its models were made with: the parameters in effect, and the version of the models, which is
raised when the same events give other numbers. Which release it was is told to people and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svead_stream import __version__

REMEDY = "begin with new models at the committed offsets by --if-changed restart, or take another --group"
_FIRST_VERSION = 1  # of the models of release 0.1, which did not write it down


def difference(checkpoint: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How the models of a checkpoint differ from those that a worker makes now: a phrase that goes on from "they"."""
    then = checkpoint["options"]
    before, today = then.get("model_version", _FIRST_VERSION), now["model_version"]
    release = f"svead-stream {checkpoint.get('version', '0.1')}"
    if before < today:
        return f"were saved by {release}, and this worker ({__version__}) cannot go on with them"
    if before > today:
        return f"were saved by {release}, which is newer than this worker ({__version__}): upgrade it"
    return f"were made with other options ({', '.join(_changes(_flat(then), _flat(now)))})"


def _changes(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {then.get(name)!r} then, {now.get(name)!r} now"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    ]


def _flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the detector beside the other options."""
    detector = options.get("detector", {})
    return {name: value for name, value in options.items() if name != "detector"} | dict(detector)
