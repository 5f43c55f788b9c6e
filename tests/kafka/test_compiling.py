"""A worker compiles before it joins its group, once."""

from __future__ import annotations

import logging

import pytest
from svead_kafka import Options, Worker


def test_a_worker_warms_up_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(Options(input=["in"], output="out"))
    with caplog.at_level(logging.INFO):
        worker.warm_up()  # the session has compiled everything before
        monkeypatch.setattr(worker, "_compile", lambda: pytest.fail("a second time"))
        worker.warm_up()
    assert caplog.records == []
