"""Sessions that expire: the agent takes notes first, and nothing is lost."""

from __future__ import annotations

import asyncio
import itertools
import re
from datetime import timedelta

import pytest
from msgspec import structs

from segue.agent.models.base import Prompt
from segue.agent.models.scripted import ScriptedModel, Step
from segue.config import Settings
from segue.core.reset import ResetMode
from segue.core.session import ME, EndReason
from segue.core.transcript import Kind, Role
from segue.gateway import expiry
from segue.gateway.context import GatewayContext
from segue.gateway.expiry import Expiry
from segue.store import owners, sessions
from segue.store.base import Tx
from segue.store.values import micros, moment
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.gateway.test_commands import message_with
from tests.gateway.test_jobs import make, run_now
from tests.harness.house import TELEGRAM, WITHIN, House, Offered, echoing
from tests.turns.conftest import call

HOUR = 60.0
MICROSECOND = timedelta(microseconds=1) / timedelta(minutes=1)


def idle(settings: Settings, minutes: float) -> Settings:
    """Return settings with which sessions end after so many idle minutes."""
    reset = structs.replace(settings.reset, mode=ResetMode.IDLE, idle_minutes=minutes)
    return structs.replace(settings, reset=reset)


def resetting(house: House) -> None:
    house.settings = idle(house.settings, MICROSECOND)


async def expire(house: House, *script: object) -> None:
    """Run the watcher once, with an agent that follows the script."""
    models = Offered(ScriptedModel(script))  # pyright: ignore[reportArgumentType]
    async with Turns(
        house.store, Agents(house.store, house.settings, models), titles=False
    ) as turns:
        context = GatewayContext(
            store=house.store,
            turns=turns,
            settings=house.settings,
            adapters={},
            name="a gateway",
            serving=frozenset({TELEGRAM}),
        )
        await Expiry(context).end_stale()


async def there_is_a_note(house: House) -> None:
    async with asyncio.timeout(10):
        while True:
            if await owners.list_notes(house.store, ME):
                return
            await asyncio.sleep(0.01)


async def test_the_agent_takes_notes_before_a_stale_session_ends(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "my cat is called Tiger")
        await house.driver.message("(1) my cat is called Tiger", chat=chat)
        await house.idle()
    resetting(house)
    first = await house.session_at(await house.address(chat))
    await expire(house, call("remember", text="The cat is called Tiger."), "done")
    ended = await sessions.get(house.store, first.id)
    assert ended is not None
    assert ended.end_reason is EndReason.IDLE
    assert [n.text for n in await owners.list_notes(house.store, ME)] == [
        "The cat is called Tiger."
    ]
    assert len(await house.said(first.id)) == 2
    reset = structs.replace(house.settings.reset, mode=ResetMode.NONE)
    house.settings = structs.replace(house.settings, reset=reset)
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await message_with(house, chat, "This is a new session")
        await house.driver.message("(1) hello", chat=chat)
        await house.driver.say(house.anna, chat, "again")
        await house.driver.message("(2) again", chat=chat)
        shown = await house.driver.look(chat)
    assert sum("This is a new session" in text for text in shown.texts) == 1
    assert "Tiger" in house.model.prompts[-1].system


async def test_the_agent_takes_notes_when_a_message_ends_a_stale_session(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "my cat is called Tiger")
        await house.driver.message("(1) my cat is called Tiger", chat=chat)
        await house.idle()
    resetting(house)

    def answer(prompt: Prompt) -> Step:
        last = prompt.messages[-1]
        if last.kind is Kind.SYNTHETIC:
            return call("remember", text="The cat is called Tiger.")
        return "done" if last.role is Role.TOOL else "hello to you"

    async with house.gateway(model=itertools.repeat(answer)):
        await house.driver.say(house.anna, chat, "hello")
        await message_with(house, chat, "This is a new session")
        await house.driver.message("hello to you", chat=chat)
        await there_is_a_note(house)
    taken = await owners.list_notes(house.store, ME)
    assert {note.text for note in taken} == {"The cat is called Tiger."}


