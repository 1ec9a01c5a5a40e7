"""Owners: the platform users linked to them, their home channels, and what the agent notes about
them."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Struct

from segue.core import provenance
from segue.core.address import Address, Audience, HomeChannel, Platform, Sender
from segue.core.errors import IdentityTaken, NoteError, OwnerNotFound
from segue.core.provenance import Provenance
from segue.core.session import MAX_NOTES, Note, Owner, clean_note, same_note
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


# Platform users


@writes
def link(tx: Tx, sender: Sender, owner: str) -> None:
    """Link a platform user to an owner. Raise IdentityTaken if the user is linked to another."""
    if text(sender.user_id) != sender.user_id:
        raise ValueError("the user id has characters that no platform uses")
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


# Home channels


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


# Notes


@writes
def add_note(tx: Tx, owner: str, text: str, by: Provenance = provenance.UNKNOWN) -> Note:
    """Add a note that has these authors, or return the existing one that says the same.

    Raise NoteError or OwnerNotFound.
    """
    wanted = clean_note(text)
    found(tx, owner)
    _lock_notes(tx, owner)
    notes = list_notes(tx, owner)
    if (same := next((note for note in notes if same_note(note.text, wanted)), None)) is not None:
        return same
    if len(notes) >= MAX_NOTES:
        raise NoteError(
            f"You already have {MAX_NOTES} notes, which is the limit, because the agent reads all"
            " notes in every session. Type `segue memory` and remove one first."
        )
    # Numbering starts again at 1 once the owner has no notes left.
    number = _last_note_number(tx, owner) + 1 if notes else 1
    sql = "UPDATE owners SET last_note = :number WHERE id = :owner"
    tx.change(sql, number=number, owner=owner)
    authors = provenance.encode(by)
    tx.insert("notes", owner=owner, number=number, text=wanted, written=tx.now, provenance=authors)
    return Note(number=number, text=wanted, written=moment(tx.now), provenance=by)


def _last_note_number(tx: Tx, owner: str) -> int:
    return tx.one("SELECT last_note FROM owners WHERE id = :owner", owner=owner)[0]


@reads
def list_notes(tx: Tx, owner: str) -> tuple[Note, ...]:
    """The owner's notes, in order of their numbers."""
    sql = "SELECT number, text, written, provenance FROM notes WHERE owner = :owner ORDER BY number"
    return tuple(
        Note(
            number=number, text=text, written=moment(written), provenance=provenance.parse(authors)
        )
        for number, text, written, authors in tx.rows(sql, owner=owner)
    )


@writes
def edit_note(
    tx: Tx, owner: str, number: int, text: str, by: Provenance = provenance.UNKNOWN
) -> Note:
    """Replace the text of a note, and its authors, even if another note says the same.

    Raise NoteError if there is none, or if the text cannot be a note.
    """
    wanted = clean_note(text)
    _lock_notes(tx, owner)
    _found_note(tx, owner, number)
    tx.change(
        "UPDATE notes SET text = :text, written = :now, provenance = :provenance"
        " WHERE owner = :owner AND number = :number",
        text=wanted,
        now=tx.now,
        provenance=provenance.encode(by),
        owner=owner,
        number=number,
    )
    return Note(number=number, text=wanted, written=moment(tx.now), provenance=by)


@writes
def remove_note(tx: Tx, owner: str, number: int) -> Note:
    """Delete a note and return it. Raise NoteError if it does not exist."""
    _lock_notes(tx, owner)
    note = _found_note(tx, owner, number)
    sql = "DELETE FROM notes WHERE owner = :owner AND number = :number"
    tx.change(sql, owner=owner, number=number)
    return note


def _found_note(tx: Tx, owner: str, number: int) -> Note:
    # Not a query: the number may be too large for the database.
    for note in list_notes(tx, owner):
        if note.number == number:
            return note
    raise NoteError(f"There is no note {number}. Type `segue memory` to see yours.")


def _lock_notes(tx: Tx, owner: str) -> None:
    tx.lock(f"notes of {owner}")
