"""The watchdog: quiet while there is progress, and not after."""

from __future__ import annotations

import threading
import time

from svead_kafka.watchdog import Watchdog


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
