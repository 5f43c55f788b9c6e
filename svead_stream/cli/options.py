"""Options that several commands share: the detector, the alerts, the input."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from svead_stream.cli.completion import complete_columns
from svead_stream.cli.words import did_you_mean
from svead_stream.parameters import ALERTS, DETECTOR, SEED, TOP_FEATURES, Parameter
from svead_stream.spans import span

if TYPE_CHECKING:
    from svead_stream.judging import ConformalFilter

Decorator = Callable[[Any], Any]

_DETECTOR = tuple(parameter.name for parameter in DETECTOR)
_FILTER = tuple(parameter.name for parameter in ALERTS if parameter is not TOP_FEATURES)

# What options were called once, and which does their work now.
RENAMED = {
    "--partitions": "--n-partitions",
    "--anchors": "--n-anchors",
    "--top": "--top-features",
    "--columns": "--features",
    "-c": "-f",
    "--event": "--include-event",
}
GONE = {
    "--window": "--normal-after",
    "--refresh": "--normal-after",
    "--half-life": "--memory",
    "--start-anew": "--normal-after",
}


class Events(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer releases
    """A number of events, a duration, or `none` where there may be none."""

    name = "events or time"

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value is None or (str(value).lower() == "none" and self.parameter.optional):
            return None
        try:
            in_time = span(value).in_time
        except ValueError:
            none = " nor 'none'" if self.parameter.optional else ""
            self.fail(f"{value!r} is neither a number of events nor a duration such as 2d{none}", param, ctx)
        return str(value) if in_time else self.parameter.kind(value)


class Choice(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """One of some words; of another, the message says which it is like."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(error.message.rstrip(".") + did_you_mean(str(value), self.choices), param, ctx)


