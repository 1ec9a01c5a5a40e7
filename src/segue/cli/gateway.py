"""`segue gateway`: runs, starts, stops and watches the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from segue import config
from segue.cli import gateway_text
from segue.cli.options import JSON
from segue.cli.store_access import warn_of_bad_settings, with_store
from segue.config import Settings
from segue.core.errors import NoPage, UserError
from segue.core.text import one_line
from segue.gateway import background, log_file
from segue.gateway.watchdog import ExitDeadline
from segue.store import Store
from segue.store.gateways import GatewayRecord
from segue.terminal import page_links
from segue.terminal.output import print_result, screen

_NOT_RUNNING = 3
"""The exit code of `status` if no gateway is running, as for other services."""
_INTERRUPTED = 130
_SETTLED = 3.0
"""Seconds that `start` waits, so that it can report which platforms are connected."""

_LAN = click.option(
    "--lan", is_flag=True, help="Serve the web page to the local network, not only to this machine."
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
        from segue.gateway.service import serve  # noqa: PLC0415 - a failure is logged

        settings = _settings(lan=lan)
        if settings.web.lan and page_links.is_built_in(settings):
            logger.warning(page_links.LAN)
        deadline = ExitDeadline()
        asyncio.run(serve(settings, load=partial(_settings, lan=lan), stopping=deadline.start))
        deadline.cancel()
    except UserError as error:
        if log is not None:  # otherwise it is about to be shown in the same place
            logger.error("%s", error)  # noqa: TRY400 - the user can fix it: no traceback
        raise
    except Exception:
        logger.exception("gateway failed")
        raise


def _settings(*, lan: bool) -> Settings:
    """Return the settings. With `lan`, the page is served to the local network, or raise NoPage."""
    settings = config.load()
    if lan and not page_links.is_built_in(settings):
        raise NoPage
    return replace(settings, web=replace(settings.web, lan=True)) if lan else settings


@gateway.command()
@_LAN
@JSON
def start(*, lan: bool, as_json: bool) -> None:
    """Start the gateway in the background. It keeps running when this terminal closes.

    The exit code is 1 if one is already running, or if it did not start.
    """
    log = _settings(lan=lan).gateway_log

    async def begin(store: Store) -> tuple[GatewayRecord, Sequence[str]]:
        started = await background.start(store, log, lan=lan)
        running = await background.settled(store, started, _SETTLED)
        return running, await page_links.addresses(store, [running])

    running, addresses = with_store(begin)
    value = {**gateway_text.as_json(running), "log": str(log)}
    print_result(value, gateway_text.started(running, log, addresses), as_json=as_json)


@gateway.command()
@JSON
def stop(*, as_json: bool) -> None:
    """Stop the gateway on this machine, and wait until it has stopped.

    Running answers get half a minute to finish. The next gateway continues the rest.
    """
    url = config.store_address()
    warn_of_bad_settings()
    stopped = with_store(background.stop, url)
    value = {"stopped": [gateway_text.as_json(gateway) for gateway in stopped]}
    lines = [f"Stopped: {one_line(gateway.name)}." for gateway in stopped]
    print_result(value, lines, as_json=as_json)


@gateway.command()
@JSON
@click.pass_context
def status(ctx: click.Context, *, as_json: bool) -> None:
    """Show the gateway, its platforms and messages that failed.

    The exit code is 0 if a gateway is running and 3 if none is.
    """
    log = config.gateway_log()
    url = config.store_address()
    warn_of_bad_settings()
    seen = with_store(lambda store: gateway_text.load_status(store, log), url)
    print_result(seen.json(), seen.lines(screen(), datetime.now(UTC)), as_json=as_json)
    ctx.exit(0 if seen.gateways else _NOT_RUNNING)


@gateway.command()
@click.option(
    "-n", "number", type=click.IntRange(0), default=50, show_default=True, help="How many lines."
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@JSON
@click.pass_context
def logs(ctx: click.Context, *, number: int, follow: bool, as_json: bool) -> None:
    """Show the last lines of the log of the gateway in the background."""
    log = config.gateway_log()
    warn_of_bad_settings()
    try:
        for line in log_file.lines(log, number, follow=follow):
            print_result({"line": line}, [line], as_json=as_json)
    except KeyboardInterrupt:
        ctx.exit(_INTERRUPTED)
