"""The `svead-stream` command. Nothing heavy is imported here, so that --help and completion answer at once."""

from __future__ import annotations

import ast
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from svead_stream.cli.options import old_spelling
from svead_stream.cli.words import did_you_mean
from svead_stream.errors import MissingExtra

__all__ = ["cli", "main"]

# Each is a function of that name in a module of that name; here is what --help says of it.
_COMMANDS = {
    "score": "Score the rows of files or of a pipe.",
    "watch": "Follow a growing file and tell of incidents as they come.",
    "inspect": "Show what a saved model is and has seen.",
    "demo": "Watch it find faults in a made-up machine, live.",
}


class ReaderIsGoneError(Exception):
    """`| head` has seen enough. Not an OSError: those click takes for failures by itself."""


def _connectors() -> dict[str, EntryPoint]:
    """The commands that connectors bring, by name."""
    return {point.name: point for point in sorted(entry_points(group="svead_stream.commands"))}


def _summary(point: EntryPoint) -> str:
    """The first line of the docstring of a command's module, read and not imported: that could take long."""
    package, _, module = point.module.partition(".")
    found = find_spec(package)
    for folder in (found.submodule_search_locations if found else None) or ():
        source = Path(folder, *module.split(".")).with_suffix(".py")
        if source.is_file():
            return (ast.get_docstring(ast.parse(source.read_bytes())) or "").partition("\n")[0]
    return ""


def _missing(command: str | None, error: ModuleNotFoundError) -> MissingExtra:
    """Which extra brings what a command lacks."""
    point = _connectors().get(command or "")
    extra = ",".join(point.extras) if point is not None else "files"
    package = point.dist.name if point is not None and point.dist is not None else "svead-stream"
    return MissingExtra(f"'{command}' needs {error.name}, which is not installed: pip install '{package}[{extra}]'")


class LazyGroup(click.Group):
    """A group that imports a command only when it is asked for, not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *_connectors()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            command = getattr(importlib.import_module(f"svead_stream.cli.{cmd_name}"), cmd_name)
            assert isinstance(command, click.Command)
            return command
        point = _connectors().get(cmd_name)
        if point is None:
            return super().get_command(ctx, cmd_name)
        try:
            loaded = point.load()
        except ModuleNotFoundError as error:
            raise _missing(cmd_name, error) from error
        assert isinstance(loaded, click.Command)
        return loaded

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderIsGoneError from error
        except ModuleNotFoundError as error:  # a command loads what is heavy when it begins to work
            raise _missing(ctx.invoked_subcommand, error) from error

    def _summaries(self) -> dict[str, str]:
        return _COMMANDS | {name: _summary(point) for name, point in _connectors().items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        item = click.shell_completion.CompletionItem
        return [item(name, help=text) for name, text in self._summaries().items() if name.startswith(incomplete)]


_EPILOG = """\b
Exit codes: 0 fine, 1 a problem with the data, 2 wrong usage, 130 interrupted.
Completion: eval "$(_SVEAD_STREAM_COMPLETE=bash_source svead-stream)", or zsh_source, fish_source."""


@click.group(cls=LazyGroup, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="svead-stream", prog_name="svead-stream")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; works after a command too.")
def cli(debug: bool) -> None:
    """Find anomalies in streams of events, one event at a time, in constant memory."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = list(sys.argv[1:] if args is None else args)
    options = given[: given.index("--")] if "--" in given else given
    debug = "--debug" in options
    if debug:
        given.remove("--debug")
    sys.exit(_run(given, debug))


def _run(args: list[str], debug: bool) -> int:
    try:
        code = cli.main(args, prog_name="svead-stream", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except ReaderIsGoneError:
        return _silence()
    except (KeyboardInterrupt, click.Abort):
        click.echo("svead-stream: interrupted", err=True)
        return 128 + signal.SIGINT
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _silence()
    return code if isinstance(code, int) else 0


def _silence() -> int:
    """Nothing is wrong, and nothing more can be written, not even what Python still holds at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _explain(error: Exception) -> int:
    """Put an error into one line on stderr; return the exit code."""
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx is not None else "svead-stream"
        message = f"{_wrong(error).rstrip('.')} (try '{command} --help')"
    elif isinstance(error, click.ClickException):
        message = error.format_message()
    elif isinstance(error, OSError):
        message = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    elif type(error).__module__.startswith(("svead_", "kafka")):
        message = str(error)
    else:
        message = f"unexpected {type(error).__name__}: {error} (--debug shows where)"
    message = " ".join(message.split())
    if len(message) > 400:
        message = message[:400] + " ..."
    click.echo(f"svead-stream: {message}", err=True)
    return error.exit_code if isinstance(error, click.ClickException) else 1


def _wrong(error: click.UsageError) -> str:
    """What was wrong, and what may have been meant; of an option of an earlier release, what became of it."""
    if error.ctx is None:
        return error.format_message()
    command = error.ctx.command
    if isinstance(error, click.NoSuchOption):
        known = [spelled for one in command.get_params(error.ctx) for spelled in (*one.opts, *one.secondary_opts)]
        unknown = error.message.rstrip(".") + did_you_mean(error.option_name, known)
        return old_spelling(error.option_name, command) or unknown
    wanted = getattr(error, "command_name", None)  # there is no error of its own for a command before click 8.4
    if wanted is not None and isinstance(command, click.Group):
        return error.message.rstrip(".") + did_you_mean(wanted, command.list_commands(error.ctx))
    return error.format_message()
