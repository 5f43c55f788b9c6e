"""Snapshots that were tampered with and signed again: each is refused, or is a model that works; nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import pytest

from svead_stream import SVEAD, ConformalFilter, SnapshotError, StreamingSVEAD, from_bytes, snapshot

HERE = Path(__file__).parent
X = np.random.default_rng(0).normal(size=(60, 2))


def tried(n: int, seed: int, **environment: str) -> dict[str, Any]:
    """What became of so many mutations, in a process of their own."""
    command = [sys.executable, str(HERE / "mutations.py"), str(n), str(seed)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_mutations_are_refused_or_work() -> None:
    found = tried(6_000, 1)
    assert found["wrong"] == []
    assert found["refused"] > found["works"] > 100


def test_without_the_compiler_no_index_is_seen_to_leave_its_array() -> None:
    found = tried(24, 2, NUMBA_DISABLE_JIT="1")
    assert found["wrong"] == []
    assert found["works"] > 2


def parameters(**given: Any) -> dict[str, Any]:
    return {"parameters": given}


@pytest.mark.parametrize(
    ("model", "change", "words"),
    [
        (SVEAD(2, 2).fit(X), parameters(n_jobs=2**53), "n_jobs=9007199254740992: it must be a whole number from"),
        (SVEAD(2, 2).fit(X), parameters(n_jobs=1.5), "n_jobs=1.5"),
        (SVEAD(2, 2).fit(X), parameters(verbose="x"), "verbose='x'"),
        (SVEAD(2, 2).fit(X), parameters(random_state=-1), "random_state=-1"),
        (SVEAD(2, 2).fit(X), parameters(n_partitions=2**53), "n_partitions=9007199254740992"),
        (SVEAD(2, 2).fit(X), parameters(n_partitions=3), "does not fit together: anchors of shape"),
        (SVEAD(2, 2).fit(X), {"offset": 10**400}, "is no finite number"),
        (SVEAD(2, 2).fit(X), {"offset": float("inf")}, "inf is no finite number"),
        (SVEAD(2, 2).fit(X), {"features": "ab"}, "feature names are a str"),
        (SVEAD(2, 2).fit(X), {"features": [1, 2]}, "feature names are no text"),
        (SVEAD(2, 2).fit(X), {"features": ["a", "a"]}, "feature names are not distinct"),
        (StreamingSVEAD(), {"features": [n * (2**61 - 1) for n in range(99)]}, "too many feature names have the same"),
        (StreamingSVEAD(), {"features": [float("nan")]}, "malformed feature name nan"),
        (StreamingSVEAD(), {"features": [json.loads("[" * 900 + "]" * 900)]}, "malformed feature name"),
        (ConformalFilter(StreamingSVEAD()), {"window": float("inf")}, "alert_window=inf"),
        (ConformalFilter(StreamingSVEAD()), {"window": 2**33}, "alert_window=8589934592"),
        (ConformalFilter(StreamingSVEAD()), {"alert_rate": 1e-12}, "alert_rate=1e-12: it is too small"),
    ],
)
def test_a_value_beyond_its_limits_is_an_error_that_names_it(model: Any, change: dict[str, Any], words: str) -> None:
    kind, fields, arrays = snapshot.unpack(model.to_bytes())
    inner = fields.get("parameters", {}) | change.pop("parameters", {})
    fields |= change | ({"parameters": inner} if inner else {})
    with pytest.raises(SnapshotError) as error:
        from_bytes(snapshot.pack(kind, fields, arrays))
    assert words in str(error.value)


@pytest.mark.parametrize("depth", [1, 500])
def test_filters_in_filters_are_a_snapshot_error(depth: int) -> None:
    data = ConformalFilter(StreamingSVEAD(2, 1)).to_bytes()
    kind, fields, arrays = snapshot.unpack(data)
    for _ in range(depth):
        data = snapshot.pack(kind, fields, arrays | {"detector": np.frombuffer(data, np.uint8)})
    with pytest.raises(SnapshotError):
        from_bytes(data)


def test_a_shape_of_very_many_numbers_is_refused_before_they_are_multiplied() -> None:
    kind, fields, _ = snapshot.unpack(StreamingSVEAD(2, 1).to_bytes())
    data = mutations.signed({"kind": kind, "fields": fields, "arrays": [["counters", "<f8", [2**48] * 1_000_000]]}, b"")
    with pytest.raises(SnapshotError, match=r"array 'counters' of type '<f8' and shape \[281"):
        from_bytes(data)


def test_an_array_that_is_there_twice_is_a_snapshot_error() -> None:
    kind, fields, arrays = snapshot.unpack(StreamingSVEAD(2, 1).to_bytes())

    class Twice(dict[str, Any]):
        def items(self) -> Any:
            return [*super().items(), *super().items()]

    with pytest.raises(SnapshotError, match="header is malformed"):
        from_bytes(snapshot.pack(kind, fields, Twice(arrays)))
