"""How handoff fails elsewhere, 9, and how it does not here: what a person is told to type after a
failure, and to come back, is typed, as it stands, and works."""

from __future__ import annotations

import asyncio
import re
import shlex

import pytest

from segue.core.handoff import EXPIRED, State
from segue.core.session import ME
from segue.handoff.request import PATIENCE
from segue.testing.platform import Trouble
from tests.failures.advice import HANDOFF, arrived, told, type_in_a_shell
from tests.failures.conftest import Household
from tests.terminal.gateways import alive, none_left, segue_says

# Failures


async def test_what_nobody_took_up_can_be_asked_for_again_after_what_is_told(
    household: Household,
):
    """9. The way out of a handoff that expired."""
    async with none_left(household.person), household.terminal("one") as shown:
        async with household.gateway() as gateway:
            gateway.freeze()
            shown.say(HANDOFF)
            await household.handoff(State.PENDING)
            household.advance(PATIENCE)
            await shown.shows(EXPIRED)
            status, start = await told(shown, "The handoff failed. No gateway took it up", 2)
        _, *words = shlex.split(status)
        looked = await asyncio.to_thread(segue_says, household.person, *words)
        assert looked.returncode == 3
        await type_in_a_shell(household, start)
        assert len(await alive(household.person)) == 1
        await shown.ready()
        shown.say(HANDOFF)
        assert await shown.end() == 0
        await arrived(household)


@pytest.mark.parametrize("method", ["open_thread", "send"])
async def test_what_did_not_reach_the_platform_is_told_and_can_be_asked_for_again(
    household: Household, method: str
):
    """9. The way out of DeliveryFailed."""
    async with household.gateway(), household.terminal("one") as shown:
        await household.hands.fail(method, Trouble.FORBIDDEN, chat=household.chat)
        shown.say(HANDOFF)
        (status,) = await told(shown, "The handoff failed. That did not reach telegram:")
        await shown.ready()
        assert "The bot may not do that" in await type_in_a_shell(household, status)
        shown.say(HANDOFF)
        assert await shown.end() == 0
        await arrived(household)


# Coming back


@pytest.mark.parametrize("title", ["it's 50% off; really?", "-now"])
async def test_the_way_back_that_is_told_is_the_way_back(household: Household, title: str):
    """9. What a terminal tells when it leaves."""
    async with household.gateway():
        async with household.terminal() as shown:
            shown.say(f"/title {title}")
            await shown.shows("This session is called")
            await shown.ready()
            shown.say(HANDOFF)
            assert await shown.end() == 0
            (back,) = re.findall(r"To come back: (segue .*)", shown.text)
        (session,) = await household.store.sessions.list(ME)
        async with household.person.opens(*shlex.split(back)[1:]) as again:
            await again.see("· here")
            await again.ready()
            assert [s.id for s in await household.store.sessions.list(ME)] == [session.id]
            again.say("two")
            await again.shows("(2) two")


async def test_both_places_that_a_session_left_know_how_to_bring_it_back(household: Household):
    """9. What a chat is told when a session leaves it for a terminal, and the other way round."""
    hands, anna, chat = household.hands, household.anna, household.chat
    async with household.gateway(), household.terminal("one") as shown:
        shown.say(HANDOFF)
        assert await shown.end() == 0
        thread = await household.thread()
        async with household.person.opens("resume", "Sums") as back:
            await back.see("· here")
            await household.sees("This conversation went to the terminal")
            (line,) = [t for t in await household.in_thread(thread.id) if "went to" in t]
            advice = re.search(r"Type (/resume \S+) to bring it back here", line)
            assert advice is not None
            await hands.say(anna, chat, advice[1], thread=thread.id)
            await household.sees("Sums** goes on here.", times=2)
            (resume,) = await told(back, "This session is no longer here:")
            async with household.person.opens(*shlex.split(resume)[1:]) as again:
                await again.see("· here")
            await hands.say(anna, chat, advice[1], thread=thread.id)
            await household.sees("Sums** goes on here.", times=3)
            await back.shows("Type /follow to watch it there, /resume Sums to take it back,")
            back.say("/resume Sums")
            await back.see("· here")
            await back.ready()
            back.say("two")
            await back.shows("(3) two")


async def test_handoff_in_a_chat_explains_what_works_there(household: Household):
    """9. The very advice that cannot work elsewhere: /resume in the chat."""
    hands, anna, chat = household.hands, household.anna, household.chat
    async with household.gateway():
        async with household.terminal("one") as shown:
            shown.say("/quit")
            assert await shown.end() == 0
        await hands.say(anna, chat, "/handoff telegram")
        await household.sees("belongs to the terminal. Type /resume in the chat where you want")
        await hands.say(anna, chat, "/resume")
        await household.sees("Type /resume and a number or a name to bring one here.")
        await hands.say(anna, chat, "/resume 1")
        await household.sees("Sums** goes on here.")
        await hands.say(anna, chat, "two")
        await household.sees("(2) two")
    address = (await household.session()).address
    assert address is not None
    assert address.chat_id == chat
