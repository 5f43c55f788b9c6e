"""Score Kafka topics: events in, scored events out.

``svead-stream kafka`` is the worker, with commands beside it to play events into a topic, watch the output and answer.
Each option can also be given as an environment variable (``SVEAD_KAFKA_`` and its name in capitals) or in a TOML file
(``--config``); the command line wins over the environment, and the environment over the file.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from svead_kafka import logs
from svead_kafka.errors import EXIT_GAVE_UP, ConfigurationError, GaveUp
from svead_kafka.options import Options
from svead_stream.cli.completion import complete_columns
from svead_stream.cli.options import GONE, RENAMED, Choice, Decorator, names_option, old_spelling, option, with_options
from svead_stream.cli.serve import SERVE, TOKEN
from svead_stream.cli.words import did_you_mean
from svead_stream.parameters import ALERTS, DETECTOR, SEED, Parameter

log = logging.getLogger(__name__)

_LEAVE_WITHIN = 20.0  # seconds after a signal; Kubernetes kills after 30


def _variable(name: str) -> str:
    """The variable of the environment that sets an option."""
    return "SVEAD_KAFKA_" + name.removeprefix("--").replace("-", "_").upper()


def _option(name: str, *more: Any, **settings: Any) -> Decorator:
    """An option that the environment can set too, with the default that `Options` has for it."""
    spelled = name.split("/")[0]
    default = getattr(Options, spelled.removeprefix("--").replace("-", "_"), None)
    return click.option(name, *more, envvar=_variable(spelled), default=default, show_default=bool(default), **settings)


def _parameter(parameter: Parameter) -> Decorator:
    """The option of a parameter of the detector or the alerts."""
    settings = {"envvar": _variable(parameter.name)}
    if parameter.in_events:
        settings["metavar"] = "EVENTS"  # no time: how many events that is would hang on when a worker looks
    if parameter is SEED:
        settings["help"] = f"{parameter.help} [default: from group, topic, partition and key]"
    return option(parameter, **settings)


def _read_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    if path is None:
        return
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}") from None
    values = {name.replace("-", "_"): value for name, value in values.items()}
    known = {one.name: one for one in ctx.command.params}
    others = {one.name for one in kafka.params}  # commands beside the worker take its file, and what is theirs of it
    unknown = sorted(values.keys() - known.keys() - others)
    if unknown:
        name = unknown[0]
        why = old_spelling("--" + name.replace("_", "-"), ctx.command)
        why = why or "it is no option of this command" + did_you_mean(name, filter(None, known))
        raise click.BadParameter(f"{path} sets {name!r}, but {why}")
    for name, value in values.items():
        if isinstance(value, str) and getattr(known.get(name), "multiple", False):
            values[name] = [value]
    ctx.default_map = {**(ctx.default_map or {}), **values}


def _check_environment(ctx: click.Context) -> None:
    """Refuse variables of options that are no more; they would do nothing, and nobody would notice."""
    for name in (*RENAMED, *GONE):
        why = old_spelling(name, ctx.command)
        if why and _variable(name) in os.environ:
            raise click.UsageError(f"{_variable(name)} is set, but {why}")


def _log_format(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Asked for before the other options, so that also what is wrong with those is told in JSON."""
    if value == "json" and not ctx.resilient_parsing:
        logs.stderr_to_json()
    return value


_CONFIG = _option(
    "--config",
    type=click.Path(path_type=Path),
    callback=_read_config,
    is_eager=True,
    expose_value=False,
    help="TOML file with any of these options, e.g. input = ['orders'].",
)
_BOOTSTRAP = _option("--bootstrap", help="Brokers, host:port separated by commas.")
_CLIENT = _option(
    "--client-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of client properties (name=value): TLS, SASL, OAuth, timeouts, and compression.type of the output "
    "(gzip, snappy, lz4, zstd; the input may have any). Its secrets are never printed.",
)

