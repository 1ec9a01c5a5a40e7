"""Messages in a thread whose session is elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import pytest

import segue.store
from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.session import EndReason, Session
from segue.core.transcript import spoken
from segue.gateway import dispatch, messages, turns
from segue.platforms.base import Inbound, InboundKind
from segue.store import bindings, leases, owners, sessions, transcripts
from segue.store import doors as stored_doors
from segue.store.bindings import RESUME
from segue.store.leases import Pause
from segue.testing.platform import Message, Rules, Shape, Shown
from segue.turns import hold
from tests.gateway.test_jobs import make, run_now
from tests.gateway.test_restarts import killed
from tests.harness.house import Desk, House, Slow, echoing, terminal

BRING, NEW = "Bring it here", "Start a new conversation"
HELD = "“Boat” has been open in a terminal on desk since "


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "DOOR_POLL_SECONDS", 0.02)


@dataclass
class Thread:
    """Anna's old thread, whose session went back to the terminal."""

    house: House
    chat: str
    address: Address
    session: Session

    async def say(self, text: str, user: str = "") -> None:
        house = self.house
        await house.driver.say(user or house.anna, self.chat, text, thread=self.address.thread_id)

    async def shows(self, words: str) -> Message:
        """Wait for a message with this text, and return the newest."""
        shown = await self.house.driver.until(
            lambda shown: any(words in self.plain(m) for m in self.spoken(shown)), chat=self.chat
        )
        return [m for m in self.spoken(shown) if words in self.plain(m)][-1]

    async def texts(self) -> list[str]:
        shown = await self.house.driver.look(self.chat)
        return [self.plain(message) for message in self.spoken(shown)]

    def spoken(self, shown: Shown) -> list[Message]:
        """The bot's messages in the thread."""
        people, thread = (self.house.anna, self.house.eve), self.address.thread_id
        return [m for m in shown.messages if m.author not in people and m.thread == thread]

    def plain(self, message: Message) -> str:
        return message.text.replace("*", "")

    async def where(self) -> Address | None:
        found = await sessions.get(self.house.store, self.session.id)
        assert found is not None
        return found.address

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncGenerator[Desk]:
        """A terminal in which the session is open."""
        here = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id=self.session.id)
        async with (
            await segue.store.open(self.house.url) as store,
            hold(store, self.session.id, "a terminal on desk (process 7)", address=here) as held,
        ):
            yield Desk(store, held, self.session)


async def old_thread(house: House, shape: Shape = Shape.FORUM) -> Thread:
    """A thread that a handoff opened, after the session went back."""
    chat = await house.chat(shape, house.eve, name="Home")
    await house.home(chat, "group")
    async with terminal(house.url, ("What is she called?", "Otter."), title="Boat") as desk:
        done = await desk.hand_off()
    assert done.thread is not None
    thread = Thread(house, chat, done.thread, desk.session)
    async with thread.open():
        await thread.shows("This conversation went to the terminal.")
    await house.idle()
    return thread


async def bring_to_dm(house: House) -> str:
    """Bring the session to a direct message, and return that chat."""
    chat = await house.chat(Shape.DM)
    await house.driver.say(house.anna, chat, "/resume Boat")
    await until(house, chat, "continues here")
    return chat


async def test_a_message_brings_a_free_session_back_and_is_answered_with_its_full_transcript(
    house: House,
):
    async with house.gateway():
        thread = await old_thread(house)
        await thread.say("and her colour?")
        await thread.shows("(3) and her colour?")
        await house.idle()
    assert await thread.where() == thread.address
    assert not [text for text in await thread.texts() if BRING in text]
    assert [s.id for s in await sessions.list_sessions(house.store, "me")] == [thread.session.id]


