"""Tables of figures as Markdown: means over seeds, with their standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

Column = tuple[str, str, str]  # heading, figure, format
Line = tuple[str, Sequence[Mapping[str, float]]]  # name, the figures of each seed


def _cell(values: Sequence[float], form: str) -> str:
    if np.isnan(values).any():
        return ""
    spread = f" ± {np.std(values, ddof=1):{form}}" if len(values) > 1 else ""
    return f"{np.mean(values):{form}}{spread}"


def table(title: str, heading: str, columns: Sequence[Column], lines: Sequence[Line]) -> str:
    """One line a name, unless it has no seeds; a figure that it does not have is left empty."""
    printed = [title, "", f"| {heading} | seeds | " + " | ".join(column[0] for column in columns) + " |"]
    printed.append("|---|---:|" + "---:|" * len(columns))
    for name, figures in lines:
        if figures:
            cells = [_cell([one.get(key, float("nan")) for one in figures], form) for _, key, form in columns]
            printed.append(f"| {name} | {len(figures)} | " + " | ".join(cells) + " |")
    return "\n".join(printed) + "\n"
