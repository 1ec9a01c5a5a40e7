"""Sessions are named, found, listed, ended and deleted, each only by its owner."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import pytest

from segue.core.address import Platform
from segue.core.errors import (
    AmbiguousSession,
    OwnerNotFound,
    SessionError,
    SessionHeld,
    SessionMoved,
    SessionNotFound,
    UserError,
)
from segue.core.session import EndReason, Origin, Session, Usage
from segue.handoffs import queries as handoffs
from segue.store import Store, Tx, bindings, leases, owners, sessions, transcripts
from segue.store.leases import LEASE_SECONDS
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, ODD, TOPIC, hold, on_postgres, said, say

NOWHERE = "20260101_120000_00000000"


async def create(store: Store, title: str | None = None, owner: str = "me") -> Session:
    return await sessions.create(store, owner, Platform.LOCAL, title=title)


# Creating


async def test_a_new_session_has_its_source_and_is_otherwise_empty(store: Store, clock: FakeClock):
    made = await sessions.create(store, "me", Platform.SLACK, parent="before", model="some-model")
    assert re.fullmatch(r"20260101_120000_[0-9a-f]{8}", made.id)
    assert (made.owner, made.source, made.parent) == ("me", Platform.SLACK, "before")
    assert (made.model, made.cwd, made.title) == ("some-model", None, None)
    assert (made.started, made.active, made.ended) == (clock.now(), clock.now(), None)
    assert (made.usage, made.messages, made.address) == (Usage(), 0, None)
    assert await sessions.get(store, made.id) == made


async def test_a_session_needs_an_existing_owner(store: Store):
    with pytest.raises(OwnerNotFound, match="nobody"):
        await sessions.create(store, "nobody", Platform.LOCAL)
    assert await sessions.list_sessions(store, "nobody") == ()


async def test_unstorable_characters_in_a_directory_are_replaced(store: Store):
    made = await sessions.create(store, "me", Platform.LOCAL, cwd="/home/\udcff\0")
    assert made.cwd == "/home/\ufffd\ufffd"


async def test_an_unknown_id_finds_no_session(store: Store):
    assert await sessions.get(store, NOWHERE) is None


# Titles


async def test_a_session_created_under_a_taken_title_is_the_next_of_its_lineage(store: Store):
    titles = [(await create(store, title)).title for title in ("my project", "My Project", "x")]
    assert titles == ["my project", "My Project #2", "x"]
    assert (await create(store, "my project #2")).title == "my project #3"
    assert (await create(store, "my project #7")).title == "my project #7"
    assert (await create(store, "my project")).title == "my project #8"


async def test_another_owner_may_use_the_same_title(store: Store):
    await owners.ensure(store, "you")
    assert (await create(store, "my project")).title == "my project"
    assert (await create(store, "my project", "you")).title == "my project"


async def test_concurrent_sessions_under_one_title_get_a_number_each(
    store: Store, open_store: OpenStore
):
    openings = [store, await open_store(), await open_store()]
    made = await asyncio.gather(*(create(o, "busy") for o in openings for _ in range(4)))
    assert len({session.title for session in made}) == 12
    assert {s.title for s in made} == {"busy", *(f"busy #{n}" for n in range(2, 13))}


async def test_a_title_is_cleaned_before_it_is_stored(store: Store, session: Session):
    renamed = await sessions.rename(store, session.id, "  my\n\u202e pro\u200bject\0 ")
    assert renamed.title == "my project"
    with pytest.raises(UserError, match="at least one visible character"):
        await sessions.rename(store, session.id, " \u200b\u2060 ")
    assert len((await sessions.rename(store, session.id, "x" * 500)).title or "") == 100
    long = await create(store, "x" * 500)
    assert long.title == "x" * 89 + " #2"


LONG = f"{'Plan for the northern voyage ' * 3}of"
"""The beginning of titles that differ only at their end."""


async def test_a_long_title_means_exactly_the_session_with_that_title(store: Store):
    one, two = await create(store, f"{LONG} Aurora"), await create(store, f"{LONG} Bertha")
    assert (one.title, two.title) == (f"{LONG} Aurora", f"{LONG} Bertha")
    for session in (one, two):
        assert session.title is not None
        assert await sessions.find(store, "me", session.title) == session
        assert await sessions.find(store, "me", session.title.upper(), exact=True) == session
    for absent in (f"{LONG} Clara", LONG, f"{LONG} Aurora #2"):
        with pytest.raises(SessionNotFound):
            await sessions.find(store, "me", absent)
    again = await create(store, f"{LONG} Aurora")
    assert again.title is not None
    assert again.title.endswith(" #2")
    assert await sessions.find(store, "me", again.title) == again
    assert await sessions.find(store, "me", f"{LONG} Aurora") == one


async def test_a_long_title_of_an_earlier_version_means_exactly_its_session(store: Store):
    one, two = await create(store, f"{LONG} Aurora"), await create(store, f"{LONG} Bertha")

    def as_before(tx: Tx) -> None:
        for number, session in enumerate((one, two), start=1):
            tx.change(
                "UPDATE sessions SET lineage = :lineage, lineage_no = :number WHERE id = :id",
                lineage=LONG[:89].casefold(),
                number=number,
                id=session.id,
            )

    await store.write(as_before)
    assert await sessions.find(store, "me", f"{LONG} Aurora") == one
    assert await sessions.find(store, "me", f"{LONG} bertha", exact=True) == two
    for absent in (f"{LONG} Clara", LONG[:89]):
        with pytest.raises(SessionNotFound):
            await sessions.find(store, "me", absent)
    with pytest.raises(UserError, match="You already have a session called"):
        await sessions.rename(store, (await create(store)).id, f"{LONG} Bertha")
    assert (await create(store, f"{LONG} Clara")).title == f"{LONG} Clara"


async def test_a_title_that_the_user_chose_is_refused_if_it_is_taken(
    store: Store, session: Session
):
    await create(store, "my project")
    await create(store, "my project")
    with pytest.raises(UserError, match="“MY project #3”"):
        await sessions.rename(store, session.id, "MY project")
    unnamed = await sessions.get(store, session.id)
    assert unnamed is not None
    assert unnamed.title is None
    assert (await sessions.rename(store, session.id, "my project #3")).title == "my project #3"


async def test_an_automatic_title_is_numbered_instead_of_refused(store: Store, session: Session):
    await create(store, "my project")
    renamed = await sessions.rename(store, session.id, "my project", chosen=False)
    assert (renamed.title, renamed.title_chosen) == ("my project #2", False)


async def test_a_title_that_the_user_chose_is_never_replaced_by_an_automatic_one(
    store: Store, session: Session
):
    await sessions.rename(store, session.id, "a guess", chosen=False)
    await sessions.rename(store, session.id, "a better guess", chosen=False)
    chosen = await sessions.rename(store, session.id, "mine")
    assert (chosen.title, chosen.title_chosen) == ("mine", True)
    assert await sessions.rename(store, session.id, "a third guess", chosen=False) == chosen
    assert (await sessions.rename(store, session.id, "mine too")).title == "mine too"


async def test_a_session_can_be_given_its_own_title_again(store: Store, session: Session):
    await sessions.rename(store, session.id, "mine")
    assert (await sessions.rename(store, session.id, "Mine")).title == "Mine"


async def test_a_title_is_free_again_once_its_session_has_another_or_is_gone(store: Store):
    first, second = await create(store, "one"), await create(store, "two")
    await sessions.rename(store, first.id, "three")
    await sessions.delete(store, second.id)
    assert (await create(store, "one")).title == "one"
    assert (await create(store, "two")).title == "two"


async def test_an_unknown_session_cannot_be_renamed(store: Store):
    with pytest.raises(SessionNotFound):
        await sessions.rename(store, NOWHERE, "x")


# Finding


async def test_a_long_unknown_name_is_shortened_in_the_error(store: Store):
    with pytest.raises(SessionNotFound) as refusal:
        await sessions.find(store, "me", "rose " * 4_000)
    assert "“rose rose" in str(refusal.value)
    assert len(str(refusal.value)) < 250


async def test_a_session_is_found_by_its_title_in_any_case(store: Store):
    made = await create(store, "Größe messen")
    for name in ("Größe messen", "größe MESSEN", "  GRÖSSE messen "):
        assert (await sessions.find(store, "me", name)).id == made.id


async def test_a_title_finds_the_newest_of_its_lineage_and_a_numbered_title_that_one(store: Store):
    made = [await create(store, "my project") for _ in range(3)]
    assert (await sessions.find(store, "me", "my project")).id == made[2].id
    assert (await sessions.find(store, "me", "My project #2")).id == made[1].id
    with pytest.raises(SessionNotFound):
        await sessions.find(store, "me", "my project #4")


async def test_the_first_of_a_lineage_is_found_by_its_number_too(store: Store):
    made = [await create(store, "my project") for _ in range(2)]
    assert (await sessions.find(store, "me", "my project #1")).id == made[0].id


async def test_an_exact_title_finds_that_session_and_not_the_newest_of_its_lineage(store: Store):
    first, second = [await create(store, "Ships") for _ in range(2)]
    assert (await sessions.find(store, "me", "ships", exact=True)).id == first.id
    assert (await sessions.find(store, "me", "ships #2", exact=True)).id == second.id
    await sessions.delete(store, first.id)
    with pytest.raises(SessionNotFound):
        await sessions.find(store, "me", "ships", exact=True)


async def test_a_session_titled_latest_is_found_by_its_title(store: Store, clock: FakeClock):
    titled = await create(store, "latest")
    clock.advance(1)
    newest = await create(store)
    assert (await sessions.find(store, "me", "latest", exact=True)).id == titled.id
    await sessions.delete(store, titled.id)
    assert (await sessions.find(store, "me", "latest", exact=True)).id == newest.id


async def test_a_session_is_found_by_its_id_or_a_prefix_of_it(store: Store, clock: FakeClock):
    first = await create(store)
    clock.advance(3600)
    second = await create(store)
    assert await sessions.find(store, "me", first.id) == first
    assert await sessions.find(store, "me", first.id.upper()) == first
    assert await sessions.find(store, "me", "20260101_13") == second
    assert await sessions.find(store, "me", second.id[:-1]) == second


@on_postgres
async def test_a_session_is_found_by_a_prefix_of_its_id_under_any_collation(
    store: Store, session: Session
):
    def collate(tx: Tx) -> None:
        tx.change('ALTER TABLE sessions ALTER COLUMN id TYPE TEXT COLLATE "und-x-icu"')

    await store.write(collate)
    assert await sessions.find(store, "me", session.id[:10]) == session


async def test_an_ambiguous_prefix_is_refused_naming_the_sessions(store: Store):
    first, second = await create(store, "one"), await create(store)
    with pytest.raises(AmbiguousSession) as caught:
        await sessions.find(store, "me", "2026")
    assert "one" in str(caught.value)
    assert second.id in str(caught.value)
    assert first.id not in str(caught.value)


async def test_too_short_a_prefix_finds_no_session(store: Store, session: Session):
    for name in (session.id[:3], "", "_", "%", "20260101%", "2026010_", ODD):
        with pytest.raises(SessionNotFound):
            await sessions.find(store, "me", name)


async def test_latest_is_the_last_active_one(store: Store, session: Session, clock: FakeClock):
    clock.advance(1)
    newer = await create(store)
    assert (await sessions.find(store, "me", "latest")).id == newer.id
    clock.advance(1)
    await say(store, session.id, said("hello"))
    assert (await sessions.find(store, "me", "latest")).id == session.id


async def test_latest_finds_nothing_without_sessions(store: Store):
    with pytest.raises(SessionNotFound):
        await sessions.find(store, "me", "latest")


async def test_resuming_by_name_never_finds_the_session_of_another_owner(store: Store):
    await owners.ensure(store, "you")
    theirs = await create(store, "secret plans", "you")
    for name in ("secret plans", theirs.id, theirs.id[:-2], "latest", "2026"):
        with pytest.raises(SessionNotFound):
            await sessions.find(store, "me", name)
    mine = await create(store, "secret plans")
    assert (await sessions.find(store, "me", "secret plans")).id == mine.id
    assert (await sessions.find(store, "you", "secret plans")).id == theirs.id
    assert await sessions.find(store, "me", "2026") == mine


# Listing


async def test_the_sessions_of_an_owner_are_listed_last_active_first(
    store: Store, clock: FakeClock
):
    await owners.ensure(store, "you")
    await create(store, owner="you")
    made: list[str] = []
    for _ in range(3):
        made.append((await create(store)).id)
        clock.advance(1)
    await say(store, made[0], said("awake"))
    assert [s.id for s in await sessions.list_sessions(store, "me")] == [made[0], made[2], made[1]]
    assert [s.id for s in await sessions.list_sessions(store, "me", limit=2)] == [made[0], made[2]]
    assert await sessions.list_sessions(store, "nobody") == ()


async def test_sessions_active_at_the_same_moment_are_listed_newest_first(store: Store):
    made = [(await create(store)).id for _ in range(3)]
    assert [s.id for s in await sessions.list_sessions(store, "me")] == made[::-1]


async def test_the_list_can_be_filtered(store: Store, clock: FakeClock):
    plain, titled, ended = await create(store), await create(store, "x"), await create(store)
    await sessions.end(store, ended.id, EndReason.NEW)
    moment = clock.now()
    clock.advance(10)
    await say(store, plain.id, said("hello"))

    async def ids(*, titled: bool | None = None, ended: bool | None = None) -> set[str]:
        return {s.id for s in await sessions.list_sessions(store, "me", titled=titled, ended=ended)}

    assert await ids(titled=True) == {titled.id}
    assert await ids(titled=False) == {plain.id, ended.id}
    assert await ids(ended=True) == {ended.id}
    assert await ids(ended=False) == {plain.id, titled.id}
    assert await ids(ended=False, titled=False) == {plain.id}
    quiet = await sessions.list_sessions(store, "me", active_before=moment + timedelta(seconds=10))
    assert {s.id for s in quiet} == {titled.id, ended.id}


async def test_the_list_of_a_platform_has_its_bound_sessions_and_those_set_aside_there(
    store: Store,
):
    local = await create(store)
    moved = await create(store)
    await bindings.rebind(store, moved.id, TOPIC, Origin.HANDOFF)
    left = await sessions.create(store, "me", Platform.TELEGRAM)
    away = await sessions.create(store, "me", Platform.TELEGRAM)
    await bindings.rebind(store, away.id, CHANNEL, Origin.HANDOFF)

    async def there(platform: Platform) -> set[str]:
        return {s.id for s in await sessions.list_sessions(store, "me", platform=platform)}

    assert await there(Platform.LOCAL) == {local.id}
    assert await there(Platform.TELEGRAM) == {moved.id, left.id}
    assert await there(Platform.SLACK) == {away.id}
    assert await there(Platform.WEB) == set()

    await bindings.rebind(store, local.id, TOPIC, Origin.RESUME)  # in place of the one moved there
    await sessions.end(store, away.id, EndReason.NEW)
    assert await there(Platform.LOCAL) == {moved.id}
    assert await there(Platform.TELEGRAM) == {local.id, left.id, away.id}
    assert await there(Platform.SLACK) == set()


async def test_all_sessions_are_counted_and_deleted_ones_are_not(store: Store):
    made = [await create(store, "my project") for _ in range(20)]
    assert await sessions.count(store) == 20
    for session in made[:3]:
        await sessions.delete(store, session.id)
    assert await sessions.count(store) == 17


async def test_the_beginning_of_many_ids_names_some_of_those_that_began_last(
    store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("segue.store.sessions._MOST_MEANT", 2)
    made: list[Session] = []
    for _ in range(3):
        made.append(await create(store))
        clock.advance(1)
    with pytest.raises(AmbiguousSession) as refused:
        await sessions.find(store, "me", "2026")
    assert made[0].id not in str(refused.value)
    assert f"{made[2].id}, {made[1].id}" in str(refused.value)


# Describing, ending, deleting


async def test_describing_changes_only_the_given_fields(store: Store, session: Session):
    lease = await hold(store, session.id)
    await sessions.describe(store, lease, model="some-model")
    await sessions.describe(store, lease, cwd="/elsewhere")
    await sessions.describe(store, lease)
    described = await sessions.get(store, session.id)
    assert described is not None
    assert (described.cwd, described.model) == ("/elsewhere", "some-model")


async def test_an_ended_session_is_unbound_and_has_its_reason(
    store: Store, session: Session, clock: FakeClock
):
    await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
    lease = await hold(store, session.id, said("bye"))
    clock.advance(1)
    await sessions.end(store, session.id, EndReason.NEW, lease=lease)
    ended = await sessions.get(store, session.id)
    assert ended is not None
    assert (ended.ended, ended.end_reason, ended.address) == (clock.now(), EndReason.NEW, None)
    assert await bindings.get(store, DM) is None
    assert await leases.get(store, session.id) is None
    assert len(await transcripts.load(store, session.id)) == 1


async def test_a_reopened_session_is_as_if_it_had_not_ended(store: Store, session: Session):
    await sessions.end(store, session.id, EndReason.IDLE)
    await sessions.reopen(store, session.id)
    assert await sessions.get(store, session.id) == session
    with pytest.raises(SessionNotFound):
        await sessions.reopen(store, NOWHERE)


async def test_a_session_that_is_held_is_neither_ended_nor_deleted(
    store: Store, session: Session, open_store: OpenStore, clock: FakeClock
):
    other = await open_store()
    await hold(store, session.id)
    with pytest.raises(SessionHeld, match="a terminal on desk"):
        await sessions.end(other, session.id, EndReason.NEW)
    with pytest.raises(SessionHeld, match="a terminal on desk"):
        await sessions.delete(other, session.id)
    clock.advance(LEASE_SECONDS)
    await sessions.end(other, session.id, EndReason.NEW)
    await sessions.delete(other, session.id)


@pytest.mark.parametrize("running", [False, True])
async def test_a_session_that_is_being_handed_off_is_neither_ended_nor_deleted(
    store: Store, session: Session, running: bool
):
    lease = await hold(store, session.id)
    asked = await handoffs.request(store, session.id, Platform.TELEGRAM, lease=lease)
    if running:
        await handoffs.claim(store, asked.id)
    with pytest.raises(SessionError, match="A handoff of this session is in progress"):
        await sessions.end(store, session.id, EndReason.NEW, lease=lease)
    with pytest.raises(SessionError, match="A handoff of this session is in progress"):
        await sessions.delete(store, session.id, lease=lease)
    await handoffs.cancel(store, asked.id)
    await sessions.end(store, session.id, EndReason.NEW, lease=lease)


async def test_a_lease_on_another_session_cannot_end_this_one(store: Store, session: Session):
    other = await create(store)
    await hold(store, session.id)
    lease = await leases.acquire(store, other.id, "a terminal on desk")
    with pytest.raises((SessionMoved, SessionHeld)):
        await sessions.end(store, session.id, EndReason.NEW, lease=lease)
    with pytest.raises((SessionMoved, SessionHeld)):
        await sessions.delete(store, session.id, lease=lease)


async def test_a_session_is_deleted_with_all_its_data(store: Store, session: Session):
    other = await create(store)
    await say(store, session.id, said("secret"))
    await say(store, other.id, said("kept"))
    await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
    asked = await handoffs.request(store, session.id, Platform.TELEGRAM)
    await handoffs.cancel(store, asked.id)
    await sessions.delete(store, session.id)
    assert await sessions.get(store, session.id) is None
    assert await bindings.get(store, DM) is None
    assert await handoffs.current(store, session.id) is None
    with pytest.raises(SessionNotFound):
        await transcripts.load(store, session.id)
    assert len(await transcripts.load(store, other.id)) == 1


async def test_a_session_created_after_a_deleted_one_does_not_inherit_its_messages(
    store: Store, session: Session
):
    await say(store, session.id, said("secret"))
    await sessions.delete(store, session.id)
    assert len(await transcripts.load(store, (await create(store)).id)) == 0


async def test_an_unknown_session_can_be_neither_ended_nor_deleted(store: Store):
    with pytest.raises(SessionNotFound):
        await sessions.end(store, NOWHERE, EndReason.NEW)
    with pytest.raises(SessionNotFound):
        await sessions.delete(store, NOWHERE)
