"""A made-up machine for the demo: five sensors with a daily rhythm, slow drift, and four kinds of faults."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MINUTES = 24 * 60  # an event a minute
_FIRST_DAY = datetime(2026, 1, 5)  # a Monday
SENSORS = ("temperature", "vibration", "pressure", "current", "speed")


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong for a few minutes."""

    kind: str
    sensor: str  # the one to blame
    start: int
    end: int


def machine(days: int = 8, n_faults: int = 28, seed: int = 7) -> tuple[pa.Table, list[Fault]]:
    """Sensor readings with their times and the truth about them.

    Parameters
    ----------
    days
        How long the machine runs.
    n_faults
        How many faults there are, the four kinds in turn, none on the first day.
    seed
        The same seed makes the same machine.

    """
    rng = np.random.default_rng(seed)
    n = days * MINUTES
    minute = np.arange(n)
    load = 0.55 + 0.3 * np.sin(2 * np.pi * (minute / MINUTES - 0.3)) + _wander(rng, n, 0.05)
    wear = np.linspace(0, 1, n)  # drift: the machine ages, and was serviced once
    wear[minute > 0.6 * n] *= 0.4
    x = {
        "speed": 1450 + 60 * load + rng.normal(0, 4, n),
        "current": 18 + 14 * load + rng.normal(0, 0.35, n),
        "temperature": 48 + 16 * load + 6 * wear + rng.normal(0, 0.5, n),
        "vibration": 1.4 + 0.5 * load + 0.4 * wear + rng.normal(0, 0.07, n),
        "pressure": 6.2 - 0.5 * load + rng.normal(0, 0.05, n),
    }
    faults = []
    for k, start in enumerate(_starts(rng, n, n_faults)):
        fault = _KINDS[k % len(_KINDS)](x, start, rng)
        faults.append(fault)
    names = np.full(n, None, dtype=object)
    for fault in faults:
        names[fault.start : fault.end] = fault.kind
    digits = {"speed": 0, "temperature": 1, "current": 2}
    columns: dict[str, Any] = {"time": [f"{_FIRST_DAY + timedelta(minutes=i):%Y-%m-%d %H:%M}" for i in range(n)]}
    columns |= {name: np.round(x[name], digits.get(name, 3)) for name in SENSORS}
    columns["kind"] = names.tolist()
    columns["fault"] = [int(name is not None) for name in names]
    return pa.table(columns), faults


def clock(minute: int) -> str:
    """`day 2 07:45`."""
    return f"day {minute // MINUTES + 1} {minute // 60 % 24:02}:{minute % 60:02}"


def _wander(rng: np.random.Generator, n: int, size: float) -> npt.NDArray[np.float64]:
    """Slow random changes: what the machine happens to be making."""
    steps = np.repeat(rng.normal(0, size, n // 90 + 2), 90)
    return np.convolve(steps, np.ones(60) / 60, mode="same")[:n]


def _starts(rng: np.random.Generator, n: int, n_faults: int) -> list[int]:
    first = MINUTES
    apart = (n - first) // n_faults
    return [first + k * apart + int(rng.integers(apart - 30)) for k in range(n_faults)]


def _bearing(x: dict[str, Any], start: int, rng: np.random.Generator) -> Fault:
    end = start + int(rng.integers(2, 4))
    x["vibration"][start:end] += rng.uniform(0.8, 1.6, end - start)
    return Fault("worn bearing", "vibration", start, end)


def _leak(x: dict[str, Any], start: int, rng: np.random.Generator) -> Fault:
    end = start + 4
    x["pressure"][start:end] -= np.array([0.5, 0.8, 0.9, 0.6])
    return Fault("pressure leak", "pressure", start, end)


def _overheating(x: dict[str, Any], start: int, rng: np.random.Generator) -> Fault:
    end = start + 4
    x["temperature"][start:end] += np.array([6.0, 9.0, 11.0, 8.0])
    return Fault("overheating", "temperature", start, end)


def _slipping(x: dict[str, Any], start: int, rng: np.random.Generator) -> Fault:
    """Neither value is unusual by itself: the motor draws what it draws at full load, at the speed of no load."""
    end = start + int(rng.integers(2, 4))
    x["speed"][start:end] -= rng.uniform(70, 100, end - start)
    return Fault("slipping belt", "speed", start, end)


_KINDS = (_bearing, _leak, _overheating, _slipping)
