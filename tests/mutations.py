"""Snapshots that were tampered with and signed again: each is refused, or is a model that works.

    python tests/mutations.py 6000        # what became of so many mutations, as JSON
    python tests/mutations.py 6000 8      # by another seed

Run it in a process of its own: a mutation that goes through may do anything. Memory is limited to half a gigabyte
beyond what is in use at the start, and one that hangs ends the process. What went wrong is told with its number, by
which `mutated` makes it again.
"""

from __future__ import annotations

import copy
import json
import random
import resource
import signal
import struct
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pandas as pd

from svead_stream import SVEAD, ConformalFilter, SnapshotError, StreamingSVEAD, from_bytes, snapshot

HANGS = 300  # seconds that none takes on any machine
ROOM = 2**29  # bytes
INF, NAN = float("inf"), float("nan")
NASTY: list[Any] = [
    *[0, -1, 1, 2, 7, 2**31, 2**53, 2**63 - 1, -(2**63), 10**400, 0.5, -0.5, 1e-320, 1e-9, 1e300, INF, -INF, NAN],
    *[None, True, False, "", "x" * 100_000, "inf", "15m", "5/day", [], [1], [[]], {}, {"a": [1, {}]}, [0] * 1000],
    json.loads("[" * 300 + "]" * 300),
]
NUMBERS = {
    "f8": [0.0, -0.0, -1.0, 1.0, 1e-320, 1e-300, 1e-100, 1e15, 1e100, 1e155, 1e280, 1e308, -1e308, INF, -INF, NAN],
    "f4": [0.0, 1.0, NAN],  # no model has any
    "i8": [0, 1, -1, 3, 255, 2**31 - 1, 2**53, 2**62, 2**63 - 1, -(2**63)],
    "u8": [0, 1, 255, 2**31, 2**64 - 1],
    "u1": [0, 1, 2, 255],
}


def rows(n: int, seed: int) -> np.ndarray[Any, Any]:
    """Events of three features, with gaps."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


def seeds() -> list[bytes]:
    """Snapshots of small models of every kind, each with something in all of its parts."""
    small: dict[str, Any] = {"n_partitions": 3, "n_anchors": 2, "normal_after": 40, "seed": 1}
    X = rows(300, 0)
    streaming = []
    for scaling in ("mixed", "iqr"):
        model = StreamingSVEAD(**small, scaling=scaling, answer_memory=900)
        model.learn_many(X, ["a", ("b", 1), 7])
        streaming.append(model)
    for model in streaming[:1]:
        model.feedback_one({"a": 9.0, 7: 1.0}, True)
        model.feedback_one({"a": 0.1, 7: 1.0}, False, teach=True)
    filters = [ConformalFilter(copy.deepcopy(streaming[0]), 0.05, burn_in=20, protect=protect) for protect in (0, 1)]
    timed = ConformalFilter(StreamingSVEAD(**small), 0.05, 100, False, "5/day", "15m", "1h")
    for one in (*filters, timed):
        one.judge_many(X, ["a", "b", "c"], t=np.arange(300) * 60.0)
        one.judge_many(X[:3] + 90, ["a", "b", "c"], t=np.arange(300, 303) * 60.0)
        assert one.open_incident is not None
    batch = [SVEAD(3, 2, "std", random_state=1).fit(X), SVEAD(3, 2).fit(pd.DataFrame(X, columns=["a", "b", "c"]))]
    models = [StreamingSVEAD(**small), *streaming, *filters, timed, *batch]
    return [model.to_bytes() for model in models]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something in JSON."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def put(header: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The header with another value in one place."""
    if not path:
        return value
    inside = header
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return header


