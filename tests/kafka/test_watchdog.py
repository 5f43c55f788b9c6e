"""The watchdog: quiet while there is progress, and not after."""

from __future__ import annotations

import threading
import time

import pytest
from kafka.errors import KafkaTimeoutError
from svead_kafka.watchdog import Watchdog, bounded


def test_it_acts_when_nobody_beats() -> None:
    stalled = threading.Event()
    watchdog = Watchdog(0.05, on_stall=stalled.set)
    watchdog.start()
    assert stalled.wait(timeout=20)
    watchdog.stop()


def test_it_is_quiet_while_there_is_progress() -> None:
    stalled = threading.Event()
    watchdog = Watchdog(5.0, on_stall=stalled.set)
    watchdog.start()
    for _ in range(20):
        watchdog.beat("counting")
        time.sleep(0.01)
    watchdog.stop()
    assert not stalled.is_set()


def test_a_call_that_hangs_is_left_behind_and_others_pass_their_errors_on() -> None:
    with pytest.raises(KafkaTimeoutError, match="did not answer"):
        bounded(threading.Event().wait, 0.05)  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 / 0, 20)  # type: ignore[arg-type, return-value]
    seen: list[int] = []
    bounded(lambda: seen.append(1), 20)
    assert seen == [1]
