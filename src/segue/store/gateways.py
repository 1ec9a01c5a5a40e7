"""Gateway presence: which gateways are alive, and which platforms each one serves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from segue.core.address import Platform
from segue.core.errors import PlatformLost
from segue.store import leases
from segue.store.base import Topic, Tx, marks, reads
from segue.store.values import moment, text

ALIVE_SECONDS = 10.0
"""How long a gateway counts as alive without a heartbeat. Not longer than its claims last, so that
the next gateway that may claim a handoff is also the one that serves its platform."""


class LinkState(StrEnum):
    """The state of a gateway's connection to a platform."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    DOWN = "down"


class PlatformHealth(Struct, frozen=True, kw_only=True):
    """The state of a platform, as last reported by the gateway that serves it."""

    platform: Platform
    state: LinkState
    detail: str
    """The reason, for display."""
    account: str
    """The bot's own id there. Empty until it is known."""
    link: str | None
    """The URL that the user opens to pair, with `{code}` in place of the code."""
    since: datetime
    """When the platform entered this state."""


class GatewayRecord(Struct, frozen=True, kw_only=True):
    """A live gateway."""

    process: str
    name: str
    platforms: frozenset[Platform]
    started: datetime
    links: Mapping[Platform, PlatformHealth]
    """The state of each of its platforms."""


@marks
def announce(
    tx: Tx, name: str, platforms: Collection[Platform], *, seconds: float = ALIVE_SECONDS
) -> GatewayRecord:
    """Register this gateway for those of `platforms` that no live gateway serves.

    Call it again to take over from a gateway that died or hangs. The leases of that gateway expire.
    """
    tx.lock("gateways")
    living = {gateway.process for gateway in alive(tx)}
    for (process,) in tx.rows("SELECT process FROM gateways"):
        if process not in living:
            if process != tx.process:  # if we were only late, we keep our leases
                leases.run_out(tx, process)
            tx.change("DELETE FROM gateways WHERE process = :process", process=process)
    tx.insert(
        "gateways",
        conflict="(process) DO UPDATE SET name = excluded.name, until = excluded.until",
        process=tx.process,
        name=text(name),
        started=tx.now,
        until=tx.after(seconds),
    )
    for platform in sorted(platforms):
        tx.insert(
            "gateway_platforms",
            conflict="DO NOTHING",
            platform=platform.value,
            process=tx.process,
            since=tx.now,
        )
    tx.nudge(Topic.HANDOFFS)
    (me,) = (gateway for gateway in alive(tx) if gateway.process == tx.process)
    return me


def require(tx: Tx, platform: Platform) -> None:
    """Raise PlatformLost if another gateway serves `platform`. If this one does, no other gateway
    can take it over before the transaction ends."""
    sql = f"SELECT process FROM gateway_platforms WHERE platform = :platform {tx.for_share}"
    # PostgreSQL waits for a takeover in progress, but sees the row of the new gateway only in a
    # second query.
    row = tx.row(sql, platform=platform.value) or tx.row(sql, platform=platform.value)
    if row is not None and row[0] != tx.process:
        raise PlatformLost(platform=platform)


@marks
def heartbeat(tx: Tx, *, seconds: float = ALIVE_SECONDS) -> bool:
    """Stay registered. Return False if this gateway is unknown and must announce itself again."""
    sql = "UPDATE gateways SET until = :until WHERE process = :me"
    return tx.change(sql, until=tx.after(seconds), me=tx.process) == 1


@marks
def withdraw(tx: Tx) -> bool:
    """Unregister this gateway and free its platforms."""
    tx.nudge(Topic.HANDOFFS)
    return tx.change("DELETE FROM gateways WHERE process = :me", me=tx.process) == 1


@marks
def leave(tx: Tx, platform: Platform) -> bool:
    """Stop serving `platform`. Return False if this gateway does not serve it."""
    sql = "DELETE FROM gateway_platforms WHERE platform = :platform AND process = :me"
    tx.nudge(Topic.HANDOFFS)
    return tx.change(sql, platform=platform.value, me=tx.process) == 1


@marks
def report(
    tx: Tx,
    platform: Platform,
    state: LinkState,
    *,
    detail: str = "",
    account: str = "",
    link: str | None = None,
) -> bool:
    """Record the state of `platform`. Return False if this gateway does not serve it. An empty
    account, or a link of None, keeps the one reported before."""
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
    tx.nudge(Topic.HANDOFFS)  # waiting handoffs can now run,
    tx.nudge(Topic.OUTBOX)  # and waiting messages can be sent
    return changed == 1


@reads
def alive(tx: Tx) -> tuple[GatewayRecord, ...]:
    links = _links(tx)
    rows = tx.rows(
        "SELECT process, name, started FROM gateways WHERE until > :silent"
        " ORDER BY started, process",
        silent=-1 if tx.was_cut_off else tx.ticks,
    )
    return tuple(
        GatewayRecord(
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
    """The state of each gateway's platforms, by process."""
    links: dict[str, dict[Platform, PlatformHealth]] = {}
    rows = tx.rows(
        "SELECT process, platform, state, detail, account, link, since FROM gateway_platforms"
        " ORDER BY platform"
    )
    for process, platform, state, detail, account, link, since in rows:
        links.setdefault(process, {})[Platform(platform)] = PlatformHealth(
            platform=Platform(platform),
            state=LinkState(state),
            detail=detail,
            account=account,
            link=link,
            since=moment(since),
        )
    return links


@reads
def last_contact(tx: Tx, platform: Platform, account: str) -> datetime | None:
    """When a gateway last received from the account, or None if that is not known."""
    sql = "SELECT at FROM contacts WHERE platform = :platform AND account = :account"
    row = tx.row(sql, platform=platform.value, account=text(account))
    return None if row is None else moment(row[0])


@marks
def record_contact(tx: Tx, platform: Platform, account: str) -> None:
    """Record that a gateway receives from the account, and that everything before is recorded."""
    tx.insert(
        "contacts",
        conflict="(platform, account) DO UPDATE SET at = excluded.at",
        platform=platform.value,
        account=text(account),
        at=tx.now,
    )


@reads
def serving(tx: Tx, platform: Platform) -> GatewayRecord | None:
    """The live gateway that serves `platform`, or None."""
    return next((gateway for gateway in alive(tx) if platform in gateway.platforms), None)
