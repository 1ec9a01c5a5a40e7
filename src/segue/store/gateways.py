"""Which gateways are alive, and which platforms each of them serves."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from segue.core.address import Platform
from segue.store.base import Engine, Tx
from segue.store.leases import until
from segue.store.values import moment, text

SECONDS = 15.0
"""How long a gateway counts as alive without a heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway that is alive."""

    process: str
    name: str
    platforms: frozenset[Platform]
    started: datetime


class Gateways:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def announce(
        self, name: str, platforms: Collection[Platform], *, seconds: float = SECONDS
    ) -> Gateway:
        """Be there, serving those of `platforms` that no living gateway serves already. May be
        called again, to take over from one that died."""
        return await self._engine.write(announce, name, platforms, seconds)

    async def heartbeat(self, *, seconds: float = SECONDS) -> bool:
        """Still there; False when this gateway is no longer known and must announce itself."""
        return await self._engine.write(heartbeat, seconds)

    async def withdraw(self) -> bool:
        """Gone, and its platforms are free."""
        return await self._engine.write(withdraw)

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
            "INSERT INTO gateway_platforms (platform, process) VALUES (:platform, :me)"
            " ON CONFLICT DO NOTHING",
            platform=platform.value,
            me=tx.process,
        )
    return next(gateway for gateway in alive(tx) if gateway.process == tx.process)


def heartbeat(tx: Tx, seconds: float) -> bool:
    sql = "UPDATE gateways SET until = :until WHERE process = :me"
    return tx.change(sql, until=until(tx, seconds), me=tx.process) == 1


def withdraw(tx: Tx) -> bool:
    return tx.change("DELETE FROM gateways WHERE process = :me", me=tx.process) == 1


def alive(tx: Tx) -> tuple[Gateway, ...]:
    served: dict[str, set[Platform]] = {}
    for platform, process in tx.rows("SELECT platform, process FROM gateway_platforms"):
        served.setdefault(process, set()).add(Platform(platform))
    rows = tx.rows(
        "SELECT process, name, started FROM gateways WHERE until > :ticks"
        " ORDER BY started, process",
        ticks=tx.ticks,
    )
    return tuple(
        Gateway(
            process=process,
            name=name,
            platforms=frozenset(served.get(process, ())),
            started=moment(started),
        )
        for process, name, started in rows
        if not tx.dead(process)
    )


def serving(tx: Tx, platform: Platform) -> Gateway | None:
    return next((gateway for gateway in alive(tx) if platform in gateway.platforms), None)
