"""Incidents on their way out of a run: a line for people, a record for programs, an entry of the report."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Container, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

from svead_stream.cli.drafts import writing
from svead_stream.cli.words import counted
from svead_stream.clock import shown
from svead_stream.judging import ConformalFilter
from svead_stream.record import CLOSED, OPEN, UPDATE, Incident, top_features
from svead_stream.report import Recorder
from svead_stream.spans import lasting

_FIELDS = ["incident", "state", "start", "end", "first", "last", "events", "alerts", "peak", "p_value", "top_features"]


class Change(NamedTuple):
    """An incident that changed, and the row of a batch at which it did."""

    incident: Incident
    row: int
    source: dict[str, Any] | None  # file and line of its first alert, unless that was in an earlier run

    def record(self, top: int) -> dict[str, Any]:
        """What is written of it."""
        return self.incident.record(top) | ({} if self.source is None else {"source": self.source})

    def line(self, top: int, values: Mapping[str, float] | None = None, goes_on: bool = False) -> str:
        """One line for people; `values` are those of the features at the event, if it does not go on for long."""
        incident = self.incident
        tops = top_features(incident.reasons or {}, top)
        named = [(one["feature"], one["share"], (values or {}).get(one["feature"])) for one in tops]
        due = ", ".join(
            f"{name} ({share:.0%})" if value is None else f"{name} = {value:.4g} ({share:.0%})"
            for name, share, value in named
        )
        so_far = f"{length(incident)}, {counted(incident.alerts, 'alert')}"
        if incident.state == CLOSED:
            when, what = clock(incident.end), click.style(f"incident {incident.number} is over", fg="green")
            return f"{when}{what}  {so_far}, peak {incident.peak:.3g}  {due}"
        when, what = clock(incident.start), click.style(f"incident {incident.number}", fg="red", bold=True)
        where = "" if self.source is None else f"  line {self.source['line']:,}"
        told = f"goes on: {so_far}, peak" if goes_on or incident.state == UPDATE else "score"
        return f"{when}{what}{where}  {told} {incident.peak:.3g}  {due}"


def length(incident: Incident) -> str:
    """How long it lasted: in time, if it can be told."""
    if incident.start is not None and incident.end is not None and incident.end > incident.start:
        return lasting(incident.end - incident.start)
    return counted(incident.events, "row")


def clock(time: float | None) -> str:
    """The time in front of a line, to the second and without the letters for programs; nothing where there is none."""
    if time is None or math.isnan(time):
        return ""
    text = str(shown(round(time))).replace("T", " ").removesuffix("Z")
    return click.style(text, bold=True) + "  "


class IncidentLog:
    """Counts the incidents of a run, writes them to a file if there is one, and hands them to the report.

    Parameters
    ----------
    model
        Whose incidents they are; None if it tells of none.
    path
        Where one record an incident belongs: CSV by its name, else JSON lines; - is stdout.
    place
        Where it is written for now.
    top
        Features that a record names.
    recorder
        Of the report.
    """

    def __init__(
        self,
        model: ConformalFilter | None,
        path: str | None,
        place: str | None,
        top: int,
        recorder: Recorder | None,
    ) -> None:
        self.count = 0
        self._model = model
        self._top = top
        self._recorder = recorder
        self._before = 0 if model is None else model.n_seen_  # rows of this run begin after them
        self._source: dict[str, Any] | None = None  # of the open incident; None if it is of an earlier run
        self._path = path
        self._place = place
        self._file: IO[str] | None = None
        self._csv: csv.DictWriter[str] | None = None
        self._closed = False

    def add(
        self, name: str, lines: Any, changes: Mapping[int, tuple[Incident, ...]], true: Container[int] | None
    ) -> list[Change]:
        """Take what changed in a batch.

        Parameters
        ----------
        name
            Of the source.
        lines
            Of the rows in it.
        changes
            Incidents that changed, by the row.
        true
            Numbers of the incidents that had a labelled alert; None without labels.
        """
        if self._path is not None and self._place is not None and self._file is None:
            self._open(self._path, self._place)  # not before rows were judged: that may fail
        told = []
        for row, incidents in changes.items():
            for incident in incidents:
                if incident.state == OPEN:
                    self.count += 1
                    self._source = {"file": name, "line": int(lines[row])}
                told.append(Change(incident, row, self._source))
                if incident.state == CLOSED:
                    self._ends(told[-1], None if true is None else incident.number in true)
        return told

    def still_open(self) -> Change | None:
        """The incident that is not over, as it is now."""
        incident = None if self._model is None else self._model.open_incident
        return None if incident is None else Change(incident, -1, self._source)

    def _ends(self, change: Change, truth: bool | None) -> None:
        incident = change.incident
        with writing(self._path or ""):
            if self._csv is not None:
                record = incident.record(self._top)
                record["top_features"] = json.dumps(record["top_features"], ensure_ascii=False)
                self._csv.writerow(record | (change.source or {}))
            elif self._file is not None:
                self._file.write(json.dumps(change.record(self._top), ensure_ascii=False) + "\n")
            if self._file is not None:
                self._file.flush()  # somebody may be following it
        if self._recorder is not None:
            self._record(self._recorder, change, truth)

    def _record(self, recorder: Recorder, change: Change, truth: bool | None) -> None:
        source = change.source
        where = "an earlier run" if source is None else f"{source['file']}, line {source['line']}"
        recorder.add_incident(change.incident, change.incident.first - self._before, where, truth)

    def so_far(self, recorder: Recorder, true: Container[int] | None = None) -> Recorder:
        """What the report would show if the run ended now: with the incident that is open."""
        change = None if self._closed else self.still_open()
        if change is not None:
            recorder = recorder.apart()
            self._record(recorder, change, None if true is None else change.incident.number in true)
        return recorder

    def _open(self, path: str, place: str) -> None:
        with writing(path):
            self._file = sys.stdout if path == "-" else open(place, "w", encoding="utf-8", newline="")  # noqa: SIM115
        if Path(path).suffix.lower() == ".csv":
            self._csv = csv.DictWriter(self._file, [*_FIELDS, "file", "line"])
            self._csv.writeheader()

    def close(self, true: Container[int] | None = None) -> None:
        """Tell of the incident that is still open, and complete the file; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        change = self.still_open()
        if change is not None:
            self._ends(change, None if true is None else change.incident.number in true)
        if self._file is not None and self._file is not sys.stdout:
            self._file.close()
