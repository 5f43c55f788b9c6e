"""The report as HTML: a page that is shipped with the package, with the data put in as inert JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib import resources
from typing import Any

# One script, in this order.
_SCRIPTS = (
    "dom.js",
    "vendor/uPlot.iife.min.js",
    "format.js",
    "bins.js",
    "axis.js",
    "gestures.js",
    "view.js",
    "charts.js",
    "brush.js",
    "table.js",
    "answers.js",
    "closeup.js",
    "incidents.js",
    "alerts.js",
    "overall.js",
    "script.js",
)


def render(data: dict[str, Any], live: bool = False) -> str:
    """The page for the given data: one file, no network; a `live` one asks its server for newer data, and nobody else.

    Names and values come from the user's data and may be hostile. They are never part of the markup: the data sit in
    a script element that no browser runs, in which `<`, `>` and `&` are escaped so that it cannot be closed from
    inside, and the page puts them on the screen as text only. Should that ever fail, the page's own policy runs no
    script but the one whose hash it names, and loads nothing from anywhere.
    """
    names = [*_SCRIPTS, *(["live.js"] if live else [])]
    script = "\n".join([*map(_part, names), f"/*! uPlot:\n{_part('vendor/LICENSE')}*/\n"])
    text = encoded(data)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    parts = {
        "hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "connect": "; connect-src 'self'" if live else "",
        "style": _part("vendor/uPlot.min.css") + _part("style.css") + (_part("live.css") if live else ""),
        "script": script,
        "data": text,  # last, so that nothing in it is taken for one of the others
    }
    page = _part("page.html")
    for name, part in parts.items():
        before, after = page.split("{{" + name + "}}")
        page = before + part + after
    return page


def encoded(data: dict[str, Any]) -> str:
    """The data as JSON, in ASCII."""
    settings: dict[str, Any] = {"ensure_ascii": True, "separators": (",", ":"), "allow_nan": False}
    try:
        return json.dumps(data, **settings)
    except ValueError:  # JSON knows neither infinity nor NaN, which are rare
        return json.dumps(_finite(data), **settings)


def _part(name: str) -> str:
    return resources.files("svead_stream.report").joinpath(name).read_text(encoding="utf-8")


def _finite(value: Any) -> Any:
    """Infinity and NaN become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