@pytest.mark.parametrize("gateways", [1, 2])
async def test_a_message_waits_while_a_terminal_holds_the_session(house: House, gateways: int):
    """With two gateways, the first one is gone before the owner chooses."""
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(contextlib.AsyncExitStack())
        await running.enter_async_context(house.gateway())
        thread = await old_thread(house)
        desk = await stack.enter_async_context(thread.open())
        await thread.say("and her colour?")
        await thread.say("and her age?")
        question = await thread.shows(HELD)
        assert question.text.endswith("Your message waits until then.")
        assert "Type /resume Boat to bring it here, or /new" in question.text
        assert [button.label for button in question.buttons] == [BRING, NEW]
        await house.idle_but_for(2)
        if gateways == 2:
            await running.aclose()
            await stack.enter_async_context(house.gateway())
            await house.idle_but_for(2)
        assert await thread.where() != thread.address
        await house.driver.press(house.anna, question.id, BRING)
        await thread.shows("(4) and her age?")
        await house.idle()
        assert desk.held.lost.is_set()
        spoken = await thread.texts()
    assert spoken[-3:] == ["“Boat” is back here.", "(3) and her colour?", "(4) and her age?"]
    assert len([text for text in spoken if HELD in text]) == 1
    said = [text for role, text in await house.said(thread.session.id) if role == "user"]
    assert said[-2:] == ["and her colour?", "and her age?"]


