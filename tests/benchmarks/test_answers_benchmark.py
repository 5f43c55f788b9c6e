"""The benchmark of answers on tiny data: who answers what, and what is judged."""

from __future__ import annotations

from pathlib import Path

import _answering
import answers
import numpy as np
import pytest
from _answering import Case, Person, after_answers

PEOPLE = (Person(0), Person(10), Person(5, 5, wrong=0.1))


@pytest.fixture
def case() -> Case:
    rng = np.random.default_rng(0)
    y = (rng.random(1_200) < 0.06).astype(np.int64)
    X = rng.normal(size=(1_200, 3)) + np.where(y == 1, 3.0, 0.0)[:, None] * [1, 0, 0]
    return Case("made", X, y, 256)


def test_a_person_answers_alerts_of_the_first_half_and_then_reports_what_was_missed(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, bool]] = []

    def answer(model: object, row: np.ndarray, is_anomaly: bool) -> None:
        told.append((int(np.flatnonzero((row == case.X).all(axis=1))[0]), is_anomaly))

    monkeypatch.setattr(_answering, "_answer", answer)
    after_answers(case, Person(10, 4), seed=1)
    alerts, missed = [row for row, _ in told[:-4]], [row for row, _ in told[-4:]]
    assert 3 <= len(alerts) <= 10
    assert alerts == sorted(alerts)
    assert 256 <= min(alerts) <= max(alerts + missed) < case.half
    assert all(said == bool(case.y[row]) for row, said in told)
    assert all(case.y[row] for row in missed)
    assert not set(alerts) & set(missed)


def test_answers_that_are_always_wrong_are_the_opposite_of_the_labels(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []

    def answer(model: object, row: np.ndarray, is_anomaly: bool) -> None:
        told.append(is_anomaly == bool(case.y[np.flatnonzero((row == case.X).all(axis=1))[0]]))

    monkeypatch.setattr(_answering, "_answer", answer)
    after_answers(case, Person(10, wrong=1.0), seed=1)
    assert told
    assert not any(told)


def test_right_answers_are_worth_more_than_none(case: Case) -> None:
    none, right = (
        np.mean([after_answers(case, person, seed)["ap"] for seed in range(3)])
        for person in (Person(0), Person(30, 10))
    )
    assert right > none


@pytest.mark.usefixtures("one_machine")
def test_every_suite_has_a_table_with_a_line_for_each_person(
    data: Path, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "adbench").mkdir()
    np.savez(data / "adbench" / "made.npz", X=case.X, y=case.y)
    monkeypatch.setattr(answers, "PEOPLE", PEOPLE)
    curve = tmp_path / "curve.png"
    answers.main(["--data", str(data), "--seeds", "2", "--suites", "tables,real", "--curve", str(curve)])
    printed = capsys.readouterr().out
    assert "1 data sets in random order" in printed
    for person in ("0", "10", "5 + 5 misses, 10% wrong", "all labels"):
        assert printed.count(f"| {person} | 2 |") == 2
    assert curve.read_bytes().startswith(b"\x89PNG")


def test_a_suite_that_is_not_there_is_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        answers.main(["--data", str(data), "--suites", "table"])
    assert "--suites table: there are tables, drift, real" in capsys.readouterr().err
