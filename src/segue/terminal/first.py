"""The first start: a person who has no model yet is offered the embedded one."""

from __future__ import annotations

import asyncio
import sys

import click

from segue.agent.models.choice import choose, embedded
from segue.config import Settings
from segue.core.errors import NoModel


def make_ready(settings: Settings) -> None:
    """Offer to get the embedded model if there is nothing to talk to. Whoever declines can still
    talk, and is told by the turn what is missing."""
    if settings.model or settings.keys or embedded(settings).name:
        return  # known without asking any server
    try:
        asyncio.run(choose(settings))
    except NoModel:
        if sys.stdin.isatty() and sys.stdout.isatty():
            _offer(settings)


def _offer(settings: Settings) -> None:
    click.echo("There is no model to talk to yet: no key is set, and no server answers here.")
    click.echo("A small one can run on this machine. It is slow and simple, but needs no key.\n")
    from segue.terminal.pull import pull  # noqa: PLC0415 - once in a lifetime

    try:
        pull(settings.models_folder, ask=True)
    except click.Abort:
        click.echo("Type `segue model` to see what else is possible.\n")
