"""Score data sets on a Spark cluster.

``svead-stream spark score`` fits and scores them without a line of code.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from svead_stream.cli.options import Choice, columns_option, option, with_options
from svead_stream.cli.words import did_you_mean
from svead_stream.parameters import BATCH, SEED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from svead_stream import SVEAD

_FITTING = tuple(parameter.name for parameter in (*BATCH, SEED))  # what a model is fitted with


@click.group()
def spark() -> None:
    """Score data sets on a Spark cluster."""


@spark.command()
@click.argument("paths", nargs=-1)
@click.option("--table", "table_name", metavar="NAME", help="Read this table instead of files.")
@click.option("--format", "input_format", type=Choice(["parquet", "csv", "json", "orc"]), help="Of the input.")
@click.option("-o", "--output", metavar="PATH", help="Folder for the rows with their scores.")
@click.option("--output-table", metavar="NAME", help="Write a table instead.")
@click.option("--output-format", type=Choice(["parquet", "csv", "json", "orc"]), default="parquet", show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace what is in the output.")
@columns_option("-f", "--features", help="Columns to use [default: all numbers].")
@columns_option("-x", "--ignore", help="Columns to leave out.")
@click.option("--load", "load_path", metavar="PATH", help="Score with this model instead of fitting one.")
@click.option("--save", "save_path", metavar="PATH", help="Where to save the model, e.g. s3a://... or a file.")
@click.option("--score-column", default="score", show_default=True, help="Name of the column of scores.")
@with_options(option(parameter) for parameter in BATCH)
@option(SEED, default=0)
@click.option("--master", metavar="URL", help="Of the cluster [default: as spark-submit says, else this machine].")
@click.pass_context
def score(ctx: click.Context, /, paths: tuple[str, ...], table_name: str | None, **options: Any) -> None:
    """Fit a model to PATHS or to a table, and write every row with its score.

    \b
    Examples:
      svead-stream spark score readings.parquet -o scored --save model.svead
      svead-stream spark score --table lake.readings --output-table lake.scored -x id,day
      svead-stream spark score s3a://lake/today -o s3a://lake/scored --load s3a://lake/model.svead
    """
    _check(ctx, paths, table_name, options)
    from pyspark.errors import PySparkException

    from svead_spark import storage

    session, is_ours = _session(options["master"])
    try:
        data = (
            storage.read(session, paths, options["input_format"]) if paths else storage.table(session, table_name or "")
        )
        try:
            _run(session, data, options)
        except PySparkException as error:
            raise storage.explain(error) from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    finally:
        if is_ours:
            session.stop()


def _check(ctx: click.Context, paths: tuple[str, ...], table_name: str | None, options: dict[str, Any]) -> None:
    if bool(paths) == bool(table_name):
        raise click.UsageError("name the input: either paths, or --table")
    if options["output"] and options["output_table"]:
        raise click.UsageError("--output and --output-table are two places: choose one")
    if not (options["output"] or options["output_table"] or options["save_path"]):
        raise click.UsageError("nothing would be kept: give --output, --output-table or --save")
    if options["load_path"]:
        for name in ("features", "ignore", "save_path", *_FITTING):
            if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
                spelled = name.removesuffix("_path").replace("_", "-")
                raise click.UsageError(f"--{spelled} does not go with --load: the model is fitted already")


def _session(master: str | None) -> tuple[SparkSession, bool]:
    """The session, and whether it was begun here and is to be ended here."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running, False
    # Executors of this machine shall find what the driver found; a cluster's python is spark-submit's business.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("svead-stream")
    return (builder.master(master) if master else builder).getOrCreate(), True


def _run(session: SparkSession, data: DataFrame, options: dict[str, Any]) -> None:
    from svead_spark import storage
    from svead_spark.scoring import score as score_rows

    path = options["load_path"]
    model = storage.read_model(session, path) if path else _fitted(data, options)
    if options["save_path"]:
        storage.write_model(session, model, options["save_path"])
        click.echo(f"model saved to {options['save_path']}", err=True)
    if not (options["output"] or options["output_table"]):
        return
    scored = score_rows(data, model, options["score_column"])
    writer = scored.write.format(options["output_format"]).mode(
        "overwrite" if options["overwrite"] else "errorifexists"
    )
    if options["output_format"] == "csv":
        writer = writer.option("header", True)
    if options["output_table"]:
        writer.saveAsTable(options["output_table"])
    else:
        writer.save(options["output"])
    click.echo(f"scored rows written to {options['output_table'] or options['output']}", err=True)


def _fitted(data: DataFrame, options: dict[str, Any]) -> SVEAD:
    from svead_spark.columns import is_number
    from svead_spark.fitting import fit

    columns, ignore = list(options["features"]), set(options["ignore"])
    unknown = sorted(ignore - set(data.columns))
    if unknown:
        raise ValueError(f"--ignore {unknown[0]}: there is no such column{did_you_mean(unknown[0], data.columns)}")
    if not columns:
        fields = [field for field in data.schema.fields if field.name not in ignore]
        columns = [field.name for field in fields if is_number(field.dataType)]
        others = [field.name for field in fields if not is_number(field.dataType)]
        if others:
            click.echo(f"not used, as they hold no numbers: {', '.join(others)}", err=True)
    else:
        columns = [name for name in columns if name not in ignore]
    return fit(data, columns=columns, **{name: options[name] for name in _FITTING})
