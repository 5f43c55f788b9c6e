"""The command line that is running, as somebody would type it again; for reports that explain themselves later."""

from __future__ import annotations

import shlex

import click
from click.core import ParameterSource

_SECRETS = ("webhook", "on_incident", "token", "password")  # parts of names of options that may hold some


def command_line() -> str:
    """The command with the options that were given; empty outside of a command. What may be secret is left out."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return ""
    given: list[object] = []
    options: list[str] = []
    for param in ctx.command.params:
        value = ctx.params.get(param.name or "")
        if ctx.get_parameter_source(param.name or "") is not ParameterSource.COMMANDLINE:
            continue
        if isinstance(param, click.Argument):
            given += value if isinstance(value, tuple) else [value]
        else:
            options += _spelled(param, value)
    return shlex.join(["svead-stream", ctx.command.name or "", *map(str, given), *options])


def _spelled(param: click.Parameter, value: object) -> list[str]:
    name = max(param.opts, key=len)
    if any(part in (param.name or "") for part in _SECRETS):
        return [name, "..."]
    if isinstance(param, click.Option) and param.is_flag:
        return [name if value or not param.secondary_opts else param.secondary_opts[0]]
    return [name, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
