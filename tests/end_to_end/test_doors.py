"""One session, one thread: later handoffs return to it, and messages there reach the session."""

from __future__ import annotations

import asyncio

from segue.core.session import ME
from segue.handoffs.values import State
from segue.store import sessions
from segue.testing.contract.rig import Act
from segue.testing.peers import Trouble
from tests import rigs
from tests.end_to_end.conftest import on
from tests.harness.household import HANDED_OFF, Household

BRING, NEW = "Bring it here", "Start a new conversation"
TERMINAL = "“Sums” has been open in a terminal on"


@on(rigs.TelegramRig, rigs.SlackRig, among=rigs.THREADED)
async def test_round_trips_leave_one_thread(home: Household):
    await home.at_home(home.rig.forum)
    session = await home.left()
    async with home.gateway():
        for trip in range(3):
            async with home.sits_down(session) as desk:
                await desk.says(f"desk {trip}")
                done = await desk.hand_off(home.rig.platform)
            assert done.state is State.COMPLETED, done.error
            thread = await home.thread()  # the only one
            await home.sees(HANDED_OFF, thread, times=trip + 1)
            await home.writes(f"phone {trip}", thread)
            await home.sees(f"({3 * trip + 3}) phone {trip}", thread)
    thread = await home.thread()
    plain = [" ".join(text.replace(">", "").split()) for text in await home.texts(thread)]
    assert [text for text in plain if text.startswith("“Sums” is back here.")] == [
        f"“Sums” is back here. You: desk {n} Segue: ({3 * n + 1}) desk {n}" for n in (1, 2)
    ], "each has what is new, and nothing else"
    assert await home.texts(None) == []
    assert [found.id for found in await sessions.list_sessions(home.store, ME)] == [session.id]