class Names(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Names separated by commas; one that holds a comma stands between double quotes, as in a CSV."""

    name = "names"
    envvar_list_splitter = ","

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        names = next(csv.reader([str(value)], skipinitialspace=True), [])
        return tuple(name.strip() for name in names if name.strip())


def old_spelling(option: str, command: click.Command) -> str | None:
    """What became of an option that the command had once; None if it is news."""
    spelled = {name for one in command.params for name in one.opts}
    if RENAMED.get(option) in spelled:
        return f"{option} is now {RENAMED[option]}"
    if GONE.get(option) in spelled:
        return f"{option} is gone: see {GONE[option]}"
    return None


def option(parameter: Parameter, **settings: Any) -> Decorator:
    """The option of a parameter, with its name, default, help and check; settings go to click, and win."""

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if parameter.in_events and isinstance(value, str):  # how many events that is the clock will tell
            return value
        try:
            parameter.check(value)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from error
        return value

    spelled = "--" + parameter.name.replace("_", "-")
    usual: dict[str, Any] = {"default": parameter.default, "help": parameter.help, "callback": check}
    if parameter.kind is bool:
        spelled += "/" + spelled.replace("--", "--no-")
    else:
        usual["show_default"] = True
        usual["type"] = Choice(parameter.choices) if parameter.choices else parameter.kind
    if parameter.in_events:
        usual["type"] = Events(parameter)
    if parameter.parse is not None:
        usual["metavar"] = "EVENTS|TIME" if parameter.parse is span else "SHARE|N/TIME"
    return click.option(spelled, **usual | settings)


def names_option(*spelled: str, **settings: Any) -> Decorator:
    """An option for names, given with commas, one by one, or both."""

    def flat(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
        return tuple(name for names in value for name in names)

    return click.option(*spelled, type=Names(), multiple=True, metavar="NAMES", callback=flat, **settings)


columns_option = partial(names_option, shell_complete=complete_columns)


def with_options(options: Iterable[Decorator]) -> Decorator:
    """Add options to a command; --help lists them in this order."""

    def add(command: Any) -> Any:
        for one in reversed(list(options)):
            command = one(command)
        return command

    return add


detector_options = with_options(
    [
        *(option(parameter) for parameter in (*ALERTS, *DETECTOR) if parameter is not SEED),
        option(SEED, default=0),  # so that the same file has the same scores each time
    ]
)

FORMATS = ["csv", "jsonl", "parquet", "arrow"]


def _encoding(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The name of an encoding as Python spells it."""
    if value is None:
        return None
    try:
        "".encode(value)  # there are codecs for other things than text
        return codecs.lookup(value).name
    except LookupError as error:
        raise click.BadParameter(f"{value!r} is no encoding; utf-8, utf-16, cp1252 and shift_jis are some") from error


input_options = with_options(
    [
        columns_option("-f", "--features", help="Columns to use [default: all numbers]."),
        columns_option("-x", "--ignore", help="Columns to leave out."),
        columns_option("--one-hot", help="Columns of categories to encode."),
        click.option(
            "--time",
            metavar="NAME",
            shell_complete=complete_columns,
            help="Column of the clock [default: found out]: never learned.",
        ),
        click.option(
            "--label",
            metavar="NAME",
            shell_complete=complete_columns,
            help="Column of the truth (0/1): never learned, used to measure.",
        ),
        click.option("--format", "input_format", type=Choice(FORMATS), help="Of the input [default: found out]."),
        click.option("--encoding", metavar="NAME", callback=_encoding, help="Of its text [default: found out]."),
        click.option("--delimiter", metavar="CHAR", help="Of a CSV, or tab or space [default: found out]."),
        click.option("--decimal", type=Choice([".", ","]), help="Sign in its numbers [default: found out]."),
        click.option("--comment", metavar="CHAR", help="Lines of a CSV that begin so are passed over [default: #]."),
        click.option(
            "--header/--no-header", default=None, help="Whether a CSV begins with names [default: unless with numbers]."
        ),
        click.option("--load", "load_path", type=click.Path(exists=True, dir_okay=False), help="Model to go on with."),
        click.option("--save", "save_path", type=click.Path(dir_okay=False, writable=True), help="Where to save it."),
        click.option("--rejects", "rejects_path", type=click.Path(dir_okay=False), help="Where bad rows go (JSON)."),
        click.option("--strict", is_flag=True, help="Stop at the first bad row."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors and warnings."),
    ]
)


notify_options = with_options(
    [
        click.option(
            "--on-incident", metavar="CMD", help="Command to run when an incident opens or is over (JSON in)."
        ),
        click.option("--webhook", metavar="URL", help="Where to POST it as JSON."),
    ]
)


def durations(options: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of the detector that are given in time: how many events that is, the clock will tell."""
    named = {parameter.name: options.get(parameter.name) for parameter in DETECTOR if parameter.in_events}
    return {name: value for name, value in named.items() if isinstance(value, str)}


def make_model(ctx: click.Context, load_path: str | None) -> ConformalFilter:
    """A new model from the options, or the loaded one; its own parameters cannot be changed any more.

    What is given in time has its default until the clock is known.
    """
    from svead_stream import StreamingSVEAD, load
    from svead_stream.judging import ConformalFilter

    given = ctx.params
    try:
        if load_path is None:
            in_time = durations(given)
            detector = StreamingSVEAD(**{name: given[name] for name in _DETECTOR if name not in in_time})
            return ConformalFilter(detector, **_of_filter(given, _FILTER))
        model = load(load_path)
        on_command_line = {
            name
            for name in (*_DETECTOR, *_FILTER)
            if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        }
        fixed = sorted(on_command_line.intersection(_DETECTOR))
        if fixed:
            raise click.UsageError(f"{fixed[0]} comes with the model {load_path}: leave the option out, or --load")
        if isinstance(model, StreamingSVEAD):
            return ConformalFilter(model, **_of_filter(given, _FILTER))
        if not isinstance(model, ConformalFilter):
            raise click.UsageError(f"{load_path} holds a {type(model).__name__}, which does not score streams")
        now = _of_filter(given, on_command_line)
        model.protect = now.pop("protect", model.protect)
        if now:
            model.change(**now)
        return model
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _of_filter(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Options by the names that the filter has for them."""
    return {"window" if name == "alert_window" else name: given[name] for name in names}
