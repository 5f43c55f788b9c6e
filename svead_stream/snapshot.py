"""Models as bytes: versioned, self-describing, checked, never executed.

    magic     8 bytes    b"SVEADSNP"
    version   u16        of this layout
    length    u32        of the header
    header    JSON       {"kind": ..., "fields": {...}, "arrays": [[name, dtype, shape], ...]}
    arrays    raw        little-endian, C order, one after the other
    checksum  16 bytes   blake2b of everything before

Nothing is allocated by a size that the header claims before the bytes for it are known to be there.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import struct
import sys
from collections import Counter
from collections.abc import Hashable, Mapping
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from svead_stream.errors import SnapshotError, brief
from svead_stream.protocols import Saveable

MAGIC = b"SVEADSNP"
VERSION = 1
_PREFIX = struct.Struct("<8sHI")
_CHECKSUM = 16
_MOST_AXES, _LONGEST_AXIS = 8, 2**48  # of an array
_DEEPEST = 16  # tuples in tuples of a feature name
_MOST_ALIKE = 64  # feature names of one hash: strings have none in common, few numbers and tuples do
_DTYPES = {"<f8", "<f4", "<i8", "<i4", "<u8", "|u1"}

Arrays = dict[str, NDArray[Any]]
S = TypeVar("S", bound=Saveable)


def pack(kind: str, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Bytes of a model: its kind, fields that JSON can hold, and arrays."""
    listed, raw = [], []
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        listed.append([name, little.dtype.str, list(little.shape)])
        raw.append(little.tobytes())
    described = {"kind": kind, "fields": fields, "arrays": listed}
    header = json.dumps(described, separators=(",", ":"), default=plain).encode()
    body = b"".join([_PREFIX.pack(MAGIC, VERSION, len(header)), header, *raw])
    return body + hashlib.blake2b(body, digest_size=_CHECKSUM).digest()


def plain(value: Any) -> Any:
    """A number of NumPy's, or another that JSON does not know, as Python's own."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{value!r} cannot be saved: a {type(value).__name__} is neither a number nor text")


def unpack(data: bytes, kind: str | None = None) -> tuple[str, dict[str, Any], Arrays]:
    """Kind, fields and arrays of a snapshot, or a SnapshotError; the arrays are copies."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a snapshot is bytes, not a {type(data).__name__}: load(path) reads one from a file")
    if len(data) < _PREFIX.size + _CHECKSUM:
        raise SnapshotError(f"{len(data)} bytes are too few for a snapshot: it is truncated, or something else")
    magic, version, length = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise SnapshotError(f"this is no snapshot: it begins with {bytes(magic)!r}, not {MAGIC!r}")
    if version > VERSION:
        raise SnapshotError(
            f"the snapshot has format {version}, this version reads up to {VERSION}: upgrade svead-stream"
        )
    body, checksum = bytes(data[:-_CHECKSUM]), data[-_CHECKSUM:]
    if hashlib.blake2b(body, digest_size=_CHECKSUM).digest() != checksum:
        raise SnapshotError("the snapshot is truncated or damaged: its checksum does not match")
    try:
        header = json.loads(body[_PREFIX.size : _PREFIX.size + length])
        found, fields, listed = header["kind"], header["fields"], header["arrays"]
        arrays = _read_arrays(body[_PREFIX.size + length :], listed)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SnapshotError(f"the snapshot's header is malformed: {error}") from None
    if not isinstance(fields, dict) or not isinstance(found, str):
        raise SnapshotError("the snapshot's header is malformed: kind and fields are missing")
    if kind is not None and found != kind:
        raise SnapshotError(f"the snapshot holds a {found!r}, not a {kind!r}")
    return found, fields, arrays


def _read_arrays(raw: bytes, listed: Any) -> Arrays:
    arrays: Arrays = {}
    at = 0
    for name, dtype, shape in listed:
        if (
            not isinstance(name, str)
            or name in arrays
            or dtype not in _DTYPES
            or len(shape) > _MOST_AXES
            or not all(type(n) is int and 0 <= n <= _LONGEST_AXIS for n in shape)
        ):
            raise ValueError(f"array {brief(name)} of type {brief(dtype)} and shape {brief(shape)}")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > len(raw) - at:
            raise ValueError(f"array {name!r} claims more than there is")
        native = np.dtype(dtype).newbyteorder("=")
        arrays[name] = np.frombuffer(raw, dtype, math.prod(shape), at).reshape(shape).astype(native)
        at += size
    if at != len(raw):
        raise ValueError(f"{len(raw) - at} bytes too many")
    return arrays


def expect(arrays: Arrays, name: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """The array of that name, with the type and shape that the model's parameters imply."""
    array = arrays.get(name)
    if array is None or array.dtype != np.dtype(dtype) or array.shape != shape:
        what = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
        raise SnapshotError(
            f"the snapshot does not fit together: array {name!r} is {what}, expected {np.dtype(dtype)}{list(shape)}"
        )
    return array


def finite(value: Any) -> float:
    """A number that a snapshot claims, or a ValueError."""
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{value!r} is no finite number")
    return float(value)


def count(value: Any) -> int:
    """A number of events that a snapshot claims, or a ValueError."""
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"{value!r} is no number of events")
    return value


