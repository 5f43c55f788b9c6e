"""Models as bytes: exact, checked, harmless."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svead_stream
from svead_stream import SVEAD, SnapshotError, StreamingSVEAD, snapshot

SMALL = {"n_partitions": 6, "n_anchors": 3, "normal_after": 50}


def stream(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X


@settings(max_examples=30)
@given(at=st.integers(0, 299), seeded=st.booleans())
def test_a_model_saved_and_loaded_at_any_point_goes_on_identically(at, seeded):
    X = stream()
    model = StreamingSVEAD(**SMALL, seed=1 if seeded else None)
    model.learn_many(X[:at])
    loaded = StreamingSVEAD.from_bytes(model.to_bytes())
    assert loaded.to_bytes() == model.to_bytes()
    np.testing.assert_array_equal(loaded.score_learn_many(X[at:]), model.score_learn_many(X[at:]))
    assert loaded.to_bytes() == model.to_bytes()


def test_files_are_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.svead"
    model = StreamingSVEAD(**SMALL, seed=1)
    svead_stream.save(model, path)
    model.learn_many(stream())
    svead_stream.save(model, path)
    assert svead_stream.load(path).to_bytes() == model.to_bytes()
    before = path.read_bytes()
    monkeypatch.setattr(snapshot.os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        svead_stream.save(StreamingSVEAD(), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.svead"]


def test_batch_models_come_back_to_the_bit(tmp_path):
    X = stream()
    model = SVEAD(random_state=1, scaling="std", contamination=0.1).fit(X)
    svead_stream.save(model, tmp_path / "m")
    loaded = svead_stream.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.fixture(scope="module")
def snapshots():
    streaming = StreamingSVEAD(**SMALL, seed=1)
    streaming.learn_many(stream())
    return [streaming.to_bytes(), SVEAD(n_partitions=4, n_anchors=3, random_state=1).fit(stream()).to_bytes()]


@settings(max_examples=300)
@given(data=st.data())
def test_any_flipped_bit_and_any_cut_is_a_snapshot_error(snapshots, data):
    raw = bytearray(data.draw(st.sampled_from(snapshots)))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    with pytest.raises(SnapshotError):
        svead_stream.from_bytes(bytes(raw))


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_bytes_of_any_other_kind_are_a_snapshot_error(raw):
    with pytest.raises(SnapshotError):
        svead_stream.from_bytes(raw)


def forged(data, change=None, **replaced):
    """A snapshot with a valid checksum whose header or arrays were tampered with."""
    kind, fields, arrays = snapshot.unpack(data)
    arrays.update(replaced.pop("arrays", {}))
    fields.update(replaced)
    raw = snapshot.pack(kind, fields, arrays)
    return raw if change is None else resealed(raw, change)


def resealed(raw, change):
    magic, version, length = struct.unpack_from("<8sHI", raw)
    header = change(json.loads(raw[14 : 14 + length]))
    header = json.dumps(header).encode() if not isinstance(header, bytes) else header
    body = struct.pack("<8sHI", magic, version, len(header)) + header + raw[14 + length : -16]
    return body + snapshot.hashlib.blake2b(body, digest_size=16).digest()


def with_array(name, dtype, shape):
    def change(header):
        header["arrays"] = [[n, dtype, shape] if n == name else [n, d, s] for n, d, s in header["arrays"]]
        return header

    return change


@pytest.mark.parametrize(
    "change",
    [
        with_array("short.cells", "<f8", [2**60]),
        with_array("short.cells", "<f8", [-1, 4, 4]),
        with_array("short.cells", "|O8", [6, 4, 4]),
        with_array("short.cells", "<f8", [2**62, 0]),
        with_array("short.cells", "<f8", ["6", 4, 4]),
        lambda header: {},
        lambda header: [],
        lambda header: b"not json",
        lambda header: b"[" * 5000,
        lambda header: {**header, "kind": "os.system"},
        lambda header: {**header, "kind": 5},
        lambda header: {**header, "fields": 5},
        lambda header: {**header, "arrays": 5},
    ],
)
def test_forged_headers_are_a_snapshot_error(snapshots, change):
    with pytest.raises(SnapshotError):
        svead_stream.from_bytes(forged(snapshots[0], change))


def test_forged_fields_and_arrays_are_a_snapshot_error(snapshots):
    _, fields, arrays = snapshot.unpack(snapshots[0])
    wrong_counters = arrays["long.counters"].copy()
    wrong_counters[1] = 10**6
    wrong_shape = arrays["short.partitions.shape"].copy()
    wrong_shape[0, 1] = 10**6
    wrong_suspicion = arrays["short.sample.suspicion"].copy()
    wrong_suspicion[3] = np.nan
    for tampered in (
        {"parameters": {**fields["parameters"], "n_anchors": 10**4}},
        {"parameters": {**fields["parameters"], "normal_after": "x"}},
        {"parameters": {**fields["parameters"], "surprise": 1}},
        {"parameters": {}},
        {"features": [0, 0, 1]},
        {"features": [0, {}, 1]},
        {"features": None},
        {"arrays": {"long.counters": wrong_counters}},
        {"arrays": {"short.partitions.shape": wrong_shape}},
        {"arrays": {"short.sample.suspicion": wrong_suspicion}},
        {"arrays": {"long.cells": arrays["long.cells"] * np.nan}},
        {"arrays": {"short.sample.rows": arrays["short.sample.rows"][:, :2]}},
        {"arrays": {"short.anchors": arrays["short.anchors"].astype(np.float32)}},
    ):
        with pytest.raises(SnapshotError):
            StreamingSVEAD.from_bytes(forged(snapshots[0], **tampered))
    with pytest.raises(SnapshotError):
        SVEAD.from_bytes(forged(snapshots[1], arrays={"cells": np.zeros((4, 3))}))


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("memory", ["short.", "long."])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("counters", -1), ("cutoff", NAN), ("spread", NAN), ("spread", -1.0), ("frame", NAN), ("frame", -1.0)],
        *[("anchors", INF), ("weight", NAN), ("weight", -1.0), ("cells", INF), ("cells", -1.0)],
        *[("sample.rows", INF), ("sample.suspicion", INF), ("sample.arrived", -1), ("sample.arrived", 301)],
        *[("partitions.metric", NAN), ("partitions.shape", -1)],
    ],
)
def test_one_impossible_number_in_an_array_is_a_snapshot_error_that_names_it(snapshots, memory, name, value):
    spoiled = snapshot.unpack(snapshots[0])[2][memory + name]
    spoiled.flat[-1] = value
    with pytest.raises(SnapshotError, match=f"array '{name}' has impossible values"):
        StreamingSVEAD.from_bytes(forged(snapshots[0], arrays={memory + name: spoiled}))


@pytest.mark.parametrize("value", [NAN, -1.0])
def test_impossible_levels_are_a_snapshot_error(snapshots, value):
    levels = snapshot.unpack(snapshots[0])[2]["levels"]
    levels[1] = value
    with pytest.raises(SnapshotError, match="array 'levels' has impossible values"):
        StreamingSVEAD.from_bytes(forged(snapshots[0], arrays={"levels": levels}))


def test_more_features_than_the_model_takes_are_a_snapshot_error(snapshots):
    parameters = snapshot.unpack(snapshots[0])[1]["parameters"] | {"max_features": 2}
    with pytest.raises(SnapshotError, match="too many"):
        StreamingSVEAD.from_bytes(forged(snapshots[0], parameters=parameters))


def test_a_model_of_release_0_1_says_that_it_cannot_be_read(snapshots):
    old = {"n_partitions": 32, "n_anchors": 16, "window": 256, "refresh": 512, "half_life": 256}
    with pytest.raises(SnapshotError, match=r"release 0\.1"):
        StreamingSVEAD.from_bytes(forged(snapshots[0], parameters=old))


def test_a_newer_format_says_to_upgrade(snapshots):
    raw = bytearray(snapshots[0])
    raw[8] += 1
    with pytest.raises(SnapshotError, match="upgrade"):
        svead_stream.from_bytes(bytes(raw))


def test_another_kind_of_model_says_which(snapshots):
    with pytest.raises(SnapshotError, match="'SVEAD'"):
        StreamingSVEAD.from_bytes(snapshots[1])


def test_feature_names_that_json_cannot_hold_are_refused():
    model = StreamingSVEAD(**SMALL)
    model.learn_one({frozenset([1]): 1.0})
    with pytest.raises(SnapshotError, match="frozenset"):
        model.to_bytes()
