"""Asks the user whether to use a model server that was found on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from segue import config
from segue.agent.models import routes
from segue.agent.models.catalog import SERVERS, ModelServer
from segue.config import Settings


def confirm(
    name: str,
    settings: Settings,
    environ: Mapping[str, str] | None = None,
    *,
    servers: Sequence[ModelServer] = SERVERS,
) -> bool:
    """Ask whether the server of the model `name` may receive conversations.

    If another account runs the server, the question names it, and a yes is kept in the settings.
    """
    server = routes.find(name, settings, servers).service
    if not isinstance(server, ModelServer):
        return True
    accounts = routes.strangers(server, settings)
    runs = f" runs as {' and '.join(accounts)}, not as you. It" if accounts else ""
    hears = "will receive your conversations and can ask to use tools"
    if not click.confirm(f"The server at {server.place}{runs} {hears}. Use it?"):
        return False
    if accounts:
        config.change("server_accounts", [*settings.server_accounts, *accounts], environ)
    return True
