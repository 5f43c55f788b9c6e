"""What a label or an answer says: that an event was an anomaly, that it was none, or that nobody knows."""

from __future__ import annotations

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from svead_stream.cli.cells import shorten

TOLD = "1, true, yes or anomaly; 0, false, no or normal; empty if nobody knows"
_ANOMALOUS = {"1", "true", "yes", "anomaly", "anomalous"}
_NORMAL = {"0", "false", "no", "normal"}
_UNKNOWN = {"", "?", "unknown", "nan", "na", "n/a", "<na>", "nat", "none", "null"}


def truth(cell: object) -> bool | None:
    """Whether a cell says anomaly; None where nobody knows; a ValueError where it says something else."""
    word = "" if cell is None else str(cell).strip().lower()
    if word[:1] in ("0", "1") and not word.partition(".")[2].strip("0"):
        word = word.partition(".")[0]  # 1.0 is 1
    if word in _UNKNOWN:
        return None
    if word not in _ANOMALOUS | _NORMAL:
        raise ValueError(f"{shorten(cell)} is none of these: {TOLD}")
    return word in _ANOMALOUS


def labels(cells: pa.ChunkedArray, name: str) -> npt.NDArray[np.float64]:
    """1 for an anomaly, 0 for none, NaN where nobody knows."""
    coded = cells.combine_chunks() if pa.types.is_dictionary(cells.type) else cells.combine_chunks().dictionary_encode()
    try:
        known = [truth(cell) for cell in coded.dictionary.to_pylist()]
    except ValueError as error:
        raise click.UsageError(f"--label {name}: {error}") from error
    numbers = np.array([*(np.nan if said is None else float(said) for said in known), np.nan])  # the last: missing
    return np.asarray(numbers[coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)])
