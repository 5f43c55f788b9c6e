"""From scored rows to what the report remembers of them: times, shares, and alerts with what is usual beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import copy
from itertools import islice

import numpy as np
import numpy.typing as npt

from svead_stream.cli.columns import Columns
from svead_stream.cli.command_line import command_line
from svead_stream.cli.scoring import Scored
from svead_stream.cli.words import listed
from svead_stream.clock import Clock
from svead_stream.report import Alert, Recorder
from svead_stream.report.record import N_FEATURES, N_VALUES

_N_LISTED = 40  # columns that are named
_N_CONTEXT = 8  # columns that are shown beside the features of an alert


class Recording:
    """Hands the rows of a run to the report.

    Parameters
    ----------
    recorder
        Of the report.
    columns
        Of the run: which of them is the clock.
    clock
        Where the time of the model stands.
    """

    def __init__(self, recorder: Recorder, columns: Columns, clock: Clock) -> None:
        self._recorder = recorder
        self._columns = columns
        self._clock = copy(clock)
        self._n_rows = 0

    def add(self, name: str, scored: Scored, truth: npt.NDArray[np.float64] | None, burn_in: int) -> None:
        """Take a batch.

        Parameters
        ----------
        name
            Of the source.
        scored
            The rows.
        truth
            Their labels, if there are any.
        burn_in
            How many of them could be no alerts: the first ones.
        """
        recorder, verdicts, n = self._recorder, scored.verdicts, scored.features.num_rows
        times = None if scored.times is None else self._clock.advance_many(scored.times)  # as the model takes them
        features = {column: scored.features[column].to_numpy() for column in scored.features.column_names}
        recorder.add_rows(verdicts.scores, verdicts.alerts, verdicts.thresholds, truth, times, burn_in, features)
        others = self._others(scored)
        for i in np.flatnonzero(verdicts.alerts).tolist():
            recorder.add_shares(verdicts.reasons[i])
            threshold = verdicts.thresholds[i]
            if recorder.wants(verdicts.scores[i] / threshold if threshold > 0 else np.inf):
                recorder.add_alert(self._alert(name, scored, features, i, others, truth))
        self._n_rows += n

    def made(self, rejected: int) -> dict[str, str]:
        """How the report came to be: what was run, and which columns were used or not, and why."""
        columns = self._columns
        names = list(self._recorder.series.names)
        left_out = [f"{name} ({why})" for name, why in columns.left_out.items()]
        left_out += [f"{name} (left out by --ignore)" for name in columns.ignore]
        told = {
            "command": command_line(),
            "features": listed(names, _N_LISTED),
            "clock": columns.clock or "none",
            "label": columns.label,
            "not used": listed(left_out, _N_LISTED),
            "rows rejected": f"{rejected:,}",
        }
        return {name: value for name, value in told.items() if value}

    def _others(self, scored: Scored) -> list[str]:
        """The first few columns that are neither features, clock nor label: they may say what an event is about."""
        used = {*scored.features.column_names, self._columns.clock, self._columns.label}
        return [column for column in scored.batch.table.column_names if column not in used][:_N_CONTEXT]

    def _alert(
        self,
        name: str,
        scored: Scored,
        features: Mapping[str, npt.NDArray[np.float64]],
        i: int,
        others: list[str],
        truth: npt.NDArray[np.float64] | None,
    ) -> Alert:
        table, verdict = scored.batch.table, scored.verdicts[i]
        reasons = {str(feature): share for feature, share in scored.verdicts.reasons[i].items()}
        row = self._n_rows + i + 1
        time = math.nan if scored.times is None else float(scored.times[i])
        return Alert(
            row=row,
            where=f"{name}, line {scored.batch.lines[i]}",
            score=verdict.score,
            p_value=verdict.p_value,
            threshold=float(scored.verdicts.thresholds[i]),
            time=None if math.isnan(time) else time,
            incident=verdict.incident,
            label=None if truth is None or np.isnan(truth[i]) else int(truth[i]),
            context={column: str(table[column][i].as_py())[:80] for column in others},
            features=[
                {
                    "name": feature,
                    "value": float(features[feature][i]),
                    "share": share,
                    "usual": self._recorder.usual(row, feature),
                }
                for feature, share in islice(reasons.items(), N_FEATURES)
            ],
            values=_values(features, i, reasons),
        )


def _values(features: Mapping[str, npt.NDArray[np.float64]], i: int, blamed: Iterable[str]) -> dict[str, float]:
    """What is there of a row, in the order of its columns; if there is too much, those that are most to blame."""
    first = set(islice(dict.fromkeys([*blamed, *features]), N_VALUES))
    values = {name: float(column[i]) for name, column in features.items() if name in first}
    return {name: value for name, value in values.items() if math.isfinite(value)}
