"""How the commands fail: one line for the user, and an exit code that a script can act on."""

from __future__ import annotations

import click


class DataError(click.ClickException):
    """The input cannot be used: exit code 1. Wrong options are click's own UsageError, exit code 2."""

    exit_code = 1
