"""The paper's smaller experiments: kinds of anomaly, ablation, sensitivity, contamination and run time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import _paper_figures as figures
import numpy as np
from _idk import IDK
from _paper_methods import BY_NAME, METRICS, SIZES, Method, T, fit, search
from _paper_store import Dataset, Floats, Row, Store, say, write_table
from _paper_tables import NAMES
from _synthetic import KINDS, synthetic
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from svead_stream import SVEAD
from svead_stream.geometry import score_table

SENSITIVE = "magic.gamma"
CONTAMINATED = ("magic.gamma", "SpamBase")
RATES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
SIZES_T = (5, 10, 25, 50, 100, 200, 400)
PARTS = {"both": "both factors", "position": "d / d_max alone", "scale": "d_mean alone"}


def kinds(seeds: int, store: Store, folder: Path) -> str:
    """The three synthetic sets, each detector at its best sample size, with contours of the first set of each kind."""
    rows, pictures = [], []
    for name, kind in KINDS.items():
        X, y = synthetic(name)
        panels: list[figures.Panel] = []
        for method in ("iForest", "IDK", "SVEAD"):
            size, roc, pr = _best_size(name, BY_NAME[method], seeds, store)
            rows.append([f"{name} ({kind})", method, size, *roc, *pr])
            letter = "m" if method == "SVEAD" else "ψ"
            panels.append((f"{method}, {letter} = {size}, AUC {roc[0]:.3f}", _scorer(method, X, size)))
        pictures.append((f"{name}: {kind}", X, y, panels))
    figures.contours(pictures, folder / "synthetic.png")
    heads = ["data", "method", "m or psi", "AUC-ROC", "std", "AUC-PR", "std of AUC-PR"]
    title = f"# Synthetic data\n\n300 points, 10 % anomalies, {seeds} draws; sample size searched over 2..256."
    return write_table(folder, "synthetic", title, heads, rows)


def _best_size(name: str, method: Method, seeds: int, store: Store) -> tuple[int, list[float], list[float]]:
    """The sample size with the best mean AUC-ROC over draws of the data; mean and deviation of either metric."""
    best: tuple[int, list[float], list[float]] | None = None
    for size in SIZES:
        parameters = {"m": size, "psi": size, "scaling": "none"}
        results = []
        for seed in range(seeds):
            X, y = synthetic(name, seed=seed)
            key = store.key("synthetic", name, method.name, seed, parameters)
            results.append(store.get(key, partial(fit, method, X, y, parameters, seed)))
        values = np.array([[row["roc"], row["pr"]] for row in results])
        roc, pr = ([float(column.mean()), float(column.std())] for column in values.T)
        if best is None or roc[0] > best[1][0]:
            best = size, roc, pr
    say(f"{method.name} on {name}: done")
    assert best is not None
    return best


def _scorer(method: str, X: Floats, size: int) -> Callable[[Floats], Floats]:
    """A fitted detector as a function over the plane."""
    if method == "SVEAD":
        return SVEAD(T, size, random_state=0, n_jobs=1).fit(X).anomaly_scores
    if method == "IDK":
        kernel = IDK(size, T).fit(X)
        return lambda grid: 1.0 - kernel.similarity(grid)
    forest = IsolationForest(n_estimators=T, max_samples=size, random_state=0).fit(X)
    return lambda grid: -forest.score_samples(grid)


def ablation(seeds: int, store: Store, folder: Path) -> str:
    """Either factor of the score left out, on the synthetic sets, at the m that is best for both factors."""
    rows: list[list[Any]] = []
    pictures = []
    for name, kind in KINDS.items():
        m = _best_size(name, BY_NAME["SVEAD"], seeds, store)[0]
        X, y = synthetic(name)
        model = SVEAD(T, m, random_state=0, n_jobs=1).fit(X)
        panels: list[figures.Panel] = []
        for keep, label in PARTS.items():
            values = []
            for seed in range(seeds):
                key = store.key("ablation", name, "SVEAD", seed, {"m": m, "keep": keep})
                values.append(store.get(key, partial(_ablated, name, m, keep, seed)))
            roc, pr = ([row[metric] for row in values] for metric in METRICS)
            rows.append(
                [f"{name} ({kind})", m, label, *map(float, (np.mean(roc), np.std(roc), np.mean(pr), np.std(pr)))]
            )
            table = score_table(model.cells_, keep)
            panels.append((f"{label}, AUC {np.mean(roc):.3f}", partial(model.anomaly_scores, table=table)))
        pictures.append((f"{name}: {kind}", X, y, panels))
    figures.contours(pictures, folder / "ablation.png")
    heads = ["data", "m", "score", "AUC-ROC", "std", "AUC-PR", "std of AUC-PR"]
    return write_table(folder, "ablation", f"# Ablation\n\n{seeds} draws of each synthetic set.", heads, rows)


def _ablated(name: str, m: int, keep: str, seed: int) -> Row:
    X, y = synthetic(name, seed=seed)
    model = SVEAD(T, m, random_state=seed, n_jobs=1).fit(X)
    scores = model.anomaly_scores(X, score_table(model.cells_, keep))
    return {"roc": float(roc_auc_score(y, scores)), "pr": float(average_precision_score(y, scores))}


def _named(datasets: Sequence[Dataset], name: str) -> Dataset | None:
    return next((data for data in datasets if data.name == name), None)


def sensitivity(datasets: Sequence[Dataset], seeds: int, store: Store, folder: Path) -> str:
    """AUC against m and against t on one data set, the other at the best setting of the tables."""
    data = _named(datasets, SENSITIVE)
    if data is None:
        return f"# Sensitivity\n\n{SENSITIVE} is not in the data folder.\n"
    method = BY_NAME["SVEAD"]
    best = search(method, data, seeds, np.inf, store).best["roc"]
    rows, panels = [], []
    for axis, values in (("m", SIZES), ("t", SIZES_T)):
        curves: dict[str, Any] = {name: (list(values), [], []) for name in NAMES.values()}
        for value in values:
            parameters = {**best, "t": T, axis: value}
            runs = []
            for seed in range(seeds):
                key = store.key("sensitivity", f"{data.name}:{len(data.y)}", "SVEAD", seed, parameters)
                runs.append(store.get(key, partial(fit, method, data.X, data.y, parameters, seed)))
            row: list[Any] = [axis, value]
            for metric, name in NAMES.items():
                scores = [run[metric] for run in runs]
                curves[name][1].append(float(np.mean(scores)))
                curves[name][2].append(float(np.std(scores)))
                row += [curves[name][1][-1], curves[name][2][-1]]
            rows.append(row)
            say(f"sensitivity: {axis} = {value} done")
        fixed = f"t = {T}" if axis == "m" else f"m = {best['m']}"
        what = "anchors of a partition, m" if axis == "m" else "partitions, t"
        panels.append((f"{data.name}, {fixed}, scaling {best['scaling']}", what, curves))
    figures.bands(panels, folder / "sensitivity.png")
    title = f"# Sensitivity\n\n{data.name}, {len(data.y):,} points, scaling {best['scaling']}; t = {T} where m varies, "
    title += f"m = {best['m']} where t varies; {seeds} seeds."
    return write_table(
        folder, "sensitivity", title, ["varied", "value", "AUC-ROC", "std", "AUC-PR", "std of AUC-PR"], rows
    )


def contamination(datasets: Sequence[Dataset], seeds: int, store: Store, folder: Path, runs: int = 10) -> str:
    """AUC-ROC with a growing share of anomalies: all normal points, and as many anomalies as the share asks for."""
    rows: list[list[Any]] = []
    curves: dict[str, Any] = {}
    method = BY_NAME["SVEAD"]
    for name in CONTAMINATED:
        data = _named(datasets, name)
        if data is None:
            say(f"contamination: {name} is not in the data folder")
            continue
        best = search(method, data, seeds, np.inf, store).best["roc"]
        means, stds = [], []
        for rate in RATES:
            values = []
            for run in range(runs):
                key = store.key("contamination", f"{name}:{len(data.y)}", "SVEAD", run, {**best, "rate": rate})
                values.append(store.get(key, partial(_contaminated, data, rate, best, run))["roc"])
            means.append(float(np.mean(values)))
            stds.append(float(np.std(values)))
            rows.append([name, best["m"], best["scaling"], rate, means[-1], stds[-1]])
            say(f"contamination: {name} with {rate:.0%} anomalies done")
        curves[name] = ([100 * rate for rate in RATES], means, stds)
    if not rows:
        return "# Contamination\n\nNeither data set is in the data folder.\n"
    figures.bands([(f"AUC-ROC of SVEAD, {runs} runs", "anomalies, %", curves)], folder / "contamination.png", log=False)
    heads = ["data set", "m", "scaling", "share of anomalies", "AUC-ROC", "std"]
    title = f"# Contamination\n\n{runs} runs, each with other anomalies and another seed; m and scaling of the tables."
    return write_table(folder, "contamination", title, heads, rows)


def _contaminated(data: Dataset, rate: float, parameters: Row, run: int) -> Row:
    rng = np.random.default_rng([run, round(1000 * rate)])
    normal, anomalies = np.flatnonzero(data.y == 0), rng.permutation(np.flatnonzero(data.y == 1))
    wanted = round(rate / (1.0 - rate) * len(normal))
    if wanted > len(anomalies):  # too few anomalies for the share: fewer normal points instead
        wanted = len(anomalies)
        normal = rng.permutation(normal)[: round((1.0 - rate) / rate * wanted)]
    rows = np.concatenate([normal, anomalies[:wanted]])
    return fit(BY_NAME["SVEAD"], data.X[rows], data.y[rows], parameters, run)


def run_time(limit: float, store: Store, folder: Path, largest: int = 500_000, sample: int = 16) -> str:
    """CPU seconds to fit and score Gaussian points, against n at d = 10 and against d at n = 10,000."""
    numbers = [n for n in (1_000, 5_000, 20_000, 100_000, 500_000) if n <= largest]
    widths = (5, 10, 50, 200, 1_000)
    rows, panels = [], []
    for label, sizes in (
        ("points (d = 10)", [(n, 10) for n in numbers]),
        ("features (n = 10,000)", [(min(10_000, largest), d) for d in widths]),
    ):
        curves: dict[str, Any] = {}
        for name in ("SVEAD", "iForest", "iNNE", "IDK"):
            xs, seconds = [], []
            for n, d in sizes:
                key = store.key("runtime", f"{n}x{d}", name, 0, {"sample": sample, "t": T})
                try:
                    took = store.get(key, partial(_timed, name, n, d, sample))["seconds"]
                except ImportError:
                    say(f"run time of {name}: not installed")
                    break
                say(f"run time of {name}, {n:,} x {d}: {took:.2f} s")
                xs.append(n if "points" in label else d)
                seconds.append(took)
                rows.append([name, n, d, took])
                if took > limit:
                    break
            curves[name] = (xs, seconds)
        panels.append((label, curves))
    figures.run_times(panels, folder / "runtime.png")
    title = "# Run time\n\nCPU seconds to fit and score on one thread, which a clock shows on an idle machine; "
    title += f"the faster of two runs; t = {T}, m = psi = {sample}. Above the time limit no larger size is run."
    return write_table(folder, "runtime", title, ["method", "n", "d", "seconds"], rows)


def _timed(name: str, n: int, d: int, sample: int) -> Row:
    X = np.random.default_rng(0).normal(size=(n, d))
    parameters = {"m": sample, "psi": sample, "scaling": "none"}
    run = BY_NAME[name].run
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the baselines' own
        run(X[:100], parameters, 0)  # compiles and imports what must be
        taken: list[float] = []
        while len(taken) < 2 and sum(taken) < 20:
            began = time.process_time()
            run(X, parameters, 0)
            taken.append(time.process_time() - began)
    return {"seconds": min(taken)}
