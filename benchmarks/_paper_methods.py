"""The detectors that the paper's benchmark runs, their grids, and the search over a grid.

Every method that measures distances gets the same choice of scalings as ours: the paper does not say how data were
scaled, and its figures for SVEAD cannot be reached without such a choice.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from _idk import IDK
from _paper_store import Dataset, Floats, Labels, Row, Store, say
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from svead_stream import SVEAD
from svead_stream.geometry import spreads
from svead_stream.parameters import BATCH_SCALING

SIZES = [2**k for k in range(1, 9)]  # anchors, or points of a sample
T = 100
METRICS = ("roc", "pr")
NEAR = 0.05  # settings this close to the best with the first seed are run with the others


@dataclass(frozen=True)
class Method:
    """A detector: scores of all points (larger is more anomalous) from points, parameters and a seed.

    PyOD is imported when it is first used: without it, the other methods run.
    """

    name: str
    run: Callable[[Floats, Row, int], Any]
    grid: list[Row]
    random: bool = True
    limited: bool = True  # whether the time limit holds for it


def scaled(X: Floats, scaling: str) -> Floats:
    """Features divided by their spread."""
    return X if scaling == "none" else X / spreads(X, scaling)


def distinct(X: Floats) -> set[str]:
    """The scalings that differ on this data: those that only stretch all features alike are left out but for one."""
    seen: dict[str, Floats] = {}
    for scaling in BATCH_SCALING.choices:
        scales = spreads(X, scaling)
        scales = scales / scales.max()
        if not any(np.array_equal(scales, other) for other in seen.values()):
            seen[scaling] = scales
    return set(seen)


def _svead(X: Floats, p: Row, seed: int) -> Any:
    return SVEAD(p.get("t", T), p["m"], p["scaling"], random_state=seed, n_jobs=1).fit(X).anomaly_scores_


def _lof(X: Floats, p: Row, seed: int) -> Any:
    model = LocalOutlierFactor(n_neighbors=min(p["k"], len(X) - 1))
    return -model.fit(scaled(X, p["scaling"])).negative_outlier_factor_


def _forest(X: Floats, p: Row, seed: int) -> Any:
    model = IsolationForest(n_estimators=T, max_samples=min(p["psi"], len(X)), random_state=seed)
    return -model.fit(X).score_samples(X)


def _idk(X: Floats, p: Row, seed: int) -> Any:
    return 1.0 - IDK(p["psi"], T, seed=seed).fit(scaled(X, p["scaling"])).similarity_


def _inne(X: Floats, p: Row, seed: int) -> Any:
    INNE = import_module("pyod.models.inne").INNE
    return INNE(T, min(p["psi"], len(X)), random_state=seed).fit(scaled(X, p["scaling"])).decision_scores_


def _ecod(X: Floats, p: Row, seed: int) -> Any:
    return import_module("pyod.models.ecod").ECOD().fit(X).decision_scores_


def _copod(X: Floats, p: Row, seed: int) -> Any:
    return import_module("pyod.models.copod").COPOD().fit(X).decision_scores_


def _grid(name: str, values: list[int]) -> list[Row]:
    return [{name: value, "scaling": scaling} for value, scaling in product(values, BATCH_SCALING.choices)]


METHODS = [
    Method("SVEAD", _svead, _grid("m", SIZES), limited=False),
    Method("LOF", _lof, _grid("k", [5, 10, 20, 40]), random=False),
    Method("iForest", _forest, [{"psi": psi} for psi in SIZES]),
    Method("iNNE", _inne, _grid("psi", SIZES)),
    Method("IDK", _idk, _grid("psi", SIZES)),
    Method("ECOD", _ecod, [{}], random=False),
    Method("COPOD", _copod, [{}], random=False),
]
BY_NAME = {method.name: method for method in METHODS}


def fit(method: Method, X: Floats, y: Labels, parameters: Row, seed: int) -> Row:
    """AUC-ROC, AUC-PR (average precision) and CPU seconds of one fit, on one thread."""
    began = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the baselines' own, about their internals and duplicate points
        scores = np.nan_to_num(method.run(X, parameters, seed), posinf=1e300)
    return {
        "roc": float(roc_auc_score(y, scores)),
        "pr": float(average_precision_score(y, scores)),
        "seconds": time.process_time() - began,
    }


@dataclass
class Found:
    """The outcome of a search: for either metric the best setting, with mean and deviation over the seeds."""

    best: dict[str, Row]
    mean: dict[str, float]
    std: dict[str, float]
    seeds: int
    cut: bool  # the time limit left settings or seeds out


def search(method: Method, data: Dataset, seeds: int, limit: float, store: Store, near: float = NEAR) -> Found:
    """Search the grid of a method as the paper does, choosing by labels, for either metric on its own.

    All settings run with the first seed; those within `near` of the best in either metric run with the other seeds
    too, and the best mean over seeds is taken. After `limit` CPU seconds on this data set no further fit is started.
    """
    results: dict[int, list[Row]] = {}
    spent, cut = 0.0, False

    def measure(i: int, seed: int) -> None:
        nonlocal spent, cut
        p = method.grid[i]
        key = store.key("tables", f"{data.name}:{len(data.y)}", method.name, seed, p)
        if method.limited and spent > limit and results and key not in store.rows:
            cut = True
            return
        row = store.get(key, lambda: fit(method, data.X, data.y, p, seed))
        spent += row["seconds"]
        results.setdefault(i, []).append(row)

    differ = distinct(data.X)
    for i, p in enumerate(method.grid):
        if p.get("scaling", "none") in differ:
            measure(i, 0)
    contenders, rounds = list(results), 1
    if method.random and not cut:
        tops = {metric: max(rows[0][metric] for rows in results.values()) for metric in METRICS}
        contenders = [i for i, rows in results.items() if any(rows[0][k] > top - near for k, top in tops.items())]
        for seed in range(1, seeds):
            for i in contenders:
                measure(i, seed)
        rounds = min(len(results[i]) for i in contenders)  # only whole rounds count: every setting has the same seeds
    found = Found({}, {}, {}, rounds, cut)
    for metric in METRICS:
        runs = {i: [row[metric] for row in results[i][:rounds]] for i in contenders}
        chosen = max(contenders, key=lambda i: np.mean(runs[i]))
        found.best[metric] = method.grid[chosen]
        found.mean[metric], found.std[metric] = float(np.mean(runs[chosen])), float(np.std(runs[chosen]))
    mark = " (time limit)" if cut else ""
    setting = ", ".join(f"{name}={value}" for name, value in found.best["roc"].items()) or "defaults"
    say(f"{method.name} on {data.name}: {found.mean['roc']:.3f} with {setting}, {spent:.0f} s{mark}")
    return found
