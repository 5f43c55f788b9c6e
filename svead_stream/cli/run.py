"""One run over some input, with all that goes with it: output, rejects, labels, report, model, progress."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import svead_stream
from svead_stream.cli import summary
from svead_stream.cli.answers import Answers
from svead_stream.cli.columns import Columns
from svead_stream.cli.drafts import Drafts, writing
from svead_stream.cli.errors import DataError
from svead_stream.cli.incidents import Change, IncidentLog
from svead_stream.cli.interrupts import unbroken
from svead_stream.cli.measures import LabelMeasures
from svead_stream.cli.options import durations
from svead_stream.cli.order import Order
from svead_stream.cli.output import Writer, output_delimiter, output_format
from svead_stream.cli.progress import Progress
from svead_stream.cli.recording import Recording
from svead_stream.cli.rejects import Rejects
from svead_stream.cli.scoring import Prepared, Scored, Scorer, detector_of
from svead_stream.cli.sources import FIRST_ROWS, Source
from svead_stream.cli.tables import Batch, CsvOptions, read
from svead_stream.cli.truth import labels
from svead_stream.cli.typed import Types
from svead_stream.cli.typed_file import FORMATS as TYPED
from svead_stream.cli.words import counted
from svead_stream.judging import ConformalFilter
from svead_stream.parameters import values_of
from svead_stream.record import Verdicts
from svead_stream.report import Recorder, render
from svead_stream.warm import telling_of_compilation

_OUTPUTS = ("output", "incidents_path", "rejects_path", "save_path", "report_path")


class Run:
    """Feeds batches to the model and passes on what comes out."""

    def __init__(self, model: ConformalFilter, options: Mapping[str, Any]) -> None:
        self.model = model
        self.options = options
        label = options["label"]
        known = tuple(map(str, detector_of(model).feature_names_))
        columns = Columns(
            use=options["features"],
            ignore=options["ignore"],
            label=label,
            one_hot=options["one_hot"],
            known=known,
            time=options["time"],
        )
        path = options.get("feedback_path")  # read before anything is written
        self.answers = Answers(path, known, options["teach_false_alarms"]) if path else None
        self.scorer = Scorer(model, columns, options["learn"], durations(options), self.answers)
        self.drafts = Drafts()
        self.rejects = Rejects(options["rejects_path"], self._place("rejects_path"), options["strict"])
        self.measures = LabelMeasures() if label else None
        self.recorder = Recorder() if options.get("report_path") or options.get("serve") else None
        self.recording = None if self.recorder is None else Recording(self.recorder, columns, model.clock_)
        told = model if options["learn"] else None  # without learning the judge tells of no incidents
        self.incidents = IncidentLog(
            told,
            options.get("incidents_path"),
            self._place("incidents_path"),
            options["top_features"],
            self.recorder,
        )
        self.changed: list[Change] = []  # incidents that changed with the last batch
        self.quiet = bool(options.get("quiet"))
        self.progress = Progress()
        self.progress.enabled &= not self.quiet
        self.writer: Writer | None = None
        self.csv = CsvOptions(options["delimiter"], options["header"], options["comment"], options["decimal"])
        self._types = Types()
        self.n_alerts = 0
        self.n_burn_in = 0  # first rows, which could be no alerts
        self._order = Order()
        self._before = copy(model.clock_)  # an earlier run may have been at odds with time, too
        self._n_incidents_before = model.n_incidents_
        self._is_ready = False  # to score: columns were told, kernels compiled

    @property
    def n_rows(self) -> int:
        """Rows scored so far."""
        return self.scorer.n_rows

    @property
    def first_rows(self) -> int:
        """How many rows to wait for, so that it can be told what their columns are; a loaded model knows its own."""
        return 0 if self.n_rows or self.scorer.columns.known else FIRST_ROWS

    def _place(self, option: str) -> str | None:
        """Where to write the file of an option for now; where no rows are written, it may be followed as it grows."""
        path: str | None = self.options.get(option)
        return path if path in (None, "-") or "output" not in self.options else self.drafts.place(path)

    def note(self, text: str) -> None:
        """Tell the user something that matters, beside the data."""
        self.progress.clear()
        click.echo(text, err=True)

    def tell(self, text: str) -> None:
        """Tell the user something, unless it is to be quiet."""
        if not self.quiet:
            self.note(text)

    def files(self, paths: Iterable[str]) -> None:
        """Score one source after the other with the same model."""
        paths = list(paths)
        self.progress.say("starting ...")
        for i, path in enumerate(paths):
            source = Source(path, self.options["encoding"], self.note)
            try:
                format = source.format(self.options["input_format"])
                for batch in read(source, format, self.csv, first_rows=self.first_rows):
                    prepared = self.prepare(source.name, batch)
                    with unbroken():
                        self.write(source, format, self.step(source.name, prepared))
                    fraction = None if source.size is None else (i + source.n_read / source.size) / len(paths)
                    self.progress.update(self.n_rows, fraction)
            except pa.ArrowException as error:
                raise DataError(f"{source.name}: {str(error).splitlines()[0]}") from error
            finally:
                source.close()
        self.progress.clear()

    def prepare(self, name: str, batch: Batch) -> Prepared:
        """What can be scored of a batch. Before the first, say what is used of it, and compile, which may take long."""
        prepared = self.scorer.prepare(name, batch)
        if not self._is_ready and prepared.batch.table.num_rows:
            self._is_ready = True
            self.tell(self.scorer.columns.told(prepared.features.column_names))
            with telling_of_compilation(self.tell):
                svead_stream.warm_up(one_by_one=False)
            self.progress.restart()
        return prepared

    def step(self, name: str, prepared: Prepared) -> Scored:
        """Score rows, and count them."""
        scored = self.scorer.score(name, prepared)
        self.n_alerts += int(scored.verdicts.alerts.sum())
        self.rejects.add(scored.batch.rejects)
        if not scored.batch.table.num_rows:
            self.changed = []
            return scored
        if scored.times is not None and (wrong := self._order.look(name, scored.times)) is not None:
            self.note(wrong)
        truth = self._labels(scored.batch)
        burn_in = self._burn_in(scored.verdicts)
        if self.measures is not None and truth is not None:
            self.measures.add(truth, scored.verdicts, burn_in)
        self.changed = self.incidents.add(name, scored.batch.lines, scored.verdicts.changes, self._true_incidents)
        if self.recording is not None:
            self.recording.add(name, scored, truth, burn_in)
        return scored

    def _burn_in(self, verdicts: Verdicts) -> int:
        """How many rows of a batch could be no alerts, because all before them could not."""
        if self.n_burn_in < self.n_rows - len(verdicts):
            return 0
        possible = np.flatnonzero(np.isfinite(verdicts.thresholds))
        burn_in = int(possible[0]) if len(possible) else len(verdicts)
        self.n_burn_in += burn_in
        return burn_in

    @property
    def _true_incidents(self) -> set[int] | None:
        """Incidents with a labelled alert, as far as one may end now; None without labels."""
        return None if self.measures is None else self.measures.true_incidents

    def _labels(self, batch: Batch) -> npt.NDArray[np.float64] | None:
        label = self.options["label"]
        if label is None:
            return None
        if label not in batch.table.column_names:
            raise click.UsageError(f"--label {label}: no such column")
        return labels(batch.readable[label], label)

    def typed(self, scored: Scored) -> pa.Table:
        """The rows of a CSV with types: there all cells are text, elsewhere numbers are numbers. JSON has its own."""
        batch = scored.batch
        if batch.texts is not None:
            return batch.table
        return self._types.typed(batch.table, batch.readable, scored.features)

    def write(self, source: Source, format: str, scored: Scored) -> None:
        """Send rows on their way; those that are no alerts stay behind if only alerts are wanted."""
        batch, verdicts = scored.batch, scored.verdicts
        if self.writer is None:
            path = self.options["output"]
            chosen = output_format(path, self.options["output_format"], format)
            delimiter = output_delimiter(path, source.delimiter)
            place = self._place("output") or path
            if path == "-" and chosen in TYPED:  # nobody can read such a file before its end
                place = self.drafts.scratch()
            self.writer = Writer(path, place, chosen, delimiter, self.options["prefix"], self.options["top_features"])
        if format == "csv" and self.writer.format != "csv":
            batch = replace(batch, table=self.typed(scored))
        if self.options["only_alerts"]:
            batch, verdicts = batch.without(~verdicts.alerts), verdicts.only_alerts()
        self.writer.write(batch, verdicts)
        if source.size is None:  # a pipe may be slow, and somebody may be waiting at its other end
            self.writer.flush()

    # the end

    def close(self, is_complete: bool = True) -> None:
        """Close the files, and complete them if all went well; safe to call twice."""
        self.progress.clear()
        writer, self.writer = self.writer, None
        with contextlib.ExitStack() as closing:  # each of them, also if one fails
            if writer is not None:
                closing.callback(writer.close, is_complete)
            closing.callback(self.rejects.close)
            closing.callback(self.incidents.close, self._true_incidents)

    def stop(self, why: str, is_fine: bool = False) -> None:
        """End before the end of the input: the rows so far are kept, what tells of all of them is not written.

        Parameters
        ----------
        why
            For the user.
        is_fine
            Whether there is nothing to say unless something is not written.
        """
        with contextlib.suppress(BrokenPipeError):
            self.close()
        self.drafts.keep()
        output = self.options["output"]
        lost = " and ".join(self.options[name] for name in ("save_path", "report_path") if self.options[name])
        kept = f", kept in {output}" if output != "-" and self.n_rows else ""
        if lost or not is_fine:
            self.note(f"{why} after {counted(self.n_rows, 'row')}{kept}" + (f": {lost} not written" if lost else ""))

    def failed(self, error: Exception) -> Exception:
        """Leave no file behind; returns the error, which says so if it is one for users."""
        with contextlib.suppress(Exception):  # one error is enough
            self.close(is_complete=False)
        self.drafts.drop()
        names_files = any(self.options[name] not in (None, "-") for name in _OUTPUTS)
        if not names_files or not isinstance(error, click.ClickException):
            return error
        kind = click.UsageError if isinstance(error, click.UsageError) else DataError
        return kind(f"{error.format_message()}; nothing {'else ' * self.drafts.kept}was written")

    def finish(self) -> None:
        """Say how it went, and write what is written once: the model and the report."""
        self.close()
        seconds = max(self.progress.seconds, 1e-9)
        if not self.n_rows and not self.rejects.count:
            raise DataError("no rows to score")
        for line in self.rejects.summary():
            self.note(line)
        if self.measures is not None:
            for line in self.measures.summary(self.options["learn"]):
                self.tell(line)
        if not self.n_rows:
            self.drafts.keep(self.rejects.path)  # they are all that there is
            raise DataError("no row could be scored")
        self._save()
        self._report()
        self.drafts.keep()
        if self.progress.enabled:
            rate = self.n_rows / seconds
            self.note(f"{counted(self.n_rows, 'row')} in {seconds:.1f} s ({rate:,.0f} rows/s)")
        for line in self.told() if self.progress.enabled else self.warned():
            self.note(line)
        if self.answers is not None:
            for line in [self.answers.summary()] * self.progress.enabled + self.answers.unused():
                self.note(line)

    def report(self) -> dict[str, Any]:
        """What the report shows, as far as the run has come."""
        assert self.recorder is not None
        assert self.recording is not None
        self.recorder.n_rejected = self.rejects.count
        return self.incidents.so_far(self.recorder, self._true_incidents).to_json() | {
            "title": ", ".join(Path(name).name for name in self.options["files"]),
            "seconds": max(self.progress.seconds, 1e-9),
            "written": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "measured": None if self.measures is None else self.measures.result(),
            "settings": self._settings(),
            "made": self.recording.made(self.rejects.count),
        }

    def _save(self) -> None:
        if self.options["save_path"]:
            with writing(self.options["save_path"]):
                svead_stream.save(self.model, self.drafts.place(self.options["save_path"]))

    def _report(self) -> None:
        path = self.options.get("report_path")
        if path:
            with writing(path):
                Path(self.drafts.place(path)).write_text(render(self.report()), encoding="utf-8")

    def warned(self) -> list[str]:
        """What must be said even where nobody looks on: that there could be no alerts, since so much was learned."""
        return [summary.no_alert_possible(self.model)] if self.n_rows and self.model.burns_in else []

    def told(self) -> list[str]:
        """Incidents, alerts and what was odd, in a few lines for people."""
        model, learn, n_judged = self.model, self.options["learn"], self.n_rows - self.n_burn_in
        lines = [] if n_judged or not self.n_rows else [summary.no_alert_possible(model)]
        if n_judged:
            n_incidents = self.incidents.count if learn else None
            lines += summary.burn_in(model, self.n_burn_in)
            lines += summary.incidents(model, n_incidents, self.n_alerts, self._n_incidents_before)
            if n_incidents == 0:
                lines += summary.too_short(model, self._order.latest - self._order.first)
            lines += summary.alert_share(model, self.n_alerts / n_judged, learn)
        odd = summary.odd_times(self._before, model.clock_)
        return lines + ([f"times in {self.scorer.columns.clock}: {odd}"] if odd else [])

    def _settings(self) -> dict[str, Any]:
        return {
            **values_of(detector_of(self.model)),
            "time": self.scorer.columns.clock,
            "alert_rate": self.model.alert_rate,
            "incident_rate": self.model.incident_rate,
            "hold_off": self.model.hold_off,
            "burn_in": self.model.burn_in,
            "alert_window": self.model.capacity,
            "protect": self.model.protect,
            "learn": self.options["learn"],
            "version": svead_stream.__version__,
        }