@on(rigs.DiscordRig, among=rigs.THREADED)
async def test_a_terminal_hands_off_to_a_new_thread_on_request(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        first = await home.arrives()
        async with home.person.opens("resume", "sums") as back:
            await back.ready()
            back.say(f"/handoff {home.rig.platform} --new-thread")
            assert await back.end() == 0
        newest = (await home.handoff(State.COMPLETED)).thread
        assert newest is not None
        assert newest.thread_id != first
        done = await home.shell("handoff", "sums", home.rig.platform, "--new-thread")
        assert done.returncode == 0, done.stderr
        assert len((await home.rig.look(home.chat)).threads) == 3


@on(rigs.SlackRig, among=rigs.THREADED)
async def test_a_message_in_an_old_thread_reaches_its_free_session(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        async with home.sits_down(await home.session()) as desk:
            await desk.says("at the desk")
        await home.writes("are you there?", thread)
        await home.sees("(4) are you there?", thread)
        await home.rig.confirmed()
    assert [found.title for found in await sessions.list_sessions(home.store, ME)] == ["Sums"]
    assert not [text for text in await home.texts() if "has been" in text]


@on(rigs.TelegramRig, among=rigs.THREADED)
async def test_the_owner_takes_the_session_from_a_terminal_after_a_restart(home: Household):
    await home.at_home(home.rig.forum)
    async with home.person.opens("chat", "--title", "Else") as back:
        async with home.gateway() as gateway:
            thread = await home.arrives()
            await back.ready()
            back.say("/resume Sums")
            await back.see("· here")
            await home.writes("are you there?", thread)
            question = await home.sees(TERMINAL, thread)
            assert "Type /resume Sums to bring it here, or /new" in question.text
            assert question.labels == (BRING, NEW)
            await home.rig.say(home.eve, home.chat, "/resume Sums", thread=thread)
            await home.rig.press(home.eve, home.chat, question, BRING)
            await home.writes("hello?", thread)
            await home.rig.confirmed()
            gateway.kill()
        async with home.gateway():
            await home.rig.press(home.anna, home.chat, question, BRING)
            await back.shows("This session is no longer here:")
            await home.sees("(4) hello?", thread)
            await home.rig.confirmed()
        spoken = await home.texts(thread)
        assert spoken[-2:] == ["(3) are you there?", "(4) hello?"]
        assert sum(TERMINAL in text for text in spoken) == 1


@on(rigs.GenericRig, among=rigs.THREADED)
async def test_a_chat_that_takes_a_session_from_a_working_terminal_says_that_it_was_stopped(
    home: Household,
):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        async with home.person.opens("resume", "sums") as back:
            await back.ready()
            home.model.hold("think")
            back.say("think")
            await home.model.hears("think")
            await home.writes("/resume Sums", thread)
            notice = await home.sees("“Sums” is back here.", thread)
            assert "The agent was working on it, and was stopped." in notice.text
            await back.shows("The agent was working on it here, and was stopped.")
            await home.rig.confirmed()


@on(rigs.DiscordRig, among=rigs.THREADED)
async def test_the_owner_starts_a_new_conversation_in_an_old_thread(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        async with home.sits_down(await home.session()) as desk:
            await home.writes("something else", thread)
            question = await home.sees(f"{TERMINAL} desk", thread)
            await home.rig.press(home.anna, home.chat, question, NEW)
            await home.sees("(1) something else", thread)
            assert not desk.held.lost.is_set()
    assert (await home.session()).address != (await home.handoffs())[0].thread


@on(rigs.SlackRig, among=rigs.THREADED)
async def test_a_turn_that_runs_elsewhere_is_not_interrupted_by_a_message(home: Household):
    await home.at_home(home.rig.forum)
    direct = await home.new_chat(home.rig.dm)
    async with home.gateway():
        thread = await home.arrives()
        await home.writes("/resume Sums", chat=direct)
        await home.sees("“Sums” continues here.", None, chat=direct)
        home.model.hold("think")
        await home.writes("think", chat=direct)
        await home.model.hears("think")
        await home.writes("and here?", thread)
        question = await home.sees("and the agent is working there", thread)
        assert question.labels == (BRING, NEW)
        home.model.let_go()
        await home.sees("(3) think", None, chat=direct)
        await home.sees("(4) and here?", thread)
        await home.sees("This conversation went to", None, chat=direct)


@on(rigs.DiscordRig, among=rigs.THREADED)
async def test_a_deleted_thread_is_replaced_and_both_ends_say_so(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        gone = await home.arrives()
        assert gone is not None
        await home.rig.delete_thread(home.chat, gone)
        moved = await home.shell("handoff", "sums", home.rig.platform)
        assert moved.returncode == 0, moved.stderr
        assert "could not be used, so a new one was opened" in " ".join(moved.stdout.split())
        thread = await home.thread()
        assert thread != gone
        recap = await home.sees("“Sums” continues here.", thread)
        assert "The thread that it had could not be used, so this is a new one" in recap.text
        await home.writes("go on", thread)
        await home.sees("(4) go on", thread)
        assert await home.texts(None) == []


@on(rigs.GenericRig, rigs.TelegramRig, among=rigs.THREADED)
async def test_a_gateway_that_dies_while_it_replaces_a_thread_leaves_no_second_one(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway() as gateway:
        gone = await home.arrives()
        assert gone is not None
        await home.rig.delete_thread(home.chat, gone)
        async with home.sits_down(await home.session()) as desk:
            await home.rig.fail(Act.OPEN_THREAD, Trouble.HANG_AFTER, chat=home.chat)
            moving = asyncio.create_task(desk.hand_off(home.rig.platform))
            await home.rig.until(lambda view: view.hanging > 0)
            gateway.kill()
            await home.rig.calm()
            async with home.gateway():
                done = await moving
                (thread,) = (await home.rig.look(home.chat)).threads
                if home.rig.keys:
                    assert (done.state, done.replaced) == (State.COMPLETED, True)
                    await home.sees("so this is a new one", thread.id)
                else:  # the platform cannot say whether the thread was opened
                    assert done.state is State.FAILED
                    assert "An empty one may be left" in (done.error or "")
                    await desk.says("never mind")
