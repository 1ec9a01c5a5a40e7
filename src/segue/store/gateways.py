"""Which gateways are alive, and which platforms each of them serves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from segue.core.address import Platform
from segue.core.errors import PlatformLost
from segue.store import leases
from segue.store.base import Engine, Topic, Tx
from segue.store.leases import until
from segue.store.values import moment, text

SECONDS = 10.0
"""How long a gateway counts as alive without a heartbeat: no longer than its claims last, so that
the next one that may claim a handoff is also the one that serves its platform."""


class Link(StrEnum):
    """How a gateway stands with a platform."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformHealth:
    """How a platform is, as the gateway that serves it last said."""

    platform: Platform
    state: Link
    detail: str
    """Why, for people."""
    account: str
    """The bot's own id there; empty until it is known."""
    link: str | None
    """What a person opens to pair, with `{code}` in the place of the code."""
    since: datetime
    """When it came into this state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway that is alive."""

    process: str
    name: str
    platforms: frozenset[Platform]
    started: datetime
    links: Mapping[Platform, PlatformHealth]
    """How each of its platforms is."""


class Gateways:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def announce(
        self, name: str, platforms: Collection[Platform], *, seconds: float = SECONDS
    ) -> Gateway:
        """Be there, serving those of `platforms` that no living gateway serves already. May be
        called again, to take over from one that died or hangs; its leases have run out."""
        return await self._engine.mark(announce, name, platforms, seconds)

    async def heartbeat(self, *, seconds: float = SECONDS) -> bool:
        """Still there; False when this gateway is no longer known and must announce itself."""
        return await self._engine.mark(heartbeat, seconds)

    async def withdraw(self) -> bool:
        """Gone, and its platforms are free."""
        return await self._engine.mark(withdraw)

    async def report(
        self,
        platform: Platform,
        state: Link,
        *,
        detail: str = "",
        account: str = "",
        link: str | None = None,
    ) -> bool:
        """How `platform` is; False when this gateway does not serve it. An account and a link that
        were told before stay known."""
        return await self._engine.mark(
            report, platform, state, detail=detail, account=account, link=link
        )

    async def alive(self) -> tuple[Gateway, ...]:
        return await self._engine.read(alive)

    async def serving(self, platform: Platform) -> Gateway | None:
        """The living gateway that serves `platform`, if there is one."""
        return await self._engine.read(serving, platform)


def announce(tx: Tx, name: str, platforms: Collection[Platform], seconds: float) -> Gateway:
    tx.lock("gateways")
    living = {gateway.process for gateway in alive(tx)}
    for (process,) in tx.rows("SELECT process FROM gateways"):
        if process not in living:
            if process != tx.process:  # one that was only late goes on with what it has in hand
                leases.run_out(tx, process)
            tx.change("DELETE FROM gateways WHERE process = :process", process=process)
    tx.change(
        "INSERT INTO gateways (process, name, started, until) VALUES (:me, :name, :now, :until)"
        " ON CONFLICT (process) DO UPDATE SET name = excluded.name, until = excluded.until",
        me=tx.process,
        name=text(name),
        now=tx.now,
        until=until(tx, seconds),
    )
    for platform in sorted(platforms):
        tx.change(
            "INSERT INTO gateway_platforms (platform, process, since)"
            " VALUES (:platform, :me, :now) ON CONFLICT DO NOTHING",
            platform=platform.value,
            me=tx.process,
            now=tx.now,
        )
    tx.nudge(Topic.HANDOFFS)
    return next(gateway for gateway in alive(tx) if gateway.process == tx.process)


def require(tx: Tx, platform: Platform) -> None:
    """Raise PlatformLost when another gateway serves `platform`. If this one does, no other can
    take it over before the transaction ends."""
    sql = f"SELECT process FROM gateway_platforms WHERE platform = :platform {tx.for_share}"
    # PostgreSQL waits for a takeover that is under way, and finds the row of the new gateway only
    # when it is asked again.
    row = tx.row(sql, platform=platform.value) or tx.row(sql, platform=platform.value)
    if row is not None and row[0] != tx.process:
        raise PlatformLost(platform=platform)


def heartbeat(tx: Tx, seconds: float) -> bool:
    sql = "UPDATE gateways SET until = :until WHERE process = :me"
    return tx.change(sql, until=until(tx, seconds), me=tx.process) == 1


def withdraw(tx: Tx) -> bool:
    tx.nudge(Topic.HANDOFFS)
    return tx.change("DELETE FROM gateways WHERE process = :me", me=tx.process) == 1


def report(
    tx: Tx, platform: Platform, state: Link, *, detail: str, account: str, link: str | None
) -> bool:
    changed = tx.change(
        "UPDATE gateway_platforms SET detail = :detail,"
        " account = CASE WHEN :account = '' THEN account ELSE :account END,"
        " link = coalesce(CAST(:link AS TEXT), link),"
        " since = CASE WHEN state = :state THEN since ELSE :now END, state = :state"
        " WHERE platform = :platform AND process = :me",
        detail=text(detail),
        account=text(account),
        link=None if link is None else text(link),
        now=tx.now,
        state=state.value,
        platform=platform.value,
        me=tx.process,
    )
    tx.nudge(Topic.HANDOFFS)  # those that wait for it can be carried out,
    tx.nudge(Topic.OUTBOX)  # and what waits for it can be said
    return changed == 1


def alive(tx: Tx) -> tuple[Gateway, ...]:
    links = _links(tx)
    rows = tx.rows(
        "SELECT process, name, started FROM gateways WHERE until > :silent"
        " ORDER BY started, process",
        silent=-1 if tx.was_cut_off else tx.ticks,
    )
    return tuple(
        Gateway(
            process=process,
            name=name,
            platforms=frozenset(links.get(process, ())),
            started=moment(started),
            links=links.get(process, {}),
        )
        for process, name, started in rows
        if not tx.dead(process)
    )


def _links(tx: Tx) -> dict[str, dict[Platform, PlatformHealth]]:
    """How the platforms of each gateway are, by its process."""
    links: dict[str, dict[Platform, PlatformHealth]] = {}
    rows = tx.rows(
        "SELECT process, platform, state, detail, account, link, since FROM gateway_platforms"
        " ORDER BY platform"
    )
    for process, platform, state, detail, account, link, since in rows:
        links.setdefault(process, {})[Platform(platform)] = PlatformHealth(
            platform=Platform(platform),
            state=Link(state),
            detail=detail,
            account=account,
            link=link,
            since=moment(since),
        )
    return links


def serving(tx: Tx, platform: Platform) -> Gateway | None:
    return next((gateway for gateway in alive(tx) if platform in gateway.platforms), None)
