"""Options that several commands share: the detector, the alerts, the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from svead_stream.alerts import ConformalFilter

F = TypeVar("F", bound=Callable[..., Any])

_DETECTOR = ("n_partitions", "n_anchors", "normal_after", "memory", "scaling", "max_features", "seed")
_ALERTS = ("alert_rate", "alert_window", "protect")


class Events(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A number of events, or `none` for a model that never forgets."""

    name = "events"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value is None or str(value).lower() == "none":
            return None
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number of events nor 'none'", param, ctx)


def detector_options(command: F) -> F:
    """Add the parameters of StreamingSVEAD and ConformalFilter."""
    for option in reversed(
        [
            click.option(
                "--alert-rate", type=float, default=0.01, show_default=True, help="Share of rows to alert on."
            ),
            click.option("--alert-window", type=int, help="Recent scores to rank among [default: by the alert rate]."),
            click.option("--protect", is_flag=True, help="Keep alerts from being learned."),
            click.option("--partitions", "n_partitions", type=int, default=24, show_default=True, help="Partitions."),
            click.option("--anchors", "n_anchors", type=int, default=16, show_default=True, help="Anchors of each."),
            click.option(
                "--normal-after",
                type=int,
                default=256,
                show_default=True,
                help="Rows that something new lasts before it is normal.",
            ),
            click.option(
                "--memory",
                type=Events(),
                default=20_000,
                show_default=True,
                help="Rows after which half of what was normal is forgotten, or none.",
            ),
            click.option("--scaling", default="mixed", show_default=True, help="How features are made comparable."),
            click.option("--max-features", type=int, default=4096, show_default=True, help="Most features."),
            click.option("--seed", type=int, default=0, show_default=True, help="Makes scores reproducible."),
        ]
    ):
        command = option(command)
    return command


def input_options(command: F) -> F:
    """Add what says how to read the input and which of its columns to use."""
    for option in reversed(
        [
            click.option(
                "-c", "--columns", multiple=True, metavar="NAMES", help="Columns to use [default: all numbers]."
            ),
            click.option("-x", "--ignore", multiple=True, metavar="NAMES", help="Columns to leave out."),
            click.option("--one-hot", multiple=True, metavar="NAMES", help="Columns of categories to encode."),
            click.option("--label", metavar="NAME", help="Column of the truth (0/1): never learned, used to measure."),
            click.option(
                "--format", "input_format", type=click.Choice(["csv", "jsonl", "parquet"]), help="Of the input."
            ),
            click.option("--delimiter", metavar="CHAR", help="Of a CSV [default: found out]."),
            click.option("--no-header", is_flag=True, help="The first line of a CSV is data."),
            click.option(
                "--load", "load_path", type=click.Path(exists=True, dir_okay=False), help="Model to go on with."
            ),
            click.option(
                "--save", "save_path", type=click.Path(dir_okay=False, writable=True), help="Where to save it."
            ),
            click.option(
                "--top", type=click.IntRange(0), default=3, show_default=True, help="Features named by alert."
            ),
            click.option(
                "--rejects", "rejects_path", type=click.Path(dir_okay=False), help="Where bad rows go (JSON)."
            ),
            click.option("--strict", is_flag=True, help="Stop at the first bad row."),
        ]
    ):
        command = option(command)
    return command


def split(names: tuple[str, ...]) -> tuple[str, ...]:
    """Column names given one by one or with commas."""
    return tuple(part.strip() for name in names for part in name.split(",") if part.strip())


def make_model(ctx: click.Context, load_path: str | None) -> ConformalFilter:
    """A new model from the options, or the loaded one; its own parameters cannot be changed any more."""
    from svead_stream import StreamingSVEAD, load
    from svead_stream.alerts import ConformalFilter

    given = ctx.params
    try:
        if load_path is None:
            detector = StreamingSVEAD(**{name: given[name] for name in _DETECTOR})
            return ConformalFilter(detector, given["alert_rate"], given["alert_window"], given["protect"])
        model = load(load_path)
        on_command_line = {
            name
            for name in (*_DETECTOR, *_ALERTS)
            if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        }
        fixed = sorted(on_command_line.intersection(_DETECTOR))
        if fixed:
            raise click.UsageError(f"{fixed[0]} comes with the model {load_path}: leave the option out, or --load")
        if isinstance(model, StreamingSVEAD):
            return ConformalFilter(model, given["alert_rate"], given["alert_window"], given["protect"])
        if not isinstance(model, ConformalFilter):
            raise click.UsageError(f"{load_path} holds a {type(model).__name__}, which does not score streams")
        if on_command_line:
            changed = {name: given[name] for name in on_command_line}
            if "alert_window" in changed:
                changed["window"] = changed.pop("alert_window")
            ConformalFilter(model.detector, **{"alert_rate": model.alert_rate, "window": model.window} | changed)
            for name, value in changed.items():
                setattr(model, name, value)
        return model
    except ValueError as error:
        raise click.UsageError(str(error)) from error