async def test_a_session_ends_even_if_the_model_is_unavailable(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
    resetting(house)
    first = await house.session_at(await house.address(chat))
    await expire(house)
    ended = await sessions.get(house.store, first.id)
    assert ended is not None
    assert ended.ended is not None


async def test_a_session_that_was_handed_off_is_not_reset(house: House):
    from segue.testing.platform import Shape
    from tests.gateway.test_handoffs import SAID, home_in

    async with house.gateway():
        await home_in(house, Shape.DM)
        async with house.terminal(*SAID, title="Sums") as desk:
            await desk.hand_off()
    resetting(house)
    await expire(house)
    now = await sessions.get(house.store, desk.session.id)
    assert now is not None
    assert now.ended is None


async def age(house: House, session_id: str) -> None:
    """Make it a day ago that something was said in the session."""

    def change(tx: Tx) -> None:
        day_ago = micros(moment(tx.now) - timedelta(days=1))
        tx.change("UPDATE sessions SET active = :then WHERE id = :id", then=day_ago, id=session_id)

    await house.store.write(change)


@pytest.mark.parametrize("ends", ["by a message", "by the clock", "not yet"])
async def test_a_resumed_session_continues_with_the_next_message(house: House, ends: str):
    house.settings = idle(house.settings, HOUR)
    chat = await house.chat()
    async with house.gateway(model=echoing()):
        await house.driver.say(house.anna, chat, "my cat is called Tiger")
        await house.driver.message("(1) my cat is called Tiger", chat=chat)
        await house.driver.say(house.anna, chat, "/title About the cat")
        await message_with(house, chat, "About the cat")
        await house.idle()
        cat = await house.session_at(await house.address(chat))
        await age(house, cat.id)
        if ends == "by a message":
            await house.driver.say(house.anna, chat, "hello")
            await house.driver.message("(1) hello", chat=chat)
        elif ends == "by the clock":
            await sessions.close(house.store, cat.id, None, EndReason.IDLE)
        await house.driver.say(house.anna, chat, "/resume About the cat")
        await message_with(house, chat, "here already" if ends == "not yet" else "continues here")
        await house.driver.say(house.anna, chat, "how old is she?")
        await house.driver.message("(2) how old is she?", chat=chat)


async def test_a_report_that_replaces_an_expired_session_says_so_and_lets_the_agent_take_notes(
    house: House,
):
    house.settings = idle(house.settings, HOUR)
    chat = await house.chat()
    await house.home(chat)

    def answer(prompt: Prompt) -> Step:
        last = prompt.messages[-1]
        if last.kind is Kind.SYNTHETIC:
            return call("remember", text="The cat is called Tiger.")
        return "done" if last.role is Role.TOOL else "hello to you"

    async with house.gateway(model=itertools.repeat(answer)):
        await house.driver.say(house.anna, chat, "my cat is called Tiger")
        await house.driver.message("hello to you", chat=chat)
        await house.driver.say(house.anna, chat, "/title Bank")
        await message_with(house, chat, "Bank")
        await house.idle()
        cat = await house.session_at(await house.address(chat))
        await age(house, cat.id)
        await run_now(house, await make(house, "Call the bank.", verbatim=True, name="Bank"))
        await house.driver.message("Call the bank.", chat=chat)
        shown = await house.driver.look(chat)
        await there_is_a_note(house)
        # Its title now leads to the session of the report.
        await house.driver.say(house.anna, chat, "/resume Bank #1")
        await message_with(house, chat, "continues here")
    assert (await house.session_at(await house.address(chat))).id == cat.id
    (notice,) = [text for text in shown.texts if "This is a new session" in text]
    assert "“Bank” ended because it was idle for too long. Type /resume Bank #1" in notice
    assert shown.texts.index(notice) < shown.texts.index("Call the bank.")


async def test_the_notice_of_a_reset_brings_its_session_back_although_the_new_one_has_its_title(
    house: House,
):
    house.settings = idle(house.settings, HOUR)
    chat = await house.chat()
    async with house.gateway(model=echoing()):
        await house.driver.say(house.anna, chat, "my cat is called Tiger")
        await house.driver.message("(1) my cat is called Tiger", chat=chat)
        await house.idle()
        cat = await house.session_at(await house.address(chat))
        await sessions.rename(house.store, cat.id, "About the cat", chosen=False)
        await age(house, cat.id)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
        fresh = await house.session_at(await house.address(chat))
        await sessions.rename(house.store, fresh.id, "About the cat", chosen=False)
        notice = await message_with(house, chat, "This is a new session")
        (command,) = re.findall(r"Type (/resume .+?) to go back", notice.text.replace("\\", ""))
        await house.driver.say(house.anna, chat, command)
        await message_with(house, chat, "continues here")
    assert (await house.session_at(await house.address(chat))).id == cat.id


async def test_a_reset_that_is_switched_on_while_the_gateway_runs_ends_sessions_by_the_clock(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(expiry, "POLL_SECONDS", 0.01)
    chat = await house.chat()
    async with house.gateway(model=echoing()) as gateway:
        await house.driver.say(house.anna, chat, "my cat is called Tiger")
        await house.driver.message("(1) my cat is called Tiger", chat=chat)
        await house.idle()
        cat = await house.session_at(await house.address(chat))
        await age(house, cat.id)
        gateway.reload(idle(house.settings, HOUR))
        async with asyncio.timeout(WITHIN):
            while True:
                found = await sessions.get(house.store, cat.id)
                if found is not None and found.end_reason is EndReason.IDLE:
                    break
                await asyncio.sleep(0.01)
