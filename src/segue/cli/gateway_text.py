"""Gateways in the output of commands: as text or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from segue.cli.formatting import ago
from segue.cli.session_text import handoff_json, handoff_text
from segue.core.address import HomeChannel, Platform
from segue.core.handoff import Handoff
from segue.core.session import ME
from segue.core.text import clock_time, one_line
from segue.store import Store, gateways, inbox, outbox, owners, sessions
from segue.store.gateways import GatewayRecord, LinkState, PlatformHealth
from segue.store.inbox import Incoming
from segue.store.outbox import Outgoing, PlatformPause
from segue.store.processes import whose
from segue.terminal import page_links
from segue.terminal.output import fields, folded, picked

_HANDOFFS = 5
_TROUBLES = 10
_NOTHING = "It serves no platform: none is set up, or another gateway already serves them."
_NO_HOME = (
    "no home channel yet: send /sethome in the chat that should receive handoffs; if the bot does"
    " not answer there, type `segue pair` first"
)
_NONE = "No gateway is running. Type `segue gateway start`."


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
        return [health for gateway in self.gateways for health in down(gateway)]

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
            "gateways": [as_json(gateway, self.homes) for gateway in self.gateways],
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
    recent = await store.recent_handoffs(_HANDOFFS)
    under_way = await store.in_flight()
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
            for health in down(gateway)
        ),
        *_page(gateway, addresses),
        f"Its log is {one_line(str(log))}. Type `segue gateway logs` to read it.",
    ]


def _page(gateway: GatewayRecord, addresses: Sequence[str]) -> list[str]:
    """Return the page's URL and who can reach it."""
    if (url := page_links.url([gateway])) is None:
        return []
    where = (
        f"The web page is at {one_line(url)}, {page_links.reach_at(addresses)}. Type `segue pair`"
        " to open it."
    )
    moved = gateway.links[Platform.WEB].detail
    lines = [where]
    if moved:
        lines.append(one_line(f"{moved[0].upper()}{moved[1:]}."))
    if addresses:
        lines.append(f"Warning: {page_links.LAN}")
    return lines


def as_json(
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
        "page": page_links.url([gateway]),
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


def down(gateway: GatewayRecord) -> list[PlatformHealth]:
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
