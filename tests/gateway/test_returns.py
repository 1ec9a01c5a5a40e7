"""Handoffs of a session that already has a thread at its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import segue.store
from segue.core.address import Address, ChatType, Platform
from segue.core.errors import ConnectFailed, DeliveryFailed
from segue.core.session import ME, Session
from segue.core.transcript import Message, Role, spoken
from segue.handoffs import Completed, handed_over
from segue.handoffs.values import Handoff, State
from segue.store import outbox, sessions, transcripts
from segue.store.outbox import OFFER
from segue.testing.platform import PeerAdapter, Rules, Shape, Trouble
from segue.turns import hold
from tests.harness.house import Desk, House


async def home_in(house: House, shape: Shape = Shape.FORUM) -> str:
    chat = await house.chat(shape, name="Home")
    await house.home(chat, "dm" if shape is Shape.DM else "group")
    return chat


async def goes(house: House, session: Session, *said: str, **more: Any) -> Handoff:
    """A terminal takes the session back, adds these messages and hands it off again."""
    here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=session.id)
    async with (
        await segue.store.open(house.url) as store,
        hold(store, session.id, "a terminal on desk", address=here) as held,
    ):
        for text in said:
            now = session.started
            messages = [spoken(text, now), Message(Role.ASSISTANT, f"I heard {text}", now)]
            await transcripts.append(store, held.lease, messages)
        done = await Desk(store, held, session).hand_off(**more)
    await house.idle()
    return done


async def new_session(house: House) -> Session:
    return await sessions.create(house.store, ME, Platform.LOCAL, title="Boat")


async def in_thread(house: House, chat: str, thread: str | None) -> list[str]:
    shown = await house.driver.look(chat)
    bot = (m for m in shown.messages if m.thread == thread and m.author != house.anna)
    return [m.text.replace("*", "") for m in bot]


async def threads(house: House, chat: str) -> list[str]:
    return [thread.id for thread in (await house.driver.look(chat)).threads]


async def test_round_trips_leave_one_thread(house: House):
    async with house.gateway():
        chat, session = await home_in(house), await new_session(house)
        for trip in range(3):
            done = await goes(house, session, f"trip {trip}")
            assert done.state is State.COMPLETED, done.error
            (thread,) = await threads(house, chat)
            await house.driver.say(house.anna, chat, f"and on {trip}", thread=thread)
            await house.driver.message(f"({3 * trip + 3}) and on {trip}", chat=chat)
            await house.idle()
    (thread,) = await threads(house, chat)
    spoken_there = await in_thread(house, chat, thread)
    backs = [text for text in spoken_there if text.startswith("“Boat” is back here.")]
    assert len(backs) == 2
    assert backs[-1] == "“Boat” is back here.\n\n> You: trip 2\n> Segue: I heard trip 2"


async def test_a_return_without_new_messages_posts_only_one_line(house: House):
    async with house.gateway():
        chat, session = await home_in(house), await new_session(house)
        await goes(house, session, "one")
        await goes(house, session)
    (thread,) = await threads(house, chat)
    assert "“Boat” is back here." in await in_thread(house, chat, thread)


async def test_the_agent_is_asked_to_summarise_what_happened_since(house: House):
    async with house.gateway():
        await home_in(house)
        session = await new_session(house)
        await goes(house, session, "one")
        await goes(house, session, "two")
    prompts = [t for _, t in await house.said(session.id) if t.startswith("[This session has")]
    assert "sum up what they told you and asked you above" in prompts[0]
    assert "sum up what happened elsewhere since you left there" in prompts[1]


async def test_a_new_thread_is_opened_on_request_and_is_the_next_one_to_return_to(house: House):
    async with house.gateway():
        chat, session = await home_in(house), await new_session(house)
        await goes(house, session, "one")
        done = await goes(house, session, new_thread=True)
        assert len(await threads(house, chat)) == 2
        assert done.thread is not None
        first, second = await threads(house, chat)
        assert done.thread.thread_id == second
        again = await goes(house, session)
        assert again.thread == done.thread
        # The old one still belongs to the session.
        await house.driver.say(house.anna, chat, "are you there?", thread=first)
        await house.driver.message("(5) are you there?", chat=chat)


async def test_a_session_returns_to_a_thread_that_the_user_opened(house: House):
    async with house.gateway():
        chat = await home_in(house, Shape.DM)
        session = await new_session(house)
        await goes(house, session, "one", new_thread=True)
        (thread,) = await threads(house, chat)
        await house.driver.say(house.anna, chat, "/new", thread=thread)
        await house.driver.say(house.anna, chat, "hello", thread=thread)
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
        home = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id=chat)
        mine = await house.session_at(replace(home, thread_id=thread))
        assert mine.id != session.id
        done = await goes(house, mine, "two")
        assert done.thread == replace(home, thread_id=thread)
        # The first session has no thread there any more.
        await goes(house, session)
        assert len(await threads(house, chat)) == 2


@pytest.mark.parametrize("keys", [True, False])
async def test_a_deleted_thread_is_replaced_and_both_ends_say_so(house: House, keys: bool):
    await house.driver.rules(Rules(keys=keys))
    async with house.gateway():
        chat, session = await home_in(house), await new_session(house)
        await goes(house, session, "one")
        (gone,) = await threads(house, chat)
        await house.driver.delete_thread(gone)
        done = await goes(house, session, "two")
        assert (done.state, done.confirmed, done.replaced) == (State.COMPLETED, True, True)
        farewell = await handed_over(house.store, Completed(done))
        assert "could not be used, so a new one was opened" in farewell
        (thread,) = await threads(house, chat)
        assert thread != gone
        recap, reply = await in_thread(house, chat, thread)
        assert recap.startswith("“Boat” continues here.\nThe thread that it had could not be used")
        assert "You: one" in recap, "the whole recap"
        assert "handed off to telegram" in reply
        await house.driver.say(house.anna, chat, "go on", thread=thread)
        await house.driver.message("(5) go on", chat=chat)
        # From now on, it returns to the new one.
        assert (await goes(house, session)).replaced is False
        assert await threads(house, chat) == [thread]
    troubles = await outbox.troubled(house.store, reported=False)
    assert [trouble.key for trouble in troubles if "handoff" in trouble.key] == []


async def test_an_unconfirmed_return_is_reported_and_offered_again(house: House):
    await house.driver.rules(Rules(keys=False))
    async with house.gateway():
        chat, session = await home_in(house), await new_session(house)
        await goes(house, session, "one")
        await house.driver.fail("send", Trouble.BROKEN, times=2)
        done = await goes(house, session, "two")
        assert (done.state, done.confirmed) == (State.COMPLETED, False)
        (thread,) = await threads(house, chat)
        await house.driver.say(house.anna, chat, "anybody?", thread=thread)
        await house.driver.message("(5) anybody?", chat=chat)
    offered = [t for t in await in_thread(house, chat, thread) if t.startswith(OFFER)]
    assert offered[0].endswith("“Boat” is back here.\n\n> You: two\n> Segue: I heard two")


async def test_every_handoff_to_a_chat_without_threads_arrives_in_the_chat(house: House):
    async with house.gateway():
        chat, session = await home_in(house, Shape.NO_THREADS), await new_session(house)
        await goes(house, session, "one")
        done = await goes(house, session, "two")
        assert (done.state, done.thread) == (State.COMPLETED, done.home)
    recaps = [
        t for t in await in_thread(house, chat, None) if t.startswith("“Boat” continues here.")
    ]
    assert len(recaps) == 2


class ShyAdapter(PeerAdapter):
    """Takes an invitation at the third attempt."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.invited: list[tuple[str | None, tuple[str, ...]]] = []

    async def invite(self, thread: Address, users: Sequence[str], *, key: str) -> None:
        self.invited.append((thread.thread_id, tuple(users)))
        if len(self.invited) == 1:
            raise DeliveryFailed(platform=self.platform, reason="busy", retry=True, after=0.01)
        if len(self.invited) == 2:
            raise ConnectFailed(platform=self.platform, reason="no connection")


async def test_the_owner_is_added_to_the_thread_with_retries_and_again_at_the_return(house: House):
    chat, session = await home_in(house), await new_session(house)
    adapter = house.adapter(speaks=ShyAdapter)
    assert isinstance(adapter, ShyAdapter)
    async with await segue.store.open(house.url) as store, house.serve(store, adapter):
        await goes(house, session, "one")
        (thread,) = await threads(house, chat)
        assert adapter.invited == [(thread, (house.anna,))] * 3
        await goes(house, session, "two")
    assert adapter.invited == [(thread, (house.anna,))] * 4
