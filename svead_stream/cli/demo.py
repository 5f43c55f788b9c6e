"""`svead-stream demo`: a made-up machine, scored live in the terminal, with the truth beside it."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svead_stream.cli.options import option
from svead_stream.cli.words import counted
from svead_stream.parameters import SEED

if TYPE_CHECKING:
    from svead_stream.cli.machine import Fault
    from svead_stream.cli.scoring import Scored
    from svead_stream.record import Incident

_SPARKS = "▁▂▃▄▅▆▇█"
_CHUNK = 12  # events between two pictures
_SECONDS = 8.0  # that the show takes on a terminal


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--out",
    "directory",
    type=click.Path(file_okay=False),
    default="svead-demo",
    show_default=True,
    help="For the files.",
)
@option(SEED, default=7, help="Another seed is another machine.")
@click.option("--fast", is_flag=True, help="Do not slow down for the eye.")
def demo(directory: str, seed: int, fast: bool) -> int:
    """Watch the detector find faults in a machine that does not exist.

    Eight days of five sensors, one event a minute, with a daily rhythm, wear, a service, and four kinds of faults.
    Every event is scored before it is learned; nobody tells the detector what a fault is.
    """
    live = sys.stdout.isatty()
    show = _Show(live)
    show.line(click.style("A machine: five sensors, an event a minute. Four incidents a day are asked for.", bold=True))
    show.line("Day 1 is for learning what is usual. Then there are faults, of four kinds.")
    started = time.perf_counter()
    show.status("starting ...")
    from pyarrow import csv

    from svead_stream import ConformalFilter, StreamingSVEAD, warm_up
    from svead_stream.cli.machine import clock, machine
    from svead_stream.cli.run import Run
    from svead_stream.cli.tables import Batch
    from svead_stream.warm import telling_of_compilation

    with telling_of_compilation(show.line):
        warm_up(one_by_one=False)
    table, faults = machine(seed=seed)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    csv_path, report_path = folder / "machine.csv", folder / "report.html"
    csv.write_csv(table, csv_path)
    options = _options(str(csv_path), str(report_path))
    run = Run(ConformalFilter(StreamingSVEAD(seed=seed), incident_rate="4/day", burn_in="1d"), options)
    import numpy as np

    score = _Score(faults)
    run.progress.restart()
    began = time.perf_counter()
    seconds = max(_SECONDS - max(began - started - 4.0, 0.0), 3.0)  # whoever waited for the compiler has waited enough
    pause = 0.0 if fast or not live else seconds * _CHUNK / table.num_rows
    for start in range(0, table.num_rows, _CHUNK):
        part = table.slice(start, _CHUNK)
        batch = Batch(part, np.arange(start + 2, start + 2 + part.num_rows))
        scored = run.step("machine.csv", run.prepare("machine.csv", batch))
        for line in score.follow(start, scored):
            show.line(line)
        show.scores(scored.verdicts.scores.max(), run.model.threshold, bool(scored.verdicts.incidents))
        show.status(f"{clock(start):>11}  {show.sparkline()}  {score.so_far(start)}")
        late = began + start / _CHUNK * pause - time.perf_counter()
        if late > 0:
            time.sleep(late)
    show.status("")
    if run.model.open_incident is not None:
        show.line(score.told(run.model.open_incident))
    run.finish()
    _farewell(show, score, run, csv_path, report_path)
    return 0


def _options(csv_path: str, report_path: str) -> dict[str, Any]:
    return {
        "files": (csv_path,),
        "quiet": True,
        "features": (),
        "ignore": ("kind",),
        "one_hot": (),
        "label": "fault",
        "time": None,
        "top_features": 3,
        "learn": True,
        "rejects_path": None,
        "strict": False,
        "report_path": report_path,
        "save_path": None,
        "delimiter": None,
        "header": None,
        "comment": None,
        "decimal": None,
        "encoding": None,
    }


class _Score:
    """Which faults were found, and which incidents were about nothing."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        self.found: set[int] = set()
        self.blamed: set[int] = set()
        self.false = 0
        self._hit: dict[int, Fault] = {}  # by incident, the fault that it is about

    def follow(self, start: int, scored: Scored) -> list[str]:
        """Count the alerts of a batch that begins with this event; returns a line for each incident that is over."""
        verdicts = scored.verdicts
        for i, number in verdicts.incidents.items():
            for k, fault in enumerate(self.faults):
                if fault.start <= start + i < fault.end:
                    self.found.add(k)
                    self._hit[number] = fault
                    if next(iter(verdicts.reasons[i])) == fault.sensor:
                        self.blamed.add(k)
        return [self.told(one) for changes in verdicts.changes.values() for one in changes if one.state == "closed"]

    def told(self, incident: Incident) -> str:
        """An incident in a line, with the truth about it."""
        from svead_stream.cli.incidents import length
        from svead_stream.cli.machine import clock

        fault = self._hit.get(incident.number)
        self.false += fault is None
        truth = click.style("false incident", fg="yellow") if fault is None else click.style(fault.kind, fg="green")
        sensor, share = next(iter((incident.reasons or {}).items()))
        start = f"{clock(incident.first - 1):>11}  " + click.style(
            f"INCIDENT {incident.number:>2}", fg="red", bold=True
        )
        return f"{start}  {length(incident):<10}  {f'{sensor} ({share:.0%})':<17}  truth: {truth}"

    def so_far(self, event: int) -> str:
        past = sum(f.start <= event for f in self.faults)
        return f"{len(self.found)} of {counted(past, 'fault')} found, {counted(self.false, 'false incident')}"


