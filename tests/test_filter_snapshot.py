"""A filter as bytes: with its detector, whichever kind it is; what could not be read again is not written."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import anomaly

import svead_stream
from svead_stream import ConformalFilter, SnapshotError, StreamingSVEAD, snapshot
from svead_stream.kernels import ranks


def sensor_rows(n: int, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[rng.random(n) < 0.02] *= 6
    return X


@pytest.mark.parametrize("protect", [False, True])
def test_a_restored_filter_goes_on_bit_for_bit(protect: bool) -> None:
    X = sensor_rows(900, 1)
    model = ConformalFilter(StreamingSVEAD(seed=3), alert_rate=0.02, protect=protect)
    model.judge_many(X[:500])
    restored = ConformalFilter.from_bytes(model.to_bytes())
    assert restored.threshold == model.threshold
    assert list(model.judge_many(X[500:])) == list(restored.judge_many(X[500:]))
    assert restored.to_bytes() == model.to_bytes()
    assert (restored.n_seen_, restored.n_alerts_) == (900, model.n_alerts_)


def test_parameters_and_names_that_are_numpys_are_saved_as_pythons() -> None:
    detector = StreamingSVEAD(n_anchors=np.int64(8), memory=np.float32(9_000), seed=np.uint8(3))
    model = ConformalFilter(detector, np.float32(0.02), np.int64(500), protect=np.True_)
    model.judge_many(sensor_rows(300, 1), feature_names=np.array(["a", "b", "c"]))
    again = ConformalFilter.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    assert (again.detector.n_anchors, again.detector.memory, again.detector.seed) == (8, 9_000.0, 3)
    assert (again.alert_rate, again.window, again.protect) == (float(np.float32(0.02)), 500, True)
    assert ConformalFilter(StreamingSVEAD(), Fraction(1, 50)).alert_rate == 0.02


def test_a_detector_without_snapshots_says_so() -> None:
    with pytest.raises(TypeError, match="HalfSpaceTrees cannot be saved"):
        ConformalFilter(anomaly.HalfSpaceTrees()).to_bytes()


class Counter:
    """A detector that can be written and read: its score is how many events it has learned."""

    def __init__(self, n: int = 0) -> None:
        self.n = n

    def score_one(self, x: dict[Any, Any]) -> float:
        return float(self.n)

    def learn_one(self, x: dict[Any, Any]) -> None:
        self.n += 1

    def to_bytes(self) -> bytes:
        return snapshot.pack("Counter", {"n": self.n}, {})

    @classmethod
    def from_bytes(cls, data: bytes) -> Counter:
        return cls(snapshot.unpack(data, "Counter")[1]["n"])


def test_what_could_not_be_restored_is_refused_until_it_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_registered", dict(snapshot._registered))
    model = ConformalFilter(Counter())
    model.learn_one({})
    for refused in (model.to_bytes, lambda: svead_stream.save(Counter(), tmp_path / "model")):
        with pytest.raises(TypeError, match=r"Counter cannot be saved.*svead_stream\.register"):
            refused()
    assert not (tmp_path / "model").exists()
    for no_kind in (anomaly.HalfSpaceTrees, 5):
        with pytest.raises(TypeError, match=r"cannot be registered.* a class with to_bytes and from_bytes"):
            svead_stream.register(no_kind)  # type: ignore[type-var]
    svead_stream.register(Counter)
    svead_stream.save(model, tmp_path / "model")
    again = svead_stream.load(tmp_path / "model")
    assert (type(again.detector), again.detector.n, again.n_seen_) == (Counter, 1, 1)
    for taken in ("Counter", "StreamingSVEAD", "SVEAD"):
        other = type(taken, (Counter,), {"__module__": "elsewhere"})
        with pytest.raises(ValueError, match="choose another name"):
            svead_stream.register(other)


def test_a_class_that_is_only_called_like_a_registered_one_is_refused(tmp_path: Path) -> None:
    namesake = type("StreamingSVEAD", (Counter,), {})()
    for refused in (ConformalFilter(namesake).to_bytes, lambda: svead_stream.save(namesake, tmp_path / "model")):
        with pytest.raises(TypeError, match="StreamingSVEAD cannot be saved"):
            refused()


def forged(change: dict[str, Any], arrays: dict[str, Any] | None = None) -> bytes:
    model = ConformalFilter(StreamingSVEAD(seed=3), alert_rate=0.02)
    model.judge_many(sensor_rows(300, 1))
    _, fields, parts = snapshot.unpack(model.to_bytes())
    return snapshot.pack("ConformalFilter", fields | change, parts | (arrays or {}))


@pytest.mark.parametrize(
    "data",
    [
        forged({"alert_rate": 7}),
        forged({"alert_rate": "0.1"}),
        forged({"window": [1]}),
        forged({"window": 60}),  # shorter than what is said to be in it
        forged({"hold_off": "soon"}),
        forged({"incident_rate": 0}),
        forged({"burn_in": []}),
        forged({"clock": [0, 0]}),
        forged({"clock": [0, 0, 0, -1]}),
        forged({"clock": None}),
        forged({}, {"counters": np.zeros(3, np.int64)}),
        forged({}, {"pace": np.zeros(4, np.int64)}),
        forged({}, {"recent": np.full(260, np.nan)}),
        forged({}, {"withheld": np.zeros(3, np.uint8)}),
        forged({}, {"recent": np.zeros((2, 2))}),
        forged({}, {"detector": np.zeros(40, np.uint8)}),
        b"",
        b"something else",
    ],
)
def test_a_snapshot_that_does_not_fit_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        ConformalFilter.from_bytes(data)


@pytest.mark.parametrize(("name", "value"), [("recent", np.nan), ("withheld", 2)])
def test_one_impossible_number_in_the_window_of_a_snapshot_is_enough(name: str, value: float) -> None:
    _, _, parts = snapshot.unpack(forged({}))
    ConformalFilter.from_bytes(forged({}, {name: parts[name]}))
    parts[name][7] = value
    with pytest.raises(SnapshotError, match="recent scores are impossible"):
        ConformalFilter.from_bytes(forged({}, {name: parts[name]}))


def saved_arrays(**given: Any) -> dict[str, Any]:
    _, _, parts = snapshot.unpack(forged({}))
    return {name: change(parts[name].copy()) for name, change in given.items()}


def put(at: int, value: float) -> Any:
    def change(array: Any) -> Any:
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("counters", ranks.ALERTS, 301),
        ("counters", ranks.ALERTS, -1),
        ("counters", ranks.JUDGED, 2**63 - 1),
        ("counters", ranks.ENTERED, 301),
        ("counters", ranks.INCIDENTS, 200),
        ("counters", ranks.OPEN, 2),
        ("counters", ranks.OWN_ALERTS, 400),
        ("counters", ranks.ALERT_AT, 301),
        ("pace", ranks.CREDIT, 6.0),
        ("pace", ranks.CREDIT, np.nan),
        ("pace", ranks.ELAPSED, 5.0),
        ("pace", ranks.ELAPSED, -1.0),
        ("pace", ranks.LATEST, np.inf),
    ],
)
def test_a_stream_cannot_stand_just_anywhere(name: str, at: int, value: float) -> None:
    with pytest.raises(SnapshotError, match="does not fit together"):
        ConformalFilter.from_bytes(forged({}, saved_arrays(**{name: put(at, value)})))


def with_open_incident() -> tuple[dict[str, Any], dict[str, Any]]:
    model = ConformalFilter(StreamingSVEAD(seed=3))
    model.judge_many(sensor_rows(1_000, 1) / 6)
    model.judge_many(sensor_rows(5, 1) + 40, t=np.arange(5.0))
    _, fields, arrays = snapshot.unpack(model.to_bytes())
    assert fields["incidents"]["current"] is not None
    return fields, arrays


@pytest.mark.parametrize(
    "change",
    [
        {"number": 7},
        {"number": "1"},
        {"first": 0},
        {"last": 3},
        {"alerts": 400},
        {"alerts": 1.5},
        {"peak": "high"},
        {"peak": None},
        {"p_value": 0},
        {"p_value": 2},
        {"start": "now"},
        {"blame": 5},
        {"blame": [["s", "a", 1]]},
    ],
    ids=str,
)
def test_an_open_incident_that_cannot_be_is_a_snapshot_error(change: dict[str, Any]) -> None:
    fields, arrays = with_open_incident()
    ConformalFilter.from_bytes(snapshot.pack("ConformalFilter", fields, arrays))
    fields["incidents"]["current"] |= change
    with pytest.raises(SnapshotError, match="does not fit together"):
        ConformalFilter.from_bytes(snapshot.pack("ConformalFilter", fields, arrays))


@pytest.mark.parametrize(
    "incidents", [None, {}, {"count": 0, "current": None}, {"count": -1, "current": None}], ids=str
)
def test_incidents_that_do_not_go_with_the_ranks_are_a_snapshot_error(incidents: Any) -> None:
    fields, arrays = with_open_incident()
    with pytest.raises(SnapshotError, match="does not fit together"):
        ConformalFilter.from_bytes(snapshot.pack("ConformalFilter", fields | {"incidents": incidents}, arrays))
