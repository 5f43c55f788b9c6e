"""Shared by all tests: the oracle and the benchmarks' helpers are importable."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.path.append(str(ROOT / "benchmarks"))  # last: a file there may be called like a library