class _Show:
    """A terminal with a line at the bottom that is redrawn; plain lines where there is no terminal."""

    def __init__(self, live: bool) -> None:
        self.live = live
        self._heights: list[str] = []

    def line(self, text: str) -> None:
        click.echo(f"\r\x1b[K{text}" if self.live else text)

    def status(self, text: str) -> None:
        if self.live:
            width = shutil.get_terminal_size().columns
            if len(click.unstyle(text)) > width - 1:
                text = click.unstyle(text)[: width - 1]
            click.echo(f"\r\x1b[K{text}", nl=False)

    def scores(self, highest: float, threshold: float, alert: bool) -> None:
        # From what is usual up to the threshold; above it is red anyway.
        full = threshold if threshold < float("inf") else max(highest, 1e-9) * 2
        level = min(max(int((2.5 * highest / full - 1.5) * len(_SPARKS)), 0), len(_SPARKS) - 1)
        self._heights.append(click.style(_SPARKS[-1], fg="red") if alert else click.style(_SPARKS[level], fg="cyan"))
        del self._heights[:-24]

    def sparkline(self) -> str:
        return "".join(self._heights)


def _farewell(show: _Show, score: _Score, run: Any, csv_path: Path, report_path: Path) -> None:
    n = len(score.faults)
    show.line("")
    show.line(
        f"{counted(run.n_rows, 'event')}, {counted(run.model.n_incidents_, 'incident')}: "
        f"found {len(score.found)} of {counted(n, 'fault')}, and {counted(score.false, 'false incident')}."
    )
    show.line(f"The right sensor is to blame in {len(score.blamed)} of the {len(score.found)}.")
    show.line(f"Report: {click.style(report_path.resolve().as_uri(), underline=True)}")
    show.line("In it, say which incidents were real: later runs learn from your answers.")
    show.line("")
    show.line("Now with a file of your own (CSV, JSON lines or Parquet):")
    # In a fresh clone the program is not on the path yet: name it as it was called.
    program = "svead-stream" if shutil.which("svead-stream") else sys.argv[0]
    show.line(click.style(f"  {program} score FILE -o scored.csv --report report.html", bold=True))
    show.line("or, to measure it, with the one above, where the truth is known:")
    show.line(f"  {program} score {csv_path} --ignore kind --label fault -o scored.csv")
