"""`segue gateway`: runs, starts, stops and watches the gateway.

Gateways are printed as text or as JSON. Other commands print them alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from segue import config
from segue.cli.common import INTERRUPTED, JSON, ago, warn_of_bad_settings, with_store
from segue.cli.sessions import handoff_json, handoff_text
from segue.config import Settings
from segue.core.address import HomeChannel, Platform
from segue.core.errors import NoPage, UserError
from segue.core.session import ME
from segue.core.text import clock_time, one_line
from segue.gateway import background, log_file
from segue.gateway.watchdog import ExitDeadline
from segue.handoffs import queries as handoff_queries
from segue.handoffs.values import Handoff
from segue.store import Store, gateways, inbox, outbox, owners, sessions
from segue.store.gateways import GatewayRecord, LinkState, PlatformHealth
from segue.store.inbox import Incoming
from segue.store.outbox import Outgoing, PlatformPause
from segue.store.processes import whose
from segue.terminal import web_page
from segue.terminal.output import fields, folded, picked, print_result, screen

_NOT_RUNNING = 3
"""The exit code of `status` if no gateway is running, as for other services."""
_SETTLED = 3.0
"""Seconds that `start` waits, so that it can report which platforms are connected."""
_HANDOFFS = 5
_TROUBLES = 10
_NOTHING = "It serves no platform: none is set up, or another gateway already serves them."
_NO_HOME = (
    "no home channel yet: send /sethome in the chat that should receive handoffs; if the bot does"
    " not answer there, type `segue pair` first"
)
_NONE = "No gateway is running. Type `segue gateway start`."
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
        if settings.web.lan and web_page.is_built_in(settings):
            logger.warning(web_page.LAN_WARNING)
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
    if lan and not web_page.is_built_in(settings):
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
        running = await background.until_connected(store, started, _SETTLED)
        return running, await web_page.lan_addresses(store, [running])

    running, addresses = with_store(begin)
    value = {**gateway_json(running), "log": str(log)}
    print_result(value, started(running, log, addresses), as_json=as_json)


@gateway.command()
@JSON
def stop(*, as_json: bool) -> None:
    """Stop the gateway on this machine, and wait until it has stopped.

    Running answers get half a minute to finish. The next gateway continues the rest.
    """
    url = config.store_address()
    warn_of_bad_settings()
    stopped = with_store(background.stop, url)
    value = {"stopped": [gateway_json(gateway) for gateway in stopped]}
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
    seen = with_store(lambda store: load_status(store, log), url)
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
        ctx.exit(INTERRUPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """The running gateways with their handoffs, and messages that failed."""

    gateways: tuple[GatewayRecord, ...]
    homes: Mapping[Platform, HomeChannel]
    handoffs: tuple[Handoff, ...]
    """Those in progress and the last few, newest first."""
    names: Mapping[str, str]
    """Session names for the handoffs, keyed by session id."""
    troubles: tuple[Outgoing, ...]
    """Outgoing messages that failed or are uncertain, newest first."""
    unanswered: tuple[Incoming, ...]
    """Incoming messages that were set aside, newest first."""
    pauses: tuple[PlatformPause, ...]
    """Platforms that take no messages for some time."""
    log: Path

    @property
    def down(self) -> list[PlatformHealth]:
        """The platforms that are not connected."""
        return [health for gateway in self.gateways for health in platforms_down(gateway)]

    def lines(self, width: int | None, now: datetime) -> list[str]:
        lines = [] if self.gateways else [_NONE]
        for gateway in self.gateways:
            running = f"{gateway.name}, running since {_minute(gateway.started)}"
            lines.append(folded(one_line(running), width, "    ", ""))
            links = [(health.platform.value, self._link(health)) for health in _links(gateway)]
            lines += fields(links, width) or [folded(_NOTHING, width, "    ", "  ")]
        lines += _listed("Paused", [pause_text(p, now) for p in self.pauses], width)
        lines += _listed("Handoffs", [self._handoff(h, now) for h in self.handoffs], width)
        lines += _listed("Not delivered", [_trouble(o, now) for o in self.troubles], width)
        lines += _listed("Not answered", [_unanswered(i, now) for i in self.unanswered], width)
        return [*lines, f"Log: {one_line(str(self.log))}"]

    def json(self) -> dict[str, Any]:
        return {
            "running": bool(self.gateways),
            "gateways": [gateway_json(gateway, self.homes) for gateway in self.gateways],
            "handoffs": [handoff_json(handoff) for handoff in self.handoffs],
            "not_delivered": [
                _failed(outgoing, "state", "queued", "finished") for outgoing in self.troubles
            ],
            "paused": [picked(pause, "platform", "until", "reason") for pause in self.pauses],
            "not_answered": [_failed(incoming, "received") for incoming in self.unanswered],
            "log": str(self.log),
        }

    def _link(self, health: PlatformHealth) -> str:
        """Return a platform's state, such as `connected as 12 since 2026-11-16 10:02; …`."""
        account = f" as {health.account}" if health.account else ""
        why = f" ({health.detail})" if health.detail else ""
        home = self.homes.get(health.platform)
        where = f"home channel {home}" if home else _NO_HOME
        return one_line(f"{health.state}{account} since {_minute(health.since)}{why}; {where}")

    def _handoff(self, handoff: Handoff, now: datetime) -> str:
        name = self.names.get(handoff.session_id, handoff.session_id)
        return f"{name} {handoff_text(handoff, now)}"