async def test_a_new_session_answers_the_message_if_the_owner_chooses_that(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open() as desk:
            await thread.say("something else")
            question = await thread.shows(HELD)
            await house.driver.press(house.anna, question.id, NEW)
            await thread.shows("(1) something else")
            await house.idle()
            assert not desk.held.lost.is_set()
        settled = await thread.shows("✓ A new conversation")
        assert (settled.id, settled.buttons) == (question.id, ())
        # The thread belongs to the new session now.
        await thread.say("and on")
        await thread.shows("(2) and on")
    assert "A new session. The one before stays as it is: /resume Boat" in await thread.texts()
    assert await thread.where() != thread.address


@pytest.mark.parametrize(
    ("choice", "answer"), [("/resume Boat", "(3) the first"), ("/new", "(1) the first")]
)
@pytest.mark.parametrize("restarts", [False, True])
async def test_the_choice_can_be_typed_where_there_are_no_buttons(
    house: House, choice: str, answer: str, restarts: bool
):
    await house.driver.rules(Rules(buttons=False))
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(contextlib.AsyncExitStack())
        await running.enter_async_context(house.gateway())
        thread = await old_thread(house)
        await stack.enter_async_context(thread.open())
        await thread.say("the first")
        await thread.say("the second")
        await thread.shows(HELD)
        if restarts:  # the choice is read by the next gateway, behind both messages
            await house.idle_but_for(2)
            await running.aclose()
            await thread.say(choice)
            await stack.enter_async_context(house.gateway())
        else:
            await thread.say(choice)
        await thread.shows("the second")
        await house.idle()
        spoken = await thread.texts()
    assert spoken[-2] == answer
    assert spoken[-1].endswith("the second")
    assert len([text for text in spoken if HELD in text]) == 1


async def test_the_choice_is_accepted_while_the_queue_is_full(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dispatch, "MAX_WAITING", 1)
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open():
            await thread.say("the first")
            await thread.shows(HELD)
            await thread.say("the second")
            await thread.say("the third")
            await thread.shows("I am still busy with your earlier messages")
            await thread.say("/resume Boat")
            await thread.shows("(4) the second")


async def test_a_choice_recorded_before_a_crash_is_carried_out_after_it(house: House):
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(contextlib.AsyncExitStack())
        await running.enter_async_context(house.gateway())
        thread = await old_thread(house)
        await stack.enter_async_context(thread.open())
        await thread.say("the first")
        await thread.shows(HELD)
        await house.idle_but_for(1)
        await running.aclose()
        press = Inbound(
            kind=InboundKind.BUTTON,
            update_id="a press",
            address=thread.address,
            sender=Sender(platform=Platform.TELEGRAM, user_id=house.anna),
            text=f"{RESUME}:{thread.session.id}",
        )
        assert await messages.record(house.store, "bot", "me", press)
        await stack.enter_async_context(house.gateway())
        await thread.shows("(3) the first")


async def test_the_message_is_answered_when_the_terminal_leaves(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open():
            await thread.say("and her colour?")
            question = await thread.shows(HELD)
        await thread.shows("(3) and her colour?")
        settled = await thread.shows("✓ It is here")
        assert (settled.id, settled.buttons) == (question.id, ())
        await house.driver.press(house.anna, question.id, NEW, turns.NEW_SESSION)
        await thread.shows("that button is no longer known")
    assert await thread.where() == thread.address


async def test_the_question_says_where_a_turn_is_running(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        other = await house.chat(Shape.DM)
        await house.driver.say(house.anna, other, "/resume Boat")
        await house.driver.until(lambda s: any("continues" in t for t in s.texts), chat=other)
        async with hold(house.store, thread.session.id, "a gateway on desk"):
            await thread.say("and her colour?")
            question = await thread.shows("“Boat” has been on telegram dm")
        assert "and the agent is working there" in question.text
        await thread.shows("(3) and her colour?")
        await house.driver.until(lambda s: any("went to" in t for t in s.texts), chat=other)


async def test_a_killed_turn_is_finished_in_its_place_before_a_message_at_a_door_moves_the_session(
    house: House,
):
    model = Slow("her colour")
    async with killed(house, model):
        thread = await old_thread(house)
        other = await bring_to_dm(house)
        await house.driver.say(house.anna, other, "and her colour?")
        await model.thinks.wait()
        await thread.say("and her age?")
        await thread.shows("and the agent is working there")
        await house.idle_but_for(2)
    async with house.gateway(model=echoing()):
        await house.driver.message("(3) and her colour?", chat=other)
        await thread.shows("(4) and her age?")
        await house.idle()
        await house.driver.until(lambda s: any("went to" in t for t in s.texts), chat=other)
    assert await thread.where() == thread.address
    assert (await thread.texts())[-1] == "(4) and her age?"
    said = [text for role, text in await house.said(thread.session.id) if role == "assistant"]
    assert said[-2:] == ["(3) and her colour?", "(4) and her age?"]


async def test_a_killed_turn_whose_session_was_taken_meanwhile_is_reported_in_its_place(
    house: House,
):
    model = Slow("her colour")
    async with killed(house, model):
        thread = await old_thread(house)
        other = await bring_to_dm(house)
        await house.driver.say(house.anna, other, "and her colour?")
        await model.thinks.wait()
    async with thread.open(), house.gateway():
        await until(house, other, "The answer that was under way here was interrupted")
        await house.idle()


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_turn_that_ended_with_its_terminal_is_mentioned_where_the_session_comes(
    house: House, is_stopped: bool
):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open() as desk:
            said = spoken("and her colour?", desk.session.started)
            await transcripts.append(desk.store, desk.held.lease, [said])
            if is_stopped:
                await leases.pause(desk.store, desk.held.lease, Pause.STOPPED)
        await thread.say("and her age?")
        await thread.shows("(4) and her age?")
        await house.idle()
    told = [text for text in await thread.texts() if "was interrupted in the terminal" in text]
    assert len(told) == (0 if is_stopped else 1)


async def test_a_reminder_arrives_in_the_thread_of_a_session_that_is_open_in_a_terminal(
    house: House,
):
    async with house.gateway():
        thread = await old_thread(house)
        job = await make(
            house, "Call the bank.", verbatim=True, deliver="origin", origin=thread.address
        )
        async with thread.open() as desk:
            await run_now(house, job)
            await thread.shows("Call the bank.")
            assert not desk.held.lost.is_set()
        await thread.say("which bank?")
        await thread.shows("(4) which bank?")
        await house.idle()
    said = [text for _, text in await house.said(thread.session.id)]
    assert said[-3:] == ["Call the bank.", "which bank?", "(4) which bank?"]


async def test_stop_drops_the_waiting_message(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open() as desk:
            await thread.say("and her colour?")
            await thread.shows(HELD)
            await thread.say("/stop")
            await thread.shows("Stopped.")
            await house.idle()
            assert not desk.held.lost.is_set()
        await thread.say("and her age?")
        await thread.shows("(3) and her age?")


async def test_a_deleted_session_does_not_leave_the_message_waiting(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open() as desk:
            await thread.say("and her colour?")
            await thread.shows(HELD)
            await sessions.delete(desk.store, thread.session.id, lease=desk.held.lease)
            await thread.shows("(1) and her colour?")


async def test_the_message_can_be_edited_while_it_waits(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open():
            await thread.say("and her colour?")
            question = await thread.shows(HELD)
            shown = await house.driver.look(thread.chat)
            (said,) = [m for m in shown.messages if m.text == "and her colour?"]
            await house.driver.edit(said.id, "and her age?")
            await house.idle_but_for(1)
            await house.driver.press(house.anna, question.id, BRING)
            await thread.shows("(3) and her age?")


async def test_unknown_senders_and_other_owners_cannot_use_the_door(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open() as desk:
            before = await thread.texts()
            await thread.say("what is this?", house.eve)
            await house.idle()
            assert await thread.texts() == before
            await owners.ensure(house.store, "eve")
            sender = Sender(platform=Platform.TELEGRAM, user_id=house.eve)
            await owners.link(house.store, sender, "eve")
            await owners.introduced(house.store, "eve")
            await thread.say("what is this?", house.eve)
            await thread.say("/resume Boat", house.eve)
            await thread.shows("There is no session “Boat”")
            await thread.say("/new", house.eve)
            await thread.shows("belongs to another user")
            await house.idle()
            assert not desk.held.lost.is_set()
        door = await stored_doors.get(house.store, thread.address)
        assert door is not None
        assert door.session_id == thread.session.id
    assert not [text for text in await thread.texts() if HELD in text]
    assert await sessions.list_sessions(house.store, "eve") == ()


async def test_a_command_at_the_door_does_not_start_an_empty_session(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open():
            await thread.say("/title Ships")
            await thread.shows(HELD)
            await house.idle()
        assert await bindings.get(house.store, thread.address) is None
        await thread.say("/title Ships")
        await thread.shows("The title of this session is “Ships”.")
    assert await thread.where() == thread.address


async def test_commands_that_only_read_show_the_session_that_is_elsewhere(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        async with thread.open():
            await thread.say("/status")
            shown = await thread.shows("Session    Boat")
            assert "Place      the terminal" in shown.text
            await thread.say("/history")
            await thread.shows("You: What is she called?")
            await house.idle()
    assert await bindings.get(house.store, thread.address) is None


async def test_a_thread_whose_session_has_ended_says_so(house: House):
    async with house.gateway():
        thread = await old_thread(house)
        await sessions.end(house.store, thread.session.id, EndReason.CLOSED)
        await thread.say("hello")
        await thread.shows("A new session answers here from now on. “Boat” has ended: type /resume")
        await thread.shows("(1) hello")


# Chats without threads


async def until(house: House, chat: str, words: str) -> Message:
    """Wait for a message with this text, and return the newest."""
    shown = await house.driver.until(
        lambda shown: any(words in text for text in shown.texts), chat=chat
    )
    return [message for message in shown.messages if words in message.text][-1]


async def test_a_chat_says_that_a_new_session_answers_and_brings_the_other_back(house: House):
    async with house.gateway():
        chat = await house.chat(Shape.NO_THREADS)
        await house.driver.say(house.anna, chat, "What is she called?")
        await house.driver.message("(1) What is she called?", chat=chat)
        await house.driver.say(house.anna, chat, "/title Boat")
        await until(house, chat, "The title of this session is “Boat”.")
        boat = await house.session_at(await house.address(chat))
        thread = Thread(house, chat, await house.address(chat), boat)
        async with thread.open():
            left = await until(house, chat, "This conversation went to the terminal.")
            assert [button.label for button in left.buttons] == ["Bring back Boat"]
            await house.driver.say(house.anna, chat, "something else")
            await house.driver.message("(1) something else", chat=chat)
        notice = await until(house, chat, "A new session answers here from now on.")
        assert "“Boat” is in the terminal: type /resume Boat to bring it back here." in notice.text
        await house.driver.say(house.anna, chat, "and more")
        await house.driver.message("(2) and more", chat=chat)
        await house.driver.press(house.anna, notice.id, "Bring back Boat")
        back = await until(house, chat, "**“Boat”** continues here.")
        assert "was here before: /resume" in back.text
        assert [button.label.split()[0] for button in back.buttons] == ["Bring"]
        await house.driver.say(house.anna, chat, "and her colour?")
        await house.driver.message("(2) and her colour?", chat=chat)
        await house.idle()
        shown = await house.driver.look(chat)
    assert len([text for text in shown.texts if "A new session answers" in text]) == 1


async def test_a_session_set_aside_by_an_arriving_one_is_brought_back_with_a_button(house: House):
    async with house.gateway():
        chat = await house.chat(Shape.NO_THREADS)
        await house.home(chat, "group")
        await house.driver.say(house.anna, chat, "/title Stories")
        await until(house, chat, "The title of this session is “Stories”.")
        async with house.terminal(("What is she called?", "Otter."), title="Boat") as desk:
            await desk.hand_off()
        aside = await until(house, chat, "“Stories” was here before.")
        await until(house, chat, "**“Boat”** continues here.")
        await house.driver.press(house.anna, aside.id, "Bring back Stories")
        await until(house, chat, "**“Stories”** continues here.")
        await house.driver.say(house.anna, chat, "once upon a time")
        await house.driver.message("(1) once upon a time", chat=chat)


async def test_a_session_without_a_title_is_set_aside_in_words_and_not_by_its_id(house: House):
    async with house.gateway():
        chat = await house.chat(Shape.NO_THREADS)
        await house.home(chat, "group")
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        untitled = await house.session_at(await house.address(chat))
        async with house.terminal(("What is she called?", "Otter."), title="Boat") as desk:
            await desk.hand_off()
        aside = await until(house, chat, "was here before.")
        assert aside.text.startswith("An untitled session of ")
        assert f"Type /resume {untitled.id} to bring it back." in aside.text.replace("\\_", "_")
        assert [button.label for button in aside.buttons] == ["Bring it back"]
        await house.driver.press(house.anna, aside.id, "Bring it back")
        await until(house, chat, "**An untitled session of ")


async def test_a_session_is_set_aside_by_the_name_that_its_button_has(house: House):
    async with house.gateway():
        chat = await house.chat(Shape.NO_THREADS)
        await house.home(chat, "group")
        await house.driver.say(house.anna, chat, "/title Boat")
        await until(house, chat, "The title of this session is “Boat”.")
        # From now on, the name alone means this one.
        async with house.terminal(("What is she called?", "Otter."), title="Boat #2") as desk:
            await desk.hand_off()
        aside = await until(house, chat, "“Boat” was here before.")
        assert "Type /resume Boat #1 to bring it back." in aside.text
        assert [button.label for button in aside.buttons] == ["Bring back Boat"]
        await house.driver.say(house.anna, chat, "/resume Boat #1")
        await until(house, chat, "**“Boat”** continues here.")


async def test_a_chat_that_never_had_a_session_says_nothing_about_another_one(house: House):
    async with house.gateway():
        chat = await house.chat(Shape.DM)
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
        assert (await house.driver.look(chat)).texts == ["hello", "(1) hello"]
