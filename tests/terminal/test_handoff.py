"""Handing off a session from a real pty, with a minimal gateway."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import segue.store
from segue.core.address import HomeChannel
from segue.core.session import ME
from segue.handoffs import queries as handoffs
from segue.handoffs.values import STEPS as SHOWN
from segue.handoffs.values import State
from segue.store import Store, Topic, owners, sessions
from tests.handoffs.conftest import STEPS, Gateway
from tests.harness import quiet_adapter
from tests.harness.gateways import alive, none_left, serving
from tests.harness.pty import Terminal
from tests.harness.terminal import Person
from tests.store.samples import DM, TOPIC


@contextlib.asynccontextmanager
async def a_gateway(person: Person) -> AsyncGenerator[Gateway]:
    """Serves Telegram, where the user has a home channel."""
    async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
        await owners.ensure(store, ME)
        await owners.set_home(store, ME, HomeChannel(address=DM, name="Home"))
        gateway = Gateway(store)
        await gateway.announce(seconds=600)  # it sends no heartbeats
        yield gateway


async def begun(shown: Terminal) -> None:
    await shown.ready()
    shown.say("hello")
    await shown.shows("what I hear: hello")
    await shown.ready()


async def in_flight(store: Store) -> list[State]:
    (session,) = await sessions.list_sessions(store, ME)
    return [handoff.state for handoff in await handoffs.history(store, session.id)]


async def test_without_a_gateway_the_handoff_is_refused_and_the_session_stays(person: Person):
    async with person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        await shown.shows("No gateway is running")
        await shown.ready()
        shown.say("still writable")
        await shown.shows("what I hear: still writable")


async def test_enter_and_ctrl_c_in_one_write_put_the_command_back_into_the_prompt(person: Person):
    async with a_gateway(person) as gateway, person.opens() as shown:
        await begun(shown)
        shown.type("/handoff telegram\r\x03")
        shown.press("backspace")
        await shown.see("/handoff telegra")
        shown.press("c-c")
        shown.say("still here")
        await shown.shows("what I hear: still here")
        assert await handoffs.recent(gateway.store, 1) == ()


async def test_without_a_gateway_a_platform_that_is_not_set_up_is_reported(person: Person):
    async with person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        await shown.shows("No gateway is running, and telegram is not set up yet.")
        await shown.shows("type `segue setup telegram`, which also starts a gateway.")
        await shown.ready()


async def test_a_gateway_is_offered_and_not_started_if_declined(person: Person):
    serving(person)
    async with none_left(person), person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        await shown.see("Start one now? [y]es, [n]o")
        shown.say("n")
        await shown.ready()
        assert await alive(person) == ()
        shown.say("still writable")
        await shown.shows("what I hear: still writable")


async def test_an_accepted_gateway_is_started_and_the_handoff_continues(person: Person):
    serving(person)
    async with none_left(person), person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        await shown.see("Start one now?")
        shown.say("y")
        await shown.shows("Started a gateway")
        await shown.shows("No home channel on telegram yet.")
        await shown.ready()
        (gateway,) = await alive(person)
        assert gateway.platforms == {"telegram", "web"}


async def test_a_gateway_that_does_not_start_says_why_and_the_session_stays(person: Person):
    serving(person, quiet_adapter.BROKEN)
    async with none_left(person), person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        await shown.see("Start one now?")
        shown.say("y")
        await shown.shows("The gateway did not start:")
        await shown.shows("this adapter is broken")
        await shown.ready()
        shown.say("still writable")
        await shown.shows("what I hear: still writable")


async def test_handoff_without_a_platform_lists_the_platforms(person: Person):
    async with a_gateway(person), person.opens() as shown:
        await shown.ready()
        shown.say("/handoff")
        await shown.shows(f"Handoffs arrive at {DM} (Home): type /handoff telegram.")
        await shown.shows("The gateway does not serve web, discord, slack, matrix, whatsapp,")


async def test_every_refusal_is_shown_and_no_handoff_is_requested(person: Person):
    async with a_gateway(person) as gateway, person.opens() as shown:
        await begun(shown)
        for typed, output in (
            ("/handoff telegran", "Try telegram"),
            ("/handoff whatsapp", "whatsapp"),
            ("/handoff matrix", "matrix"),
        ):
            shown.say(typed)
            await shown.shows(output)
            await shown.ready()
        assert await in_flight(gateway.store) == []


async def test_the_steps_are_shown_and_the_terminal_leaves(person: Person):
    async with a_gateway(person) as gateway, person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        claim = await gateway.claim()
        await shown.see("taken up by a gateway")
        for step in STEPS:
            assert await handoffs.record_step(gateway.store, claim, step)
            await shown.see(f"{SHOWN[step]} on telegram")
        assert await gateway.complete(claim)
        assert await shown.end() == 0
        await shown.shows(f"“hello” continues on {TOPIC}")
        await shown.shows("To come back: segue resume hello")
        (session,) = await sessions.list_sessions(gateway.store, ME)
        assert session.address == TOPIC
        async with person.opens("resume", "hello") as back:
            await back.shows("I am a scripted stand-in")
            await back.see("hello · scripted · here")


async def test_ctrl_c_cancels_the_handoff(person: Person):
    async with a_gateway(person) as gateway, person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        async with gateway.store.listen(Topic.HANDOFFS) as wake:
            while not await handoffs.pending(gateway.store):
                await wake.wait(0.25)
        await shown.see("waiting for a gateway")
        shown.press("c-c")
        await shown.see("ancelled")
        assert await in_flight(gateway.store) == [State.FAILED]
        await shown.ready()
        shown.say("still writable")
        await shown.shows("what I hear: still writable")


async def test_ctrl_d_cancels_a_running_handoff(person: Person):
    async with a_gateway(person) as gateway, person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        await gateway.claim()
        await shown.see("taken up by a gateway")
        shown.press("c-d")
        assert await shown.end() == 0
        await shown.shows("To come back: segue resume hello")
        assert await in_flight(gateway.store) == [State.FAILED]


async def test_a_failed_handoff_shows_the_reason_and_the_session_stays(person: Person):
    async with a_gateway(person) as gateway, person.opens() as shown:
        await begun(shown)
        shown.say("/handoff telegram")
        claim = await gateway.claim()
        assert await handoffs.fail(gateway.store, claim, "The chat is closed.\x1b[2J")
        await shown.see("The handoff failed. The chat is closed.")
        await shown.ready()
        shown.say("still writable")
        await shown.shows("what I hear: still writable")
        assert b"\x1b[2J" not in shown.raw
