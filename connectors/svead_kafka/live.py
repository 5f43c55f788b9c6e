"""The live page of a worker: what it has committed, as the report shows it.

All partitions are on one page, in the order in which their events were committed; numbers of rows and incidents are the
page's own. It begins with what this process commits: what is learned again in a restore is not shown.

The page is no part of what a worker promises. If something goes wrong in here, that is logged, the page ends, and the
worker goes on.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from kafka import TopicPartition
from numpy.typing import NDArray

from svead_kafka.errors import ConfigurationError
from svead_kafka.events import Event
from svead_kafka.options import Options
from svead_kafka.partition import Key, Partition
from svead_stream import __version__
from svead_stream.cli.serve import live_page
from svead_stream.clock import Clock
from svead_stream.record import CLOSED, OPEN, Incident, Verdict
from svead_stream.report import Alert, Recorder
from svead_stream.report.record import N_FEATURES, N_INCIDENTS
from svead_stream.report.server import PageServer

log = logging.getLogger(__name__)

_LONGEST_KEY = 80  # bytes of a key that are shown

Results = Sequence[tuple[Event, Verdict]]


class Live:
    """The page, if there is to be one.

    Parameters
    ----------
    options
        The worker's.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._server: PageServer | None = None
        self._record = Record(options)

    def serve(self) -> None:
        """Show the page from now on, if that was asked for.

        Raises
        ------
        ConfigurationError
            If nobody can listen there.
        """
        if self._options.serve is None or self._server is not None:
            return
        try:
            self._server = live_page(self._record.report, self._options.serve, self._options.serve_token)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error
        log.info(self._server.told)

    def batch(self, results: Results, partition: Partition) -> None:
        """Take events of a partition that are committed."""
        if self._server is not None and results:
            try:
                self._record.add(results, partition)
                self._server.update(changed=True)
            except Exception:
                self._give_up()

    def update(self, owned: Container[TopicPartition]) -> None:
        """Show what there is, if somebody looks."""
        if self._server is not None:
            try:
                self._server.update(changed=self._record.forget_all_but(owned))
            except Exception:
                self._give_up()

    def _give_up(self) -> None:
        log.exception("the live page failed and is switched off; the worker goes on")
        self.close()

    def close(self) -> None:
        """Free the port."""
        server, self._server = self._server, None
        if server is not None:
            server.close()


@dataclass
class _Open:
    """An incident that is not over: what the page says of it."""

    number: int
    row: int  # the first; 0 if that is not on the page
    last: int
    where: str
    so_far: Incident | None = None


