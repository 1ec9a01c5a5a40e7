"""Notes: what the agent remembers about each owner."""

from __future__ import annotations

from segue.core import provenance
from segue.core.errors import NoteError
from segue.core.provenance import Provenance
from segue.core.session import MAX_NOTES, Note, clean_note, same_note
from segue.store import owners
from segue.store.base import Tx, reads, writes
from segue.store.values import moment


@writes
def add(tx: Tx, owner: str, text: str, by: Provenance = provenance.UNKNOWN) -> Note:
    """Add a note that has these authors, or return the existing one that says the same.

    Raise NoteError or OwnerNotFound.
    """
    wanted = clean_note(text)
    owners.found(tx, owner)
    _lock(tx, owner)
    notes = list_notes(tx, owner)
    if (same := next((note for note in notes if same_note(note.text, wanted)), None)) is not None:
        return same
    if len(notes) >= MAX_NOTES:
        raise NoteError(
            f"You already have {MAX_NOTES} notes, which is the limit, because the agent reads all"
            " notes in every session. Type `segue memory` and remove one first."
        )
    # Numbering starts again at 1 once the owner has no notes left.
    number = _last_number(tx, owner) + 1 if notes else 1
    sql = "UPDATE owners SET last_note = :number WHERE id = :owner"
    tx.change(sql, number=number, owner=owner)
    authors = provenance.encode(by)
    tx.insert("notes", owner=owner, number=number, text=wanted, written=tx.now, provenance=authors)
    return Note(number=number, text=wanted, written=moment(tx.now), provenance=by)


def _last_number(tx: Tx, owner: str) -> int:
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
def edit(tx: Tx, owner: str, number: int, text: str, by: Provenance = provenance.UNKNOWN) -> Note:
    """Replace the text of a note, and its authors, even if another note says the same.

    Raise NoteError if there is none, or if the text cannot be a note.
    """
    wanted = clean_note(text)
    _lock(tx, owner)
    _found(tx, owner, number)
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
def remove(tx: Tx, owner: str, number: int) -> Note:
    """Delete a note and return it. Raise NoteError if it does not exist."""
    _lock(tx, owner)
    note = _found(tx, owner, number)
    sql = "DELETE FROM notes WHERE owner = :owner AND number = :number"
    tx.change(sql, owner=owner, number=number)
    return note


def _found(tx: Tx, owner: str, number: int) -> Note:
    # Not a query: the number may be too large for the database.
    for note in list_notes(tx, owner):
        if note.number == number:
            return note
    raise NoteError(f"There is no note {number}. Type `segue memory` to see yours.")


def _lock(tx: Tx, owner: str) -> None:
    tx.lock(f"notes of {owner}")
