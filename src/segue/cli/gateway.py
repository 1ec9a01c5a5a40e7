"""`segue gateway`: runs, starts, stops and watches the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.chat.output import print_json, print_lines, say, screen
from segue.cli.store_access import with_store
from segue.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.config import Settings
    from segue.store import Store
    from segue.store.gateways import Gateway

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
    help="Serve the web page for the local network, not for this machine only.",
)


@click.group()
def gateway() -> None:
    """Run the gateway, which brings conversations to your chats and answers there."""


@gateway.command()
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Tell what happens in this file, rather than on standard error.",
)
@_LAN
def run(*, log: Path | None, lan: bool) -> None:
    """Run it here, until it is told to end (Ctrl-C)."""
    import asyncio  # noqa: PLC0415 - `segue --help` does without
    import logging  # noqa: PLC0415

    from segue import config  # noqa: PLC0415
    from segue.chat import page_links  # noqa: PLC0415
    from segue.core.errors import UserError  # noqa: PLC0415
    from segue.gateway import log_file  # noqa: PLC0415

    log_file.write_to(log)
    logger = logging.getLogger(__name__)
    try:
        from segue.gateway.service import serve  # noqa: PLC0415

        settings = _with_lan(config.load()) if lan else config.load()
        if settings.web.lan and page_links.is_built_in(settings):
            logger.warning(page_links.LAN)
        asyncio.run(serve(settings))
    except UserError as error:
        if log is not None:  # otherwise it is about to be shown in the same place
            logger.error("%s", error)  # noqa: TRY400 - a person can mend it: the sentence is all
        raise
    except Exception:
        logger.exception("The gateway has ended because something is wrong with it.")
        raise


def _with_lan(settings: Settings) -> Settings:
    """Return the settings with the page served to the local network, or raise NoPage."""
    from dataclasses import replace  # noqa: PLC0415

    from segue.chat import page_links  # noqa: PLC0415
    from segue.core.errors import NoPage  # noqa: PLC0415

    if not page_links.is_built_in(settings):
        raise NoPage
    return replace(settings, web=replace(settings.web, lan=True))


@gateway.command()
@_LAN
@_JSON
def start(*, lan: bool, as_json: bool) -> None:
    """Start it in the background; it outlives this terminal.

    The exit code is 1 when one runs already, or when it did not start.
    """
    from segue import config  # noqa: PLC0415
    from segue.chat import page_links  # noqa: PLC0415
    from segue.cli.gateway_text import as_json as told  # noqa: PLC0415
    from segue.cli.gateway_text import started  # noqa: PLC0415
    from segue.gateway import background  # noqa: PLC0415

    settings = _with_lan(config.load()) if lan else config.load()
    log = settings.gateway_log

    async def begin(store: Store) -> tuple[Gateway, Sequence[str]]:
        started = await background.start(store, log, lan=lan)
        running = await background.settled(store, started, _SETTLED)
        return running, await page_links.addresses(store, [running])

    running, addresses = with_store(begin)
    if as_json:
        print_json({**told(running), "log": str(log)})
    else:
        print_lines(started(running, log, addresses))


@gateway.command()
@_JSON
def stop(*, as_json: bool) -> None:
    """Stop the one of this machine, and wait until it is gone.

    Turns that run get half a minute; what is not done by then goes on with the next gateway.
    """
    from segue.cli.gateway_text import as_json as told  # noqa: PLC0415
    from segue.gateway import background  # noqa: PLC0415

    stopped = with_store(background.stop)
    if as_json:
        print_json({"stopped": [told(gateway) for gateway in stopped]})
        return
    for gateway in stopped:
        say(f"Stopped: {one_line(gateway.name)}.")


@gateway.command()
@_JSON
@click.pass_context
def status(ctx: click.Context, *, as_json: bool) -> None:
    """Show what runs, how its platforms are, and what could not be delivered.

    The exit code is 0 when a gateway is running and 3 when none is.
    """
    from datetime import UTC, datetime  # noqa: PLC0415

    from segue import config  # noqa: PLC0415
    from segue.cli.gateway_text import Portrait, look  # noqa: PLC0415

    log = config.load().gateway_log

    async def seen(store: Store) -> Portrait:
        return await look(store, log)

    portrait = with_store(seen)
    if as_json:
        print_json(portrait.json())
    else:
        print_lines(portrait.lines(screen(), datetime.now(UTC)))
    ctx.exit(0 if portrait.gateways else _NOT_RUNNING)


@gateway.command()
@click.option(
    "-n", "number", type=click.IntRange(min=0), default=_LINES, show_default=True, help="How many."
)
@click.option("-f", "--follow", is_flag=True, help="Show each line as it comes; Ctrl-C ends it.")
@_JSON
@click.pass_context
def logs(ctx: click.Context, *, number: int, follow: bool, as_json: bool) -> None:
    """Show the last lines of what the gateway in the background has told."""
    from segue import config  # noqa: PLC0415
    from segue.gateway import log_file  # noqa: PLC0415

    try:
        for line in log_file.lines(config.load().gateway_log, number, follow=follow):
            if as_json:
                print_json({"line": line})
            else:
                say(line)
    except KeyboardInterrupt:
        ctx.exit(_INTERRUPTED)
