"""`--serve`: the options of the live page, which commands share; nothing heavy is imported here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from svead_stream.report.server import PageServer

_DEFAULT = "8765"
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+(?:%\w+)?\]|[\w.-]+):)?(?P<port>\d{1,5})")
_SHORTEST_TOKEN = 16


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


def address(text: str) -> Address:
    """From `PORT` or `HOST:PORT`; without a host, only this machine can reach it.

    Raises
    ------
    ValueError
        If it is neither.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"serve={text!r}: it must be PORT or HOST:PORT, such as {_DEFAULT} or 0.0.0.0:{_DEFAULT}")
    return Address((found["host"] or "127.0.0.1").strip("[]"), int(found["port"]))


def check_serve(where: str | None, token: str | None) -> None:
    """Refuse what is no address, and a token that could be guessed, without telling it.

    Raises
    ------
    ValueError
        If one is no good.
    """
    if where is not None:
        address(where)
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise ValueError(f"the token of --serve has {len(token)} characters: give {_SHORTEST_TOKEN} or more, or none")


def live_page(data: Callable[[], dict[str, Any]], where: str, token: str | None) -> PageServer:
    """A page that shows a run while it goes on.

    Parameters
    ----------
    data
        Gives what the report shows, as far as the run has come.
    where, token
        As --serve and --serve-token have them.

    Raises
    ------
    ValueError
        If they are no good, or nobody can listen there.
    """
    from svead_stream.report.server import PageServer

    check_serve(where, token)
    host, port = address(where)
    try:
        return PageServer(data, host, port, token)
    except OSError as error:
        raise ValueError(f"--serve {where}: cannot listen there ({error.strerror}), give another port") from error


class AddressType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer ones
    """An address as it was given, once it is known to be one."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            address(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


# What --serve is to `click.option`, beside its name.
SERVE: dict[str, Any] = {
    "type": AddressType(),
    "is_flag": False,
    "flag_value": _DEFAULT,
    "metavar": "[[HOST:]PORT]",
    "help": f"Show the report live in a browser [port: {_DEFAULT}]; hosts but this one need a token.",
}
TOKEN: dict[str, Any] = {
    "metavar": "TOKEN",
    "help": "What visitors must know; better set in the environment [default: made, where others can reach the page].",
}


class Serving(click.Command):
    """A command with --serve, the value of which can be left out before an argument, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for i in [i for i, word in enumerate(args[:-1]) if word == "--serve"]:
            if not _ADDRESS.fullmatch(args[i + 1]):
                args[i] = f"--serve={_DEFAULT}"
        return super().parse_args(ctx, args)
