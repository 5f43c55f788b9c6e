"""`svead-stream score`: files or a pipe in, the same rows with scores and alerts out."""

from __future__ import annotations

import signal
from typing import Any

import click

from svead_stream.cli.options import FORMATS, Choice, detector_options, input_options, make_model


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("-o", "--output", default="-", type=click.Path(dir_okay=False), help="File to write [default: stdout].")
@click.option("--output-format", type=Choice(FORMATS), help="[default: by name, or as input]")
@click.option("--only-alerts", is_flag=True, help="Write alerts only.")
@click.option("--prefix", default="", help="Put before the names of the new columns.")
@click.option("--incidents", "incidents_path", type=click.Path(dir_okay=False), help="Write a record an incident.")
@click.option("--report", "report_path", type=click.Path(dir_okay=False), help="Write an HTML report.")
@click.option("--dry-run", is_flag=True, help="Show columns and first rows as they would be used, and write nothing.")
@click.option("--learn/--no-learn", default=True, help="Learn each row after scoring it.  [default: learn]")
@click.option(
    "--feedback", "feedback_path", type=click.Path(exists=True, dir_okay=False), help="Answers: what was a real alarm."
)
@click.option("--teach-false-alarms", is_flag=True, help="Learn those of --feedback as normal, too.")
@input_options
@detector_options
@click.pass_context
def score(ctx: click.Context, /, **options: Any) -> int:
    """Score every row of FILES (or - for stdin), in order, each before it is learned.

    CSV, JSON, Parquet or Arrow, compressed or not, of any length. Rows come out with `score`, `p_value`, `alert`
    and, for alerts, the number of the `incident` and `top_features`.

    \b
    Examples:
      svead-stream score sensors.csv -o scored.csv --report report.html
      zcat log.jsonl.gz | svead-stream score - --only-alerts
      svead-stream score monday.parquet --save model.svead
      svead-stream score tuesday.parquet --load model.svead --save model.svead
      svead-stream score wednesday.parquet --load model.svead --feedback answers.csv
    """
    if options["load_path"] is None and not options["learn"]:
        raise click.UsageError("--no-learn needs a model that has learned something: --load one")
    if options["incidents_path"] is not None and not options["learn"]:
        raise click.UsageError("--no-learn tells of no incidents: leave out --incidents")
    if options["teach_false_alarms"] and options["feedback_path"] is None:
        raise click.UsageError("--teach-false-alarms needs answers that tell which they are: give --feedback FILE")
    if options["teach_false_alarms"] and not options["learn"]:
        raise click.UsageError("--no-learn learns nothing as normal: leave out --teach-false-alarms")
    if options["files"].count("-") > 1:
        raise click.UsageError("- stands for stdin, which can be read only once")
    from svead_stream.cli.run import Run
    from svead_stream.cli.sources import check_paths

    written = {f"--{name}": options[f"{name}_path"] for name in ("incidents", "report", "rejects", "save")}
    read = (*options["files"], *filter(None, [options["feedback_path"]]))
    check_paths(read, {"--output": options["output"], **written})
    run = Run(make_model(ctx, options["load_path"]), options)
    if options["dry_run"]:
        from svead_stream.cli import dry_run

        for line in dry_run.lines(run, options["files"][0]):
            click.echo(line)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: no drafts of files stay behind
    try:
        run.files(options["files"])
        run.finish()
    except BrokenPipeError:  # the next command in the pipe has seen enough
        run.stop("output closed", is_fine=True)
        raise
    except KeyboardInterrupt:
        run.stop("interrupted")
        raise
    except Exception as error:
        raise run.failed(error) from error.__cause__
    return 0
