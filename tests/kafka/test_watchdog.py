"""The watchdog: quiet while there is progress, and not after."""

from __future__ import annotations

import threading

import pytest
from kafka.errors import KafkaTimeoutError
from streams import PATIENCE, until
from svead_kafka.watchdog import Watchdog, bounded


def test_it_acts_when_nobody_beats() -> None:
    stalled = threading.Event()
    watchdog = Watchdog(0.05, on_stall=stalled.set)
    watchdog.start()
    assert stalled.wait(timeout=PATIENCE)
    watchdog.stop()


class Clock:
    """Time that moves when a test says so; counts how often it was asked for."""

    now = 0.0
    asked = 0

    def monotonic(self) -> float:
        self.asked += 1
        return self.now


def test_it_is_quiet_as_long_as_there_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("svead_kafka.watchdog.time", clock)
    stalled = threading.Event()
    watchdog = Watchdog(0.2, on_stall=stalled.set)
    watchdog.start()
    for _ in range(5):  # several times the timeout, but never in silence
        watchdog.beat("counting")
        clock.now += 0.15
        asked = clock.asked
        until(lambda asked=asked: clock.asked > asked + 1)  # type: ignore[misc]  # it has looked since then
    assert not stalled.is_set()
    clock.now += 0.15
    assert stalled.wait(timeout=PATIENCE)
    watchdog.stop()


def test_a_call_that_hangs_is_left_behind_and_others_pass_their_errors_on() -> None:
    calm = threading.Event()
    with pytest.raises(KafkaTimeoutError, match="did not answer"):
        bounded(threading.Event().wait, 0.05, calm, PATIENCE)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 / 0, PATIENCE, calm, PATIENCE)  # type: ignore[arg-type, return-value]
    seen: list[int] = []
    bounded(lambda: seen.append(1), PATIENCE, calm, PATIENCE)
    assert seen == [1]


def test_in_a_hurry_a_call_is_given_less_time() -> None:
    hurry = threading.Event()
    hurry.set()
    with pytest.raises(KafkaTimeoutError, match="did not answer"):
        bounded(threading.Event().wait, 100 * PATIENCE, hurry, 0.05)  # type: ignore[arg-type]
