"""`segue pair`: links platform users and browsers to the owner.

It shows a link for the page and a code for the bots, and waits until one is used. Where a platform
supports links, the code is also shown as a link and a QR code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from segue.cli.common import INTERRUPTED, JSON, YES, ago, confirm, pass_json_on, with_store
from segue.core.address import TARGETS, Platform
from segue.core.errors import UserError
from segue.core.session import ME
from segue.core.text import one_line
from segue.gateway import texts
from segue.store import Store, gateways, owners, pairings
from segue.store.gateways import LinkState, PlatformHealth
from segue.store.outbox import OutgoingState
from segue.store.owners import Identity
from segue.store.pairings import CODE_SECONDS
from segue.terminal import output, web_page
from segue.terminal.output import (
    Column,
    draw,
    is_interactive,
    notice,
    picked,
    print_json,
    say,
    screen,
)
from segue.web import endpoints

_POLL_SECONDS = 0.5
_REPLY_SECONDS = 10.0
"""How long to wait for the bot's reply to the code."""
_COLUMNS = (Column("PLATFORM", 8), Column("USER", 12), Column("NAME", 8), Column("PAIRED", 14))
_NOT_PAIRED = "No account is paired with you yet. Type `segue pair`."
_NO_GATEWAY = (
    "\nNo gateway is running, so the bot cannot receive it. Type `segue gateway start`. Then"
    "\n`segue pair` also shows a link to the web page."
)


