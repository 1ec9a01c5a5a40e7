"""Owners, their platform users, their home channels and their notes."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from segue.core import provenance
from segue.core.address import HomeChannel, Platform, Sender
from segue.core.errors import IdentityTaken, NoteError, OwnerNotFound
from segue.core.session import MAX_NOTES, NOTE_LIMIT, Note, Owner
from segue.store import Store, Tx, owners
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, ODD, TOPIC

SENDER = Sender(platform=Platform.TELEGRAM, user_id="42", name="Me on Telegram")


async def test_an_owner_is_created_once_and_keeps_the_first_name(
    store: Store, open_store: OpenStore
):
    assert await owners.ensure(store, "you", "You") == Owner(id="you", name="You")
    other = await open_store()
    assert await owners.ensure(other, "you", "Somebody") == Owner(id="you", name="You")
    assert await owners.get(other, "you") == Owner(id="you", name="You")
    assert await owners.get(other, "nobody") is None


async def test_an_owner_created_concurrently_is_one_owner(store: Store, open_store: OpenStore):
    openings = [store, await open_store()]
    await asyncio.gather(*(owners.ensure(o, "you") for o in openings for _ in range(5)))
    assert [owner.id for owner in await owners.all_owners(store)] == ["me", "you"]


async def test_owners_are_listed_in_order_of_creation(store: Store, clock: FakeClock):
    for owner in ("zoe", "adam"):
        clock.advance(1)
        await owners.ensure(store, owner)
    assert [owner.id for owner in await owners.all_owners(store)] == ["me", "zoe", "adam"]


async def test_an_owner_is_introduced_exactly_once(store: Store, open_store: OpenStore):
    await owners.ensure(store, "you")
    openings = [store, await open_store()]
    said = await asyncio.gather(*(owners.introduced(o, "me") for o in openings for _ in range(3)))
    assert sorted(said) == [False, *[True] * 5]
    assert not await owners.introduced(store, "you")
    assert await owners.introduced(store, "you")
    with pytest.raises(OwnerNotFound):
        await owners.introduced(store, "nobody")


async def test_a_linked_user_belongs_to_the_owner_and_other_users_to_none(
    store: Store, clock: FakeClock
):
    await owners.link(store, SENDER, "me")
    who = partial(owners.who, store)
    assert await who(Platform.TELEGRAM, "42") == Owner(id="me", name="Me")
    assert await who(Platform.TELEGRAM, "43") is None
    assert await who(Platform.TELEGRAM, "4") is None
    assert await who(Platform.DISCORD, "42") is None
    (identity,) = await owners.identities(store, "me")
    assert (identity.sender, identity.owner, identity.linked) == (SENDER, "me", clock.now())


async def test_a_user_with_an_invalid_id_does_not_match_a_similar_id(store: Store):
    for user_id in ("\ufffd", "?", "a\ufffdb\ufffdc"):
        await owners.link(store, Sender(platform=Platform.TELEGRAM, user_id=user_id), "me")
    for user_id in (ODD, "\0", "\ud800", "", "'; --"):
        assert await owners.who(store, Platform.TELEGRAM, user_id) is None, user_id


async def test_a_user_cannot_belong_to_two_owners(store: Store, open_store: OpenStore):
    await owners.ensure(store, "you")
    await owners.link(store, SENDER, "me")
    with pytest.raises(IdentityTaken, match="telegram user 42"):
        await owners.link(await open_store(), SENDER, "you")
    assert await owners.who(store, Platform.TELEGRAM, "42") == Owner(id="me", name="Me")


async def test_linking_again_changes_only_the_users_name(store: Store, clock: FakeClock):
    await owners.link(store, SENDER, "me")
    linked = clock.now()
    clock.advance(1)
    renamed = Sender(platform=Platform.TELEGRAM, user_id="42", name="New name")
    await owners.link(store, renamed, "me")
    (identity,) = await owners.identities(store, "me")
    assert (identity.sender, identity.linked) == (renamed, linked)


async def test_an_owner_can_have_many_users(store: Store, clock: FakeClock):
    for platform in (Platform.SLACK, Platform.DISCORD):
        await owners.link(store, Sender(platform=platform, user_id="7"), "me")
        clock.advance(1)
    linked = [i.sender.platform for i in await owners.identities(store, "me")]
    assert linked == [Platform.SLACK, Platform.DISCORD]


async def test_an_unlinked_user_can_be_linked_to_another_owner(store: Store):
    await owners.ensure(store, "you")
    await owners.link(store, SENDER, "me")
    assert await owners.unlink(store, Platform.TELEGRAM, "42")
    assert not await owners.unlink(store, Platform.TELEGRAM, "42")
    assert await owners.who(store, Platform.TELEGRAM, "42") is None
    await owners.link(store, SENDER, "you")
    assert await owners.identities(store, "me") == ()


async def test_a_user_cannot_be_linked_to_an_owner_who_does_not_exist(store: Store):
    with pytest.raises(OwnerNotFound):
        await owners.link(store, SENDER, "nobody")
    with pytest.raises(OwnerNotFound):
        await owners.set_home(store, "nobody", HomeChannel(address=DM))
    assert await owners.who(store, Platform.TELEGRAM, "42") is None


async def test_an_owner_has_one_home_channel_per_platform_the_last_one_set(store: Store):
    await owners.set_home(store, "me", HomeChannel(address=DM, name="first"))
    await owners.set_home(store, "me", HomeChannel(address=CHANNEL, name="work"))
    await owners.set_home(store, "me", HomeChannel(address=TOPIC, name="second"))
    assert await owners.homes(store, "me") == (
        HomeChannel(address=CHANNEL, name="work"),
        HomeChannel(address=TOPIC, name="second"),
    )


async def test_a_home_channel_belongs_to_one_owner(store: Store):
    await owners.ensure(store, "you")
    await owners.set_home(store, "me", HomeChannel(address=DM))
    assert await owners.homes(store, "you") == ()
    assert not await owners.clear_home(store, "you", Platform.TELEGRAM)
    assert await owners.clear_home(store, "me", Platform.TELEGRAM)
    assert not await owners.clear_home(store, "me", Platform.TELEGRAM)
    assert await owners.homes(store, "me") == ()


async def test_unstorable_characters_in_names_are_replaced(store: Store):
    assert (await owners.ensure(store, "you", ODD)).name == "a\ufffdb\ufffdc"
    await owners.link(store, Sender(platform=Platform.SLACK, user_id="1", name=ODD), "me")
    await owners.set_home(store, "me", HomeChannel(address=DM, name=ODD))
    (identity,) = await owners.identities(store, "me")
    (home,) = await owners.homes(store, "me")
    assert identity.sender.name == home.name == "a\ufffdb\ufffdc"


async def kept(store: Store, owner: str = "me") -> dict[int, str]:
    return {note.number: note.text for note in await owners.list_notes(store, owner)}


async def test_a_note_is_stored_with_its_number_and_its_time(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    note = await owners.add_note(store, "me", "likes tea")
    assert note == Note(number=1, text="likes tea", written=clock.now())
    clock.advance(1)
    second = await owners.add_note(store, "me", "works in Köln 👋🏽")
    assert (second.number, second.written) == (2, clock.now())
    assert await owners.list_notes(await open_store(), "me") == (note, second)


async def test_a_note_keeps_its_authors_until_it_is_edited(store: Store):
    read = provenance.AGENT | provenance.FILE
    assert (await owners.add_note(store, "me", "likes tea", read)).provenance == read
    assert [note.provenance for note in await owners.list_notes(store, "me")] == [read]
    await owners.edit_note(store, "me", 1, "likes tea", provenance.OWNER)
    assert [note.provenance for note in await owners.list_notes(store, "me")] == [provenance.OWNER]


async def test_a_note_is_cleaned_before_it_is_stored(store: Store):
    assert (
        await owners.add_note(store, "me", f" likes\n\u202e tea {ODD}\u200b ")
    ).text == "likes tea abc"
    with pytest.raises(NoteError, match="at least one visible character"):
        await owners.add_note(store, "me", " \u200b\n")
    with pytest.raises(NoteError, match="the limit is"):
        await owners.add_note(store, "me", "x" * (NOTE_LIMIT + 1))
    assert await kept(store) == {1: "likes tea abc"}


async def test_adding_the_same_text_again_returns_the_existing_note(store: Store, clock: FakeClock):
    note = await owners.add_note(store, "me", "Likes tea")
    await owners.add_note(store, "me", "likes teas")
    clock.advance(1)
    assert await owners.add_note(store, "me", "  LIKES\n tea ") == note
    assert await kept(store) == {1: "Likes tea", 2: "likes teas"}


async def test_a_number_is_not_reused_while_any_note_is_left(store: Store):
    for text in "abc":
        await owners.add_note(store, "me", text)
    for number in (3, 1):
        await owners.remove_note(store, "me", number)
    assert (await owners.add_note(store, "me", "d")).number == 4
    for number in (2, 4):
        await owners.remove_note(store, "me", number)
    assert (await owners.add_note(store, "me", "e")).number == 1
    assert (await owners.add_note(store, "me", "f")).number == 2


async def test_an_edited_note_keeps_its_number_and_has_the_new_text(store: Store, clock: FakeClock):
    first, second = [
        await owners.add_note(store, "me", text) for text in ("likes tea", "has a cat")
    ]
    clock.advance(1)
    edited = await owners.edit_note(store, "me", 1, " likes\tcoffee ")
    assert edited == Note(number=1, text="likes coffee", written=clock.now())
    assert await owners.list_notes(store, "me") == (edited, second)
    assert edited.written != first.written
    for text, reason in (
        ("\u200b", "one visible character"),
        ("x" * (NOTE_LIMIT + 1), "the limit"),
    ):
        with pytest.raises(NoteError, match=reason):
            await owners.edit_note(store, "me", 1, text)
    assert await owners.list_notes(store, "me") == (edited, second)
    assert (await owners.edit_note(store, "me", 1, "Has a cat")).number == 1


async def test_a_removed_note_is_gone_and_returned(store: Store):
    first, second = [
        await owners.add_note(store, "me", text) for text in ("likes tea", "has a cat")
    ]
    assert await owners.remove_note(store, "me", 1) == first
    assert await owners.list_notes(store, "me") == (second,)
    with pytest.raises(NoteError, match="no note 1"):
        await owners.remove_note(store, "me", 1)


@pytest.mark.parametrize("number", [0, -1, 2, 1 << 62, 1 << 70])
async def test_an_unknown_number_changes_nothing(store: Store, number: int):
    await owners.add_note(store, "me", "likes tea")
    with pytest.raises(NoteError, match="There is no note"):
        await owners.edit_note(store, "me", number, "likes coffee")
    with pytest.raises(NoteError, match="There is no note"):
        await owners.remove_note(store, "me", number)
    assert await kept(store) == {1: "likes tea"}


async def test_an_owner_cannot_see_or_change_the_notes_of_another(store: Store):
    await owners.ensure(store, "you")
    await owners.add_note(store, "me", "likes tea")
    await owners.add_note(store, "me", "has a cat")
    assert await owners.list_notes(store, "you") == ()
    for number in (1, 2):
        with pytest.raises(NoteError, match="There is no note"):
            await owners.edit_note(store, "you", number, "mine")
        with pytest.raises(NoteError, match="There is no note"):
            await owners.remove_note(store, "you", number)
    assert (await owners.add_note(store, "you", "Likes tea")).number == 1
    await owners.edit_note(store, "you", 1, "likes coffee")
    await owners.remove_note(store, "you", 1)
    assert await kept(store) == {1: "likes tea", 2: "has a cat"}


async def test_an_unknown_owner_cannot_have_notes(store: Store):
    with pytest.raises(OwnerNotFound):
        await owners.add_note(store, "nobody", "likes tea")
    assert await owners.list_notes(store, "nobody") == ()
    with pytest.raises(NoteError, match="There is no note"):
        await owners.remove_note(store, "nobody", 1)


async def test_there_are_at_most_a_hundred_notes(store: Store):
    await owners.ensure(store, "you")
    await store.write(fill, MAX_NOTES)
    with pytest.raises(NoteError, match="already have 100 notes"):
        await owners.add_note(store, "me", "one more")
    assert (await owners.add_note(store, "me", "NOTE 7")).number == 8
    assert (await owners.add_note(store, "you", "mine")).number == 1
    await owners.remove_note(store, "me", 50)
    assert (await owners.add_note(store, "me", "one more")).number == MAX_NOTES + 1
    assert len(await owners.list_notes(store, "me")) == MAX_NOTES


def fill(tx: Tx, count: int) -> None:
    for number in range(count):
        owners.add_note(tx, "me", f"note {number}")


async def test_concurrent_notes_get_a_number_each_and_one_text_is_one_note(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    added = await asyncio.gather(
        *(owners.add_note(o, "me", f"note {i}") for o in openings for i in range(8)),
        *(
            owners.add_note(o, "me", f"only in {n}, {i}")
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
        *(owners.add_note(o, "me", f"{n} {i}") for n, o in enumerate(openings) for i in range(3)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Note) for outcome in outcomes) == 2
    assert sum(isinstance(outcome, NoteError) for outcome in outcomes) == 7
    assert len(await kept(store)) == MAX_NOTES


async def test_of_many_concurrent_removals_of_a_note_one_succeeds(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    await owners.add_note(store, "me", "likes tea")
    outcomes = await asyncio.gather(
        *(owners.remove_note(o, "me", 1) for o in openings for _ in range(3)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Note) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, NoteError) for outcome in outcomes) == 8
