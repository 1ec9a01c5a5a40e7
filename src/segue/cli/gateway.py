"""`segue gateway`: runs, starts, stops and watches the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from segue import config
from segue.chat import page_links
from segue.chat.output import print_json, print_lines, say, screen
from segue.cli import gateway_text
from segue.cli.store_access import with_store
from segue.config import Settings
from segue.core.errors import NoPage, UserError
from segue.core.text import one_line
from segue.gateway import background, log_file
from segue.store import Store
from segue.store.gateways import GatewayRecord

_NOT_RUNNING = 3
"""The exit code of `status` if no gateway is running, as for other services."""
_INTERRUPTED = 130
_LINES = 50
_SETTLED = 3.0
"""Seconds that `start` waits, so that it can report which platforms are connected."""

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_LAN = click.option(
    "--lan",
    is_flag=True,
    help="Serve the web page to the local network, not only to this machine.",
)


@click.group()
def gateway() -> None:
    """Run the gateway, which connects Segue to your chats.

    It answers your messages there and moves sessions there.
    """


@gateway.command()
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write logs to FILE instead of standard error.",
)
@_LAN
def run(*, log: Path | None, lan: bool) -> None:
    """Run the gateway here until Ctrl-C."""
    log_file.write_to(log)
    logger = logging.getLogger(__name__)
    try:
        from segue.gateway.service import serve  # noqa: PLC0415 - a failure is logged, too

        settings = _with_lan(config.load()) if lan else config.load()
        if settings.web.lan and page_links.is_built_in(settings):
            logger.warning(page_links.LAN)
        asyncio.run(serve(settings))
    except UserError as error:
        if log is not None:  # otherwise it is about to be shown in the same place
            logger.error("%s", error)  # noqa: TRY400 - the user can fix it: no traceback
        raise
    except Exception:
        logger.exception("gateway failed")
        raise


def _with_lan(settings: Settings) -> Settings:
    """Return the settings with the page served to the local network, or raise NoPage."""
    if not page_links.is_built_in(settings):
        raise NoPage
    return replace(settings, web=replace(settings.web, lan=True))


@gateway.command()
@_LAN
@_JSON
def start(*, lan: bool, as_json: bool) -> None:
    """Start the gateway in the background. It keeps running when this terminal closes.

    The exit code is 1 if one is already running, or if it did not start.
    """
    settings = _with_lan(config.load()) if lan else config.load()
    log = settings.gateway_log

    async def begin(store: Store) -> tuple[GatewayRecord, Sequence[str]]:
        started = await background.start(store, log, lan=lan)
        running = await background.settled(store, started, _SETTLED)
        return running, await page_links.addresses(store, [running])

    running, addresses = with_store(begin)
    if as_json:
        print_json({**gateway_text.as_json(running), "log": str(log)})
    else:
        print_lines(gateway_text.started(running, log, addresses))


@gateway.command()
@_JSON
def stop(*, as_json: bool) -> None:
    """Stop the gateway on this machine, and wait until it has stopped.

    Running answers get half a minute to finish. The next gateway continues the rest.
    """
    stopped = with_store(background.stop)
    if as_json:
        print_json({"stopped": [gateway_text.as_json(gateway) for gateway in stopped]})
        return
    for gateway in stopped:
        say(f"Stopped: {one_line(gateway.name)}.")


@gateway.command()
@_JSON
@click.pass_context
def status(ctx: click.Context, *, as_json: bool) -> None:
    """Show the gateway, its platforms and messages that failed.

    The exit code is 0 if a gateway is running and 3 if none is.
    """
    log = config.load().gateway_log

    seen = with_store(lambda store: gateway_text.load_status(store, log))
    if as_json:
        print_json(seen.json())
    else:
        print_lines(seen.lines(screen(), datetime.now(UTC)))
    ctx.exit(0 if seen.gateways else _NOT_RUNNING)


@gateway.command()
@click.option(
    "-n",
    "number",
    type=click.IntRange(min=0),
    default=_LINES,
    show_default=True,
    help="How many lines.",
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@_JSON
@click.pass_context
def logs(ctx: click.Context, *, number: int, follow: bool, as_json: bool) -> None:
    """Show the last lines of the log of the gateway in the background."""
    try:
        for line in log_file.lines(config.load().gateway_log, number, follow=follow):
            if as_json:
                print_json({"line": line})
            else:
                say(line)
    except KeyboardInterrupt:
        ctx.exit(_INTERRUPTED)
