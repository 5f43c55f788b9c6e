"""The report while a run goes on: pictures of it, taken only while somebody looks.

The thread that feeds the recorder takes the pictures, between two batches, so that nothing needs a lock; other threads
only ever see finished ones. A run that nobody looks at pays for nothing.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any
from uuid import uuid4

from svead_stream.report.render import encoded, render

_EVERY = 1.0  # seconds between two pictures, at least
_SHARE = 0.02  # of the time of the feeding thread that pictures may take
_LOOKING = 10.0  # seconds after a request for which somebody is taken to look
_PATIENCE = 2.0  # seconds that the first to look after a while waits for a new picture


class Picture:
    """What the page showed at a moment, put into bytes once, when it is first asked for."""

    def __init__(self, data: dict[str, Any], version: str) -> None:
        self.version = version
        self._data = data

    @cached_property
    def page(self) -> bytes:
        """All of it, for a browser that comes new."""
        return render(self._data, live=True).encode()

    @cached_property
    def data(self) -> bytes:
        """What a page is drawn from, as JSON."""
        return encoded(self._data).encode()

    @cached_property
    def zipped_page(self) -> bytes:
        return gzip.compress(self.page, 1)

    @cached_property
    def zipped_data(self) -> bytes:
        return gzip.compress(self.data, 1)


class LivePage:
    """The newest picture of a run.

    Parameters
    ----------
    data
        Gives what the report shows, as far as the run has come; called by the thread that calls `update`.
    """

    def __init__(self, data: Callable[[], dict[str, Any]]) -> None:
        self._data = data
        self._run = uuid4().hex  # so that no page takes versions of another run, or answers to it, for its own
        self._count = 0
        self._looked = -_LOOKING
        self._next = 0.0
        self._has_changed = True
        self._is_new = threading.Event()
        self._picture = self._take()

    def _take(self) -> Picture:
        began = time.monotonic()
        picture = Picture(self._data() | {"key": self._run}, f"{self._run}-{self._count}")
        self._count += 1
        self._has_changed = False
        now = time.monotonic()
        self._next = now + max(_EVERY, (now - began) / _SHARE)
        return picture

    def update(self, changed: bool = False) -> None:
        """Take a new picture if something has changed since the last one, it is old enough, and somebody looks."""
        self._has_changed |= changed
        now = time.monotonic()
        if now - self._looked > _LOOKING:
            return
        if self._has_changed and now >= self._next:
            self._picture = self._take()
        self._is_new.set()

    def look(self) -> Picture:
        """The newest picture, for any thread; who comes after a while waits a moment for one."""
        now = time.monotonic()
        before, self._looked = self._looked, now
        if now - before > _LOOKING:
            self._is_new.clear()
            self._is_new.wait(_PATIENCE)
        return self._picture
