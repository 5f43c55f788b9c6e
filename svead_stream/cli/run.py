"""One run over some input, with all that goes with it: output, rejects, labels, report, model, progress."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import svead_stream
from svead_stream.alerts import ConformalFilter
from svead_stream.cli.columns import Columns, labels, with_numbers
from svead_stream.cli.errors import DataError
from svead_stream.cli.measures import LabelMeasures
from svead_stream.cli.options import split
from svead_stream.cli.output import Rejects, Writer, output_format
from svead_stream.cli.progress import Progress
from svead_stream.cli.scoring import Scored, Scorer, detector_of
from svead_stream.cli.sources import Source
from svead_stream.cli.tables import Batch, CsvOptions, read
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
            use=split(options["columns"]),
            ignore=split(options["ignore"]) + ((label,) if label else ()),
            one_hot=split(options["one_hot"]),
            known=known,
        )
        self.scorer = Scorer(model, columns, options["learn"])
        self.rejects = Rejects(options["rejects_path"], options["strict"])
        self.measures = LabelMeasures() if label else None
        self.recorder = Recorder() if options.get("report_path") else None
        self.progress = Progress()
        self.writer: Writer | None = None
        self.csv = CsvOptions(options["delimiter"], not options["no_header"])
        self.n_alerts = 0
        self._usual: pa.Table | None = None
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
        self.n_alerts += int(scored.judged.alerts.sum())
        self.rejects.add(scored.batch.rejects)
        if not self._told and scored.batch.table.num_rows:
            self._tell_columns(name, scored)
        truth = self._labels(scored.batch)
        if self.measures is not None and truth is not None:
            self.measures.add(truth, scored.judged)
        if self.recorder is not None:
            self._record(self.recorder, name, scored, truth)
        return scored

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
        batch, judged, shares = scored.batch, scored.judged, scored.shares
        if self.writer is None:
            path = self.options["output"]
            chosen = output_format(path, self.options["output_format"], format)
            delimiter = "\t" if ".tsv" in path else "," if ".csv" in path else source.delimiter
            self.writer = Writer(path, chosen, delimiter, self.options["prefix"])
        if format == "csv" and self.writer.format != "csv":
            batch = with_numbers(batch, scored.features)  # a CSV stays as it was written; elsewhere numbers are numbers
        if self.options["only_alerts"]:
            shares = [one for one, alert in zip(shares, judged.alerts.tolist(), strict=True) if alert]
            batch, judged = batch.without(~judged.alerts), judged.only(judged.alerts)
        top = self.options["top"]
        self.writer.write(batch, judged, [dict(list(one.items())[:top]) if one else one for one in shares])
        if source.size is None:  # a pipe may be slow, and somebody may be waiting at its other end
            self.writer.flush()

    # the report

    def _record(self, recorder: Recorder, name: str, scored: Scored, truth: npt.NDArray[np.float64] | None) -> None:
        judged = scored.judged
        starts = [start for start, _ in scored.thresholds] + [len(judged.scores)]
        for (start, threshold), end in zip(scored.thresholds, starts[1:], strict=True):
            part = slice(start, end)
            recorder.add_rows(
                judged.scores[part], judged.alerts[part], threshold, None if truth is None else truth[part]
            )
            alerts = start + np.flatnonzero(judged.alerts[part])
            features = scored.features.slice(start, end - start)
            if len(alerts):
                usual = _usual(self._usual if self._usual is not None else features)
                for i in alerts.tolist():
                    recorder.add_shares(scored.shares[i])
                    strength = judged.scores[i] / threshold if threshold > 0 else np.inf
                    if recorder.wants(strength):
                        recorder.add_alert(self._alert(name, scored, i, threshold, usual, truth))
            self._usual = _last_rows(self._usual, features)

    def _alert(
        self,
        name: str,
        scored: Scored,
        i: int,
        threshold: float,
        usual: dict[str, list[float]],
        truth: npt.NDArray[np.float64] | None,
    ) -> Alert:
        table, features = scored.batch.table, scored.features
        row = self.n_rows - features.num_rows + i + 1
        others = [column for column in table.column_names if column not in features.column_names]
        return Alert(
            row=row,
            where=f"{name}, line {scored.batch.lines[i]}",
            score=float(scored.judged.scores[i]),
            p_value=float(scored.judged.p_values[i]),
            threshold=threshold,
            label=None if truth is None or np.isnan(truth[i]) else int(truth[i]),
            context={column: str(table[column][i].as_py())[:80] for column in others[:8]},
            features=[
                {"name": feature, "value": features[feature][i].as_py(), "share": share, "usual": usual.get(feature)}
                for feature, share in scored.shares[i].items()
            ],
        )

    # the end

    def close(self) -> None:
        """Complete the files; safe to call twice."""
        self.progress.clear()
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
            self.note(self.measures.summary())
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
            self.note(f"{self.n_rows:,} rows in {seconds:.1f} s ({rate:,.0f} rows/s), {self.n_alerts:,} alerts")

    def _settings(self) -> dict[str, Any]:
        return {
            **detector_of(self.model)._get_params(),
            "alert_rate": self.model.alert_rate,
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
