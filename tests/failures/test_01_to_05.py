"""How handoff fails elsewhere, 1 to 5, and how it does not here: real terminals, and a
real gateway."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from segue.core.address import Address, Platform
from segue.core.handoff import ABANDONED, CANCELLED, State, Step
from segue.core.session import ME
from segue.handoff.request import PATIENCE
from segue.store import Topic
from segue.store.handoffs import CLAIM_SECONDS, LEASE_SECONDS
from segue.testing.platform import PeerAdapter, Shape
from tests.failures.conftest import HANDED_OFF, STAYED, WITHIN, Household
from tests.gateway.conftest import House
from tests.gateway.test_handing_off import DIRECT, SAID
from tests.program import constants
from tests.terminal.gateways import segue_says

LOOK = 0.05
"""Seconds between two looks of a terminal that waits."""


# 1


async def test_the_terminal_that_gave_a_session_away_leaves_it_alone(household: Household):
    """1. After "Handoff complete" the leaving terminal closes the session it gave away; the first
    reply from the phone starts an empty one."""
    async with household.gateway():
        async with household.terminal("one", "two") as shown:
            shown.say("/handoff telegram")
            assert await shown.end() == 0
        session = await household.session()
        assert (session.ended, session.end_reason) == (None, None)
        thread = await household.thread()
        await household.hands.say(household.anna, household.chat, "go on", thread=thread.id)
        answer = await household.hands.message("(4) go on", chat=household.chat)
        assert answer.thread == thread.id
    assert [s.id for s in await household.store.sessions.list(ME)] == [session.id]
    users = [text for role, text in await household.said() if role == "user"]
    assert [users[0], users[1], users[3]] == ["one", "two", "go on"]


# 2


@pytest.mark.parametrize(
    ("platform", "shape"),
    [
        (Platform.TELEGRAM, Shape.FORUM),
        (Platform.TELEGRAM, Shape.GROUP),
        (Platform.TELEGRAM, Shape.DM),
        (Platform.DISCORD, Shape.GROUP),
        (Platform.DISCORD, Shape.CHANNEL),
        (Platform.SLACK, Shape.CHANNEL),
        (Platform.SLACK, Shape.DM),
        (Platform.SLACK, Shape.THREADS_REFUSED),
        (Platform.WHATSAPP, Shape.NO_THREADS),
        (Platform.SIGNAL, Shape.NO_THREADS),
        (Platform.MATRIX, Shape.GROUP),
        (Platform.MATRIX, Shape.NO_THREADS),
    ],
)
async def test_a_reply_has_the_very_address_of_the_thread_that_was_opened(
    house: House, platform: Platform, shape: Shape
):
    """2. The key of the thread that was opened differs from the key parsed from a reply in it."""
    await house.pair(house.anna, platform)
    chat = await house.chat(shape, house.eve, name="Home")
    async with house.gateway(platform):
        await house.hands.say(house.anna, chat, "/sethome yes")
        await house.hands.message(f"Handoffs to {platform} arrive here from now on.", chat=chat)
        async with house.terminal(*SAID, title="Sums") as desk:
            done = await desk.hand_off(platform.value)
            assert done.state is State.COMPLETED, done.error
        threads = (await house.hands.look(chat)).threads
        assert (threads == ()) is (shape in DIRECT)
        thread = threads[-1].id if threads else None
        await house.hands.say(house.anna, chat, "go on", thread=thread)
        await house.hands.message("(5) go on", chat=chat)
        await house.idle()
    assert [s.id for s in await house.store.sessions.list(ME)] == [desk.session.id]
    await house.hands.say(house.anna, chat, "and on", thread=thread)
    heard = await address_of(house, platform, "and on")
    assert done.thread is not None
    assert (heard, heard.key) == (done.thread, done.thread.key)


async def address_of(house: House, platform: Platform, text: str) -> Address:
    """Where that is said, as the adapter parses it."""
    adapter = PeerAdapter(platform, house.peer.url, house.peer.token)
    await adapter.connect()
    try:
        async with asyncio.timeout(WITHIN), contextlib.aclosing(adapter.receive()) as coming:
            async for inbound in coming:  # what was not confirmed comes again
                if inbound is not None and inbound.text == text:
                    return inbound.address
    finally:
        await adapter.close()
    raise AssertionError(f"nobody said {text}")


# 3


async def test_the_terminal_does_not_give_up_while_the_gateway_is_at_work(household: Household):
    """3. The terminal gives up at 60 s while the gateway is still at work; both then write to one
    session, interleaved. (Here it has patience only for a gateway that does not begin.)"""
    household.person.environment.update(constants({"segue.handoff.request.LOOK": LOOK}))
    household.mind.hold(HANDED_OFF)
    async with household.gateway(), household.terminal("one") as shown:
        shown.say("/handoff telegram")
        await household.handoff(State.RUNNING, step=Step.REPLYING)
        shown.say("typed meanwhile")
        household.advance(PATIENCE + 2)
        await asyncio.sleep(10 * LOOK)
        assert (await household.handoffs())[0].state is State.RUNNING
        assert shown.process.poll() is None
        household.mind.let_go()
        assert await shown.end() == 0
        await shown.shows("Not sent: typed meanwhile")
    (done,) = await household.handoffs()
    assert (done.state, done.attempt) == (State.COMPLETED, 1)
    said = await household.said()
    assert [role for role, _ in said] == ["user", "assistant"] * 2
    assert HANDED_OFF in said[2][1]


async def test_a_gateway_that_is_called_off_in_the_middle_of_its_work_writes_nothing_more(
    household: Household,
):
    """3, from the other side: the terminal goes on, and what the gateway still had in hand is not
    written between its turns, nor is anything moved by it."""
    household.mind.hold(HANDED_OFF)
    async with household.gateway() as gateway, household.terminal("one") as shown:
        shown.say("/handoff telegram")
        await household.mind.hears(HANDED_OFF)
        shown.press("c-c")
        await shown.shows(CANCELLED)
        await household.says(shown, "two", after=1)
        household.mind.let_go()
        await household.says(shown, "three", after=2)
        await gateway.ends()
        await household.sees(STAYED)
        await household.says(shown, "four", after=3)
        said = ["one", "(1) one", "two", "(2) two", "three", "(3) three"]
        said += ["four", "(4) four"]
        assert [text for _, text in await household.said()] == said
    address = (await household.session()).address
    assert address is not None
    assert address.platform is Platform.LOCAL


# 4


async def test_a_gateway_that_is_killed_is_replaced_and_the_handoff_goes_on(household: Household):
    """4. Killed after the claim: `running` for ever; a retry is refused as "already in flight"."""
    household.mind.hold(HANDED_OFF)
    async with household.terminal("one") as shown:
        async with household.gateway() as first:
            shown.say("/handoff telegram")
            await household.mind.hears(HANDED_OFF)
            thread = await household.thread()
            first.kill()
            await shown.shows("the gateway is gone; waiting for one to go on with it")
        household.mind.let_go()
        async with household.gateway():
            assert await shown.end() == 0
            assert await household.thread() == thread
            await household.hands.say(household.anna, household.chat, "go on", thread=thread.id)
            await household.hands.message("(3) go on", chat=household.chat)
    (done,) = await household.handoffs()
    assert (done.state, done.attempt) == (State.COMPLETED, 2)
    greetings = [text for text in await household.in_thread(thread.id) if HANDED_OFF in text]
    assert len(greetings) == 1


async def test_what_a_killed_gateway_left_is_over_in_30_seconds_and_can_be_asked_for_again(
    household: Household,
):
    """4. The same when no gateway comes back: it is told, with what to type, the session goes on in
    the terminal, and the retry is not refused."""
    household.mind.hold(HANDED_OFF)
    async with household.terminal("one") as shown:
        async with household.gateway() as first:
            shown.say("/handoff telegram")
            await household.mind.hears(HANDED_OFF)
            first.kill()
        await shown.shows("the gateway is gone; waiting for one to go on with it")
        household.advance(LEASE_SECONDS + CLAIM_SECONDS)
        await shown.shows(ABANDONED)
        await shown.ready()
        told = await asyncio.to_thread(segue_says, household.person, "gateway", "status")
        assert (told.returncode, "`segue gateway start`" in told.stdout) == (3, True)
        household.mind.let_go()
        await household.says(shown, "two", after=1)
        async with household.gateway():
            await household.sees(STAYED)
            shown.say("/handoff telegram")
            assert await shown.end() == 0
    assert [h.state for h in await household.handoffs()] == [State.COMPLETED, State.FAILED]


# 5


async def nothing_was_executed(household: Household, calls: int) -> None:
    """A gateway that comes now takes nothing up and asks no model for anything."""
    async with household.gateway() as gateway:
        await household.answered()
        await gateway.ends()
    assert (await household.hands.look(household.chat)).threads == ()
    assert len(household.mind.requests) == calls
    assert all(handoff.attempt == 0 for handoff in await household.handoffs())


@pytest.mark.parametrize("keys", [("n", "enter"), ("c-c",)])
async def test_without_a_gateway_it_is_said_and_nothing_is_left_to_execute(
    household: Household, keys: tuple[str, ...]
):
    """5. No gateway: a minute of silence; Ctrl-C leaves `pending`, and a gateway started later
    executes that ghost and pays for a model call."""
    async with household.terminal("one") as shown:
        shown.say("/handoff telegram")
        await shown.shows("No gateway is running")
        await shown.see("Start one now?")
        shown.press(*keys)
        await shown.gone("Start one now?")
        await shown.ready()
        await household.says(shown, "two", after=1)
        await nothing_was_executed(household, calls=2)
        assert await household.handoffs() == ()


async def test_what_nobody_took_up_and_was_called_off_is_no_ghost(household: Household):
    """5. The same with a gateway that lives and does nothing: what was called off stays so when
    it wakes."""
    async with household.gateway() as gateway:
        async with household.terminal("one") as shown:
            gateway.freeze()
            shown.say("/handoff telegram")
            await shown.shows("waiting for a gateway to take it to telegram")
            shown.press("c-c")
            await shown.shows(CANCELLED)
            await shown.ready()
            gateway.thaw()
            await household.answered()
            (handoff,) = await household.handoffs()
            assert (handoff.state, handoff.attempt) == (State.FAILED, 0)
        gateway.kill()
        await nothing_was_executed(household, calls=1)


async def test_what_a_killed_terminal_asked_for_is_no_ghost_an_hour_later(household: Household):
    """5. The same when the terminal cannot call it off any more."""
    async with household.gateway() as gateway, household.terminal("one") as shown:
        gateway.freeze()
        shown.say("/handoff telegram")
        await household.handoff(State.PENDING)
        shown.kill()
        gateway.kill()
        household.advance(PATIENCE)
        async with asyncio.timeout(WITHIN), household.store.listen(Topic.HANDOFFS) as wake:
            while await household.store.list_pending_handoffs():
                await wake.wait(0.1)
        await nothing_was_executed(household, calls=1)
