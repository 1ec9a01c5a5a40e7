"""The advice after a failure, and for coming back, is followed literally and works."""

from __future__ import annotations

import asyncio
import re
import shlex

from segue.core.session import ME
from segue.handoffs.request import CLAIM_TIMEOUT
from segue.handoffs.values import REASONS, Failure, State
from segue.store import sessions
from segue.testing.contract.rig import Act
from segue.testing.platform import Shape, Trouble
from tests.failures.advice import (
    IN_A_SHELL,
    advised,
    arrived,
    arrives,
    commands,
    refused,
    type_in_a_shell,
)
from tests.failures.conftest import Household
from tests.harness.house import House

# Failures


async def test_following_the_advice_after_an_unclaimed_request_succeeds(
    household: Household,
):
    """The advice after a handoff that expired."""
    async with household.desk("one") as desk:
        async with household.gateway() as gateway:
            gateway.freeze()
            handing = asyncio.create_task(desk.hand_off())
            await household.handoff(State.PENDING)
            household.advance(CLAIM_TIMEOUT)
            expired = await handing
            assert (expired.state, expired.failure) == (State.FAILED, Failure.EXPIRED)
        status, start = commands(REASONS[Failure.EXPIRED], "No gateway accepted it")
        looked = await household.shell(*shlex.split(status)[1:])
        assert looked.returncode == 3
        assert start == "segue gateway start"
        async with household.gateway():
            assert (await desk.hand_off()).state is State.COMPLETED
            await arrived(household)


async def test_a_failed_delivery_is_reported_and_can_be_requested_again(
    household: Household,
):
    """The advice in DeliveryFailed."""
    await household.left("one")
    async with household.gateway():
        await household.rig.fail(Act.SEND, Trouble.FORBIDDEN, chat=household.chat)
        said = await refused(household)
        (status,) = commands(said, "The handoff failed. The message did not reach telegram:")
        assert "The bot may not do that" in await type_in_a_shell(household, status)
        await arrives(household)


# Resuming


async def test_the_advised_resume_command_works(household: Household):
    """The message of a leaving terminal."""
    await household.left("one", title="-now")
    async with household.gateway():
        left = await household.shell("handoff", "--", "-now", "telegram")
        (back,) = re.findall(r"To come back: (segue .*)", left.stdout)
        (session,) = await sessions.list_sessions(household.store, ME)
        async with household.person.opens(*shlex.split(back)[1:]) as again:
            await again.see("· here")
            await again.ready()
            assert [s.id for s in await sessions.list_sessions(household.store, ME)] == [session.id]
            again.say("two")
            await again.shows("(3) two")


async def test_both_places_that_a_session_left_say_how_to_bring_it_back(household: Household):
    """The notice in a chat when a session leaves it for a terminal, and the other way round.
    A session that left the terminal is in its list."""
    await household.left("one")
    async with household.gateway():
        assert (await household.shell(*IN_A_SHELL)).returncode == 0
        thread = await household.thread()
        async with household.person.opens("resume", "Sums") as back:
            await back.see("· here")
            await household.sees("This conversation went to the terminal")
            (line,) = [t for t in await household.texts(thread) if "went to" in t]
            advice = re.search(r"Type (/resume \S+) to bring it back here", line)
            assert advice is not None
            await household.writes(advice[1], thread)
            await household.sees("“Sums” is back here.")
            (resume,) = await advised(back, "This session is no longer here:")
            async with household.person.opens(*shlex.split(resume)[1:]) as again:
                await again.see("· here")
            await household.writes(advice[1], thread)
            await household.sees("“Sums” is back here.", times=2)
            await back.shows("Type /follow to watch it there, /resume Sums to take it back,")
            back.say("/sessions")
            await back.until(
                lambda: any("Sums" in line and "telegram" in line for line in back.screen),
                "Sums, which is on telegram",
            )
            back.say("/resume Sums")
            await back.see("· here")
            await back.ready()
            back.say("two")
            await back.shows("(3) two")


async def test_resume_works_in_a_chat_as_the_chat_explains_it(house: House):
    """The advice that cannot work elsewhere: /resume in the chat."""
    async with house.terminal(("one", "1."), title="Sums") as desk:
        pass
    async with house.gateway():
        chat = await house.chat(Shape.DM)
        for typed, answer in (
            ("/move telegram", "type /resume to continue an earlier one here"),
            ("/resume", "Type /resume and a number or a name to bring one here."),
            ("/resume 1", "Sums”** continues here."),
            ("two", "(2) two"),
        ):
            await house.driver.say(house.anna, chat, typed)
            await house.driver.until(
                lambda shown, answer=answer: any(answer in text for text in shown.texts), chat=chat
            )
        await house.idle()
    assert (await house.session_at(await house.address(chat))).id == desk.session.id
