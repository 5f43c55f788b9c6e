"""A progress line on stderr for people who wait; nothing at all where nobody looks."""

from __future__ import annotations

import sys
import time

_WIDTH = 24


class Progress:
    """Rows, rate and time left, redrawn a few times a second if stderr is a terminal."""

    def __init__(self, enabled: bool | None = None) -> None:
        self.enabled = sys.stderr.isatty() if enabled is None else enabled
        self._is_shown = False
        self.restart()

    def restart(self) -> None:
        """Count time from now on."""
        self.started = time.perf_counter()
        self._drawn = 0.0

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self.started

    def say(self, text: str) -> None:
        """Show a word while there is nothing to count yet."""
        if self.enabled:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._is_shown = bool(text)

    def update(self, rows: int, fraction: float | None) -> None:
        """Redraw, unless that was done a moment ago; `fraction` of the input is None where its size is unknown."""
        if not self.enabled or self.seconds - self._drawn < 0.1:
            return
        self._drawn = self.seconds
        rate = rows / max(self.seconds, 1e-9)
        text = f"{rows:>12,} rows  {rate:>9,.0f} rows/s"
        if fraction is not None and fraction > 0:
            fraction = min(fraction, 1.0)
            left = self.seconds * (1 - fraction) / fraction
            done = round(fraction * _WIDTH)
            text = f"{fraction:>4.0%} {'━' * done}{'╌' * (_WIDTH - done)} {text}  {clock(left)} left"
        self.say(text)

    def clear(self) -> None:
        """Take the line away again, so that what follows starts on a clean one."""
        if self._is_shown:
            self.say("")


def clock(seconds: float) -> str:
    """`1:05`, or `2:01:05` where hours matter."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"
