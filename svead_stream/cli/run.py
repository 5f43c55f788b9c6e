"""One run over some input, with all that goes with it: output, rejects, labels, report, model, progress."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import svead_stream
from svead_stream.cli.columns import Columns, labels, with_numbers
from svead_stream.cli.errors import DataError
from svead_stream.cli.incidents import Change, IncidentLog
from svead_stream.cli.measures import LabelMeasures
from svead_stream.cli.options import durations
from svead_stream.cli.output import Rejects, Writer, output_format
from svead_stream.cli.progress import Progress
from svead_stream.cli.scoring import Scored, Scorer, detector_of
from svead_stream.cli.sources import Source
from svead_stream.cli.tables import Batch, CsvOptions, read
from svead_stream.judging import ConformalFilter
from svead_stream.parameters import values_of
from svead_stream.record import Verdicts
from svead_stream.report import Alert, Recorder, render

_USUAL = 1024  # recent rows that tell what is usual


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
        self.scorer = Scorer(model, columns, options["learn"], durations(options))
        self.rejects = Rejects(options["rejects_path"], options["strict"])
        self.measures = LabelMeasures() if label else None
        self.recorder = Recorder() if options.get("report_path") else None
        self.incidents = IncidentLog(model, options.get("incidents_path"), options["top_features"], self.recorder)
        self.changed: list[Change] = []  # incidents that changed with the last batch
        self.progress = Progress()
        self.writer: Writer | None = None
        self.csv = CsvOptions(options["delimiter"], not options["no_header"])
        self.n_alerts = 0
        self.n_burn_in = 0  # first rows, which could be no alerts
        self._usual: pa.Table | None = None
        self._latest = math.nan  # time
        self._told = False

    @property
    def n_rows(self) -> int:
        """Rows scored so far."""
        return self.scorer.n_rows

    def note(self, text: str) -> None:
        """Tell the user something, beside the data."""
        click.echo(text, err=True)

    def files(self, paths: Iterable[str]) -> None:
        """Score one source after the other with the same model."""
        paths = list(paths)
        self.progress.say("starting: the first time takes longer, kernels are compiled ...")
        svead_stream.warm_up()
        self.progress.restart()
        for i, path in enumerate(paths):
            source = Source(path)
            try:
                format = source.format(self.options["input_format"])
                for batch in read(source, format, self.csv):
                    scored = self.step(source.name, batch)
                    self.write(source, format, scored)
                    fraction = None if source.size is None else (i + source.n_read / source.size) / len(paths)
                    self.progress.update(self.n_rows, fraction)
            except pa.ArrowException as error:
                raise DataError(f"{source.name}: {str(error).splitlines()[0]}") from error
            finally:
                source.close()
        self.progress.clear()

    def step(self, name: str, batch: Batch) -> Scored:
        """Score a batch, and count it."""
        scored = self.scorer.score(name, batch)
        self.n_alerts += int(scored.verdicts.alerts.sum())
        self.rejects.add(scored.batch.rejects)
        if not self._told and scored.batch.table.num_rows:
            self._tell_columns(name, scored)
        truth = self._labels(scored.batch)
        burn_in = self._burn_in(scored.verdicts)
        if self.measures is not None and truth is not None:
            self.measures.add(truth, scored.verdicts, burn_in)
        self.changed = self.incidents.add(name, scored.batch.lines, scored.verdicts.changes, self._last_true)
        if self.recorder is not None:
            self._record(self.recorder, name, scored, truth, burn_in)
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
    def _last_true(self) -> int | None:
        """The last incident with a labelled alert; None without labels."""
        return None if self.measures is None else self.measures.last_true

    def _tell_columns(self, name: str, scored: Scored) -> None:
        self._told = True
        left_out = self.scorer.columns.left_out
        if left_out and self.progress.enabled:
            self.progress.clear()
            others = ", ".join(f"{column} ({why})" for column, why in list(left_out.items())[:8])
            self.note(f"{name}: using {', '.join(scored.features.column_names[:8])}; not using {others}")

    def _labels(self, batch: Batch) -> npt.NDArray[np.float64] | None:
        label = self.options["label"]
        if label is None or not batch.table.num_rows:
            return None
        if label not in batch.table.column_names:
            raise click.UsageError(f"--label {label}: no such column")
        return labels(batch.table[label], label)

    def write(self, source: Source, format: str, scored: Scored) -> None:
        """Send rows on their way; those that are no alerts stay behind if only alerts are wanted."""
        batch, verdicts = scored.batch, scored.verdicts
        if self.writer is None:
            path = self.options["output"]
            chosen = output_format(path, self.options["output_format"], format)
            delimiter = "\t" if ".tsv" in path else "," if ".csv" in path else source.delimiter
            top = self.options["top_features"]
            self.writer = Writer(path, chosen, delimiter, self.options["prefix"], top)
        if format == "csv" and self.writer.format != "csv":
            batch = with_numbers(batch, scored.features)  # a CSV stays as it was written; elsewhere numbers are numbers
        if self.options["only_alerts"]:
            batch, verdicts = batch.without(~verdicts.alerts), verdicts.only_alerts()
        self.writer.write(batch, verdicts)
        if source.size is None:  # a pipe may be slow, and somebody may be waiting at its other end
            self.writer.flush()

    # the report

    def _record(
        self, recorder: Recorder, name: str, scored: Scored, truth: npt.NDArray[np.float64] | None, burn_in: int
    ) -> None:
        verdicts, n = scored.verdicts, scored.features.num_rows
        times = None if scored.times is None else np.fmax.accumulate(np.append(self._latest, scored.times))[1:]
        if times is not None and n:
            self._latest = float(times[-1])
        recorder.add_rows(verdicts.scores, verdicts.alerts, verdicts.thresholds, truth, times, burn_in)
        before = self.n_rows - n  # so that what is usual does not depend on how the input was cut into batches
        for start in range(-(before % _USUAL), n, _USUAL):
            part = range(max(start, 0), min(start + _USUAL, n))
            features = scored.features.slice(part.start, len(part))
            alerts = part.start + np.flatnonzero(verdicts.alerts[part.start : part.stop])
            usual = _usual(self._usual if self._usual is not None else features) if len(alerts) else {}
            for i in alerts.tolist():
                recorder.add_shares(verdicts.reasons[i])
                threshold = verdicts.thresholds[i]
                if recorder.wants(verdicts.scores[i] / threshold if threshold > 0 else np.inf):
                    recorder.add_alert(self._alert(name, scored, i, usual, truth))
            self._usual = _last_rows(self._usual, features)

    def _alert(
        self,
        name: str,
        scored: Scored,
        i: int,
        usual: dict[str, list[float]],
        truth: npt.NDArray[np.float64] | None,
    ) -> Alert:
        table, features, verdict = scored.batch.table, scored.features, scored.verdicts[i]
        row = self.n_rows - features.num_rows + i + 1
        used = {*features.column_names, self.scorer.columns.clock}
        others = [column for column in table.column_names if column not in used]
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
            context={column: str(table[column][i].as_py())[:80] for column in others[:8]},
            features=[
                {
                    "name": feature,
                    "value": features[feature][i].as_py(),
                    "share": share,
                    "usual": usual.get(str(feature)),
                }
                for feature, share in scored.verdicts.reasons[i].items()
            ],
        )

    # the end

    def close(self) -> None:
        """Complete the files; safe to call twice."""
        self.progress.clear()
        self.incidents.close(self._last_true)
        writer, self.writer = self.writer, None
        self.rejects.close()
        if writer is not None:
            writer.close()

    def finish(self, quiet: bool = False) -> None:
        """Say how it went, and write what is written once: the model and the report."""
        seconds = max(self.progress.seconds, 1e-9)
        if not self.n_rows and not self.rejects.count:
            raise DataError("no rows to score")
        for line in self.rejects.summary():
            self.note(line)
        measured = self.measures.result() if self.measures is not None else None
        if self.measures is not None and not quiet:
            for line in self.measures.summary():
                self.note(line)
        if self.options["save_path"]:
            svead_stream.save(self.model, self.options["save_path"])
        if self.recorder is not None:
            self.recorder.n_rejected = self.rejects.count
            data = self.recorder.to_json() | {
                "title": ", ".join(Path(name).name for name in self.options["files"]),
                "seconds": seconds,
                "written": time.strftime("%Y-%m-%d %H:%M"),
                "measured": measured,
                "settings": self._settings(),
            }
            Path(self.options["report_path"]).write_text(render(data), encoding="utf-8")
        if not self.n_rows:
            raise DataError("no row could be scored")
        if self.progress.enabled:
            rate = self.n_rows / seconds
            self.note(f"{self.n_rows:,} rows in {seconds:.1f} s ({rate:,.0f} rows/s)")
            for line in self.told():
                self.note(line)

    def told(self) -> list[str]:
        """Incidents, alerts and what was odd, in a few lines for people."""
        model, n_judged = self.model, self.n_rows - self.n_burn_in
        lines = []
        if self.n_burn_in:
            lines.append(f"the first {self.n_burn_in:,} rows were learned without alerts (--burn-in)")
        if self.options["learn"]:
            still = f", incident {model.open_incident.number} still open" if model.open_incident is not None else ""
            lines.append(f"{self.incidents.count:,} incidents{still}, {self.n_alerts:,} alerts")
        else:
            lines.append(f"{self.n_alerts:,} alerts; without learning no incidents are told")
        if n_judged and self.n_alerts / n_judged > 1.2 * model.alert_rate:
            lines.append(
                f"alerts are {self.n_alerts / n_judged:.1%} of the rows where {model.alert_rate:.1%} were asked for: "
                "those of an incident go on as long as it lasts"
            )
        odd = model.clock_.summary()
        if odd:
            lines.append(f"times in {self.scorer.columns.clock}: {odd}")
        return lines

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


def _usual(rows: pa.Table) -> dict[str, list[float]]:
    """The range in which nine of ten values of each feature lie, and the middle."""
    usual = {}
    for name in rows.column_names:
        values = rows[name].to_numpy()
        values = values[np.isfinite(values)]
        if len(values):
            usual[name] = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return usual


def _last_rows(before: pa.Table | None, new: pa.Table) -> pa.Table:
    if before is None or new.num_rows >= _USUAL:
        return new.slice(max(0, new.num_rows - _USUAL))
    joined = pa.concat_tables([before, new], promote_options="default")
    return joined.slice(max(0, joined.num_rows - _USUAL)).combine_chunks()