_WORKER_OPTIONS = [
    _CONFIG,
    _BOOTSTRAP,
    names_option(
        "--input", envvar=_variable("input"), help="Topics to read events from, or regular expressions: 'orders-.*'."
    ),
    _option("--output", help="Topic for scored events."),
    _option("--group", help="Consumer group; its workers share the partitions."),
    _option("--dead-letters", help="Topic for messages that are no events. [default: they are counted and logged]"),
    _option("--incidents", help="Topic for what is told of incidents: opened, going on, closed."),
    _option("--feedback", metavar="TOPIC", help="Topic of people's answers, which the models learn from."),
    _option("--teach-false-alarms", is_flag=True, help="Learn what was a false alarm as normal, too."),
    _option("--state", help="Compacted topic for the models. [default: the output topic, with -state]"),
    _option("--value-format", type=Choice(["json", "avro"]), help="What the values of messages are."),
    _option(
        "--schema",
        metavar="PLACE",
        help="With Avro: a file (.avsc) for bare bodies; for messages with a schema id a directory of <id>.avsc, "
        "or the address of a schema registry.",
    ),
    names_option(
        "-f", "--features", envvar=_variable("features"), help="Features to use [default: all numbers and booleans]."
    ),
    names_option("-x", "--ignore", envvar=_variable("ignore"), help="Names not to use, such as ids."),
    _option("--time", metavar="NAME", help="Field that says when an event happened. [default: Kafka's time stamp]"),
    _option("--start", type=Choice(["earliest", "latest"]), help="Where a new group begins."),
    _option("--model-per", type=Choice(["partition", "key"]), help="What has its own model."),
    _option("--max-models", type=int, help="Models in memory, with --model-per key."),
    _option("--snapshot-every", type=int, help="Save a model after so many offsets."),
    _option("--commit-every", type=int, help="Milliseconds between transactions on a slow stream."),
    _option("--max-batch", type=int, help="Most events in a transaction."),
    _option("--max-event-bytes", type=int, help="Larger messages are dead letters."),
    _option("--include-event/--no-event", help="Put the event itself into the scored event."),
    _option("--create-topics", is_flag=True, help="Create the topics that are missing, except the input."),
    _option(
        "--if-changed",
        type=Choice(["fail", "restart"]),
        help="When saved models were made with other options, or are gone.",
    ),
    _CLIENT,
    _option("--transactional-id", help="Name of this worker, different for each. [default: random]"),
    _option("--instance-id", help="Name of this worker, different for each, that keeps its partitions over a restart."),
    _option("--until-end", is_flag=True, help="Score what is there now, and exit."),
    _option("--max-retries", type=int, help="Failures in a row before giving up."),
    _option("--stall-timeout", type=float, help="Seconds without progress before the process ends."),
    _option(
        "--metrics-port", type=click.IntRange(1, 65535), help="Port for Prometheus (/metrics), /healthz and /readyz."
    ),
    _option("--metrics-host", help="Address that the port listens on."),
    _option("--serve", **SERVE),
    _option("--serve-token", **TOKEN),
    *(_parameter(parameter) for parameter in (*ALERTS, *DETECTOR)),
    _option("--on-incident", metavar="CMD", help="Command to run when an incident opens or closes."),
    _option("--webhook", metavar="URL", help="Address to post JSON to when an incident opens or closes."),
    click.option(
        "--log-format",
        type=Choice(logs.FORMATS),
        default="text",
        show_default=True,
        envvar=_variable("log_format"),
        is_eager=True,
        callback=_log_format,
        help="How to write the log to stderr.",
    ),
    click.option(
        "--log-level",
        type=Choice(logs.LEVELS),
        default="info",
        show_default=True,
        envvar=_variable("log_level"),
        help="The least serious lines to log.",
    ),
    click.option("--dry-run", is_flag=True, help="Show the plan and check that it would work; change nothing."),
    _option("--verbose", "-v", is_flag=True, help="Log what the Kafka client does, too."),
]


