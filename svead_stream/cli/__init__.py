"""The `svead-stream` command. Nothing heavy is imported here, so that --help and completion answer at once."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from svead_stream.errors import MissingExtra

__all__ = ["cli", "main"]

# name: (module, what --help says, the extra that brings its libraries)
_COMMANDS = {
    "score": ("svead_stream.cli.score", "Score the rows of files or of a pipe.", None),
    "watch": ("svead_stream.cli.watch", "Follow a growing file and print alerts as they come.", None),
    "inspect": ("svead_stream.cli.inspect", "Show what a saved model is and has seen.", None),
    "demo": ("svead_stream.cli.demo", "Watch it find faults in a made-up machine, live.", None),
    "kafka": ("svead_kafka.cli", "Score Kafka topics: events in, scored events out.", "kafka"),
    "spark": ("svead_spark.cli", "Score data sets on a Spark cluster.", "spark"),
}


class ReaderIsGoneError(Exception):
    """`| head` has seen enough. Not an OSError: those click takes for failures by itself."""


class LazyGroup(click.Group):
    """A group that imports a command only when it is asked for, not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, extra = _COMMANDS[cmd_name]
        try:
            command = getattr(importlib.import_module(module), cmd_name)
        except ModuleNotFoundError as error:
            if extra is None:
                raise
            raise MissingExtra(
                f"'{cmd_name}' needs {error.name}, which is not installed: pip install 'svead-stream[{extra}]'"
            ) from error
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderIsGoneError from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text, _) in _COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        item = click.shell_completion.CompletionItem
        return [item(name, help=c[1]) for name, c in _COMMANDS.items() if name.startswith(incomplete)]


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
        message = f"{error.format_message().rstrip('.')} (try '{command} --help')"
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
