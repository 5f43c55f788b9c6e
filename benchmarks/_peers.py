"""Every streaming detector of the comparison behind one small interface: score a block of rows, learning each after it.

Kept apart from the benchmark because each library has its own habits (what it must be told beforehand, which way its
scores point, rows or dictionaries). A library that is not installed is reported by name, never fatal.

Every peer runs with its library's defaults. Where a library has none for a parameter (dSalmon), the value is that
of the library's own example or of the method's paper. All peers are fed the stream min-max scaled over its *whole*
length, as the documentation of most asks, and river's one-class SVM standardised likewise: no live system could
know that range, so it is in the peers' favour. Those that must be told limits get the true ones. Ours gets raw values.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Step = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Setting:
    """What a detector may be told before the stream starts."""

    n_features: int
    seed: int
    first: Floats  # the warm-up, for the peers that must be fitted to something before they can score


@dataclass(frozen=True)
class Detector:
    """A named detector, how its input is scaled (raw, minmax or standard), and how to start one."""

    name: str
    scaling: str
    start: Callable[[Setting], Step]


def scaled(X: Floats, how: str) -> Floats:
    """The stream as the detector's documentation asks for it, scaled over its whole length."""
    if how == "raw":
        return X
    shift, width = (X.min(axis=0), np.ptp(X, axis=0)) if how == "minmax" else (X.mean(axis=0), X.std(axis=0))
    return (X - shift) / np.where(width > 0, width, 1.0)


def _rows(
    score: Callable[[Any], float | None], learn: Callable[[Any], object], convert: Callable[[Floats], Any]
) -> Step:
    """Score, then learn, one row at a time. A model that cannot score yet scores 0."""

    def step(block: Floats) -> Floats:
        out = np.zeros(len(block))
        for i, row in enumerate(block):
            x = convert(row)
            value = score(x)
            if value is not None:
                out[i] = value
            learn(x)
        return out

    return step


def _as_dict(row: Floats) -> dict[str, float]:
    return {f"f{j}": v for j, v in enumerate(row.tolist())}


def _ours(setting: Setting) -> Step:
    from svead_stream import StreamingSVEAD

    model = StreamingSVEAD(seed=setting.seed)
    return _rows(model.score_one, model.learn_one, _as_dict)


def _river(name: str, seeded: bool = True) -> Callable[[Setting], Step]:
    def start(setting: Setting) -> Step:
        model = getattr(importlib.import_module("river.anomaly"), name)(**({"seed": setting.seed} if seeded else {}))
        return _rows(model.score_one, model.learn_one, _as_dict)

    return start


def _river_lof(setting: Setting) -> Step:
    # Cannot score before it has more points than neighbours.
    from river.anomaly import LocalOutlierFactor

    model, seen = LocalOutlierFactor(), 0

    def score(x: dict[str, float]) -> float | None:
        return model.score_one(x) if seen > 20 else None

    def learn(x: dict[str, float]) -> None:
        nonlocal seen
        model.learn_one(x)
        seen += 1

    return _rows(score, learn, _as_dict)


def _pysad(
    name: str, limits: bool = False, first: str | None = None, seeded: bool = True, **told: str
) -> Callable[[Setting], Step]:
    def start(setting: Setting) -> Step:
        options: dict[str, Any] = {"random_state": setting.seed} if seeded else {}
        if limits:  # of the min-max scaled stream
            options |= {"feature_mins": np.zeros(setting.n_features), "feature_maxes": np.ones(setting.n_features)}
        if first is not None:
            options[first] = setting.first
        if "shape" in told:
            options[told["shape"]] = setting.n_features
        model = getattr(importlib.import_module("pysad.models"), name)(**options)
        seen = 0

        def score(x: Floats) -> float | None:
            return float(np.asarray(model.score_partial(x)).ravel()[0]) if seen else None

        def learn(x: Floats) -> None:
            nonlocal seen
            model.fit_partial(x)
            seen += 1

        return _rows(score, learn, lambda row: row)

    return start


def _capymoa(name: str, seed: str | None = "random_seed", sign: float = 1.0) -> Callable[[Setting], Step]:
    def start(setting: Setting) -> Step:
        os.environ.setdefault("CAPYMOA_DATASETS_DIR", "data")
        from capymoa.core import LabeledInstance
        from capymoa.stream import NumpyStream

        # The schema comes with a stream; its two rows are never fed to the model. MOA's learners pass over rows
        # without a label: all get the same one.
        rows = np.vstack([np.zeros(setting.n_features), np.ones(setting.n_features)])
        schema = NumpyStream(rows, np.array([0, 1]), target_type="categorical").get_schema()
        model = getattr(importlib.import_module("capymoa.anomaly"), name)(
            schema, **({seed: setting.seed} if seed else {})
        )
        return _rows(
            lambda x: sign * model.score_instance(x),
            model.train,
            lambda row: LabeledInstance.from_array(schema, row, 0),
        )

    return start


def _aberrant(package: str, name: str, seeded: bool = True) -> Callable[[Setting], Step]:
    def start(setting: Setting) -> Step:
        module = importlib.import_module(f"aberrant.model.{package}")
        model = getattr(module, name)(**({"seed": setting.seed} if seeded else {}))
        return _rows(model.score_one, model.learn_one, _as_dict)

    return start


