"""`svead-stream watch`: follow a file that is being written, as `tail -f` does, and print what is anomalous in it."""

from __future__ import annotations

import json
import signal
import time
from functools import partial
from typing import Any

import click

from svead_stream.cli.options import detector_options, input_options, make_model, notify_options
from svead_stream.cli.serve import SERVE, TOKEN, Serving, live_page

_LAST_WORDS = 10.0  # seconds that notifications have at the end


@click.command(cls=Serving, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--alerts", "show_alerts", is_flag=True, help="Print every alert, too.")
@click.option("--all", "show_all", is_flag=True, help="Begin with the rows that are there already.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines, for programs.")
@click.option("--idle", type=float, metavar="SECONDS", help="Stop when nothing was written for so long.")
@click.option("--serve", **SERVE)
@click.option("--serve-token", envvar="SVEAD_SERVE_TOKEN", **TOKEN)
@notify_options
@input_options
@detector_options
@click.pass_context
def watch(ctx: click.Context, /, **options: Any) -> int:
    """Follow FILE (CSV or JSON lines) while it grows and print a line when an incident opens, and one when it is over.

    The rows that are there already are learned first. A file that is replaced or cut short is read again from its
    start by the same model. Ctrl-C ends it, and saves the model if --save was given.

    \b
    Examples:
      svead-stream watch sensors.csv --incident-rate 5/day
      svead-stream watch sensors.csv --serve
      svead-stream watch sensors.csv --webhook https://chat.example/hooks/abc
      svead-stream watch sensors.csv --on-incident 'notify-send "incident $SVEAD_INCIDENT: $SVEAD_STATE"'
    """
    from svead_stream.cli.notify import Notifier
    from svead_stream.cli.run import Run
    from svead_stream.cli.sources import check_paths
    from svead_stream.cli.words import counted

    check_paths((options["file"],), {"--rejects": options["rejects_path"], "--save": options["save_path"]})
    options |= {"learn": True, "files": (options["file"],)}
    run = Run(make_model(ctx, options["load_path"]), options)
    try:
        notifier = Notifier(options["on_incident"], options["webhook"], say=run.note)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service manager's way to say Ctrl-C
    page = _serve(run, options)
    try:
        _follow(run, notifier, page, options)
    except KeyboardInterrupt:
        pass
    finally:
        if page is not None:
            page.close()
        run.close()
        notifier.close(_LAST_WORDS)
    if options["save_path"]:
        import svead_stream

        svead_stream.save(run.model, options["save_path"])
    run.tell(counted(run.n_rows, "row"))
    for line in run.rejects.summary():
        run.note(line)
    for line in [*run.told(), *(run.measures.summary() if run.measures is not None else [])]:
        run.tell(line)
    return 0


def _serve(run: Any, options: dict[str, Any]) -> Any:
    """The live page, if there is to be one."""
    if options["serve"] is None:
        return None
    try:
        page = live_page(run.report, options["serve"], options["serve_token"])
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    run.note(page.told)
    return page


class _Patience:
    """How long to wait for another row; once it is over it stays so, also if an unfinished line is read then."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._is_over = False
        self.is_told = False  # that the first rows are waited for
        self.renew()

    def renew(self) -> None:
        self._since = time.monotonic()

    @property
    def is_over(self) -> bool:
        if self._seconds is not None and time.monotonic() - self._since > self._seconds:
            self._is_over = True
        return self._is_over


def _has_ended(run: Any, source: Any, patience: _Patience, page: Any) -> bool:
    """Called whenever there is no more to read for now."""
    if run.first_rows and not patience.is_told:
        run.tell(f"waiting until {source.name} has {run.first_rows} rows, which decide what its columns are")
        patience.is_told = True
    if page is not None:
        page.update()
    return patience.is_over or source.wait()


def _follow(run: Any, notifier: Any, page: Any, options: dict[str, Any]) -> None:
    from svead_stream.cli.interrupts import unbroken
    from svead_stream.cli.sources import GrowingSource
    from svead_stream.cli.tables import read

    patience = _Patience(options["idle"])
    first = True
    while True:
        source = GrowingSource(options["file"], options["encoding"], run.note)
        format = source.format(options["input_format"])
        if format not in ("csv", "jsonl") or source.is_compressed:
            source.close()
            raise click.UsageError(f"{source.name}: only plain CSV and JSON lines can be followed while they grow")
        history = (source.size or 0) if first else 0
        first = False
        try:
            has_ended = partial(_has_ended, run, source, patience, page)
            for batch in read(source, format, run.csv, has_ended, run.first_rows):
                old = source.n_read <= history
                prepared = run.prepare(source.name, batch)
                with unbroken():
                    scored = run.step(source.name, prepared)
                    patience.renew()
                    if not old or options["show_all"]:
                        _print(run, source.name, scored, notifier, options)
                    elif source.n_read == history:
                        _print_open(run, notifier, options)
                    if page is not None:
                        page.update(changed=True)
        finally:
            source.close()
        if patience.is_over:
            return


def _print_open(run: Any, notifier: Any, options: dict[str, Any]) -> None:
    """The incident that old rows have left open: nobody was told of it, and it will be told when it is over."""
    change = run.incidents.still_open()
    if change is None:
        return
    record = change.record(options["top_features"])
    notifier.send(record)
    click.echo(json.dumps(record) if options["as_json"] else change.line(options["top_features"], goes_on=True))


def _print(run: Any, name: str, scored: Any, notifier: Any, options: dict[str, Any]) -> None:
    """What a batch brought, in its order: alerts if they are wanted, and incidents that open or are over."""
    from svead_stream.record import UPDATE

    top = options["top_features"]
    alerts = scored.verdicts.reasons if options["show_alerts"] else {}
    rows = run.typed(scored) if alerts and options["as_json"] else None
    told: dict[int, list[str]] = {}
    for change in run.changed:
        if change.incident.state != UPDATE:
            notifier.send(change.record(top))
            told.setdefault(change.row, []).append(_incident(change, scored, options))
    for i in alerts:
        record, line = scored.verdicts[i].record(top), int(scored.batch.lines[i])
        if rows is not None:
            event = rows.slice(i, 1).to_pylist()[0]
            text = json.dumps(record | {"source": {"file": name, "line": line}, "event": event}, default=str)
        else:
            time = None if scored.times is None else float(scored.times[i])
            text = alert_line(line, record, _values(scored, i, record["top_features"]), time)
        told.setdefault(i, []).append(text)
    for i in sorted(told):
        for text in told[i]:
            click.echo(text)


def _incident(change: Any, scored: Any, options: dict[str, Any]) -> str:
    top = options["top_features"]
    record = change.record(top)
    if options["as_json"]:
        return json.dumps(record)
    is_open = record["state"] == "open"
    line: str = change.line(top, _values(scored, change.row, record["top_features"]) if is_open else None)
    return line


def _values(scored: Any, i: int, tops: list[dict[str, Any]]) -> dict[str, float]:
    """The values of these features in a row."""
    return {top["feature"]: scored.features[top["feature"]][i].as_py() for top in tops}


def alert_line(line: int, record: dict[str, Any], values: dict[str, float], time: float | None = None) -> str:
    """One alert for people: when, where, how strange, and what it was due to."""
    from svead_stream.cli.incidents import clock

    tops = [(values[top["feature"]], top["feature"], top["share"]) for top in record["top_features"]]
    reasons = ", ".join(f"{feature} = {value:.4g} ({share:.0%})" for value, feature, share in tops)
    start = click.style(f"line {line:,}", bold=True)
    score = click.style(f"{record['score']:.3g}", fg="red")
    return f"{clock(time)}{start}  score {score}  p {record['p_value']:.2g}  {reasons}"
