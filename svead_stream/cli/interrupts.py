"""Ctrl-C at a good moment: between batches, when the model and all files tell of the same rows."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unbroken() -> Iterator[None]:
    """Let Ctrl-C wait until the block is done; a second one does not wait, since something may hang.

    Signals that raise no KeyboardInterrupt stay as they are.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are not its affair
        yield
        return
    waiting: list[int] = []

    def wait(number: int, frame: Any) -> None:
        if waiting:
            raise KeyboardInterrupt
        waiting.append(number)

    held = [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) is signal.default_int_handler]
    for one in held:
        signal.signal(one, wait)
    try:
        yield
    finally:
        for one in held:
            signal.signal(one, signal.default_int_handler)
    if waiting:
        raise KeyboardInterrupt
