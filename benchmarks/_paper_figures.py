"""The pictures of the paper's benchmark; each function draws what it is given and writes one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from _paper_store import Floats, Labels

mpl.use("Agg")  # files only, before pyplot looks for a screen
from matplotlib import pyplot as plt

OURS, THEIRS, GREY = "#c0392b", "#2c6fad", "#8a8f98"
COLOURS = {"SVEAD": OURS, "iNNE": THEIRS, "IDK": "#2e8b57", "iForest": "#b8860b"}
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "savefig.bbox": "tight",
}


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)


def against_paper(panels: Mapping[str, Sequence[tuple[str, float, float]]], path: Path) -> None:
    """A line per data set from the paper's figure to ours; panels by metric."""
    with plt.rc_context(STYLE):
        rows = max(len(panel) for panel in panels.values())
        figure, axes = plt.subplots(1, len(panels), figsize=(9, 0.8 + 0.24 * rows), sharey=True, squeeze=False)
        for axis, (metric, panel) in zip(axes[0], panels.items(), strict=True):
            at = np.arange(len(panel))
            ours, theirs = np.array([p[1] for p in panel]), np.array([p[2] for p in panel])
            axis.hlines(at, np.minimum(ours, theirs), np.maximum(ours, theirs), color="#c9ccd1", lw=2, zorder=1)
            axis.scatter(theirs, at, s=34, facecolor="white", edgecolor=THEIRS, lw=1.4, label="the paper", zorder=2)
            axis.scatter(ours, at, s=18, color=OURS, label="here", zorder=3)
            axis.set_yticks(at, [p[0] for p in panel])
            axis.grid(axis="x", color="#eceef0")
            axis.set_axisbelow(True)
            axis.set_title(f"SVEAD, {metric}")
        axes[0][0].invert_yaxis()
        figure.tight_layout()
        figure.legend(*axes[0][0].get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)
        _save(figure, path)


