"""A pairing under way: the code is shown, as a link and a QR code where the platform has links, and
waited for."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from segue import config
from segue.core.session import ME
from segue.core.text import one_line
from segue.store import Store
from segue.store.gateways import PlatformHealth
from segue.store.owners import Identity
from segue.store.pairings import SECONDS
from segue.terminal import qr
from segue.terminal.output import Column, notice, print_json, print_lines, screen, table
from segue.terminal.words import ago

_LOOK = 0.5
_COLUMNS = (Column("PLATFORM", 8), Column("USER", 12), Column("NAME", 8), Column("PAIRED", 14))
_NOBODY = "Nobody is paired with you yet. Type `segue pair`."


async def show(store: Store, *, waits: bool, seconds: float = SECONDS) -> bool:
    """Show a new code and, if it `waits`, who used it; False when nobody did in time."""
    before = await _known(store)
    code = await _begin(store, seconds)
    deadline = time.monotonic() + seconds
    click.echo(f"Your code: {code}\n")
    click.echo(f"Send it to your bot, within {seconds / 60:.0f} minutes. It can be used once, and")
    click.echo("whoever sends it is you from then on: show it to nobody.")
    await _show_links(store, code)
    if not waits:
        return True
    notice("\nWaiting until it is sent… Ctrl-C ends the waiting, and the code stays valid.")
    try:
        return await _used(store, before, deadline)
    except asyncio.CancelledError:
        until = datetime.now().astimezone() + timedelta(seconds=deadline - time.monotonic())
        notice(f"The code stays valid until {until:%H:%M}. `segue pair list` shows who used it.")
        raise


async def told_as_json(store: Store) -> None:
    code = await _begin(store, SECONDS)
    links = {
        h.platform.value: h.link.replace("{code}", code) for h in await _served(store) if h.link
    }
    expires = datetime.now(UTC) + timedelta(seconds=SECONDS)
    print_json({"code": code, "expires": expires, "links": links})


async def _begin(store: Store, seconds: float) -> str:
    await store.owners.ensure(ME)
    return await store.pairings.begin(ME, seconds=seconds)


async def _served(store: Store) -> list[PlatformHealth]:
    return [health for g in await store.gateways.alive() for health in g.links.values()]


async def _show_links(store: Store, code: str) -> None:
    served = await _served(store)
    if not served:
        notice("\nNo gateway is running that would hear it. Type `segue gateway start`.")
    for health in served:
        account = f" (its account is {one_line(health.account)})" if health.account else ""
        if not health.link:
            click.echo(f"\n{health.platform}: send the code to the bot{account}.")
            continue
        link = health.link.replace("{code}", code)
        click.echo(f"\n{health.platform}: open {one_line(link)}")
        _draw(link)


def _draw(link: str) -> None:
    """The link for a phone's camera, where it can be seen."""
    columns = screen()
    if columns is None or "utf" not in sys.stdout.encoding.lower():
        return
    variables = config.terminal_variables()
    colours = "NO_COLOR" not in variables and variables.get("TERM", "dumb") != "dumb"
    lines = qr.drawn(link, colours=colours)
    if qr.width(lines) <= columns:
        print_lines(lines)


async def _used(store: Store, before: set[tuple[str, str]], deadline: float) -> bool:
    while time.monotonic() < deadline:
        for identity in await store.owners.identities(ME):
            sender = identity.sender
            if (sender.platform, sender.user_id) not in before:
                name = f"{one_line(sender.name)}, " if sender.name else ""
                click.echo(f"Paired with {name}{sender.platform} user {one_line(sender.user_id)}.")
                click.echo("Send /sethome in the chat where handoffs should arrive.")
                return True
        await asyncio.sleep(_LOOK)
    notice("Nobody sent it in time. Type `segue pair` for another code.")
    return False


async def _known(store: Store) -> set[tuple[str, str]]:
    return {(i.sender.platform, i.sender.user_id) for i in await store.owners.identities(ME)}


# Who is paired


def listed(identities: Sequence[Identity], width: int | None, now: datetime) -> list[str]:
    """A table; without a screen platform, user and name with tabs between them."""
    if not identities:
        return [_NOBODY] if width else []
    if width is None:
        return [
            "\t".join((i.sender.platform, one_line(i.sender.user_id), one_line(i.sender.name)))
            for i in identities
        ]
    rows = [
        (
            identity.sender.platform,
            one_line(identity.sender.user_id),
            one_line(identity.sender.name),
            ago(identity.linked, now),
        )
        for identity in identities
    ]
    return table(_COLUMNS, rows, width)


def as_json(identity: Identity) -> dict[str, Any]:
    return {
        "platform": identity.sender.platform,
        "user_id": identity.sender.user_id,
        "name": identity.sender.name,
        "paired": identity.linked,
    }
