"""`segue setup`: sets up a platform: token, gateway, pairing, home channel and first message."""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from msgspec import structs

import segue.store
from segue import config
from segue.cli.common import interruptible
from segue.config import Settings
from segue.core.address import Address, HomeChannel, Platform, Sender
from segue.core.errors import (
    ConnectFailed,
    DeliveryFailed,
    IdentityTaken,
    LibraryMissing,
    PlatformError,
    PullFailed,
)
from segue.core.session import ME
from segue.core.text import one_line
from segue.gateway import background, texts
from segue.platforms import markup, registry
from segue.platforms.base import Adapter, Finding
from segue.platforms.errors import not_set_up
from segue.platforms.spec import Field, FieldKind, PlatformSettings, PlatformSpec
from segue.store import Store, Topic, Tx, gateways, owners, pairings
from segue.store.gateways import GatewayRecord, LinkState, PlatformHealth
from segue.store.outbox import OutgoingState
from segue.store.pairings import CODE_SECONDS
from segue.system import pip
from segue.terminal import web_page
from segue.terminal.output import draw, folded, is_interactive, notice, print_lines, say, screen

LOCKS = Path(registry.__file__).with_name("requirements")
"""The lock files of the platforms, one per extra, which are part of the program."""
_STDIN = "-"
_LOOK = 0.25
_AWAIT = 2.0
_CONNECTS = 20.0
"""Seconds that a gateway has to connect to the platform."""
_TITLE = "Segue is set up"
_HELLO = (
    "**It works.** Handoffs arrive in this chat, each in a separate thread if the chat has threads."
    " To hand off a conversation, type `/handoff {platform}` in the terminal."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """The options that the user gave."""

    spec: PlatformSpec
    values: Mapping[str, str]
    """The values of the fields that were given, by name; the others are empty."""
    owner: str | None = None
    home: str | None = None
    yes: bool = False
    waits: bool = True
    asks: bool = False
    """Whether there is a terminal to ask on."""
    seconds: float = CODE_SECONDS
    """How long the pairing code is valid."""

    @property
    def platform(self) -> Platform:
        return self.spec.platform


class PlatformGroup(click.Group):
    """One command per built-in platform, with an option per field."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [spec.platform.value for spec in registry.SPECS.values() if spec.make]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        built_in = self.list_commands(ctx)
        if cmd_name in built_in:
            return _command(registry.SPECS[cmd_name])
        if cmd_name == Platform.WEB and not ctx.resilient_parsing:
            ctx.fail("The web page needs no setup. Type /handoff web in a conversation.")
        return None


@click.group(cls=PlatformGroup, subcommand_metavar="PLATFORM")
def setup() -> None:
    """Set up a platform, step by step.

    Checks the bot token, pairs you with the bot, and sends a first message to your home channel.
    Options replace the questions. You can run it again at any time. The exit code is 1 if
    something is left to do.
    """


def _command(spec: PlatformSpec) -> click.Command:
    """Return the command that sets up the platform of `spec`."""

    @click.command(spec.platform, help=f"Set up {spec.title}.")
    @click.option(
        "--owner",
        metavar="USER",
        callback=_user_id,
        help="Your user id there, to pair without a code.",
    )
    @click.option("--home", metavar="CHAT", help="Id of the chat that receives handoffs.")
    @click.option("--yes", is_flag=True, help="Install packages without asking.")
    @click.option("--no-wait", is_flag=True, help="Do not wait until the pairing code is used.")
    @click.pass_context
    def command(ctx: click.Context, *, no_wait: bool, **given: Any) -> None:
        values = {field.name: _read(given.pop(field.name) or "") for field in spec.asked}
        asks = is_interactive()
        waits = not no_wait
        options = SetupOptions(spec=spec, values=values, waits=waits, asks=asks, **given)
        ctx.exit(0 if asyncio.run(_set_up(options)) else 1)

    command.params[:0] = [
        click.Option([_flag(f)], type=_type(f), metavar=f.kind.name, help=_help(f))
        for f in spec.asked
    ]
    return command


def _user_id(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Return the user id, or refuse a name: it may belong to another user tomorrow, and no message
    carries it as its sender."""
    if value is None:
        return None
    form = registry.SPECS[ctx.command.name or ""].user_ids
    user = value.strip()
    if re.fullmatch(form.pattern, user) is None:
        hint = f": it looks like {form.example}" if form.example else ""
        raise click.BadParameter(f"{one_line(user, 40)!r} is not a user id{hint}.")
    return user


def _flag(field: Field) -> str:
    return f"--{field.name.replace('_', '-')}"


def _type(field: Field) -> Callable[[str], str]:
    return _url if field.kind is FieldKind.URL else str.strip


def _url(value: str) -> str:
    try:
        return config.url(value.strip())
    except ValueError as error:
        raise click.BadParameter(f"URL: {error}") from error


def _help(field: Field) -> str:
    source = "; - reads it from standard input" if field.kind is FieldKind.SECRET else ""
    return f"{field.label}{source}."


def _read(value: str) -> str:
    return sys.stdin.readline().strip() if value == _STDIN else value


async def _set_up(options: SetupOptions) -> bool:
    """Run all steps and print each. Return False if something is left for the user to do."""
    await install_packages(options)
    options = await _prepare(options)
    tried = await _try_values(options)
    if tried is None:
        notice("Nothing was changed.")
        return False
    values, adapter = tried
    await _check_owner(adapter, options)
    async with await segue.store.open(config.load().store) as store:
        await owners.ensure(store, ME)
        before = await _connection(store, options.platform)
        is_new = _save(options, values)
        if not is_new and before is not None and before.state is LinkState.DOWN:
            config.touch()  # the gateway may wait for packages, or for something on the platform
            is_new = True
        settings = _in_force(options, values)
        gateway = await _gateway(store, settings, options, before if is_new else None)
        if gateway is None or not _is_connected(gateway, options.platform):
            return False
        try:
            if not await _wait_for_user(adapter, options):
                return False
            await adapter.connect()
            home = await _home(store, adapter, gateway, options)
            return home is not None and await _send_test_message(store, adapter, home)
        finally:
            await adapter.close()


# The packages


async def install_packages(options: SetupOptions) -> None:
    """Install the platform's packages if they are missing and the user agrees.

    Raise LibraryMissing if the user does not, or PlatformError.
    """
    spec = options.spec
    locked = LOCKS / f"{options.spec.extra}.txt"
    try:
        registry.load(spec, spec.make)
    except LibraryMissing:
        ask = f"{spec.title} needs packages that are not installed. Install them now?"
        if not options.yes and not (options.asks and _agrees(ask)):
            raise
    else:
        return
    say("Installing them in their locked versions, checked by their hashes…")
    try:
        await pip.install(locked, lambda _: None, from_source=spec.from_source)
    except PullFailed as error:
        reason = str(error.fields["reason"])
        raise not_set_up(options.platform, reason) from error
    registry.load(spec, spec.make)
    say("Installed.")


def _agrees(question: str) -> bool:
    with interruptible():
        return click.confirm(question, default=True, err=True)


# The values


@dataclass(frozen=True, slots=True)
class Terminal:
    """What a platform's preparation can do: `segue.platforms.spec.SetupTerminal`."""

    asks: bool

    def say(self, text: str) -> None:
        say(text)

    def show(self, link: str) -> None:
        draw(["", *web_page.qr_code(link)])
        say(link)


async def _prepare(options: SetupOptions) -> SetupOptions:
    """Let the platform prepare what it needs, and add the values that it found."""
    if not options.spec.prepare:
        return options
    prepare: Any = registry.load(options.spec, options.spec.prepare)
    known = config.load().platforms.get(options.platform)
    known = known or PlatformSettings(platform=options.platform)
    given = {name: it or known.value(name) for name, it in options.values.items()}
    values = {**options.values, **await prepare(given, Terminal(options.asks))}
    return replace(options, values=values)


async def _try_values(options: SetupOptions) -> tuple[Mapping[str, str], Adapter] | None:
    """Return valid values of the fields and an adapter that uses them, or None.

    A user is asked for wrong values again, until they are right or the user presses Ctrl-C.
    """
    known = config.load().platforms.get(options.platform)
    known = known or PlatformSettings(
        platform=options.platform, folder=config.platform_folder(options.platform)
    )
    spec = options.spec
    given = {name: it for name, it in options.values.items() if it}
    values = {field.name: known.value(field.name) for field in spec.fields} | given
    if spec.sign_in and any(field.name in given for field in spec.sign_in.fields):
        values[spec.sign_in.gives] = ""  # the user wants a new one
    missing = spec.missing(values)
    doubtful = spec.missing(given)
    values |= _ask(options, missing, values)
    tried = await _examine(options, known, values)
    while tried is None and doubtful and options.asks:
        say("Try again, or press Ctrl-C to leave. Nothing has been changed.")
        if spec.sign_in and spec.sign_in.gives not in given:
            values[spec.sign_in.gives] = ""
        values |= _ask(options, doubtful, values, guided=bool(missing))
        tried = await _examine(options, known, values)
        missing = doubtful
    return tried


async def _examine(
    options: SetupOptions, known: PlatformSettings, given: Mapping[str, str]
) -> tuple[Mapping[str, str], Adapter] | None:
    """Sign in, if the platform needs that, and check the account."""
    spec = options.spec
    values = dict(given)
    if spec.sign_in is not None:
        sign_in: Any = registry.load(spec, spec.sign_in.make)
        try:
            values |= await sign_in(values, known.folder)
        except ConnectFailed as error:
            _print_findings(
                [Finding(False, f"{spec.title}: {error.fields['reason']}.", vital=True)]
            )
            return None
    kept = {field.name: values[field.name] for field in spec.fields}
    held = {it.name: it.held(kept[it.name], "this set-up") for it in spec.fields if kept[it.name]}
    adapter = registry.make(options.platform, structs.replace(known, enabled=True, values=held))
    found = [finding for finding in await adapter.examine(None) if not finding.awaited]
    return (kept, adapter) if _print_findings(found) else None


async def _check_owner(adapter: Adapter, options: SetupOptions) -> None:
    """Raise PlatformError if the platform does not have the user who should be the owner."""
    if options.owner is None:
        return
    exists = await adapter.find_user(options.owner)
    platform = options.platform
    if exists is False:
        raise PlatformError(
            f"There is no {platform} user {options.owner}, so nothing was changed. Check --owner,"
            f" or type `segue setup {platform}` without it to pair with a code."
        )
    if exists is None:
        notice(f"{options.spec.title} does not say whether there is a user {options.owner}.")
        notice(f"To be sure, type `segue setup {platform}` without --owner: it shows a code.")


def _ask(
    options: SetupOptions,
    fields: Sequence[Field],
    known: Mapping[str, str],
    *,
    guided: bool = False,
) -> dict[str, str]:
    """Ask for the values of `fields`, or raise PlatformError if there is no terminal. `guided`: the
    guide is on the screen."""
    if fields and not options.asks:
        labels = ", ".join(field.label for field in fields)
        flags = ", ".join(map(_flag, fields))
        raise PlatformError(
            f"{options.platform} needs {labels}, and there is no terminal to ask on. Add {flags};"
            " the value - is read from standard input."
        )
    steps = options.spec.guide.splitlines() if fields and not guided else []
    print_lines([folded(step, screen(), "   ", "") for step in steps])
    return {field.name: _answer(field, known.get(field.name, "")) for field in fields}


def _answer(field: Field, known: str) -> str:
    is_secret = field.kind is FieldKind.SECRET
    with interruptible():
        return click.prompt(
            f"{field.label} (not shown)" if is_secret else field.label,
            default=None if is_secret else known or None,
            hide_input=is_secret,
            value_proc=_type(field),
        )


def _save(options: SetupOptions, values: Mapping[str, str]) -> bool:
    """Save the settings, and return whether any of them changed."""
    before = config.load().platforms.get(options.platform)
    kept = before or PlatformSettings(platform=options.platform)
    changes = {name: value for name, value in values.items() if value != kept.value(name)}
    if not kept.enabled:
        changes["enabled"] = "true"
    for name, value in changes.items():
        setting = f"platforms.{options.platform}.{name}"
        say(f"Saved {setting} in {config.change(setting, [value])}.")
    return bool(changes)


def _in_force(options: SetupOptions, values: Mapping[str, str]) -> Settings:
    """Return the settings, or raise PlatformError if a gateway would use another value."""
    settings = config.load()
    kept = settings.platforms[options.platform]
    for field in options.spec.fields:
        variable = config.overruled(options.spec.setting(field))
        if variable and kept.value(field.name) != values[field.name]:
            reason = f"{variable} holds another value, which overrides it"
            raise not_set_up(options.platform, reason)
    return settings


# The gateway


async def _gateway(
    store: Store, settings: Settings, options: SetupOptions, before: PlatformHealth | None
) -> GatewayRecord | None:
    """Return a gateway that serves the platform, or None if the user has to restart it. A
    running gateway loads new settings itself, which replaces the connection `before`."""
    if not background.here(await gateways.alive(store)):
        started = await background.start(store, settings.gateway_log)
        say("Started a gateway in the background.")
        return await background.until_connected(store, started, _CONNECTS)
    deadline = time.monotonic() + _CONNECTS
    while time.monotonic() < deadline:
        for gateway in background.here(await gateways.alive(store)):
            health = gateway.links.get(options.platform)
            if health is not None and (before is None or health.since > before.since):
                return await background.until_connected(store, gateway, _CONNECTS)
        await asyncio.sleep(_LOOK)
    notice(f"The running gateway does not serve {options.platform}.")
    notice("Type `segue gateway stop`, `segue gateway start`, then this command again.")
    return None


async def _connection(store: Store, platform: Platform) -> PlatformHealth | None:
    mine = background.here(await gateways.alive(store))
    return next((g.links[platform] for g in mine if platform in g.links), None)


def _is_connected(gateway: GatewayRecord, platform: Platform) -> bool:
    health = gateway.links[platform]
    if health.state is LinkState.CONNECTED:
        return True
    detail = f": {one_line(health.detail)}" if health.detail else ""
    notice(f"The gateway cannot reach {platform}{detail}. See `segue gateway logs`.")
    return False


async def _wait_for_user(adapter: Adapter, options: SetupOptions) -> bool:
    """Wait until the user has done what needs a running gateway, such as to enter a webhook."""
    deadline = time.monotonic() + options.seconds
    told = False
    while True:
        found = [finding for finding in await adapter.examine(None) if finding.awaited]
        is_done = all(finding.ok for finding in found)
        if is_done or not told:
            _print_findings(found)
        if is_done:
            return True
        if not options.waits or time.monotonic() > deadline:
            notice(f"Type `segue setup {options.platform}` again once that is done.")
            return False
        if not told:
            say("Waiting for that. Press Ctrl-C to stop.")
        told = True
        await asyncio.sleep(_AWAIT)


# The user and the home channel


async def _home(
    store: Store, adapter: Adapter, gateway: GatewayRecord, options: SetupOptions
) -> HomeChannel | None:
    """Return the home channel once its owner is paired, or None if that is not done yet."""
    platform = options.platform
    if options.home is not None or options.owner is not None:
        chat = options.home or options.owner or ""
        home = await adapter.find_chat(chat)
        if home is None:
            reason = f"the bot is not in a chat with the id {one_line(chat)}"
            raise not_set_up(platform, reason)
        home = await _with_audience(store, adapter, home, options)
        try:
            await store.write(_link, home, options.owner)
        except IdentityTaken:
            notice(f"The {platform} user {options.owner} is already paired.")
    found = await _find_home(store, platform)
    if found is None:
        # What the user sends must reach the gateway: Slack gives each event to one connection.
        await adapter.close()
        code = await pairings.begin(store, ME, seconds=options.seconds)
        _invite(code, gateway, options)
        if not options.waits:
            notice(f"Type `segue setup {platform}` again once you are paired.")
            return None
        found = await _wait_for_pairing(store, platform, code, time.monotonic() + options.seconds)
        await adapter.connect()
    if found is None:
        notice(f"The code has expired. Type `segue setup {platform}` for a new one.")
        return None
    say(f"You are paired. Handoffs arrive in {found}.")
    return found


async def _with_audience(
    store: Store, adapter: Adapter, home: HomeChannel, options: SetupOptions
) -> HomeChannel:
    """The home channel with who can read it now. Raise PlatformError if the owner cannot."""
    known = await owners.identities(store, ME)
    users = [it.sender.user_id for it in known if it.sender.platform is home.platform]
    users += [options.owner] if options.owner is not None else []
    if not users:  # the first handoff looks
        return home
    try:
        audience = await adapter.audience(home.address, users)
    except DeliveryFailed as error:
        raise not_set_up(home.platform, error.reason) from error
    if audience is not None and not audience.has_owner:
        reason = f"{one_line(users[-1])} is not in {home}"
        raise not_set_up(home.platform, reason)
    return replace(home, audience=audience)


def _link(tx: Tx, home: HomeChannel, user_id: str | None) -> None:
    """Pair that user, if one is given, and set the home channel."""
    if user_id is not None:
        owners.link(tx, Sender(platform=home.platform, user_id=user_id), ME)
    owners.set_home(tx, ME, home)


async def _find_home(store: Store, platform: Platform) -> HomeChannel | None:
    """Return the home channel there if an account of the owner is paired, too."""
    paired = any(i.sender.platform is platform for i in await owners.identities(store, ME))
    homes = {home.platform: home for home in await owners.homes(store, ME)}
    return homes.get(platform) if paired else None


def _invite(code: str, gateway: GatewayRecord, options: SetupOptions) -> None:
    link = (gateway.links[options.platform].link or "").replace("{code}", code)
    minutes = f"{options.seconds / 60:.0f} minutes"
    if link:
        draw(["", *web_page.qr_code(link)])
        say(f"Open this on your phone within {minutes}, and press Start:\n{link}")
        say(f"Or send {code} to the bot.")
    else:
        say(f"\nSend {code} to {options.spec.send_to} within {minutes}.")
    say("Anyone who does can act as you. Keep it secret.")
    if options.spec.has_groups:
        say("To use a group, send the code there, then /sethome.")


async def _wait_for_pairing(
    store: Store, platform: Platform, code: str, deadline: float
) -> HomeChannel | None:
    """Wait for the code, and for a home channel in which the bot can write."""
    refused: Address | None = None
    async with store.listen(Topic.OUTBOX, Topic.SENT) as wake:
        while time.monotonic() < deadline:
            reply = await pairings.reply(store, code)
            if refused is None and reply is not None and reply.state is OutgoingState.FAILED:
                refused = reply.address
                notice(texts.not_home(platform, reply.error or "", "sent the code"))
            is_under_way = reply is not None and reply.finished is None
            found = await _find_home(store, platform)
            is_refused = found is not None and refused is not None and found.address == refused
            if found is not None and not is_under_way and not is_refused:
                return found
            await wake.wait(_LOOK)
    return None


# The first message


async def _send_test_message(store: Store, adapter: Adapter, home: HomeChannel) -> bool:
    """Send a message in a new thread of the home channel."""
    told = set(await adapter.examine(None))
    _print_findings([new for new in await adapter.examine(home.address) if new not in told])
    key = f"setup:{secrets.token_hex(8)}"
    hello = _HELLO.format(platform=adapter.platform)
    (part,) = markup.parts(hello, adapter.capabilities)
    try:
        thread = await adapter.create_handoff_thread(home.address, _TITLE, key=key)
        if thread is not None:
            known = await owners.identities(store, ME)
            users = [it.sender.user_id for it in known if it.sender.platform is adapter.platform]
            await adapter.invite(thread, users, key=key)
        await adapter.send(thread or home.address, part, key=f"{key}/0")
    except (DeliveryFailed, ConnectFailed) as error:
        reason = str(error.fields.get("reason", error))
        raise not_set_up(adapter.platform, reason) from error
    where = "in a new thread" if thread else "in your home channel"
    say(f"Sent a message {where}: look at your phone.")
    say(f"Done. To hand off a conversation, type /handoff {adapter.platform} in it.")
    return True


def _print_findings(findings: Sequence[Finding]) -> bool:
    """Print the findings. Return False if something vital is missing."""
    for finding in findings:
        mark = "✓" if finding.ok else "✗" if finding.vital else "!"
        print_lines([folded(one_line(finding.text), screen(), "  ", f"{mark} ")])
        if finding.fix:
            print_lines([folded(one_line(finding.fix), screen(), "  ", "  ")])
    return all(finding.ok or not finding.vital for finding in findings)