def overall(here: Mapping[str, Mapping[str, float]], paper: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Means of all methods: dots for what ran here, rings for the paper's figures."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, len(here), figsize=(9, 3.6), squeeze=False)
        for axis, metric in zip(axes[0], here, strict=True):
            ran, theirs = here[metric], paper[metric]
            names = list(dict.fromkeys([*ran, *theirs]))
            names.sort(key=lambda m: ran.get(m, theirs.get(m, 0.0)))
            at = np.arange(len(names))
            values, rings = ([side.get(m, np.nan) for m in names] for side in (ran, theirs))
            axis.scatter(rings, at, s=44, facecolor="white", edgecolor="#222222", label="in the paper")
            axis.scatter(values, at, s=22, c=[OURS if m == "SVEAD" else THEIRS for m in names], label="run here")
            axis.set_yticks(at, names)
            axis.grid(color="#eceef0")
            axis.set_axisbelow(True)
            axis.set_title(f"mean {metric}")
        axes[0][-1].legend(loc="lower right")
        figure.tight_layout()
        _save(figure, path)


Panel = tuple[str, Callable[[Floats], Floats]]


def contours(rows: Sequence[tuple[str, Floats, Labels, Sequence[Panel]]], path: Path) -> None:
    """Scores over the plane, a row per data set and a column per detector; warm colours are normal."""
    with plt.rc_context(STYLE):
        width = max(len(row[3]) for row in rows)
        figure, axes = plt.subplots(len(rows), width, figsize=(3.1 * width, 2.9 * len(rows)), squeeze=False)
        for line, (name, X, y, panels) in zip(axes, rows, strict=True):
            low, high = X.min(axis=0), X.max(axis=0)
            edge = 0.12 * (high - low)
            u, v = (np.linspace(low[k] - edge[k], high[k] + edge[k], 160) for k in (0, 1))
            grid = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
            for axis, (title, score) in zip(line, panels, strict=True):
                values = score(grid)
                # Colours by rank: the shape of the regions is what is compared, not the units of the scores.
                ranks = np.argsort(np.argsort(values, kind="stable")) / len(values)
                ranks = np.interp(values, np.sort(values), np.sort(ranks))
                axis.contourf(u, v, ranks.reshape(160, 160), levels=12, cmap="YlGnBu")
                axis.scatter(*X[y == 0].T, s=7, c="white", edgecolor="#555555", lw=0.4)
                axis.scatter(*X[y == 1].T, s=9, c="black")
                axis.set_title(title)
                axis.set_xticks([])
                axis.set_yticks([])
            line[0].set_ylabel(name)
        figure.tight_layout()
        _save(figure, path)


def bands(
    panels: Sequence[tuple[str, str, Mapping[str, tuple[Sequence[float], Sequence[float], Sequence[float]]]]],
    path: Path,
    log: bool = True,
) -> None:
    """Curves of means with a band of one deviation: (title, label of x, curves by name: x, mean, deviation)."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, len(panels), figsize=(4.4 * len(panels), 3.2), sharey=True, squeeze=False)
        for axis, (title, label, curves) in zip(axes[0], panels, strict=True):
            for k, (name, (x, mean, std)) in enumerate(curves.items()):
                colour = (OURS, THEIRS, "#2e8b57")[k % 3]
                axis.plot(x, mean, "o-", ms=4, color=colour, label=name)
                axis.fill_between(x, np.subtract(mean, std), np.add(mean, std), color=colour, alpha=0.18, lw=0)
                if log:
                    axis.set_xscale("log", base=2)
                    axis.set_xticks(x, [f"{value:g}" for value in x])
                    axis.minorticks_off()
            axis.set(title=title, xlabel=label)
            axis.grid(color="#eceef0")
            axis.legend()
        figure.tight_layout()
        _save(figure, path)


def run_times(panels: Sequence[tuple[str, Mapping[str, tuple[Sequence[int], Sequence[float]]]]], path: Path) -> None:
    """Seconds against a size on logarithmic axes, a curve per method."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.4), squeeze=False)
        for axis, (label, curves) in zip(axes[0], panels, strict=True):
            for name, (x, seconds) in curves.items():
                axis.loglog(x, seconds, "o-", ms=4, color=COLOURS.get(name, GREY), label=name)
            axis.set(xlabel=label, ylabel="CPU seconds")
            axis.grid(color="#eceef0")
        axes[0][0].legend()
        figure.tight_layout()
        _save(figure, path)


def critical_differences(panels: Sequence[tuple[str, Sequence[str], Floats, float]], path: Path) -> None:
    """Average ranks on a line, best at the left; methods under one bar do not differ.

    A panel is (title, names, ranks, critical difference).
    """
    with plt.rc_context(STYLE):
        heights = [1.1 + 0.2 * ((len(names) + 1) // 2) for _, names, _, _ in panels]
        figure, axes = plt.subplots(
            len(panels), 1, figsize=(8, sum(heights)), squeeze=False, gridspec_kw={"height_ratios": heights}
        )
        for axis, (title, names, ranks, difference) in zip(axes[:, 0], panels, strict=True):
            _critical_difference(axis, title, names, ranks, difference)
        figure.tight_layout()
        _save(figure, path)


def groups(ranks: Floats, difference: float) -> list[tuple[int, int]]:
    """Runs of sorted ranks that span no more than the critical difference and lie in no longer such run."""
    runs: list[tuple[int, int]] = []
    for i in range(len(ranks)):
        j = int(np.searchsorted(ranks, ranks[i] + difference, side="right")) - 1
        if j > i and (not runs or j > runs[-1][1]):
            runs.append((i, j))
    return runs


def _critical_difference(axis: Any, title: str, names: Sequence[str], ranks: Floats, difference: float) -> None:
    order = np.argsort(ranks, kind="stable")
    ranks, names = ranks[order], [names[i] for i in order]
    k, half = len(names), (len(names) + 1) // 2
    low, high = 1.0, float(k)
    bars = groups(ranks, difference)
    top = 0.45 * len(bars) + 0.6
    axis.set_xlim(low - 0.28 * k, high + 0.28 * k)
    axis.set_ylim(-top - half * 0.75, 2.2)
    axis.axis("off")
    axis.set_title(title, loc="left", pad=10)
    axis.plot([low, high], [0, 0], color="black", lw=1)
    for tick in range(1, k + 1):
        axis.plot([tick, tick], [0, 0.18], color="black", lw=1)
        axis.text(tick, 0.3, str(tick), ha="center", va="bottom", fontsize=8)
    axis.plot([low, low + difference], [1.55, 1.55], color="black", lw=1.6)
    axis.text(low + difference / 2, 1.65, f"CD = {difference:.2f}", ha="center", va="bottom", fontsize=8)
    for i, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        left = i < half
        depth = -top - 0.75 * (i if left else k - 1 - i)
        side = low - 0.04 * k if left else high + 0.04 * k
        colour = OURS if name.startswith("SVEAD") else "black"
        axis.plot([rank, rank, side], [0, depth, depth], color=colour, lw=0.9)
        text = f"{name} {rank:.2f}" if left else f"{rank:.2f} {name}"
        axis.text(side, depth, f" {text} ", ha="right" if left else "left", va="center", fontsize=8, color=colour)
    for level, (i, j) in enumerate(bars):
        y = -0.35 - 0.45 * level
        axis.plot([ranks[i] - 0.06, ranks[j] + 0.06], [y, y], color="#444444", lw=3.2, solid_capstyle="round")
