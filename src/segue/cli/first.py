"""The first start: offers a model server found on this machine, or else the embedded model."""

from __future__ import annotations

import asyncio
import sys

import click

from segue import config
from segue.agent.models.choice import Considered, answering, embedded
from segue.chat.output import say
from segue.cli import servers
from segue.config import Settings
from segue.core.text import one_line


def make_ready(settings: Settings) -> Settings:
    """Return the settings to chat with, after offering a model if there is none.

    A user who declines can still chat. The turn then says what is missing.
    """
    if settings.model or settings.keys or embedded(settings).name:
        return settings  # no need to contact a server
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return settings
    for found in asyncio.run(answering(settings)):
        if _accepted(found, settings):
            return config.load()
    _offer_embedded(settings)
    return settings


def _accepted(found: Considered, settings: Settings) -> bool:
    name = found.offer or ""
    say(f"No model is chosen yet. {found.title} on this machine has {one_line(name)}.")
    if not servers.confirm(name, settings):
        return False
    config.set_model(name)
    return True


def _offer_embedded(settings: Settings) -> None:
    say("There is no model to talk to yet: no key is set, and no server is chosen.")
    say("A small one can run on this machine. It is slow and simple, but needs no key.\n")
    from segue.cli.pull import pull  # noqa: PLC0415 - once in a lifetime

    try:
        pull(settings.models_folder, ask=True)
    except click.Abort:
        say("Type `segue model` to see what else is possible.\n")
