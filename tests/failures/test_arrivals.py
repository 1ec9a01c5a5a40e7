"""Where a session arrives, what users see there, and what comes with it.

A docstring says how the handoff of other programs fails there.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from segue.core.address import Address, Platform
from segue.core.session import ME
from segue.core.transcript import ToolCall
from segue.handoffs import Completed, handed_over
from segue.handoffs.values import State
from segue.store import sessions
from segue.testing.platform import PeerAdapter, Shape
from tests.failures.conftest import WITHIN, Household
from tests.fakes.models.openai import Say
from tests.gateway.test_handoffs import DIRECT, SAID, home_in, waits
from tests.harness.house import House, Slow


@pytest.mark.parametrize(
    ("platform", "shape"),
    [
        (Platform.TELEGRAM, Shape.FORUM),
        (Platform.TELEGRAM, Shape.DM),
        (Platform.DISCORD, Shape.CHANNEL),
        (Platform.SLACK, Shape.THREADS_REFUSED),
        (Platform.WHATSAPP, Shape.NO_THREADS),
        (Platform.MATRIX, Shape.GROUP),
    ],
)
async def test_a_reply_has_exactly_the_address_of_the_opened_thread(
    house: House, platform: Platform, shape: Shape
):
    """The key of the thread that was opened differs from the key parsed from a reply in it: on
    every platform, and in every shape of chat."""
    await house.pair(house.anna, platform)
    chat = await house.chat(shape, house.eve, name="Home")
    async with house.gateway(platform):
        await house.driver.say(house.anna, chat, "/sethome yes")
        await house.driver.message(f"Handoffs to {platform} arrive here from now on.", chat=chat)
        async with house.terminal(*SAID, title="Sums", cwd="/srv/project") as desk:
            done = await desk.hand_off(platform.value)
            assert done.state is State.COMPLETED, done.error
        assert (done.thread == done.home) is (shape in DIRECT)
        threads = (await house.driver.look(chat)).threads
        assert (threads == ()) is (shape in DIRECT)
        thread = threads[-1].id if threads else None
        await house.driver.say(house.anna, chat, "go on", thread=thread)
        await house.driver.message("(5) go on", chat=chat)
        await house.idle()
    (session,) = await sessions.list_sessions(house.store, ME)
    assert (session.id, session.title) == (desk.session.id, "Sums")
    assert (session.address, session.cwd, session.ended) == (done.thread, "/srv/project", None)
    roles = [role for role, _ in await house.said(session.id)]
    assert roles == ["user", "assistant"] * 5
    await house.driver.say(house.anna, chat, "and on", thread=thread)
    heard = await address_of(house, platform, "and on")
    assert done.thread is not None
    assert (heard, heard.key) == (done.thread, done.thread.key)


async def address_of(house: House, platform: Platform, text: str) -> Address:
    """The address of the message, as the adapter parses it."""
    adapter = PeerAdapter(platform, house.peer.url, house.peer.token)
    await adapter.connect()
    try:
        async with asyncio.timeout(WITHIN), contextlib.aclosing(adapter.receive()) as coming:
            async for inbound in coming:  # unconfirmed updates are delivered again
                if inbound is not None and inbound.text == text:
                    return inbound.address
    finally:
        await adapter.close()
    raise AssertionError(f"nobody said {text}")


async def test_the_user_can_see_the_thread_and_write_in_it(house: House):
    """On Discord the thread is private, and only the bot sees it."""
    async with house.gateway():
        chat, _ = await home_in(house, Shape.CHANNEL)
        async with house.terminal(*SAID, title="Sums") as desk:
            await desk.hand_off()
        (thread,) = (await house.driver.look(chat)).threads
        assert (thread.chat, thread.title) == (chat, "Sums")
        await house.driver.say(house.anna, chat, "go on", thread=thread.id)
        answer = await house.driver.message("(5) go on", chat=chat)
        assert answer.thread == thread.id
        shown = await house.driver.look(chat)
        recap = next(m for m in shown.messages if m.thread == thread.id)
        assert "Tiger." in recap.text
    assert [s.id for s in await sessions.list_sessions(house.store, ME)] == [desk.session.id]


async def test_the_session_of_a_home_channel_without_threads_is_set_aside_by_name(
    house: House,
):
    """Without a thread the live conversation of the home chat is ended silently, and its running
    turn is never delivered."""
    model = Slow("a long story")
    async with house.gateway(model=model):
        chat, home = await home_in(house, Shape.NO_THREADS)
        await house.driver.say(house.anna, chat, "/title Stories")
        await house.driver.message("The title of this session is “Stories”.", chat=chat)
        await house.driver.say(house.anna, chat, "a long story")
        await model.thinks.wait()
        live = await house.session_at(home)
        async with house.terminal(*SAID, title="Sums") as desk:
            moving = asyncio.create_task(desk.hand_off())
            await waits(desk)
            model.go.set()
            done = await moving
            assert (done.state, done.thread) == (State.COMPLETED, home)
            farewell = await handed_over(house.store, Completed(done))
            assert "No thread could be opened there" in farewell
        assert (await house.session_at(home)).id == desk.session.id
        advice = "“Stories” was here before. Type /resume Stories to bring it"
        shown = await house.driver.until(
            lambda shown: any(text.startswith(advice) for text in shown.texts), chat=chat
        )
        assert any("No thread could be opened" in text for text in shown.texts)
        assert "(1) a long story" in shown.texts
        aside = await sessions.get(house.store, live.id)
        assert aside is not None
        assert (aside.ended, aside.address) == (None, None)
        await house.driver.say(house.anna, chat, "go on")
        await house.driver.message("(5) go on", chat=chat)
        await house.driver.say(house.anna, chat, "/resume Stories")
        await house.driver.until(
            lambda shown: any(
                "“Stories” continues here" in t.replace("*", "") for t in shown.texts
            ),
            chat=chat,
        )
        await house.driver.say(house.anna, chat, "and then?")
        await house.driver.message("(2) and then?", chat=chat)
        await house.idle()
    assert (await house.session_at(home)).id == live.id


async def test_an_empty_session_is_handed_off_like_any_other(
    household: Household,
):
    """A session with no message yet cannot be handed off, and the error is wrong."""
    await household.left()
    async with household.gateway():
        output = await household.shell("handoff", "Sums", "telegram")
        assert output.returncode == 0, output.stderr
        assert "“Sums” continues on telegram" in output.stdout
        assert "To come back: segue resume Sums" in output.stdout
        thread = await household.thread()
        await household.sees("Nothing has been said in it yet.")
        await household.writes("hello", thread)
        await household.sees("(2) hello")
    (session,) = await sessions.list_sessions(household.store, ME)
    assert (session.title, session.messages) == ("Sums", 4)


async def test_the_working_directory_goes_with_the_session(household: Household):
    """The working directory is not carried over. (The tests of the terminal cover the way
    back.)"""
    project = household.person.cwd
    (project / "notes.txt").write_text("The key is under the mat.")
    await household.left("one", cwd=str(project))
    async with household.gateway():
        assert (await household.shell("handoff", "Sums", "telegram")).returncode == 0
        thread = await household.thread()
        await household.sees(f"Directory: {project}")
        reads = ToolCall("call_1", "read_file", '{"path": "notes.txt"}')
        household.model.plans.append(Say(calls=(reads,)))
        await household.writes("read it", thread)
        await household.sees("(3) read it")
        (result,) = [m for m in household.model.requests[-1]["messages"] if m["role"] == "tool"]
        assert "The key is under the mat." in result["content"]
    assert (await household.session()).cwd == str(project)