@click.group(invoke_without_command=True)
@with_options(_WORKER_OPTIONS)
@click.pass_context
def kafka(ctx: click.Context, /, **given: Any) -> None:
    """Score the events of Kafka topics, exactly once.

    \b
    Without a command, run a worker:
        svead-stream kafka --input orders --output orders-scored --create-topics

    Every option is also an environment variable, SVEAD_KAFKA_ and its name (SVEAD_KAFKA_MAX_BATCH), and can be set in a
    TOML file (--config). SIGTERM and Ctrl-C finish the batch, save the models, leave the group and exit with 0.
    Exit codes: 75 the cluster stayed out of reach, 76 no progress; restart the worker on both.
    """
    if ctx.invoked_subcommand is not None:
        logs.stderr_to_text()  # the commands beside the worker talk to people
        return
    _check_environment(ctx)
    dry_run = given.pop("dry_run")
    if not dry_run:
        _on_signals(lambda *_: sys.exit(0))  # while it is being loaded there is nothing to finish
    logs.set_up(given.pop("log_format"), given.pop("log_level"), given.pop("verbose"))
    options = options_from(ctx, given)
    if dry_run:
        ctx.exit(_dry_run(options))
    from svead_kafka.worker import Worker

    worker = Worker(options)

    def end_at_once(*_: Any) -> None:
        worker.stop()  # in case the exit is lost in a finalizer
        sys.exit(0)

    _on_signals(end_at_once)
    worker.warm_up()

    def leave(*_: Any) -> None:
        worker.stop()
        limit = threading.Timer(_LEAVE_WITHIN, _leave_at_once)
        limit.daemon = True
        limit.start()

    _on_signals(leave)
    # What is loaded by now stays; without it, the collector of garbage has a third of the work.
    gc.collect()
    gc.freeze()
    try:
        worker.run()
    except GaveUp as error:
        click.echo(f"svead-stream: {error}", err=True)
        ctx.exit(EXIT_GAVE_UP)


def _leave_at_once() -> None:
    log.warning("not ready to stop after %.0f s: leaving as after a crash, the next start goes on", _LEAVE_WITHIN)
    os._exit(0)  # exit() would wait for the threads that hang


def _dry_run(options: Options) -> int:
    """Say what a worker would do; returns the exit code."""
    from svead_kafka.client import Clients
    from svead_kafka.dry_run import DryRun

    problems = 0
    for line in DryRun(Clients(options)).lines():
        problems += line.problem
        click.echo(line)
    click.echo("a worker would run" if not problems else f"a worker would not run; problems: {problems}")
    return 1 if problems else 0