class Record:
    """What the page shows of the events so far.

    Parameters
    ----------
    options
        The worker's.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._recorder = Recorder()
        self._clock = Clock()
        self._began = time.monotonic()
        self._n_incidents = 0
        self._open: dict[tuple[TopicPartition, Key, int], _Open] = {}  # by model, and number in its life

    def add(self, results: Results, partition: Partition) -> None:
        """Take events of a partition, in their order."""
        keyed = self._options.model_per == "key"
        keys = [event.record.key if keyed else None for event, _ in results]
        judges = {key: partition.judge(key) for key in set(keys)}
        now = {key: math.nan if judge is None else judge.threshold for key, judge in judges.items()}
        first = self._recorder.n_rows + 1
        thresholds = self._add_rows(results, [now[key] for key in keys])
        for i, (event, verdict) in enumerate(results):
            for change in verdict.changes:
                self._change(partition.source, keys[i], change, first + i, event)
            if verdict.alert:
                self._add_alert(partition.source, keys[i], event, verdict, first + i, thresholds[i])
        for key, judge in judges.items():
            if judge is not None and (incident := judge.open_incident) is not None:
                self._entry(partition.source, key, incident.number).so_far = incident

    def _add_rows(self, results: Results, now: list[float]) -> list[float]:
        """Count rows; returns what the score of each had to exceed, which is about what it is `now`."""
        recorder = self._recorder
        events = [event for event, _ in results]
        scores = np.array([verdict.score for _, verdict in results])
        alerts = np.array([verdict.alert for _, verdict in results])
        thresholds = np.array(now)
        thresholds[alerts] = np.fmin(thresholds[alerts], scores[alerts])
        possible = np.flatnonzero(np.isfinite(thresholds))
        learning = recorder.n_burn_in == recorder.n_rows
        burn_in = (int(possible[0]) if len(possible) else len(events)) if learning else 0
        times = self._clock.advance_many(np.array([event.time for event in events]))
        recorder.add_rows(scores, alerts, thresholds, None, times, burn_in, _columns(events))
        return list(map(float, thresholds))

    def _add_alert(
        self, source: TopicPartition, key: Key, event: Event, verdict: Verdict, row: int, threshold: float
    ) -> None:
        number = None
        if verdict.incident is not None:
            entry = self._entry(source, key, verdict.incident)
            entry.last, number = row, entry.number
        reasons = verdict.reasons or {}
        self._recorder.add_shares(reasons)
        if not self._recorder.wants(verdict.score / threshold if threshold > 0 else math.inf):
            return
        values = dict(zip(event.names, event.values, strict=True))
        alert = Alert(
            row=row,
            where=_place(event),
            score=verdict.score,
            p_value=verdict.p_value,
            threshold=threshold,
            label=None,
            context={"key": _text(event.record.key)},
            features=[
                {"name": name, "value": values.get(name), "share": share, "usual": self._recorder.usual(row, name)}
                for name, share in ((str(name), share) for name, share in islice(reasons.items(), N_FEATURES))
            ],
            time=None if math.isnan(event.time) else event.time,
            incident=number,
        )
        self._recorder.add_alert(alert)

    def _change(self, source: TopicPartition, key: Key, change: Incident, row: int, event: Event) -> None:
        """Take what an event changed of an incident."""
        if change.state == OPEN:
            self._entry(source, key, change.number, row, _place(event))
        elif change.state == CLOSED:
            entry = self._entry(source, key, change.number)
            del self._open[source, key, change.number]
            _show(self._recorder, entry, change)

    def _entry(
        self, source: TopicPartition, key: Key, number: int, row: int = 0, where: str = "before this page began"
    ) -> _Open:
        """What the page says of an incident that is open; from now on, if it said nothing yet."""
        entry = self._open.get((source, key, number))
        if entry is None:
            self._n_incidents += 1
            entry = self._open[source, key, number] = _Open(self._n_incidents, row, row, where)
            if len(self._open) > N_INCIDENTS:
                del self._open[next(iter(self._open))]
        return entry

    def forget_all_but(self, owned: Container[TopicPartition]) -> bool:
        """Show nothing as open of partitions that others have now; tells whether that changes anything."""
        kept = {of: entry for of, entry in self._open.items() if of[0] in owned}
        changes = len(kept) < len(self._open)
        self._open = kept
        return changes

    def report(self) -> dict[str, Any]:
        """What the page shows now."""
        recorder, options = self._recorder.apart(), self._options
        for entry in self._open.values():
            if entry.so_far is not None:
                _show(recorder, entry, entry.so_far)
        settings = options.fingerprint | dict(options.fingerprint["detector"]) | {"version": __version__}
        return recorder.to_json() | {
            "title": f"{options.group}: {', '.join(options.input)}",
            "seconds": max(time.monotonic() - self._began, 1e-9),
            "written": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "measured": None,
            "answers": False,  # they come by the feedback topic
            "settings": {name: _plain(value) for name, value in settings.items() if not isinstance(value, dict)},
        }


def _show(recorder: Recorder, entry: _Open, incident: Incident) -> None:
    recorder.add_incident(incident._replace(number=entry.number), entry.row, entry.where, last=entry.last)


def _columns(events: Sequence[Event]) -> dict[str, NDArray[np.float64]]:
    """The values of events by feature; NaN where an event has none."""
    columns: dict[str, NDArray[np.float64]] = {}
    by_names: dict[int, list[int]] = {}  # by identity: names of one shape are mostly one object
    for i, event in enumerate(events):
        by_names.setdefault(id(event.names), []).append(i)
    for rows in by_names.values():
        values = np.array([events[i].values for i in rows], dtype=np.float64)
        for j, name in enumerate(events[rows[0]].names):
            columns.setdefault(name, np.full(len(events), np.nan))[rows] = values[:, j]
    return columns


def _place(event: Event) -> str:
    return f"{event.record.topic}/{event.record.partition}/{event.record.offset}"


def _text(key: bytes | None) -> str:
    return "" if key is None else key[:_LONGEST_KEY].decode(errors="replace")


def _plain(value: Any) -> Any:
    return (", ".join(value) or None) if isinstance(value, list) else value