def name_to_json(name: Hashable, depth: int = 0) -> Any:
    """A feature name as JSON that `names_from_json` turns back into the same name."""
    if isinstance(name, np.generic):
        name = name.item()
    if name is None or type(name) in (str, bool, int) or (type(name) is float and math.isfinite(name)):
        return name
    if type(name) is tuple and depth < _DEEPEST:
        return [name_to_json(part, depth + 1) for part in name]
    raise SnapshotError(f"the feature name {name!r} cannot be saved: use strings, numbers, or tuples of them")


def names_from_json(names: Any) -> list[Hashable]:
    """The feature names of a model, or a ValueError."""
    if not isinstance(names, list):
        raise ValueError(f"feature names are a {type(names).__name__}")
    found = [_name_from_json(name) for name in names]
    if max(Counter(map(hash, found)).values(), default=0) > _MOST_ALIKE:
        raise ValueError("too many feature names have the same hash")  # to tell them apart would take hours
    if len(set(found)) != len(found):
        raise ValueError("feature names are not distinct")
    return found


def _name_from_json(name: Any, depth: int = 0) -> Hashable:
    if isinstance(name, dict) or (type(name) is float and not math.isfinite(name)) or depth > _DEEPEST:
        raise SnapshotError(f"malformed feature name {str(name)[:60]}")
    return tuple(_name_from_json(part, depth + 1) for part in name) if isinstance(name, list) else name


_MODULES = {  # of the kinds that come with the package, so that they are found before they are imported
    "StreamingSVEAD": "svead_stream.streaming",
    "ConformalFilter": "svead_stream.judging",
    "SVEAD": "svead_stream.batch",
}
_registered: dict[str, type[Saveable]] = {}


def register(kind: type[S]) -> type[S]:
    """Class decorator: snapshots whose kind is the name of this class are restored by its `from_bytes`.

    Parameters
    ----------
    kind
        A class with `to_bytes`, which calls `pack` with the name of the class, and `from_bytes`.
    """
    if not isinstance(kind, type) or not issubclass(kind, Saveable):
        raise TypeError(f"{kind!r} cannot be registered: it needs to be a class with to_bytes and from_bytes")
    known = _registered.get(kind.__name__)
    if kind.__module__ != (known.__module__ if known else _MODULES.get(kind.__name__, kind.__module__)):
        raise ValueError(f"there is a kind {kind.__name__!r} already: choose another name for the class")
    _registered[kind.__name__] = kind
    return kind


def check_saveable(model: Any) -> None:
    """Refuse with a TypeError what could be written but not read again, or not be written at all."""
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class: save an object of it")
    if isinstance(model, (str, os.PathLike)):
        raise TypeError(f"{model!r} is no model: the model comes first, save(model, path)")
    if _registered.get(type(model).__name__) is not type(model):
        raise TypeError(
            f"a {type(model).__name__} cannot be saved and restored: use StreamingSVEAD, or a class with to_bytes and "
            "from_bytes that is decorated with svead_stream.register; or pickle it"
        )


def save(model: Saveable, path: str | os.PathLike[str]) -> None:
    """Write a model to a file: all of it, or nothing.

    Parameters
    ----------
    model
        A model of this package, or of a class that is registered.
    path
        Where to; an existing file is replaced in one step.
    """
    check_saveable(model)
    target = _path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder, create it first", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder, name a file in it", str(target))
    data = model.to_bytes()
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"the path is {brief(path)}: give the name of a file; without one, to_bytes and from_bytes do the same"
        )
    return Path(path)


@overload
def load(path: str | os.PathLike[str]) -> Any: ...
@overload
def load(path: str | os.PathLike[str], kind: type[S]) -> S: ...
def load(path: str | os.PathLike[str], kind: type[Saveable] | None = None) -> Any:
    """Read a model from a file that `save` wrote.

    Parameters
    ----------
    path
        The file.
    kind
        The class that the model is to be of, such as `ConformalFilter`, which editors and type checkers then know;
        whichever it is by default.

    Raises
    ------
    SnapshotError
        If the file is no snapshot, damaged, of a newer version, or holds a model of another class.
    """
    data = _path(path).read_bytes()
    return from_bytes(data) if kind is None else from_bytes(data, kind)


@overload
def from_bytes(data: bytes) -> Any: ...
@overload
def from_bytes(data: bytes, kind: type[S]) -> S: ...
def from_bytes(data: bytes, kind: type[Saveable] | None = None) -> Any:
    """The model in a snapshot, of whichever class, or of the one given: see `load`."""
    if kind is not None and not isinstance(kind, type):
        raise TypeError(f"kind={brief(kind)}: give a class, such as ConformalFilter")
    found, _, _ = unpack(data, None if kind is None else kind.__name__)
    if found in _MODULES:
        import_module(_MODULES[found])
    if found not in _registered:
        raise SnapshotError(
            f"the snapshot holds a {found!r}, which is not known here: upgrade svead-stream, or import its class"
        )
    return _registered[found].from_bytes(data)