def dsalmon(name: str, **options: Any) -> Callable[[Setting], Step]:
    def start(setting: Setting) -> Step:
        seed = {} if name in ("SWKNN", "SWLOF") else {"seed": setting.seed}
        model = getattr(importlib.import_module("dSalmon.outlier"), name)(**options, **seed)
        return lambda block: np.asarray(model.fit_predict(block), dtype=np.float64).ravel()

    return start


OURS = Detector("svead-stream", "raw", _ours)

DETECTORS = (
    OURS,
    Detector("river HalfSpaceTrees", "minmax", _river("HalfSpaceTrees")),
    Detector("river LODA", "minmax", _river("LODA")),
    Detector("river LocalOutlierFactor", "minmax", _river_lof),
    Detector("river OneClassSVM", "standard", _river("OneClassSVM", seeded=False)),
    Detector("pysad xStream", "minmax", _pysad("xStream")),
    Detector("pysad RSHash", "minmax", _pysad("RSHash", limits=True)),
    Detector("pysad HalfSpaceTrees", "minmax", _pysad("HalfSpaceTrees", limits=True)),
    Detector("pysad LODA", "minmax", _pysad("LODA")),
    Detector("pysad IForestASD", "minmax", _pysad("IForestASD", seeded=False)),
    Detector("pysad RobustRandomCutForest", "minmax", _pysad("RobustRandomCutForest")),
    Detector("pysad LoOP", "minmax", _pysad("LocalOutlierProbability", first="initial_X", seeded=False)),
    Detector("pysad ExactStorm", "minmax", _pysad("ExactStorm", seeded=False)),
    Detector("pysad KitNet", "minmax", _pysad("KitNet")),
    Detector("pysad Inqmad", "minmax", _pysad("Inqmad", shape="input_shape")),
    Detector("capymoa AdaptiveIsolationForest", "minmax", _capymoa("AdaptiveIsolationForest", "seed")),
    Detector("capymoa StreamingIsolationForest", "minmax", _capymoa("StreamingIsolationForest", "seed")),
    Detector("capymoa OnlineIsolationForest", "minmax", _capymoa("OnlineIsolationForest")),
    Detector("capymoa StreamRHF", "minmax", _capymoa("StreamRHF")),
    Detector("capymoa HalfSpaceTrees", "minmax", _capymoa("HalfSpaceTrees")),
    Detector("capymoa IForestASD", "minmax", _capymoa("IForestASD", "random_state")),
    Detector("capymoa LODA", "minmax", _capymoa("Loda", "random_state")),
    Detector("capymoa RSHash", "minmax", _capymoa("RSHash", "seed")),
    Detector("capymoa RobustRandomCutForest", "minmax", _capymoa("RobustRandomCutForest", "random_state")),
    Detector("capymoa Autoencoder", "minmax", _capymoa("Autoencoder")),
    Detector("aberrant ASDIsolationForest", "minmax", _aberrant("iforest", "ASDIsolationForest")),
    Detector("aberrant HalfSpaceTrees", "minmax", _aberrant("iforest", "HalfSpaceTrees")),
    Detector("aberrant MondrianIsolationForest", "minmax", _aberrant("iforest", "MondrianIsolationForest")),
    Detector("aberrant OnlineIsolationForest", "minmax", _aberrant("iforest", "OnlineIsolationForest")),
    Detector("aberrant RandomCutForest", "minmax", _aberrant("iforest", "RandomCutForest")),
    Detector("aberrant RandomHistogramForest", "minmax", _aberrant("iforest", "StreamRandomHistogramForest")),
    Detector("aberrant xStream", "minmax", _aberrant("iforest", "XStream")),
    Detector("aberrant LocalOutlierFactor", "minmax", _aberrant("distance", "LocalOutlierFactor", seeded=False)),
    Detector("aberrant SDOstream", "minmax", _aberrant("distance", "SDOStream")),
    Detector("aberrant LODA", "minmax", _aberrant("sketch", "StreamingLODA")),
    Detector("aberrant RSHash", "minmax", _aberrant("sketch", "StreamingRSHash")),
    Detector("aberrant MStream", "minmax", _aberrant("sketch", "MStream")),
    Detector("aberrant OneClassSVM", "minmax", _aberrant("svm", "IncrementalOneClassSVMAdaptiveKernel")),
    Detector("dSalmon HSTrees", "minmax", dsalmon("HSTrees", window=250, n_estimators=25, max_depth=15)),
    Detector("dSalmon LODA", "minmax", dsalmon("LODA", window=256)),
    Detector("dSalmon RSHash", "minmax", dsalmon("RSHash", n_estimators=100, window=256, cms_w=4, cms_d=10000)),
    Detector("dSalmon SDOstream", "minmax", dsalmon("SDOstream", k=200, T=500)),
    Detector("dSalmon SWKNN", "minmax", dsalmon("SWKNN", window=100, k=5)),
    Detector("dSalmon SWLOF", "minmax", dsalmon("SWLOF", window=100, k=5)),
    Detector("dSalmon SWRRCT", "minmax", dsalmon("SWRRCT", window=100)),
)
