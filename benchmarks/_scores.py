"""What detectors say of real streams, an array a stream: worked out once, and kept on disk.

Kept apart because more than one benchmark asks for the same scores. A detector that cannot be run is reported by name,
never fatal.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _peers import OURS, Detector, Setting, Step, scaled
from _rcf import NoForest
from _real import Series
from _streams import WARM_UP, Floats

WITHOUT_CHANCE = ("dSalmon SWKNN", "trivial z-score")  # one seed tells all


def _ours(setting: Setting) -> Step:
    from svead_stream import StreamingSVEAD

    return StreamingSVEAD(seed=setting.seed).score_learn_many


OURS_AT_ONCE = Detector(OURS.name, "raw", _ours)  # a whole stream in one call


class Scores:
    """Scores on disk, a file per detector, stream and seed; written beside and renamed, so that none is cut short."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _of(self, detector: str) -> Path:
        return self.folder / "".join(c if c.isalnum() else "-" for c in detector)

    def _path(self, detector: str, one: Series, seed: int) -> Path:
        return self._of(detector) / one.suite / f"{one.name}.{seed}.npy"

    def get(self, detector: str, one: Series, seed: int) -> Floats | None:
        """What is known, unless it is of a file that has changed its length since."""
        path = self._path(detector, one, seed)
        scores: Floats | None = np.load(path) if path.exists() else None
        return scores if scores is not None and len(scores) == len(one.y) else None

    def complete(self, detector: str, series: Sequence[Series], seeds: int) -> list[list[Floats]]:
        """The scores of all series, for every seed for which they are all known."""
        found = [[self.get(detector, one, seed) for one in series] for seed in range(seeds)]
        known = [[scores for scores in of_seed if scores is not None] for of_seed in found]
        return [scores for scores in known if len(scores) == len(series)]

    def add(self, detector: str, one: Series, seed: int, scores: Floats) -> None:
        """Keep the scores of a whole stream."""
        path = self._path(detector, one, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".part.npy")
        np.save(beside, scores)
        beside.replace(path)

    def forget(self, detector: str) -> None:
        """Drop what is known of a detector, to run it again."""
        shutil.rmtree(self._of(detector), ignore_errors=True)


def score(detector: Detector, one: Series, seed: int) -> Floats:
    """Scores of a fresh detector over the stream; 0 where it says that it cannot tell yet (NaN, infinite)."""
    X = scaled(one.X, detector.scaling)
    scores = detector.start(Setting(X.shape[1], seed, X[:WARM_UP]))(X)
    return np.where(np.isfinite(scores), scores, 0.0)


def run(detectors: Sequence[Detector], series: Sequence[Series], seeds: int, known: Scores) -> dict[str, str]:
    """Score what is not known yet; returns the detectors that could not be run, and why."""
    missing: dict[str, str] = {}
    for seed in range(seeds):
        for detector in detectors:
            for one in series:
                if detector.name in missing or (seed and detector.name in WITHOUT_CHANCE):
                    break
                if known.get(detector.name, one, seed) is not None:
                    continue
                try:
                    known.add(detector.name, one, seed, score(detector, one, seed))
                    print(f"{detector.name} on {one.suite}/{one.name}, seed {seed}", file=sys.stderr)
                except ImportError as error:
                    missing[detector.name] = f"not installed: {str(error).splitlines()[0]}"
                except NoForest as error:
                    missing[detector.name] = str(error)
                except Exception as error:  # a peer's own failure must not end the comparison
                    missing[detector.name] = f"{type(error).__name__} on {one.suite}/{one.name}: {error}"[:200]
    for name, why in missing.items():
        print(f"{name}: {why}", file=sys.stderr)
    return missing
