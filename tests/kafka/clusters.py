"""Clusters for fixtures: where none can be had, tests are skipped with the reason, except in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest
from broker import Cluster, NoBroker


def started(cluster: Cluster) -> Iterator[Cluster]:
    """The body of a fixture: a cluster that runs until the tests are done with it."""
    try:
        cluster.start()
    except NoBroker as error:
        cluster.stop()
        do_without(str(error))
    yield cluster
    cluster.stop()


def do_without(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"no Kafka broker, and CI needs one: {reason}", pytrace=False)
    pytest.skip(f"no Kafka broker: {reason}")
