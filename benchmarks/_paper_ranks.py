"""Average ranks of methods over data sets, and whether they differ: Friedman's test, then Nemenyi's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import _paper_figures as figures
import numpy as np
from _paper_methods import METHODS, METRICS
from _paper_store import Dataset, Figures, Floats, Store, write_table
from _paper_tables import NAMES, run_searches
from scipy.stats import friedmanchisquare, rankdata, studentized_range

ALPHA = 0.01  # the paper's level of significance


@dataclass(frozen=True)
class Ranking:
    """Average ranks, the p-value of Friedman's test, and Nemenyi's critical difference."""

    ranks: Floats
    p: float
    difference: float


def rank(values: Floats, alpha: float = ALPHA) -> Ranking:
    """Rank methods (columns) on data sets (rows); larger values are better, ties share a rank."""
    n, k = values.shape
    ranks = rankdata(-values, axis=1).mean(axis=0)
    # Friedman's statistic needs three methods; two are compared by their ranks alone.
    p = float(friedmanchisquare(*values.T).pvalue) if k > 2 and n > 1 else float("nan")
    q = float(studentized_range.ppf(1.0 - alpha, k, np.inf)) / np.sqrt(2.0)
    return Ranking(ranks, p, float(q * np.sqrt(k * (k + 1) / (6.0 * n))))


def ranks(
    datasets: Sequence[Dataset],
    paper: Figures,
    methods: Sequence[str],
    seeds: int,
    limit: float,
    store: Store,
    folder: Path,
) -> str:
    """Rank the methods that run here, and the paper's own columns over all its data sets."""
    found = run_searches(datasets, methods, seeds, limit, store)
    present = [m.name for m in METHODS if all(m.name in by_method for by_method in found.values())]
    panels, rows, notes = [], [], []
    for source in ("run here", "the paper's figures") if paper else ("run here",):
        for metric in METRICS:
            if source == "run here":
                names = present
                values = np.array([[found[d.name][m].mean[metric] for m in names] for d in datasets])
            else:
                # One data set of the paper has AUC-PR figures only.
                table = {data: row for data, row in paper[f"auc_{metric}"].items() if data in paper["auc_roc"]}
                names = list(next(iter(table.values())))
                values = np.array([[table[data][m] for m in names] for data in table])
            if len(names) < 2:
                continue
            ranking = rank(values)
            title = f"{NAMES[metric]}, {source}, {len(values)} data sets"
            panels.append((title, names, ranking.ranks, ranking.difference))
            notes.append(f"- {title}: Friedman p = {ranking.p:.1e}, critical difference {ranking.difference:.2f}.")
            best = ranking.ranks.min()
            rows += [
                [title, m, float(r), "yes" if r - best > ranking.difference else "no"]
                for r, m in sorted(zip(ranking.ranks, names, strict=True))
            ]
    if not panels:
        return "# Ranks\n\nThere is one method only; nothing to rank.\n"
    figures.critical_differences(panels, folder / "ranks.png")
    title = f"# Ranks\n\nNemenyi's test at the level {ALPHA}.\n\n" + "\n".join(notes)
    return write_table(folder, "ranks", title, ["comparison", "method", "average rank", "worse than the best"], rows)
