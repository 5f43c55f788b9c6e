"""How models and explanations look in a notebook: HTML by itself, without scripts, on light and dark pages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from html import escape
from typing import Any

_SHOWN = 20  # features
_LONGEST = 60  # characters of a name
_TABLE = '<table style="border-collapse:collapse;margin:.3em 0 .8em 0;background:none;color:inherit;font:inherit">'
_CELL = '<td style="text-align:left;padding:.15em 1em .15em 0;border:0;background:none">'
_BAR = "display:inline-block;height:.8em;border-radius:2px;background:#3b82c4;vertical-align:baseline"


def made(model: Any, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """A model as it would be made: its class, and the parameters that are not the default."""
    given = (f"{name}={value!r}" for name, value in values.items() if value != defaults[name])
    return f"{type(model).__name__}({', '.join(given)})"


def counted(n: int, what: str) -> str:
    """So many of something."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def card(title: str, facts: Mapping[str, Any]) -> str:
    """A title, and a table of facts below it."""
    rows = ((f'<span style="white-space:nowrap">{_text(name)}</span>', _text(value)) for name, value in facts.items())
    return f"<div><b>{_text(title)}</b>{_table(rows)}</div>"


def bars(shares: Mapping[Hashable, float], event: Mapping[Hashable, float]) -> str:
    """A bar for the share of each feature, and the number that the event has for it, if it is known."""
    if not shares:
        return "<div>There is nothing to explain: nothing is known that the event could be compared with.</div>"
    widest = 12 / max(*shares.values(), 1e-9)  # em
    rows = [("<b>feature</b>", "<b>value</b>", "<b>share</b>")]
    for name, share in list(shares.items())[:_SHOWN]:
        bar = f'<span style="{_BAR};width:{share * widest:.2f}em"></span> {share:.1%}'
        rows.append((_text(_cut(name)), f"{event[name]:.6g}" if name in event else "", bar))
    rest = len(shares) - _SHOWN
    if rest > 0:
        rows.append((f"and {rest:,} more", "", ""))
    return _table(row if event else (row[0], row[2]) for row in rows)


def few(names: Iterable[Hashable]) -> str:
    """Some names, and how many more there are."""
    listed = list(names)
    rest = len(listed) - _SHOWN
    return ", ".join(_cut(name) for name in listed[:_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def _table(rows: Iterable[Iterable[str]]) -> str:
    """Rows of cells, which are HTML already."""
    lines = ("".join(f"{_CELL}{cell}</td>" for cell in row) for row in rows)
    return f"{_TABLE}{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _cut(name: Hashable) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _text(value: Any) -> str:
    return escape(f"{value:,}" if type(value) is int else str(value))
