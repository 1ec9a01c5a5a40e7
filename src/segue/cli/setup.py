"""`segue setup`: sets up a platform: token, gateway, pairing, home channel and first message."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

import segue.store
from segue import config
from segue.chat.output import draw, folded, notice, print_lines, say, screen
from segue.chat.render import qr
from segue.config import PlatformSettings, Secret, Settings
from segue.core.address import HomeChannel, Platform, Sender
from segue.core.errors import (
    ConnectFailed,
    DeliveryFailed,
    IdentityTaken,
    NoToken,
    SetupFailed,
)
from segue.core.session import ME
from segue.core.text import one_line
from segue.gateway import background
from segue.platforms import markup, registry
from segue.platforms.base import Adapter, Finding
from segue.store import Store, Topic
from segue.store.gateways import GatewayRecord, LinkState
from segue.store.pairings import CODE_SECONDS

_STDIN = "-"
_LOOK = 0.25
_CONNECTS = 20.0
"""Seconds that a gateway has to connect to the platform."""
_TITLE = "Segue is set up"
_HELLO = (
    "**It works.** Conversations that you hand off arrive in this chat, each in a thread of its"
    " own where there can be threads. At the terminal, type `/handoff {platform}`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options that the user gave."""

    platform: Platform
    token: str | None = None
    url: str | None = None
    owner: str | None = None
    home: str | None = None
    yes: bool = False
    waits: bool = True
    asks: bool = False
    """Whether there is a terminal to ask on."""
    seconds: float = CODE_SECONDS
    """How long the pairing code is valid."""


@click.command()
@click.argument("platform", type=click.Choice([platform.value for platform in registry.BUILT_IN]))
@click.option("--token", help="What the platform knows your bot by; - reads it from stdin.")
@click.option("--url", help="A server of the platform's that is your own.")
@click.option("--owner", metavar="USER", help="Your user id there, rather than a pairing.")
@click.option("--home", metavar="CHAT", help="The id of the chat where handoffs arrive.")
@click.option("--yes", is_flag=True, help="Do not ask before a running gateway is restarted.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the pairing code is used.")
@click.pass_context
def setup(
    ctx: click.Context,
    *,
    platform: str,
    token: str | None,
    url: str | None,
    owner: str | None,
    home: str | None,
    yes: bool,
    no_wait: bool,
) -> None:
    """Set a platform up: its token is tried, you are paired with the bot, and a first message
    arrives in a fresh thread.

    What a flag answers is not asked. It can be run again at any time; the exit code is 1 when
    something is left to do.
    """
    from_stdin = token == _STDIN
    wish = Wish(
        platform=Platform(platform),
        token=sys.stdin.readline().strip() if from_stdin else token,
        url=url,
        owner=owner,
        home=home,
        yes=yes,
        waits=not no_wait,
        asks=sys.stdin.isatty() and sys.stdout.isatty(),
    )
    ctx.exit(0 if asyncio.run(_set_up(wish)) else 1)


async def _set_up(wish: Wish) -> bool:
    """Run all steps and print each. Return False if something is left for the user to do."""
    tried = await _tried(wish)
    if tried is None:
        notice("Nothing was changed.")
        return False
    token, adapter = tried
    is_new = _keep(wish, token)
    settings = _in_force(wish.platform, token)
    async with await segue.store.open(settings.store) as store:
        await store.owners.ensure(ME)
        gateway = await _gateway(store, settings, wish, restart=is_new)
        if gateway is None or not _is_connected(gateway, wish.platform):
            return False
        try:
            await adapter.connect()
            home = await _home(store, adapter, gateway, wish)
            return home is not None and await _prove(adapter, home)
        finally:
            await adapter.close()


# The token


async def _tried(wish: Wish) -> tuple[str, Adapter] | None:
    """Return a valid token and an adapter that uses it, or None."""
    known = config.load().platforms.get(wish.platform) or PlatformSettings(platform=wish.platform)
    known = replace(known, enabled=True, url=wish.url or known.url)
    kept = _token(known)
    token = wish.token or kept or _ask(wish)
    adapter = await _examined(known, token)
    if adapter is None and token == kept and wish.asks:  # the stored token is no longer valid
        token = _ask(wish)
        adapter = await _examined(known, token)
    return None if adapter is None else (token, adapter)


async def _examined(known: PlatformSettings, token: str) -> Adapter | None:
    given = replace(known, token=Secret(token, "this set-up"))
    adapter = registry.make(known.platform, given)
    return adapter if _tell(await adapter.examine(None)) else None


def _token(known: PlatformSettings | None) -> str | None:
    return None if known is None or known.token is None else known.token.reveal()


def _ask(wish: Wish) -> str:
    if not wish.asks:
        raise NoToken(platform=wish.platform)
    steps = registry.guide(wish.platform).splitlines()
    print_lines([folded(step, screen(), "   ", "") for step in steps])
    return click.prompt("Token (not shown)", hide_input=True, type=str).strip()


def _keep(wish: Wish, token: str) -> bool:
    """Save the settings, and return whether any of them changed."""
    before = config.load().platforms.get(wish.platform)
    name = f"platforms.{wish.platform}"
    changes = {
        "token": None if token == _token(before) else token,
        "url": wish.url,
        "enabled": None if before is None or before.enabled else "true",
    }
    wanted = {key: value for key, value in changes.items() if value}
    for key, value in wanted.items():
        path = config.change(f"{name}.{key}", [value])
        say(f"Kept as {name}.{key} in {path}.")
    return bool(wanted)


