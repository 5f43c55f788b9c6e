"""Fixtures: one broker for the session, topics with names of their own for each test, and a few short helpers.

``SVEAD_TEST_BOOTSTRAP`` names an existing cluster to use instead. Where no broker can be started the tests are
skipped with the reason, except in CI (``CI`` is set), where that is a failure.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SHADOW = HERE.parent.parent / "benchmarks"  # a benchmark there is called kafka.py, like the client

with warnings.catch_warnings():
    # The client loads its protocol files in a way that Python 3.11 calls outdated.
    warnings.simplefilter("ignore", DeprecationWarning)
    found_on = list(sys.path)
    sys.path[:] = [str(HERE), *(place for place in found_on if Path(place) != SHADOW)]
    pytest.importorskip("kafka", reason="needs svead-stream[kafka]")
    import svead_kafka.worker  # noqa: F401

    sys.path[:] = [str(HERE), *found_on]

from broker import Cluster  # noqa: E402
from clusters import started  # noqa: E402
from streams import OPEN, Run, Stream  # noqa: E402
from svead_kafka import Options, Worker  # noqa: E402

from svead_stream.cli import main  # noqa: E402


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of our own, which tests may restart."""
    if os.environ.get("SVEAD_TEST_BOOTSTRAP"):
        pytest.skip("SVEAD_TEST_BOOTSTRAP is set: this test needs a broker that it may restart")
    yield from started(Cluster(tmp_path_factory.mktemp("kafka")))


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes, for failover."""
    yield from started(Cluster(tmp_path_factory.mktemp("kafka3"), 3))


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the clients that a test has left open."""
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the detector once, so that no test waits for that while a clock runs."""
    Worker(Options(input=["in"], output="out")).warm_up()


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the broker listens: the existing cluster named in the environment, or one started here."""
    existing = os.environ.get("SVEAD_TEST_BOOTSTRAP")
    if existing:
        return existing
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.bootstrap


@pytest.fixture
def stream(bootstrap: str, request: pytest.FixtureRequest) -> Stream:
    """Fresh topics for one test: input with four partitions, output, dead letters and state."""
    return Stream(bootstrap, request.node.name)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A command of the connector in this process: its exit code, and the lines it says."""

    def run(*words: str) -> tuple[int, list[str]]:
        with pytest.raises(SystemExit) as ended:
            main(["kafka", *words])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, (said.out + said.err).splitlines()

    return run
