"""Shared by all tests: the oracle and the benchmarks' helpers are importable."""

import os
import random
import secrets
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.path.append(str(ROOT / "benchmarks"))  # last: a file there may be called like a library

# A property that fails prints what repeats it; time says nothing on a busy machine.
settings.register_profile("svead", deadline=None, print_blob=True)
settings.load_profile("svead")

SEED = int(os.environ.get("SVEAD_TEST_SEED") or secrets.randbits(32))
os.environ["SVEAD_TEST_SEED"] = str(SEED)  # for the processes in which tests run side by side


def pytest_report_header() -> str:
    return f"tests with random steps are repeated by SVEAD_TEST_SEED={SEED}"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """For tests that take other steps each time; what repeats them is shown with a failure, too."""
    print(f"SVEAD_TEST_SEED={SEED}")
    return random.Random(f"{SEED} {request.node.name}")