@click.group(invoke_without_command=True)
@click.option("--lan", is_flag=True, help="Let phones in the local network open the web page.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the code is used.")
@JSON
@click.pass_context
def pair(ctx: click.Context, *, lan: bool, no_wait: bool, as_json: bool) -> None:
    """Pair a browser or a chat account with you.

    Shows a link to open in the browser, or a code to send to your bot. Either works once. On a
    terminal, wait until it is used; after Ctrl-C it stays valid. Segue answers only paired
    accounts.
    """
    if ctx.invoked_subcommand is not None:
        if as_json:
            pass_json_on(ctx)
        return
    if lan:
        with_store(web_page.let_phones_in)
    waits = is_interactive() and not no_wait
    if as_json:
        with_store(_show_as_json)
        return
    try:
        used = with_store(lambda store: _show(store, waits=waits))
    except KeyboardInterrupt:  # the message about it is already printed
        ctx.exit(INTERRUPTED)
    ctx.exit(0 if used else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """A one-time code and links, and the platforms that accept them."""

    code: str | None
    """None if no bot would receive it: only the page is served, and it needs a link."""
    served: Sequence[PlatformHealth]
    links: Mapping[Platform, str] = field(default_factory=dict[Platform, str])

    @property
    def name(self) -> str:
        return "code" if self.code else "link"


async def _show(store: Store, *, waits: bool, seconds: float = CODE_SECONDS) -> bool:
    """Show a new code or link. If it `waits`, show who used it, or return False after a timeout."""
    before = await _paired_accounts(store)
    offer = await _begin(store, seconds)
    deadline = time.monotonic() + seconds
    _print_offer(offer, f"{seconds / 60:.0f} minutes")
    if not waits:
        return True
    how = "sent" if offer.code else "opened"
    notice(f"\nWaiting until it is {how}… Ctrl-C stops waiting; the {offer.name} stays valid.")
    try:
        if await _wait_until_used(store, before, offer, deadline):
            return True
    except asyncio.CancelledError:
        until = datetime.now().astimezone() + timedelta(seconds=deadline - time.monotonic())
        stays = f"The {offer.name} stays valid until {until:%H:%M}."
        notice(f"{stays} Type `segue pair list` to see who used it.")
        raise
    notice(f"The {offer.name} has expired. Type `segue pair` for a new one.")
    return False


async def _show_as_json(store: Store) -> None:
    offer = await _begin(store, CODE_SECONDS)
    expires = datetime.now(UTC) + timedelta(seconds=CODE_SECONDS)
    print_json({"code": offer.code, "expires": expires, "links": offer.links})


async def _begin(store: Store, seconds: float) -> _Offer:
    await owners.ensure(store, ME)
    served = [health for g in await gateways.alive(store) for health in g.links.values()]
    to_page = await endpoints.page_link(store, ME, seconds=seconds)
    bots = [h for h in served if not (_is_page_down(h) or (to_page and h.platform is Platform.WEB))]
    code = await pairings.begin(store, ME, seconds=seconds) if bots or not to_page else None
    offered = {h.platform: h.link.replace("{code}", code) for h in bots if h.link and code}
    if to_page:
        offered[Platform.WEB] = to_page
    return _Offer(code=code, served=served, links=offered)


def _print_offer(offer: _Offer, minutes: str) -> None:
    if offer.code:
        say(f"Your code: {offer.code}\n")
        say(f"Send it to your bot within {minutes}. It works once.")
        say("Anyone who sends it can act as you. Keep it secret.")
    else:
        say(f"Open this link within {minutes}. It works once. Anyone who opens")
        say("it can act as you. Keep it secret.")
    if not offer.served:
        notice(_NO_GATEWAY)
    for health in offer.served:
        _print_platform(health, offer.links.get(health.platform))


def _print_platform(health: PlatformHealth, link: str | None) -> None:
    if _is_page_down(health):
        say(f"\n{health.platform} cannot be reached: {one_line(health.detail)}.")
        return
    if link is None:
        account = f" {one_line(health.account)}" if health.account else ""
        say(f"\n{health.platform}: send the code to the bot{account}.")
        return
    say(f"\n{health.platform}: open {one_line(link)}")
    if drawing := web_page.qr_code(link):
        draw(drawing)
    if health.platform is Platform.WEB and endpoints.is_local(link):
        say(web_page.here_only())


def _is_page_down(health: PlatformHealth) -> bool:
    return health.platform is Platform.WEB and health.state is LinkState.DOWN


async def _wait_until_used(
    store: Store, before: set[tuple[str, str]], offer: _Offer, deadline: float
) -> bool:
    link = offer.links.get(Platform.WEB)
    while time.monotonic() < deadline:
        # First, because a link is used in the transaction that pairs a browser.
        is_used = link is not None and await endpoints.is_link_used(store, link)
        for identity in await owners.identities(store, ME):
            sender = identity.sender
            if (sender.platform, sender.user_id) not in before:
                name = f"{one_line(sender.name)}, " if sender.name else ""
                say(f"Paired with {name}{sender.platform} user {one_line(sender.user_id)}.")
                await _print_home(store, sender.platform, offer.code)
                return True
        if is_used:
            say("Opened in a browser that is already paired with you.")
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


async def _print_home(store: Store, platform: Platform, code: str | None) -> None:
    """Say what is left to do until handoffs arrive, once the bot has answered the code."""
    deadline = time.monotonic() + _REPLY_SECONDS
    while (reply := code and await pairings.reply(store, code)) and reply.finished is None:
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(_POLL_SECONDS)
    if reply and reply.state is OutgoingState.FAILED:
        notice(texts.not_home(platform, reply.error or "", "sent the code"))
    elif all(home.platform is not platform for home in await owners.homes(store, ME)):
        say("Send /sethome in the chat that should receive handoffs.")


async def _paired_accounts(store: Store) -> set[tuple[str, str]]:
    return {(i.sender.platform, i.sender.user_id) for i in await owners.identities(store, ME)}


# Paired users


@pair.command("list")
@JSON
def list_(*, as_json: bool) -> None:
    """List the accounts that are paired with you."""
    found = with_store(lambda store: owners.identities(store, ME))
    value = [_as_json(identity) for identity in found]
    output.print_result(value, _listed(found, screen(), datetime.now(UTC)), as_json=as_json)


def _listed(identities: Sequence[Identity], width: int | None, now: datetime) -> list[str]:
    """Return a table, or tab-separated platform, user and name if there is no screen."""
    if not identities:
        return [_NOT_PAIRED] if width else []
    accounts = [
        (i.sender.platform, one_line(i.sender.user_id), one_line(i.sender.name)) for i in identities
    ]
    if width is None:
        return ["\t".join(account) for account in accounts]
    paired = [ago(identity.linked, now) for identity in identities]
    rows = [(*account, when) for account, when in zip(accounts, paired, strict=True)]
    return output.table(_COLUMNS, rows, width)


def _as_json(identity: Identity) -> dict[str, Any]:
    return {**picked(identity.sender, "platform", "user_id", "name"), "paired": identity.linked}


@pair.command()
@click.argument("platform", type=click.Choice([target.value for target in TARGETS]))
@click.argument("user_id")
@YES
@JSON
def revoke(*, platform: str, user_id: str, yes: bool, as_json: bool) -> None:
    """Unpair an account, so that Segue no longer answers it.

    If you have no other account on that platform, its home channel is removed, too.
    """
    target = Platform(platform)
    identity = with_store(lambda store: _paired(store, target, user_id))
    confirm(f"Unpair {_who(identity)}?", "unpair the account", yes=yes)
    forgotten = with_store(lambda store: _unlink(store, target, user_id))
    value = {"platform": target, "user_id": user_id, "home_forgotten": forgotten}
    lines = [f"{_who(identity)} is no longer paired with you."]
    if forgotten:
        lines.append(f"You have no other account on {target}, so its home channel was removed.")
    output.print_result(value, lines, as_json=as_json)


async def _paired(store: Store, platform: Platform, user_id: str) -> Identity:
    for identity in await owners.identities(store, ME):
        if (identity.sender.platform, identity.sender.user_id) == (platform, user_id):
            return identity
    raise UserError(
        f"{platform} user {user_id!r} is not paired with you. Type `segue pair list` to see your"
        " paired accounts."
    )


async def _unlink(store: Store, platform: Platform, user_id: str) -> bool:
    """Unlink the user, and return whether the home channel was removed, too.

    If no account is left on the platform, its home channel may belong to the revoked user, so it is
    removed. The page's home channel belongs to no user and stays.
    """
    await owners.unlink(store, platform, user_id)
    if platform is Platform.WEB:
        return False
    left = await owners.identities(store, ME)
    if any(identity.sender.platform is platform for identity in left):
        return False
    return await owners.clear_home(store, ME, platform)


def _who(identity: Identity) -> str:
    sender = identity.sender
    who = f"{sender.platform} user {sender.user_id}"
    return one_line(f"{sender.name} ({who})" if sender.name else who)