def _in_force(platform: Platform, token: str) -> Settings:
    """Return the settings, or raise SetupFailed if a gateway would use another token."""
    settings = config.load()
    kept = settings.platforms[platform].token
    if kept is not None and kept.reveal() != token:
        raise SetupFailed(
            platform=platform, reason=f"{kept.setting} holds another token, which wins"
        )
    return settings


# The gateway


async def _gateway(
    store: Store, settings: Settings, wish: Wish, *, restart: bool
) -> GatewayRecord | None:
    """Return a gateway that serves the platform, or None if the user has to start it."""
    running = background.here(await store.gateways.alive())
    if running and not restart and all(wish.platform in g.platforms for g in running):
        return await background.settled(store, running[0], _CONNECTS)
    if running:
        if not wish.yes and not _may_restart(wish):
            notice("Type `segue gateway stop`, `segue gateway start`, and this command again.")
            return None
        await background.stop(store)
    started = await background.start(store, settings.gateway_log)
    say("A gateway runs in the background." if not running else "The gateway runs again.")
    return await background.settled(store, started, _CONNECTS)


def _may_restart(wish: Wish) -> bool:
    ask = f"A gateway is running. Restart it, so that it serves {wish.platform}?"
    return wish.asks and click.confirm(ask, default=True, err=True)


def _is_connected(gateway: GatewayRecord, platform: Platform) -> bool:
    health = gateway.links[platform]
    if health.state is LinkState.CONNECTED:
        return True
    detail = f": {one_line(health.detail)}" if health.detail else ""
    notice(f"The gateway has not reached {platform}{detail}. `segue gateway logs` tells more.")
    return False


# The user and the home channel


async def _home(
    store: Store, adapter: Adapter, gateway: GatewayRecord, wish: Wish
) -> HomeChannel | None:
    """Return the home channel once its owner is paired, or None if that is not done yet."""
    platform = wish.platform
    if wish.owner is not None:
        try:
            await store.owners.link(Sender(platform=platform, user_id=wish.owner), ME)
        except IdentityTaken:
            notice(f"The {platform} user {wish.owner} is paired already.")
    if wish.home is not None or wish.owner is not None:
        chat = wish.home or wish.owner or ""
        home = await adapter.find_chat(chat)
        if home is None:
            reason = f"the bot is in no chat with the id {one_line(chat)}"
            raise SetupFailed(platform=platform, reason=reason)
        await store.owners.set_home(ME, home)
    found = await _settled(store, platform)
    if found is None:
        _invite(await store.pairings.begin(ME, seconds=wish.seconds), gateway, wish)
        if not wish.waits:
            notice("`segue setup` can be typed again once you are paired.")
            return None
        found = await _paired(store, platform, time.monotonic() + wish.seconds)
    if found is None:
        notice(f"Nobody used it in time. Type `segue setup {platform}` again.")
        return None
    say(f"You are paired. Handoffs arrive in {found}.")
    return found


async def _settled(store: Store, platform: Platform) -> HomeChannel | None:
    """Return the home channel there if an account of the owner is paired, too."""
    paired = any(i.sender.platform is platform for i in await store.owners.identities(ME))
    homes = {home.platform: home for home in await store.owners.homes(ME)}
    return homes.get(platform) if paired else None


def _invite(code: str, gateway: GatewayRecord, wish: Wish) -> None:
    link = (gateway.links[wish.platform].link or "").replace("{code}", code)
    minutes = f"{wish.seconds / 60:.0f} minutes"
    if link:
        draw(["", *qr.on_screen(link)])
        say(f"Open this on your phone within {minutes}, and press Start:\n{link}")
        say(f"Or send {code} to the bot. Anyone who does can act as you. Keep it secret.")
    else:
        say(f"\nSend {code} to the bot within {minutes}. Anyone who does can act as you.")
    say("In a group, send the code there, then /sethome.")


async def _paired(store: Store, platform: Platform, deadline: float) -> HomeChannel | None:
    async with store.listen(Topic.OUTBOX) as wake:  # the bot replies to the newly paired user
        while time.monotonic() < deadline:
            if found := await _settled(store, platform):
                return found
            await wake.wait(_LOOK)
    return None


# The first message


async def _prove(adapter: Adapter, home: HomeChannel) -> bool:
    """Send a message in a new thread of the home channel."""
    told = set(await adapter.examine(None))
    _tell([new for new in await adapter.examine(home.address) if new not in told])
    key = f"setup:{secrets.token_hex(8)}"
    hello = _HELLO.format(platform=adapter.platform)
    (part,) = markup.parts(hello, adapter.capabilities)
    try:
        thread = await adapter.create_handoff_thread(home.address, _TITLE, key=key)
        await adapter.send(thread or home.address, part, key=f"{key}/0")
    except (DeliveryFailed, ConnectFailed) as error:
        reason = str(error.fields.get("reason", error))
        raise SetupFailed(platform=adapter.platform, reason=reason) from error
    where = "in a fresh thread" if thread else "there"
    say(f"A message has arrived {where}: look at your phone.")
    say(f"Done. In a conversation, type /handoff {adapter.platform}.")
    return True


def _tell(findings: Sequence[Finding]) -> bool:
    """Print the findings. Return False if something vital is missing."""
    for finding in findings:
        mark = "✓" if finding.ok else "✗" if finding.vital else "!"
        print_lines([folded(one_line(finding.text), screen(), "  ", f"{mark} ")])
        if finding.fix:
            print_lines([folded(one_line(finding.fix), screen(), "  ", "  ")])
    return all(finding.ok or not finding.vital for finding in findings)