def _on_signals(action: Callable[..., None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, action)


def options_from(ctx: click.Context, given: dict[str, Any]) -> Options:
    """Options of a worker from what click has read; of the detector only what was said, the rest is its default."""
    from svead_kafka.properties import read_client_config

    detector = {parameter.name: given.pop(parameter.name) for parameter in DETECTOR}
    said = {
        name: value for name, value in detector.items() if ctx.get_parameter_source(name) != ParameterSource.DEFAULT
    }
    file = given.pop("client_config")
    client = read_client_config(file) if file else {}
    return Options(**given, detector=said, client=client)


@kafka.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--topic", required=True, help="Topic to send to.")
@click.option("--rate", type=float, help="Events per second. [default: as fast as it goes]")
@click.option("--key", shell_complete=complete_columns, help="Column or field that becomes the message key.")
@click.option("--loop", is_flag=True, help="Begin again at the end of the file.")
@click.option("--create", type=int, metavar="PARTITIONS", help="Create the topic if it is missing.")
@_BOOTSTRAP
@_CLIENT
def send(
    file: str, topic: str, rate: float | None, key: str | None, loop: bool, create: int | None, **where: Any
) -> None:
    """Play a CSV or JSON-lines file into a topic."""
    from svead_kafka import tools

    client = tools.client(where["bootstrap"], where["client_config"])
    count = tools.send(client, file, topic, rate=rate, key=key, loop=loop, create=create)
    click.echo(f"sent {count} events to {topic}", err=True)


@kafka.command()
@click.option("--topic", required=True, help="Topic of scored events, or of incidents.")
@click.option("--alerts", is_flag=True, help="Of scored events, show alerts only.")
@click.option("--from-beginning", is_flag=True, help="Show what is there already, too.")
@click.option("--count", type=int, help="End after so many events.")
@_BOOTSTRAP
@_CLIENT
def tail(topic: str, alerts: bool, from_beginning: bool, count: int | None, **where: Any) -> None:
    """Show scored events or incidents as they come, alerts in colour."""
    from svead_kafka import tools

    if count is not None and count < 1:
        raise ConfigurationError(f"--count must be at least 1, not {count}")
    client = tools.client(where["bootstrap"], where["client_config"])
    for line in tools.tail(client, topic, alerts=alerts, from_beginning=from_beginning, count=count):
        click.echo(line)


@kafka.command()
@click.option("--topic", required=True, help="The worker's --feedback topic.")
@click.option("--source", required=True, metavar="TOPIC/PARTITION/OFFSET", help="The event, as its scored event says.")
@click.option("--anomaly", is_flag=True, help="It was one, whether there was an alert or not.")
@click.option("--false-alarm", is_flag=True, help="It was none.")
@click.option("--key", help="Key of the message, by which answers stay in order. Default: the source.")
@_BOOTSTRAP
@_CLIENT
def answer(topic: str, source: str, anomaly: bool, false_alarm: bool, key: str | None, **where: Any) -> None:
    """Tell the worker whether an event was an anomaly."""
    from svead_kafka import tools

    if anomaly == false_alarm:
        raise click.UsageError("what was it? Give one of --anomaly and --false-alarm")
    client = tools.client(where["bootstrap"], where["client_config"])
    tools.answer(client, topic, source, anomaly, key)
    click.echo(f"told {topic} that {source} was {'an anomaly' if anomaly else 'a false alarm'}", err=True)


_ANEW_OPTIONS = [
    _CONFIG,
    _BOOTSTRAP,
    _option("--group", help="The workers' group."),
    names_option("--input", envvar=_variable("input"), help="Input topics. [default: all that the group has read]"),
    click.option("--partition", "partitions", type=int, multiple=True, help="Of these topics. [default: all]"),
    _option("--output", help="The workers' output topic, by which the state topic is found."),
    _option("--state", help="The state topic. [default: the output topic, with -state]"),
    _CLIENT,
    click.option("--yes", is_flag=True, help="Do it. Without this, only the plan is shown."),
]


@kafka.command()
@with_options(_ANEW_OPTIONS)
def reset(**given: Any) -> None:
    """Forget the models of a group; its workers go on with new ones."""
    _begin_anew(None, **given)


@kafka.command()
@click.option(
    "--from",
    "begin",
    required=True,
    metavar="WHERE",
    help="earliest, latest, an offset, or a time (ISO 8601, UTC unless it says otherwise).",
)
@with_options(_ANEW_OPTIONS)
def replay(begin: str, **given: Any) -> None:
    """Move the offsets of a group, and let it begin there with new models."""
    _begin_anew(begin, **given)


def _begin_anew(
    begin: str | None,
    group: str,
    input: tuple[str, ...],
    partitions: tuple[int, ...],
    output: str | None,
    state: str | None,
    yes: bool,
    **where: Any,
) -> None:
    from svead_kafka import tools
    from svead_kafka.anew import Anew
    from svead_kafka.client import Clients

    if not output and not state:
        raise ConfigurationError("which models? Name the workers' --output topic, or their --state topic")
    properties = tools.client(where["bootstrap"], where["client_config"])
    topics = input or tuple(tools.topics_of(properties, group))
    if not topics:
        raise ConfigurationError(f"group {group!r} has committed nothing: name the topics by --input")
    options = Options(
        bootstrap=where["bootstrap"],
        group=group,
        input=topics,
        output=output or f"{state}-output",  # nothing is written there
        state=state or "",
        client={name: value for name, value in properties.items() if name != "bootstrap_servers"},
    )
    anew = Anew(Clients(options), partitions, begin)
    plan = anew.plan()
    if not plan:
        click.echo(f"group {group!r} has neither offsets nor models of {', '.join(topics)}: there is nothing to do")
        return
    for step in plan:
        click.echo(step)
    if any(step.goes_back for step in plan):
        click.echo("what is scored again is written again: scored events, incidents and dead letters come twice")
    if not yes:
        click.echo("nothing was done; add --yes to carry this out")
        return
    anew.carry_out(plan)
    click.echo(f"done: workers of group {group!r} will begin there with new models")
