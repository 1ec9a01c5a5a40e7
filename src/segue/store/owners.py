"""Owners, the platform users linked to them, and their home channels."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from segue.core.address import Address, Audience, HomeChannel, Platform, Sender
from segue.core.errors import IdentityTaken, OwnerNotFound
from segue.core.session import Owner
from segue.store.base import Topic, Transactions, Tx, reads, writes
from segue.store.values import moment, text


class Identity(Struct, frozen=True, kw_only=True):
    """A platform user who is linked to an owner."""

    sender: Sender
    owner: str
    linked: datetime


@writes
def ensure(tx: Tx, owner: str, name: str = "") -> Owner:
    """Return the owner with this id, creating it if needed."""
    tx.insert("owners", conflict="DO NOTHING", id=owner, name=text(name), created=tx.now)
    return found(tx, owner)


@reads
def get(tx: Tx, owner: str) -> Owner | None:
    row = tx.row("SELECT id, name FROM owners WHERE id = :id", id=owner)
    return Owner(id=row[0], name=row[1]) if row else None


def found(tx: Tx, owner: str) -> Owner:
    """Return the owner, or raise OwnerNotFound."""
    if (known := get(tx, owner)) is None:
        raise OwnerNotFound(owner=owner)
    return known


@reads
def all_owners(tx: Tx) -> tuple[Owner, ...]:
    rows = tx.rows("SELECT id, name FROM owners ORDER BY created, id")
    return tuple(Owner(id=row[0], name=row[1]) for row in rows)


async def introduced(store: Transactions, owner: str) -> bool:
    """Whether the agent has already introduced itself to the owner. Calling this records that it
    has."""
    return await is_introduced(store, owner) or await introduce(store, owner)


@reads
def is_introduced(tx: Tx, owner: str) -> bool:
    row = tx.row("SELECT introduced FROM owners WHERE id = :id", id=owner)
    return row is not None and row[0] == 1


@writes
def introduce(tx: Tx, owner: str) -> bool:
    found(tx, owner)
    sql = "UPDATE owners SET introduced = 1 WHERE id = :id AND introduced = 0"
    return tx.change(sql, id=owner) == 0


@writes
def link(tx: Tx, sender: Sender, owner: str) -> None:
    """Link a platform user to an owner. Raise IdentityTaken if the user is linked to another."""
    if text(sender.user_id) != sender.user_id:
        raise ValueError("no platform has such a user id")
    found(tx, owner)
    linked = tx.insert(
        "identities",
        conflict="(platform, user_id) DO UPDATE SET name = excluded.name"
        " WHERE identities.owner = excluded.owner",
        platform=sender.platform.value,
        user_id=sender.user_id,
        owner=owner,
        name=text(sender.name),
        linked=tx.now,
    )
    if not linked:
        raise IdentityTaken(platform=sender.platform, user_id=sender.user_id)


@writes
def unlink(tx: Tx, platform: Platform, user_id: str) -> bool:
    sql = "DELETE FROM identities WHERE platform = :platform AND user_id = :user_id"
    unlinked = tx.change(sql, platform=platform.value, user_id=user_id) == 1
    if unlinked:
        tx.nudge(Topic.OWNERS)
    return unlinked


@reads
def who(tx: Tx, platform: Platform, user_id: str) -> Owner | None:
    """The owner linked to a platform user, or None."""
    if text(user_id) != user_id:  # not a valid id, and once cleaned it might match another
        return None
    row = tx.row(
        "SELECT o.id, o.name FROM identities i JOIN owners o ON o.id = i.owner"
        " WHERE i.platform = :platform AND i.user_id = :user_id",
        platform=platform.value,
        user_id=user_id,
    )
    return Owner(id=row[0], name=row[1]) if row else None


@reads
def identities(tx: Tx, owner: str) -> tuple[Identity, ...]:
    rows = tx.rows(
        "SELECT platform, user_id, name, owner, linked FROM identities"
        " WHERE owner = :owner ORDER BY linked, platform, user_id",
        owner=owner,
    )
    return tuple(
        Identity(
            sender=Sender(platform=Platform(platform), user_id=user_id, name=name),
            owner=owner,
            linked=moment(linked),
        )
        for platform, user_id, name, owner, linked in rows
    )


@writes
def set_home(tx: Tx, owner: str, home: HomeChannel) -> None:
    """Set the owner's home channel on its platform."""
    found(tx, owner)
    tx.insert(
        "homes",
        conflict="(owner, platform) DO UPDATE SET address = excluded.address, name = excluded.name,"
        " audience = excluded.audience",
        owner=owner,
        platform=home.platform.value,
        address=home.address.key,
        name=text(home.name),
        audience=_encoded(home.audience),
    )


@writes
def record_audience(tx: Tx, owner: str, home: Address, audience: Audience) -> None:
    """Record who can read a home channel of which that is not known yet."""
    tx.change(
        "UPDATE homes SET audience = :audience"
        " WHERE owner = :owner AND address = :address AND audience IS NULL",
        owner=owner,
        address=home.key,
        audience=_encoded(audience),
    )


@writes
def clear_home(tx: Tx, owner: str, platform: Platform) -> bool:
    sql = "DELETE FROM homes WHERE owner = :owner AND platform = :platform"
    return tx.change(sql, owner=owner, platform=platform.value) == 1


@reads
def homes(tx: Tx, owner: str) -> tuple[HomeChannel, ...]:
    sql = "SELECT address, name, audience FROM homes WHERE owner = :owner ORDER BY platform"
    rows = tx.rows(sql, owner=owner)
    return tuple(
        HomeChannel(address=Address.parse(key), name=name, audience=_decoded(audience))
        for key, name, audience in rows
    )


def _encoded(audience: Audience | None) -> str | None:
    return None if audience is None else text(msgspec.json.encode(audience).decode())


def _decoded(audience: str | None) -> Audience | None:
    return None if audience is None else msgspec.json.decode(audience, type=Audience)
