"""Tiny data in the form of the real streams."""

from __future__ import annotations

from pathlib import Path

import _real
import numpy as np
import pytest


@pytest.fixture
def one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's machine once, not five times."""
    monkeypatch.setattr(_real, "MACHINES", (7,))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A series of NAB's form with one peak, and a run of SKAB's with a lasting fault."""
    rng = np.random.default_rng(0)
    for name in ("nab", "skab"):
        (tmp_path / "data" / name).mkdir(parents=True)
    value, window = rng.normal(size=600), np.full(600, -1)
    window[400:420], value[402] = 0, 30.0
    peak = {"time": 300 * np.arange(600), "value": value, "window": window, "n_windows": 1}
    peak |= {"weight": np.where(window >= 0, 0.9, -1.0), "probation": np.arange(600) < 90}
    np.savez(tmp_path / "data" / "nab" / "peak.npz", **peak)
    X, y = rng.normal(size=(700, 3)), np.zeros(700, dtype=np.int64)
    X[600:], y[600:] = X[600:] + 8.0, 1
    np.savez(tmp_path / "data" / "skab" / "fault.npz", time=np.arange(700), X=X, y=y)
    return tmp_path / "data"
