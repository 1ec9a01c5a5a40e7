"""The session of a chat, and when it is reset."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, timedelta

import pytest
from msgspec import structs

from segue.approvals import queries as approvals
from segue.core.address import Address, ChatType, HomeChannel, Platform, listed_audience
from segue.core.errors import (
    AddressTaken,
    OwnerNotFound,
    SessionError,
    SessionHeld,
    SessionMoved,
    SessionNotFound,
)
from segue.core.reset import ResetMode, ResetPolicies, ResetPolicy
from segue.core.session import EndReason, Origin, Session
from segue.handoffs import queries as handoffs
from segue.handoffs.queries import CLAIM_SECONDS
from segue.store import (
    Store,
    bindings,
    deliveries,
    inbox,
    leases,
    outbox,
    owners,
    sessions,
    transcripts,
)
from segue.store.bindings import BoundSession
from segue.store.leases import LEASE_SECONDS
from segue.store.outbox import Draft, Outgoing
from segue.testing.clock import FakeClock
from tests.store.conftest import OpenStore
from tests.store.samples import CHANNEL, DM, ROOM, TOPIC, hold, said, say, texts

NEVER = ResetPolicy()
IDLE = ResetPolicy(mode=ResetMode.IDLE, idle=timedelta(hours=1))
DAILY = ResetPolicy(mode=ResetMode.DAILY, hour=4)
HOUR = 3600
TELEGRAM = Platform.TELEGRAM
DESK = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="desk")


async def arrive(store: Store, policy: ResetPolicy = NEVER, owner: str = "me") -> BoundSession:
    """A message of the owner arrives in the direct chat."""
    return await bindings.resolve(store, DM, owner, policy=policy, zone=UTC)


async def test_the_first_message_in_a_chat_creates_its_session(store: Store):
    bound = await bindings.resolve(
        store, DM, "me", policy=NEVER, zone=UTC, cwd="/home/me", model="some-model"
    )
    assert (bound.created, bound.replaced, bound.reason) == (True, None, None)
    session = bound.session
    assert (session.owner, session.source, session.address) == ("me", Platform.TELEGRAM, DM)
    assert (session.cwd, session.model, session.parent) == ("/home/me", "some-model", None)
    binding = await bindings.get(store, DM)
    assert binding is not None
    assert (binding.session_id, binding.origin, binding.version) == (
        session.id,
        Origin.MESSAGE,
        1,
    )


async def test_the_next_message_finds_the_same_session(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    first = await arrive(store)
    clock.advance(30 * 24 * HOUR)
    again = await arrive(await open_store())
    assert again == BoundSession(session=first.session)


async def test_a_chat_without_messages_has_no_session(store: Store):
    assert await bindings.get(store, DM) is None
    assert await bindings.list_bindings(store, "me") == ()


async def test_many_first_messages_at_once_create_one_session(store: Store, open_store: OpenStore):
    openings = [store, await open_store(), await open_store()]
    bound = await asyncio.gather(*(arrive(o) for o in openings for _ in range(4)))
    assert len({b.session.id for b in bound}) == 1
    assert sum(b.created for b in bound) == 1
    assert len(await sessions.list_sessions(store, "me")) == 1


async def test_many_messages_after_a_reset_create_one_session(
    store: Store, open_store: OpenStore, clock: FakeClock
):
    old = (await arrive(store, IDLE)).session
    openings = [store, await open_store(), await open_store()]
    clock.advance(HOUR)
    bound = await asyncio.gather(*(arrive(o, IDLE) for o in openings for _ in range(4)))
    assert len({b.session.id for b in bound}) == 1
    assert [b.replaced for b in bound if b.created] == [old.id]
    assert len(await sessions.list_sessions(store, "me")) == 2


async def test_a_chat_of_an_unknown_owner_creates_no_session(store: Store):
    with pytest.raises(OwnerNotFound):
        await arrive(store, owner="nobody")
    assert await bindings.get(store, DM) is None


async def test_an_idle_chat_gets_a_new_session_which_names_the_replaced_one_once(
    store: Store, clock: FakeClock
):
    old = (await arrive(store, IDLE)).session
    await say(store, old.id, said("hello"))
    clock.advance(HOUR - 1)
    assert (await arrive(store, IDLE)).session.id == old.id
    clock.advance(1)
    bound = await arrive(store, IDLE)
    assert (bound.created, bound.replaced, bound.reason) == (True, old.id, EndReason.IDLE)
    assert bound.session.parent == old.id
    again = await arrive(store, IDLE)
    assert again == BoundSession(session=bound.session)
    ended = await sessions.get(store, old.id)
    assert ended is not None
    assert (ended.end_reason, ended.address) == (EndReason.IDLE, None)
    assert texts(await transcripts.load(store, old.id)) == ["hello"]


async def test_a_recent_message_prevents_a_reset(store: Store, clock: FakeClock):
    session = (await arrive(store, IDLE)).session
    for _ in range(3):
        clock.advance(HOUR - 1)
        await say(store, session.id, said("still here"))
    assert (await arrive(store, IDLE)).session.id == session.id


async def test_a_chat_is_reset_at_its_hour_of_the_day(store: Store, clock: FakeClock):
    old = (await arrive(store, DAILY)).session
    clock.advance(16 * HOUR - 1)
    assert (await arrive(store, DAILY)).session.id == old.id
    clock.advance(1)
    bound = await arrive(store, DAILY)
    assert (bound.replaced, bound.reason) == (old.id, EndReason.DAILY)


async def test_a_session_with_a_running_turn_is_not_reset(store: Store, clock: FakeClock):
    session = (await arrive(store, IDLE)).session
    clock.advance(HOUR)
    lease = await hold(store, session.id)
    assert (await arrive(store, IDLE)).session.id == session.id
    await leases.release(store, lease)
    assert (await arrive(store, IDLE)).replaced == session.id


async def test_an_expired_lease_does_not_prevent_a_reset(store: Store, clock: FakeClock):
    session = (await arrive(store, IDLE)).session
    lease = await hold(store, session.id)
    clock.advance(max(HOUR, LEASE_SECONDS))
    bound = await arrive(store, IDLE)
    assert bound.replaced == session.id
    assert not await leases.release(store, lease)


async def test_a_session_that_was_handed_off_to_here_is_not_reset(
    store: Store, session: Session, clock: FakeClock
):
    await bindings.rebind(store, session.id, DM, Origin.HANDOFF)
    clock.advance(1000 * HOUR)
    assert (await arrive(store, IDLE)).session.id == session.id
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    clock.advance(HOUR)
    assert (await arrive(store, IDLE)).replaced == session.id


async def test_a_session_that_is_brought_is_reset_only_after_it_was_idle_there(
    store: Store, session: Session, clock: FakeClock
):
    clock.advance(1000 * HOUR)
    await bindings.rebind(store, session.id, DM, Origin.RESUME)
    clock.advance(HOUR - 1)
    assert (await arrive(store, IDLE)).session.id == session.id
    assert await stale(store) == []
    clock.advance(1)
    assert await stale(store) == [session.id]
    assert (await arrive(store, IDLE)).replaced == session.id


async def test_an_ended_session_that_is_brought_back_is_not_reset_by_the_next_message(
    store: Store, clock: FakeClock
):
    old = (await arrive(store, IDLE)).session
    clock.advance(HOUR)
    assert (await arrive(store, IDLE)).replaced == old.id
    await bindings.rebind(store, old.id, DM, Origin.RESUME)
    assert (await arrive(store, IDLE)).session.id == old.id


async def test_a_message_at_a_door_brings_an_old_session_that_is_not_reset_then(
    store: Store, session: Session, clock: FakeClock
):
    await bindings.rebind(store, session.id, TOPIC, Origin.RESUME)
    await bindings.rebind(store, session.id, DESK, Origin.RESUME)
    clock.advance(1000 * HOUR)
    bound = await bindings.resolve(store, TOPIC, "me", policy=IDLE, zone=UTC)
    assert (bound.session.id, bound.created) == (session.id, False)


@pytest.mark.parametrize("ends", [False, True])
async def test_a_session_that_is_reopened_where_it_is_is_not_reset_by_the_next_message(
    store: Store, clock: FakeClock, ends: bool
):
    session = (await arrive(store, IDLE)).session
    clock.advance(HOUR)
    if ends:
        await sessions.close(store, session.id, None, EndReason.IDLE)
    await sessions.reopen(store, session.id)
    assert (await arrive(store, IDLE)).session.id == session.id


@pytest.mark.parametrize("running", [False, True])
async def test_a_session_that_is_being_handed_off_is_not_reset(
    store: Store, clock: FakeClock, running: bool
):
    session = (await arrive(store, IDLE)).session
    clock.advance(HOUR)
    asked = await handoffs.request(store, session.id, Platform.SLACK)
    if running:
        await handoffs.claim(store, asked.id)
    assert (await arrive(store, IDLE)).session.id == session.id
    await handoffs.cancel(store, asked.id)
    assert (await arrive(store, IDLE)).replaced == session.id


async def test_an_expired_handoff_does_not_prevent_a_reset(store: Store, clock: FakeClock):
    session = (await arrive(store, IDLE)).session
    await handoffs.request(store, session.id, Platform.SLACK)
    clock.advance(HOUR + CLAIM_SECONDS)
    assert (await arrive(store, IDLE)).replaced == session.id


async def test_a_clock_that_was_set_back_resets_nothing(store: Store, clock: FakeClock):
    session = (await arrive(store, IDLE)).session
    clock.set_wall(clock.now() - timedelta(days=400))
    assert (await arrive(store, IDLE)).session.id == session.id


@pytest.mark.parametrize("policy", [NEVER, IDLE])
async def test_a_chat_whose_session_belongs_to_another_owner_is_refused(
    store: Store, clock: FakeClock, policy: ResetPolicy
):
    await owners.ensure(store, "you")
    theirs = (await arrive(store, owner="you")).session
    clock.advance(HOUR)
    with pytest.raises(AddressTaken):
        await arrive(store, policy)
    unchanged = await sessions.get(store, theirs.id)
    assert unchanged == theirs
    assert await sessions.list_sessions(store, "me") == ()


# Rebinding


async def test_a_session_is_in_one_place_at_a_time(store: Store, session: Session):
    for address in (DM, TOPIC, CHANNEL, ROOM):
        assert await bindings.rebind(store, session.id, address, Origin.RESUME) is None
        (binding,) = await bindings.list_bindings(store, "me")
        assert (binding.address, binding.session_id) == (address, session.id)
        moved = await sessions.get(store, session.id)
        assert moved is not None
        assert moved.address == address


async def test_the_session_that_was_there_is_set_aside_and_named(store: Store, session: Session):
    there = (await arrive(store)).session
    assert await bindings.rebind(store, session.id, DM, Origin.RESUME) == there.id
    aside = await sessions.get(store, there.id)
    assert aside is not None
    assert (aside.address, aside.ended) == (None, None)
    assert await bindings.rebind(store, session.id, DM, Origin.RESUME) is None


async def test_the_version_of_a_place_grows_with_every_change(store: Store, session: Session):
    other = await sessions.create(store, "me", Platform.LOCAL)
    for version, session_id in enumerate([session.id, other.id, session.id, session.id], 1):
        await bindings.rebind(store, session_id, DM, Origin.RESUME)
        binding = await bindings.get(store, DM)
        assert binding is not None
        assert (binding.session_id, binding.version) == (session_id, version)


async def test_of_two_sessions_moved_to_one_address_at_once_one_is_set_aside(
    store: Store, session: Session, open_store: OpenStore
):
    other = await sessions.create(store, "me", Platform.LOCAL)
    second = await open_store()
    for _ in range(5):
        outcomes = await asyncio.gather(
            bindings.rebind(store, session.id, DM, Origin.RESUME),
            bindings.rebind(second, other.id, DM, Origin.RESUME),
        )
        binding = await bindings.get(store, DM)
        assert binding is not None
        assert binding.session_id in (session.id, other.id)
        assert len(await bindings.list_bindings(store, "me")) == 1
        loser = other.id if binding.session_id == session.id else session.id
        assert loser in outcomes


async def test_a_session_that_does_not_exist_cannot_be_moved(store: Store):
    there = (await arrive(store)).session
    with pytest.raises(SessionNotFound):
        await bindings.rebind(store, "20260101_120000_00000000", DM, Origin.RESUME)
    binding = await bindings.get(store, DM)
    assert binding is not None
    assert binding.session_id == there.id


async def test_the_sessions_of_an_owner_are_listed_last_active_first(
    store: Store, clock: FakeClock
):
    await owners.ensure(store, "you")
    theirs = await sessions.create(store, "you", Platform.LOCAL)
    await bindings.rebind(store, theirs.id, ROOM, Origin.RESUME)
    made: list[str] = []
    for address in (DM, TOPIC, CHANNEL):
        session = await sessions.create(store, "me", Platform.LOCAL)
        await bindings.rebind(store, session.id, address, Origin.RESUME)
        made.append(session.id)
        clock.advance(1)
    await say(store, made[0], said("awake"))
    listed_audience = await bindings.list_bindings(store, "me")
    assert [binding.address for binding in listed_audience] == [DM, CHANNEL, TOPIC]
    assert len(await bindings.list_bindings(store, "me", limit=2)) == 2


# Notices in the chat that a session left


async def notices(store: Store) -> list[Outgoing]:
    """The queued texts."""
    return list(await deliveries.claim(store, set(Platform)))


async def test_a_chat_is_notified_where_a_resumed_session_went(store: Store, session: Session):
    await sessions.rename(store, session.id, "roses")
    await bindings.rebind(store, session.id, DM, Origin.HANDOFF)
    await bindings.rebind(store, session.id, DESK, Origin.RESUME)
    (line,) = await notices(store)
    assert (line.address, line.session_id) == (DM, session.id)
    assert line.body == (
        "This conversation went to the terminal. Type /resume roses to bring it back here."
    )


async def test_each_chat_that_a_session_leaves_is_notified_each_time(
    store: Store, session: Session
):
    for address in (DM, TOPIC, DM, TOPIC):
        await bindings.rebind(store, session.id, address, Origin.RESUME)
    lines = await notices(store)
    assert [line.address for line in lines] == [DM, TOPIC]
    assert f"went to {TOPIC}. " in lines[0].body
    for line in lines:
        await deliveries.sent(store, line)
    assert [line.address for line in await notices(store)] == [DM]


async def test_a_notice_adds_the_number_if_the_title_finds_another_session(
    store: Store, session: Session
):
    await sessions.rename(store, session.id, "roses")
    await sessions.create(store, "me", Platform.LOCAL, title="roses")
    await bindings.rebind(store, session.id, DM, Origin.MESSAGE)
    await bindings.rebind(store, session.id, DESK, Origin.RESUME)
    (line,) = await notices(store)
    assert "/resume roses #1 " in line.body


async def test_there_is_no_notice_when_a_session_leaves_a_terminal_or_does_not_move(
    store: Store, session: Session
):
    for address in (DESK, replace(DESK, chat_id="sofa"), DM, DM):
        await bindings.rebind(store, session.id, address, Origin.RESUME)
    assert await notices(store) == []


async def test_a_chat_is_notified_where_a_session_was_handed_off_to(store: Store, session: Session):
    for address in (DM, TOPIC):
        await bindings.rebind(store, session.id, address, Origin.HANDOFF)
    (line,) = await notices(store)
    assert line.address == DM
    assert f"went to {TOPIC}. " in line.body


# Sessions ended in their chat


async def test_a_session_that_was_ended_in_its_chat_is_replaced_there_once_with_its_reason(
    store: Store, clock: FakeClock
):
    old = (await arrive(store, IDLE)).session
    await say(store, old.id, said("hello"))
    lease = await hold(store, old.id)
    await sessions.close(store, old.id, lease, EndReason.DAILY)
    ended = await sessions.get(store, old.id)
    assert ended is not None
    assert (ended.ended, ended.end_reason, ended.address) == (clock.now(), EndReason.DAILY, DM)
    assert await leases.get(store, old.id) is None
    clock.advance(1)
    bound = await arrive(store, NEVER)
    assert (bound.created, bound.replaced, bound.reason) == (True, old.id, EndReason.DAILY)
    assert (bound.session.parent, bound.session.address) == (old.id, DM)
    assert await arrive(store, NEVER) == BoundSession(session=bound.session)
    left = await sessions.get(store, old.id)
    assert left == structs.replace(ended, address=None)
    assert texts(await transcripts.load(store, old.id)) == ["hello"]


async def test_a_session_that_was_ended_in_its_chat_can_be_resumed_there(
    store: Store,
):
    old = (await arrive(store)).session
    await sessions.close(store, old.id, None, EndReason.IDLE)
    await bindings.rebind(store, old.id, DM, Origin.RESUME)
    bound = await arrive(store)
    assert (bound.session.id, bound.created, bound.session.ended) == (old.id, False, None)


async def test_a_session_held_by_another_process_is_not_ended_in_its_chat(
    store: Store, open_store: OpenStore
):
    session = (await arrive(store)).session
    stale = await hold(store, session.id)
    with pytest.raises(SessionHeld):
        await sessions.close(store, session.id, None, EndReason.IDLE)
    newest = await leases.acquire(await open_store(), session.id, "another", take_over=True)
    with pytest.raises(SessionMoved):
        await sessions.close(store, session.id, stale, EndReason.IDLE)
    await handoffs.request(store, session.id, Platform.SLACK, lease=newest)
    with pytest.raises(SessionError, match="A handoff of this session is in progress"):
        await sessions.close(store, session.id, newest, EndReason.IDLE)
    assert (await arrive(store)).session.id == session.id


# Stale sessions


POLICIES = ResetPolicies(
    default=IDLE,
    overrides={
        (TELEGRAM, ChatType.GROUP): NEVER,
        (Platform.SLACK, None): ResetPolicy(mode=ResetMode.IDLE, idle=timedelta(hours=3)),
        (Platform.MATRIX, None): ResetPolicy(mode=ResetMode.DAILY, hour=15),
    },
)
CHATS = frozenset({TELEGRAM, Platform.SLACK, Platform.MATRIX})


async def stale(
    store: Store,
    policies: ResetPolicies = POLICIES,
    platforms: frozenset[Platform] = CHATS,
    limit: int = 20,
) -> list[str]:
    found = await bindings.stale(store, policies, UTC, platforms, limit)
    return [session.id for session in found]


async def chat(store: Store, address: Address, origin: Origin = Origin.MESSAGE) -> str:
    session = await sessions.create(store, "me", address.platform)
    await bindings.rebind(store, session.id, address, origin)
    return session.id


async def test_each_chat_becomes_stale_by_its_own_policy(store: Store, clock: FakeClock):
    dm, _, channel, room = [await chat(store, a) for a in (DM, TOPIC, CHANNEL, ROOM)]
    clock.advance(HOUR - 1)
    assert await stale(store) == []
    clock.advance(1)
    assert await stale(store) == [dm]
    clock.advance(2 * HOUR - 1)
    assert await stale(store) == [dm]
    clock.advance(1)
    assert await stale(store) == [dm, channel, room]
    (first, *_) = await bindings.stale(store, POLICIES, UTC, CHATS, 1)
    assert (first.id, first.address) == (dm, DM)


async def test_a_session_is_stale_if_the_next_message_would_replace_it(
    store: Store, clock: FakeClock
):
    session = (await arrive(store, IDLE)).session
    await say(store, session.id, said("hello"))
    clock.advance(HOUR)
    assert await stale(store) == [session.id]
    assert (await arrive(store, IDLE)).replaced == session.id
    assert await stale(store) == []


async def test_stale_sessions_are_listed_longest_idle_first_up_to_the_limit(
    store: Store, clock: FakeClock
):
    made: list[str] = []
    for n in range(5):
        made.append(await chat(store, replace(DM, chat_id=f"{n}")))
        clock.advance(1)
    await say(store, made[0], said("awake"))
    clock.advance(HOUR)
    assert await stale(store) == [*made[1:], made[0]]
    assert await stale(store, limit=2) == made[1:3]


async def test_chats_that_are_not_stale_yet_do_not_hide_stale_ones(store: Store, clock: FakeClock):
    for n in range(5):  # idle for longer than the DM below, but not expired
        await chat(store, replace(CHANNEL, chat_id=f"{n}"))
    clock.advance(1)
    dm = await chat(store, DM)
    clock.advance(HOUR)
    assert await stale(store, limit=1) == [dm]


async def test_stale_sessions_are_listed_for_the_requested_platforms_only(
    store: Store, clock: FakeClock
):
    dm, room, _ = [await chat(store, a) for a in (DM, ROOM, DESK)]
    clock.advance(24 * HOUR)
    assert await stale(store, platforms=frozenset({TELEGRAM})) == [dm]
    assert await stale(store, platforms=frozenset({Platform.MATRIX})) == [room]
    assert await stale(store, platforms=frozenset(Platform)) == [dm, room]
    assert await stale(store, platforms=frozenset()) == []
    assert await stale(store, ResetPolicies()) == []


async def test_a_session_outside_chats_or_ended_in_its_chat_is_not_stale(
    store: Store, session: Session, clock: FakeClock
):
    ended = await chat(store, DM)
    await sessions.close(store, ended, None, EndReason.IDLE)
    clock.advance(24 * HOUR)
    assert await stale(store) == []
    await say(store, ended, said("open again"))
    clock.advance(HOUR)
    assert await stale(store) == [ended]


async def test_a_session_that_runs_moves_or_was_handed_off_is_not_stale(
    store: Store, clock: FakeClock
):
    running, moving = await chat(store, DM), await chat(store, replace(DM, chat_id="43"))
    await chat(store, replace(DM, chat_id="44"), Origin.HANDOFF)
    clock.advance(HOUR)
    lease = await hold(store, running)
    asked = await handoffs.request(store, moving, Platform.SLACK)
    assert await stale(store) == []
    await handoffs.cancel(store, asked.id)
    assert await stale(store) == [moving]
    clock.advance(LEASE_SECONDS)
    assert await stale(store) == [running, moving]
    await leases.release(store, lease)
    assert await stale(store) == [running, moving]


async def test_a_clock_that_was_set_back_makes_no_session_stale(store: Store, clock: FakeClock):
    await chat(store, DM)
    clock.set_wall(clock.now() - timedelta(days=400))
    assert await stale(store) == []


# A chat whose platform changes its id

GROUP = Address(platform=TELEGRAM, chat_type=ChatType.GROUP, chat_id="-5")
SUPERGROUP = replace(GROUP, chat_id="-1005")


async def test_a_chat_whose_address_changes_keeps_its_session_home_and_question(
    store: Store,
):
    there = await chat(store, GROUP, Origin.HANDOFF)
    await owners.set_home(store, "me", HomeChannel(address=GROUP, name="Team"))
    lease = await hold(store, there)
    asked = await approvals.ask(store, lease, "call", "f", "rm", GROUP, seconds=60.0)
    no = await inbox.record(store, "bot", "1", GROUP, "{}")
    await outbox.enqueue(store, Draft(key="k", address=GROUP, body="Wait."))
    for _ in range(2):  # the platform may report it twice
        await bindings.chat_moved(store, GROUP, SUPERGROUP)
    assert await bindings.get(store, GROUP) is None
    bound = await bindings.resolve(store, SUPERGROUP, "me", policy=NEVER, zone=UTC)
    assert (bound.created, bound.session.id, bound.session.address) == (False, there, SUPERGROUP)
    assert await owners.homes(store, "me") == (HomeChannel(address=SUPERGROUP, name="Team"),)
    assert [a.id for a in await approvals.waiting_at(store, SUPERGROUP)] == [asked.id]
    assert [(i.no, i.address) for i in await inbox.waiting(store)] == [(no, SUPERGROUP)]
    assert [(o.key, o.address) for o in await deliveries.claim(store, [TELEGRAM])] == [
        ("k", SUPERGROUP)
    ]


async def test_a_session_already_bound_at_the_new_address_stays_there(store: Store):
    before, after = await chat(store, GROUP), await chat(store, SUPERGROUP)
    await bindings.chat_moved(store, GROUP, SUPERGROUP)
    bound = await bindings.resolve(store, SUPERGROUP, "me", policy=NEVER, zone=UTC)
    assert bound.session.id == after
    left = await sessions.get(store, before)
    assert left is not None
    assert left.ended is None, "it can be resumed"


async def test_a_home_channel_that_moves_keeps_the_record_of_its_readers(store: Store):
    private = listed_audience(["anna"], has_owner=True, is_public=False)
    await owners.set_home(store, "me", HomeChannel(address=CHANNEL, name="home", audience=private))
    moved = replace(CHANNEL, chat_id="elsewhere")
    await bindings.chat_moved(store, CHANNEL, moved)
    (home,) = await owners.homes(store, "me")
    assert home.address == moved
    assert home.audience == private
