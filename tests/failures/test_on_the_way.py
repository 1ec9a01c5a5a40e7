"""What happens while a handoff is under way: with real terminals, a real gateway and a platform in
a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from segue.core.address import Platform
from segue.core.handoff import CANCELLED, State, Step
from segue.store import Topic
from segue.testing.models.openai import refusal
from segue.testing.platform import Trouble
from tests.failures.conftest import HANDED_OFF, STAYED, WITHIN, Gateway, Household
from tests.terminal.gateways import segue_says

WORDS = ("first", "second", "third")


# What is written in the new thread meanwhile


async def written_in_the_thread(household: Household) -> str:
    """Anna is quicker than the handoff; the thread that she writes in."""
    thread = await household.thread()
    for text in WORDS:
        await household.hands.say(household.anna, household.chat, text, thread=thread.id)
    async with asyncio.timeout(WITHIN), household.store.listen(Topic.INBOX) as wake:
        while len(await household.store.inbox.waiting()) < len(WORDS):
            await wake.wait(0.1)
    return thread.id


async def answered_in_order(household: Household, thread: str) -> None:
    """After the greeting, each once, in the session that was handed off."""
    await household.hands.message("(5) third", chat=household.chat, within=WITHIN)
    texts = await household.in_thread(thread)
    answers = [text for text in texts if text.startswith("(")]
    assert len(answers) == 4
    assert answers[0].startswith(f"(2) {HANDED_OFF}")
    assert answers[1:] == ["(3) first", "(4) second", "(5) third"]
    said = [text for role, text in await household.said() if role == "user"]
    assert (said[0], said[2:]) == ("one", list(WORDS))


async def test_what_is_written_in_the_new_thread_meanwhile_is_answered_after_the_commit(
    household: Household,
):
    household.mind.hold(HANDED_OFF)
    async with household.gateway(), household.terminal("one") as shown:
        shown.say("/handoff telegram")
        await household.mind.hears(HANDED_OFF)
        thread = await written_in_the_thread(household)
        assert len(household.mind.requests) == 2
        household.mind.let_go()
        assert await shown.end() == 0
        await answered_in_order(household, thread)


async def test_it_is_answered_once_when_the_gateway_is_killed_before_the_commit(
    household: Household,
):
    household.mind.hold(HANDED_OFF)
    async with household.terminal("one") as shown:
        async with household.gateway() as first:
            shown.say("/handoff telegram")
            await household.mind.hears(HANDED_OFF)
            thread = await written_in_the_thread(household)
            first.kill()
        household.mind.let_go()
        async with household.gateway():
            assert await shown.end() == 0
            await answered_in_order(household, thread)


@pytest.mark.parametrize("word", WORDS[1:2])
async def test_it_is_answered_once_when_the_gateway_is_killed_after_the_commit(
    household: Household, word: str
):
    """In the middle of answering each of them."""
    household.mind.hold(HANDED_OFF)
    async with household.terminal("one") as shown:
        async with household.gateway() as first:
            shown.say("/handoff telegram")
            await household.mind.hears(HANDED_OFF)
            thread = await written_in_the_thread(household)
            household.mind.let_go()
            household.mind.hold(word)
            assert await shown.end() == 0
            await household.mind.hears(word)
            first.kill()
        household.mind.let_go()
        async with household.gateway():
            await answered_in_order(household, thread)


# Calling it off


async def while_waiting(household: Household, gateway: Gateway) -> None:
    gateway.freeze()


async def while_it_is_being_opened(household: Household, gateway: Gateway) -> None:
    await household.hands.fail("open_thread", Trouble.HANG_AFTER)


async def while_delivering(household: Household, gateway: Gateway) -> None:
    await household.hands.fail("send", Trouble.HANG)


@pytest.mark.parametrize(
    ("hang", "state", "step"),
    [
        (while_waiting, State.PENDING, None),
        (while_it_is_being_opened, State.RUNNING, Step.OPENING),
        (while_delivering, State.RUNNING, Step.DELIVERING),
    ],
)
async def test_ctrl_c_calls_it_off_and_the_thread_is_told(
    household: Household,
    hang: Callable[[Household, Gateway], Coroutine[Any, Any, None]],
    state: State,
    step: Step | None,
):
    async with household.gateway() as gateway, household.terminal("one") as shown:
        await hang(household, gateway)
        shown.say("/handoff telegram")
        await household.handoff(state, step=step)
        await shown.shows("waiting for a gateway" if step is None else f"{step} on telegram")
        if hang in (while_it_is_being_opened, while_delivering):
            await household.hands.until(lambda shown: shown.hanging == 1)
        shown.press("c-c")
        await shown.shows(CANCELLED)
        await shown.ready()
        gateway.thaw()
        await household.hands.calm()
        for thread in (await household.hands.look(household.chat)).threads:
            await household.sees(STAYED)
            assert (await household.in_thread(thread.id))[-1].startswith(STAYED)
        await household.says(shown, "two", after=1)
        assert [text for _, text in await household.said()] == ["one", "(1) one", "two", "(2) two"]
        (handoff,) = await household.handoffs()
        assert (handoff.state, handoff.error) == (State.FAILED, CANCELLED)
        address = (await household.session()).address
        assert address is not None
        assert address.platform is Platform.LOCAL
        shown.say("/handoff telegram")
        assert await shown.end() == 0


# What is said on arrival


async def test_the_message_of_whoever_leaves_reaches_the_confirming_turn(household: Household):
    async with household.gateway():
        async with household.terminal("one") as shown:
            shown.say("/quit")
            assert await shown.end() == 0
        words = ("handoff", "Sums", "telegram", "--message", 'I am on the "train".')
        done = await asyncio.to_thread(segue_says, household.person, *words)
        assert done.returncode == 0, done.stderr
        assert household.mind.heard('They left you this message for the way: "I am on the') == 1
        assert household.mind.heard(r"\"train\".") == 1
        await household.sees("I am on the")


@pytest.mark.parametrize("away", [True, False])
async def test_without_a_model_the_session_arrives_all_the_same_and_it_is_said_why(
    household: Household, away: bool
):
    """Whether nobody answers there, or it refuses."""
    async with household.gateway():
        async with household.terminal("one") as shown:
            household.mind.away = away
            household.mind.plans.append(refusal(400, "This model is resting."))
            shown.say("/handoff telegram")
            assert await shown.end() == 0
            await shown.shows("Sums goes on at telegram")
        await household.sees("The session is here. Write, and it goes on.")
        await household.sees("The agent could not say so itself:")
        await household.sees("cannot be reached at" if away else "This model is resting.")
        household.mind.away = False
        household.mind.plans.clear()
        thread = await household.thread()
        await household.hands.say(household.anna, household.chat, "go on", thread=thread.id)
        await household.sees("go on")
    said = await household.said()
    assert said[:2] == [("user", "one"), ("assistant", "(1) one")]
    assert said[-2] == ("user", "go on")
