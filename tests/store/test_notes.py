"""Notes belong to one owner, are numbered, and are never stored twice."""

from __future__ import annotations

import asyncio

import pytest

from segue.core import provenance
from segue.core.errors import NoteError, OwnerNotFound
from segue.core.session import MAX_NOTES, NOTE_LIMIT, Note
from segue.store import Store, Tx, notes, owners
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import ODD


async def kept(store: Store, owner: str = "me") -> dict[int, str]:
    return {note.number: note.text for note in await notes.list_notes(store, owner)}


async def test_a_note_is_stored_with_its_number_and_its_time(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    note = await notes.add(store, "me", "likes tea")
    assert note == Note(number=1, text="likes tea", written=clock.now())
    clock.advance(1)
    second = await notes.add(store, "me", "works in Köln 👋🏽")
    assert (second.number, second.written) == (2, clock.now())
    assert await notes.list_notes(await open_store(), "me") == (note, second)


async def test_a_note_keeps_its_authors_until_it_is_edited(store: Store):
    read = provenance.AGENT | provenance.FILE
    assert (await notes.add(store, "me", "likes tea", read)).provenance == read
    assert [note.provenance for note in await notes.list_notes(store, "me")] == [read]
    await notes.edit(store, "me", 1, "likes tea", provenance.OWNER)
    assert [note.provenance for note in await notes.list_notes(store, "me")] == [provenance.OWNER]


async def test_a_note_is_cleaned_before_it_is_stored(store: Store):
    assert (
        await notes.add(store, "me", f" likes\n\u202e tea {ODD}\u200b ")
    ).text == "likes tea abc"
    with pytest.raises(NoteError, match="at least one visible character"):
        await notes.add(store, "me", " \u200b\n")
    with pytest.raises(NoteError, match="the limit is"):
        await notes.add(store, "me", "x" * (NOTE_LIMIT + 1))
    assert await kept(store) == {1: "likes tea abc"}


async def test_adding_the_same_text_again_returns_the_existing_note(store: Store, clock: FakeClock):
    note = await notes.add(store, "me", "Likes tea")
    await notes.add(store, "me", "likes teas")
    clock.advance(1)
    assert await notes.add(store, "me", "  LIKES\n tea ") == note
    assert await kept(store) == {1: "Likes tea", 2: "likes teas"}


async def test_a_number_is_not_reused_while_any_note_is_left(store: Store):
    for text in "abc":
        await notes.add(store, "me", text)
    for number in (3, 1):
        await notes.remove(store, "me", number)
    assert (await notes.add(store, "me", "d")).number == 4
    for number in (2, 4):
        await notes.remove(store, "me", number)
    assert (await notes.add(store, "me", "e")).number == 1
    assert (await notes.add(store, "me", "f")).number == 2


async def test_an_edited_note_keeps_its_number_and_has_the_new_text(store: Store, clock: FakeClock):
    first, second = [await notes.add(store, "me", text) for text in ("likes tea", "has a cat")]
    clock.advance(1)
    edited = await notes.edit(store, "me", 1, " likes\tcoffee ")
    assert edited == Note(number=1, text="likes coffee", written=clock.now())
    assert await notes.list_notes(store, "me") == (edited, second)
    assert edited.written != first.written
    for text, reason in (
        ("\u200b", "one visible character"),
        ("x" * (NOTE_LIMIT + 1), "the limit"),
    ):
        with pytest.raises(NoteError, match=reason):
            await notes.edit(store, "me", 1, text)
    assert await notes.list_notes(store, "me") == (edited, second)
    assert (await notes.edit(store, "me", 1, "Has a cat")).number == 1


async def test_a_removed_note_is_gone_and_returned(store: Store):
    first, second = [await notes.add(store, "me", text) for text in ("likes tea", "has a cat")]
    assert await notes.remove(store, "me", 1) == first
    assert await notes.list_notes(store, "me") == (second,)
    with pytest.raises(NoteError, match="no note 1"):
        await notes.remove(store, "me", 1)


@pytest.mark.parametrize("number", [0, -1, 2, 1 << 62, 1 << 70])
async def test_an_unknown_number_changes_nothing(store: Store, number: int):
    await notes.add(store, "me", "likes tea")
    with pytest.raises(NoteError, match="There is no note"):
        await notes.edit(store, "me", number, "likes coffee")
    with pytest.raises(NoteError, match="There is no note"):
        await notes.remove(store, "me", number)
    assert await kept(store) == {1: "likes tea"}


async def test_an_owner_cannot_see_or_change_the_notes_of_another(store: Store):
    await owners.ensure(store, "you")
    await notes.add(store, "me", "likes tea")
    await notes.add(store, "me", "has a cat")
    assert await notes.list_notes(store, "you") == ()
    for number in (1, 2):
        with pytest.raises(NoteError, match="There is no note"):
            await notes.edit(store, "you", number, "mine")
        with pytest.raises(NoteError, match="There is no note"):
            await notes.remove(store, "you", number)
    assert (await notes.add(store, "you", "Likes tea")).number == 1
    await notes.edit(store, "you", 1, "likes coffee")
    await notes.remove(store, "you", 1)
    assert await kept(store) == {1: "likes tea", 2: "has a cat"}


async def test_an_unknown_owner_cannot_have_notes(store: Store):
    with pytest.raises(OwnerNotFound):
        await notes.add(store, "nobody", "likes tea")
    assert await notes.list_notes(store, "nobody") == ()
    with pytest.raises(NoteError, match="There is no note"):
        await notes.remove(store, "nobody", 1)


async def test_there_are_at_most_a_hundred_notes(store: Store):
    await owners.ensure(store, "you")
    await store.write(fill, MAX_NOTES)
    with pytest.raises(NoteError, match="already have 100 notes"):
        await notes.add(store, "me", "one more")
    assert (await notes.add(store, "me", "NOTE 7")).number == 8
    assert (await notes.add(store, "you", "mine")).number == 1
    await notes.remove(store, "me", 50)
    assert (await notes.add(store, "me", "one more")).number == MAX_NOTES + 1
    assert len(await notes.list_notes(store, "me")) == MAX_NOTES


def fill(tx: Tx, count: int) -> None:
    for number in range(count):
        notes.add(tx, "me", f"note {number}")


async def test_concurrent_notes_get_a_number_each_and_one_text_is_one_note(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    added = await asyncio.gather(
        *(notes.add(o, "me", f"note {i}") for o in openings for i in range(8)),
        *(
            notes.add(o, "me", f"only in {n}, {i}")
            for n, o in enumerate(openings)
            for i in range(4)
        ),
    )
    assert {note.number for note in added} == set(range(1, 21))
    assert len(await kept(store)) == 20
    assert len(set((await kept(store)).values())) == 20


async def test_concurrent_notes_do_not_exceed_the_limit(store: Store, open_store: OpenStore):
    openings = [store, await open_store(), await open_store()]
    await store.write(fill, MAX_NOTES - 2)
    outcomes = await asyncio.gather(
        *(notes.add(o, "me", f"{n} {i}") for n, o in enumerate(openings) for i in range(3)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Note) for outcome in outcomes) == 2
    assert sum(isinstance(outcome, NoteError) for outcome in outcomes) == 7
    assert len(await kept(store)) == MAX_NOTES


async def test_of_many_concurrent_removals_of_a_note_one_succeeds(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    await notes.add(store, "me", "likes tea")
    outcomes = await asyncio.gather(
        *(notes.remove(o, "me", 1) for o in openings for _ in range(3)), return_exceptions=True
    )
    assert sum(isinstance(outcome, Note) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, NoteError) for outcome in outcomes) == 8
