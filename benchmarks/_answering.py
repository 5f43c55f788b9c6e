"""People who answer alerts, simulated from labels, and what a stream's scores are worth after their answers.

Kept apart from the benchmark because when answers are given and what is judged decides what the figures mean: answers
are given in the first half of a stream, as alerts come; reported misses at its end; judged is the second half.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from _streams import Floats, Labels
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, roc_auc_score

from svead_stream import ConformalFilter, StreamingSVEAD

Figures = dict[str, float]

ALERT_RATE = 0.01  # of the second half, and of the first if nobody answers
MOST_ALERTS = 0.5  # share of the first half, in streams too short for as many answers at a lower rate


@dataclass(frozen=True)
class Person:
    """Answers so many alerts, reports so many anomalies that were none, and is wrong that often."""

    answers: int = 0
    misses: int = 0
    wrong: float = 0.0

    def __str__(self) -> str:
        missed = f" + {self.misses} misses" if self.misses else ""
        return f"{self.answers}{missed}" + (f", {self.wrong:.0%} wrong" if self.wrong else "")


@dataclass(frozen=True)
class Case:
    """A stream: rows, labels, from where on alerts are told, and whether single alerts or incidents are answered."""

    name: str
    X: Floats
    y: Labels
    start: int
    by_incident: bool = False

    @property
    def half(self) -> int:
        """The first row that is judged."""
        return len(self.y) // 2

    @property
    def judged(self) -> bool:
        """Whether both labels occur in what is judged."""
        return 0 < self.y[self.half :].mean() < 1


def _answer(model: ConformalFilter, row: Floats, is_anomaly: bool) -> None:
    model.feedback_one(dict(enumerate(row.tolist())), is_anomaly)


def after_answers(case: Case, person: Person, seed: int) -> Figures:
    """What the second half is worth to a default model after a person's answers in the first."""
    rng = np.random.default_rng([seed, len(case.y), person.answers, person.misses])
    wanted = person.answers / max(case.half - case.start, 1)
    rate = ALERT_RATE if case.by_incident else min(max(wanted, ALERT_RATE), MOST_ALERTS)
    model = ConformalFilter(StreamingSVEAD(seed=seed), alert_rate=rate, burn_in=case.start)
    names = list(range(case.X.shape[1]))
    told: list[int] = []
    done = 0
    while done < case.half and len(told) < person.answers:
        verdict = model.judge_one(dict(zip(names, case.X[done].tolist(), strict=True)))
        opened = any(change.state == "open" for change in verdict.changes)
        if opened if case.by_incident else verdict.alert:
            told.append(done)
            _answer(model, case.X[done], bool(case.y[done]) ^ (rng.random() < person.wrong))
        done += 1
    if done < case.half:
        model.judge_many(case.X[done : case.half])
    missed = np.setdiff1d(np.flatnonzero(case.y[: case.half]), told)
    for i in np.sort(rng.permutation(missed)[: person.misses]).tolist():
        wrong = rng.random() < person.wrong
        _answer(model, case.X[rng.integers(case.half) if wrong else i], True)
    model.change(alert_rate=ALERT_RATE)
    verdicts = model.judge_many(case.X[case.half :])
    return worth(case.y[case.half :], verdicts.scores) | {
        "alerts": float(verdicts.alerts.mean()),
        "answers": float(model.detector.n_answers_),
    }


def worth(y: Labels, scores: Floats) -> Figures:
    """AUC, average precision, and the precision of the top 1 %, at least one event."""
    top = np.argsort(-scores, kind="stable")[: max(1, round(ALERT_RATE * len(y)))]
    return {
        "auc": float(roc_auc_score(y, scores)),
        "ap": float(average_precision_score(y, scores)),
        "precision": float(y[top].mean()),
    }


def supervised(case: Case, seed: int) -> Figures:
    """What a random forest makes of all labels of the first half: what is there to be learned."""
    X, y = np.nan_to_num(case.X, posinf=1e300, neginf=-1e300).astype(np.float32), case.y
    known = y[: case.half]
    if known.min() == known.max():
        return worth(y[case.half :], np.zeros(len(y) - case.half))
    forest = RandomForestClassifier(200, n_jobs=2, random_state=seed).fit(X[: case.half], known)
    return worth(y[case.half :], forest.predict_proba(X[case.half :])[:, 1])
