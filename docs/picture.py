"""Draws the picture of the README: two days of the demo's machine, their scores and incidents.

python docs/picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from svead_stream import ConformalFilter, StreamingSVEAD
from svead_stream.cli.machine import MINUTES, SENSORS, machine

FIRST, LAST = 4 * MINUTES, 6 * MINUTES
BLUE, RED, GOLD, GREY = "#3567c7", "#d1410c", "#8a6d00", "#626d7c"


def main() -> None:
    table, faults = machine()
    X = np.column_stack([table[name].to_numpy() for name in SENSORS])
    model = ConformalFilter(StreamingSVEAD(seed=7), incident_rate="4/day", burn_in="1d")
    verdicts = model.judge_many(X, SENSORS, t=60.0 * np.arange(len(X)))
    opened = [i for i, changes in verdicts.changes.items() if any(change.state == "open" for change in changes)]

    shown = np.arange(FIRST, LAST)
    days = shown / MINUTES + 1
    figure, plots = plt.subplots(4, 1, figsize=(9, 5), sharex=True, height_ratios=[1, 1, 1, 2], layout="constrained")
    for plot, name in zip(plots, ("vibration", "pressure", "temperature"), strict=False):
        plot.plot(days, X[shown, SENSORS.index(name)], color=GREY, linewidth=0.6)
        plot.set_ylabel(name, rotation=0, ha="right", va="center")
        plot.set_yticks([])
    plot = plots[-1]
    plot.plot(days, verdicts.scores[shown], color=BLUE, linewidth=0.7, label="score")
    for rows, colour, size, label in ((verdicts.incidents, GOLD, 10, "alert"), (opened, RED, 40, "incident opens")):
        hit = np.array([i for i in rows if FIRST <= i < LAST])
        plot.scatter(hit / MINUTES + 1, verdicts.scores[hit], color=colour, s=size, zorder=3, label=label)
    plot.set_ylabel("score", rotation=0, ha="right", va="center")
    plot.set_yticks([])
    plot.set_xlabel("day")
    for fault in faults:
        if FIRST <= fault.start < LAST:
            for each in plots:
                each.axvspan(
                    fault.start / MINUTES + 1 - 0.008, fault.end / MINUTES + 1 + 0.008, color="#fdd9c8", zorder=0
                )
            plots[0].text(fault.start / MINUTES + 1, 1.04, fault.kind, transform=plots[0].get_xaxis_transform(),
                          rotation=20, fontsize=8, color=RED)  # fmt: skip
    for each in plots:
        each.spines[["top", "right", "left"]].set_visible(False)
        each.margins(x=0.01)
    plot.legend(loc="upper left", ncols=3, frameon=False, fontsize=8, bbox_to_anchor=(0, 1.12))
    figure.savefig(Path(__file__).with_name("picture.png"), dpi=130)


if __name__ == "__main__":
    main()
