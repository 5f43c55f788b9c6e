"""`svead-stream watch`: follow a file that is being written, as `tail -f` does, and print what is anomalous in it."""

from __future__ import annotations

import json
import signal
import time
from functools import partial
from typing import Any

import click

from svead_stream.cli.options import detector_options, input_options, make_model


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--all", "show_all", is_flag=True, help="Print alerts of the rows that are there already, too.")
@click.option("--json", "as_json", is_flag=True, help="Alerts as JSON lines, for programs.")
@click.option("--idle", type=float, metavar="SECONDS", help="Stop when nothing was written for so long.")
@input_options
@detector_options
@click.pass_context
def watch(ctx: click.Context, /, **options: Any) -> int:
    """Follow FILE (CSV or JSON lines) while it grows and print alerts as they come.

    The rows that are there already are learned first. A file that is replaced or cut short is read again from its
    start by the same model. Ctrl-C ends it, and saves the model if --save was given.
    """
    from svead_stream.cli.run import Run
    from svead_stream.cli.sources import check_paths

    check_paths((options["file"],), [options["rejects_path"], options["save_path"]])
    options |= {"learn": True, "files": (options["file"],)}
    run = Run(make_model(ctx, options["load_path"]), options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service manager's way to say Ctrl-C
    try:
        _follow(run, options)
    except KeyboardInterrupt:
        pass
    finally:
        run.close()
    if options["save_path"]:
        import svead_stream

        svead_stream.save(run.model, options["save_path"])
    for line in run.rejects.summary():
        run.note(line)
    run.note(f"{run.n_rows:,} rows, {run.n_alerts:,} alerts")
    if run.measures is not None:
        run.note(run.measures.summary())
    return 0


class _Patience:
    """How long to wait for another row."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        self._since = time.monotonic()

    @property
    def is_over(self) -> bool:
        return self._seconds is not None and time.monotonic() - self._since > self._seconds


def _has_ended(source: Any, patience: _Patience) -> bool:
    return patience.is_over or source.wait()


def _follow(run: Any, options: dict[str, Any]) -> None:
    from svead_stream.cli.sources import GrowingSource
    from svead_stream.cli.tables import read

    patience = _Patience(options["idle"])
    first = True
    while True:
        source = GrowingSource(options["file"])
        format = source.format(options["input_format"])
        if format == "parquet" or source.is_compressed:
            raise click.UsageError(f"{source.name}: only plain CSV and JSON lines can be followed while they grow")
        history = (source.size or 0) if first else 0
        first = False
        try:
            for batch in read(source, format, run.csv, partial(_has_ended, source, patience)):
                old = source.n_read <= history
                scored = run.step(source.name, batch)
                patience.renew()
                if not old or options["show_all"]:
                    _print_alerts(run, source.name, scored, options)
        finally:
            source.close()
        if patience.is_over:
            return


def _print_alerts(run: Any, name: str, scored: Any, options: dict[str, Any]) -> None:
    from svead_stream.cli.columns import with_numbers

    rows = with_numbers(scored.batch, scored.features).table
    for i in scored.verdicts.reasons:
        line, record = int(scored.batch.lines[i]), scored.verdicts[i].record(options["top_features"])
        if options["as_json"]:
            row = rows.slice(i, 1).to_pylist()[0]
            click.echo(json.dumps(record | {"source": {"file": name, "line": line}, "event": row}, default=str))
        else:
            values = {top["feature"]: scored.features[top["feature"]][i].as_py() for top in record["top_features"]}
            click.echo(alert_line(line, record, values))


def alert_line(line: int, record: dict[str, Any], values: dict[str, float]) -> str:
    """One alert for people: where, how strange, and what it was due to."""
    tops = [(values[top["feature"]], top["feature"], top["share"]) for top in record["top_features"]]
    reasons = ", ".join(f"{feature} = {value:.4g} ({share:.0%})" for value, feature, share in tops)
    start = click.style(f"line {line:,}", bold=True)
    score = click.style(f"{record['score']:.3g}", fg="red")
    return f"{start}  score {score}  p {record['p_value']:.2g}  {reasons}"