def signed(header: Any, raw: bytes) -> bytes:
    """A snapshot whose checksum is right, whatever it holds."""
    text = json.dumps(header).encode()
    body = struct.pack("<8sHI", snapshot.MAGIC, snapshot.VERSION, len(text)) + text + raw
    return body + snapshot.hashlib.blake2b(body, digest_size=16).digest()


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The snapshot with something changed, by these random numbers; of a filter often its detector."""
    kind, fields, arrays = snapshot.unpack(data)
    if "detector" in arrays and rng.random() < 0.5:
        inner = mutated(arrays["detector"].tobytes(), rng)
        return snapshot.pack(kind, fields, arrays | {"detector": np.frombuffer(inner, np.uint8)})
    if rng.random() < 0.5:
        return _header_mutated(data, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        _mutate_arrays(arrays, rng)
    return snapshot.pack(kind, fields, arrays)


def _header_mutated(data: bytes, rng: random.Random) -> bytes:
    length = struct.unpack_from("<8sHI", data)[2]
    header, raw = json.loads(data[14 : 14 + length]), data[14 + length : -16]
    part = rng.choice(["fields", "fields", "fields", "arrays", ""])
    path = rng.choice(list(places(header[part], (part,)) if part else list(places(header))))
    if path and rng.random() < 0.15:
        inside = header
        for key in path[:-1]:
            inside = inside[key]
        del inside[path[-1]]
    else:
        header = put(header, path, copy.deepcopy(rng.choice(NASTY)))
    return signed(header, raw)


def _mutate_arrays(arrays: dict[str, Any], rng: random.Random) -> None:
    name, other = rng.choice(list(arrays)), rng.choice(list(arrays))
    array, what = arrays[name].copy(), rng.randrange(10)
    if what < 4 and array.size:
        for _ in range(rng.choice([1, 1, array.size])):
            array.flat[rng.randrange(array.size)] = rng.choice(NUMBERS[array.dtype.str[1:]])
    elif what < 6 and array.size:
        flipped = bytearray(array.tobytes())
        for _ in range(rng.choice([1, 3, 30])):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        array = np.frombuffer(bytes(flipped), array.dtype).reshape(array.shape)
    elif what == 6:
        array = array.reshape(rng.choice([array.shape[::-1], (array.size,), (1, *array.shape), (array.size, 1)]))
    elif what == 7:
        arrays[name], arrays[other] = arrays[other], arrays[name]
        return
    elif what == 8:
        del arrays[name]
        return
    else:
        other_type = array.view("f4" if array.dtype == np.float64 else "u1")
        array = rng.choice([array[:0], array[1:], np.concatenate([array, array]), other_type])
    arrays[rng.choice([name] * 9 + ["added"])] = array


def work(model: Any) -> None:
    """Use a model for all that it can do; every number that comes out is finite, and it can be saved again."""
    X = rows(24, 5)
    X[5], X[11, 1], X[13, 0], X[17] = 1e300, -1e12, np.inf, 0.0
    if isinstance(model, SVEAD):
        _work_in_batch(model, X)
    else:
        _work_in_a_stream(model, X)
    again = from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()


def _work_in_batch(model: Any, X: Any) -> None:
    names = getattr(model, "feature_names_in_", None)
    given = np.resize(np.where(np.isinf(X), np.nan, X), (24, model.n_features_in_))
    given = given if names is None else pd.DataFrame(given, columns=names)
    assert np.isfinite(model.anomaly_scores(given)).all()
    assert np.isfinite(model.decision_function(given)).all()
    assert set(model.predict(given)) <= {-1, 1}
    assert np.isfinite(model.explain(given)).all()


def _work_in_a_stream(model: Any, X: Any) -> None:
    detector = model.detector if isinstance(model, ConformalFilter) else model
    names = [*detector.feature_names_, "new", "newer", "newest"][: 3 if detector.max_features > 3 else 1]
    events = [dict(zip(names, row, strict=False)) for row in X.tolist()]
    for event in events:
        if model is detector:
            assert np.isfinite(model.score_one(event))
            model.learn_one(event)
        else:
            verdict = model.judge_one(event, t=5.0)
            assert np.isfinite(verdict[:2]).all()
            json.dumps([incident.record(3) for incident in verdict.changes])
    X = X[:, : len(names)]
    scores = model.score_learn_many(X, names) if model is detector else model.judge_many(X, names, t=X[:, 0]).scores
    assert np.isfinite(scores).all()
    for event in events:
        detector.learn_one(event)  # far enough for a refresh
        assert np.isfinite(list(detector.explain_one(event).values())).all()
    model.feedback_one(events[0], True)
    model.feedback_one(events[1], False, True)
    assert np.isfinite(detector.score_many(X, names)).all()


def outcome(data: bytes) -> str:
    """Whether a snapshot was refused, or is a model that works; anything else is an exception, or the end."""
    try:
        model = from_bytes(data)
    except SnapshotError:
        return "refused"
    work(model)
    return "works"


def limit_memory() -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))


def main(n: int, seed: int = 0) -> None:
    """Try so many mutations and print what became of them."""
    known = seeds()
    warnings.simplefilter("error")
    if numba.config.DISABLE_JIT:
        np.seterr(all="ignore")  # as in compiled code
    for data in known:
        assert outcome(data) == "works"
    limit_memory()
    found: Counter[str] = Counter()
    wrong = []
    for i in range(n):
        signal.alarm(HANGS)
        try:
            found[outcome(mutated(known[i % len(known)], random.Random(f"{seed} {i}")))] += 1
        except Exception:
            wrong.append([i, traceback.format_exc(limit=-3)])
    signal.alarm(0)
    print(json.dumps({**found, "wrong": wrong}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