async def load_status(store: Store, log: Path) -> GatewayStatus:
    recent = await handoff_queries.recent(store, _HANDOFFS)
    under_way = await handoff_queries.in_flight(store)
    handoffs = {handoff.id: handoff for handoff in (*recent, *under_way)}
    session_ids = {handoff.session_id for handoff in handoffs.values()}
    found = [await sessions.get(store, session_id) for session_id in session_ids]
    return GatewayStatus(
        gateways=await gateways.alive(store),
        homes={home.platform: home for home in await owners.homes(store, ME)},
        handoffs=tuple(handoffs[number] for number in sorted(handoffs, reverse=True)),
        names={session.id: session.name for session in found if session},
        troubles=await outbox.troubled(store, limit=_TROUBLES),
        unanswered=await inbox.troubled(store, limit=_TROUBLES),
        pauses=await outbox.paused(store),
        log=log,
    )


def started(gateway: GatewayRecord, log: Path, addresses: Sequence[str]) -> list[str]:
    """Return the output of `start`. `addresses` are those of the page in local networks."""
    served = ", ".join(f"{health.platform} ({health.state})" for health in _links(gateway))
    platforms = f"It serves {served}." if served else _NOTHING
    return [
        f"Started {one_line(gateway.name)}. {platforms}",
        *(
            one_line(f"{health.platform} cannot be reached: {health.detail}.")
            for health in platforms_down(gateway)
        ),
        *_page(gateway, addresses),
        f"Its log is {one_line(str(log))}. Type `segue gateway logs` to read it.",
    ]


def _page(gateway: GatewayRecord, addresses: Sequence[str]) -> list[str]:
    """Return the page's URL and who can reach it."""
    if (url := web_page.served_url([gateway])) is None:
        return []
    where = (
        f"The web page is at {one_line(url)}, {web_page.reach_at(addresses)}. Type `segue pair`"
        " to open it."
    )
    moved = gateway.links[Platform.WEB].detail
    lines = [where]
    if moved:
        lines.append(one_line(f"{moved[0].upper()}{moved[1:]}."))
    if addresses:
        lines.append(f"Warning: {web_page.LAN_WARNING}")
    return lines


def gateway_json(
    gateway: GatewayRecord, homes: Mapping[Platform, HomeChannel] | None = None
) -> dict[str, Any]:
    machine, pid = whose(gateway.process)
    platforms: list[dict[str, Any]] = []
    for health in _links(gateway):
        entry = picked(health, "platform", "state", "since", "detail", "account")
        if homes is not None:
            home = homes.get(health.platform)
            entry["home"] = home.address.key if home else None
        platforms.append(entry)
    return {
        **picked(gateway, "name", "started"),
        "machine": machine,
        "pid": pid,
        "page": web_page.served_url([gateway]),
        "platforms": platforms,
    }


def pause_text(pause: PlatformPause, now: datetime) -> str:
    if pause.until is None:
        return f"{pause.platform} has messages that wait: {pause.reason}"
    until = clock_time(pause.until.astimezone(), now.astimezone())
    return f"{pause.platform} takes no messages until {until}: {pause.reason}"


def _failed(message: Outgoing | Incoming, *names: str) -> dict[str, Any]:
    where = {"address": message.address.key, "session": message.session_id}
    return {**where, **picked(message, "error", *names)}


def platforms_down(gateway: GatewayRecord) -> list[PlatformHealth]:
    """The platforms of a gateway that are not connected."""
    return [health for health in _links(gateway) if health.state is LinkState.DOWN]


def _links(gateway: GatewayRecord) -> list[PlatformHealth]:
    return [gateway.links[platform] for platform in sorted(gateway.links)]


def _listed(heading: str, items: list[str], width: int | None) -> list[str]:
    lines = [folded(one_line(line), width, "    ", "  ") for line in items]
    return [heading, *lines] if lines else []


def _trouble(outgoing: Outgoing, now: datetime) -> str:
    when = ago(outgoing.finished or outgoing.queued, now)
    return f"{outgoing.address}, {when}, {outgoing.state}: {outgoing.error or 'unknown reason'}"


def _unanswered(incoming: Incoming, now: datetime) -> str:
    return f"{incoming.address}, {ago(incoming.received, now)}: {incoming.error}"


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"
