"""What Signal has: chats without threads, where sessions take turns, and Note to Self."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.session import ME as OWNER
from segue.handoffs.values import State
from segue.store import Topic, outbox, owners, sessions
from segue.store.outbox import OutgoingState
from tests.end_to_end.conftest import tool_call, write
from tests.end_to_end.test_features import QUESTION
from tests.fakes.signal import ME, Driver, Failure, Settings
from tests.harness.cases import brief
from tests.harness.household import HANDED_OFF, Household
from tests.rigs import Kind, SignalRig
from tests.store.samples import waiting

pytestmark = pytest.mark.parametrize("home", [SignalRig], indirect=True)


@pytest.mark.parametrize("kind", SignalRig.kinds, ids=lambda kind: kind.name)
async def test_a_session_goes_to_the_phone_and_comes_back(home: Household, kind: Kind):
    await home.at_home(kind)
    async with home.gateway():
        async with home.terminal("what is our boat like?") as shown:
            shown.say("/handoff signal")
            assert await shown.end() == 0
        await home.handoff(State.COMPLETED)
        recap = await home.sees("“Sums” continues here.")
        assert "it continues in this chat itself" in recap.text
        await home.sees(HANDED_OFF)
        await home.writes("and what does she cost?")
        await home.sees("(3) and what does she cost?")
        async with home.person.opens("resume", "sums") as back:
            await back.shows("(3) and what does she cost?")
            await back.ready()
            await home.types(back, "home again", after=3)
        await home.sees("This conversation went to")
    assert [s.id for s in await sessions.list_sessions(home.store, OWNER)] == [
        (await home.session()).id
    ]
    spoken = await home.texts()
    assert len(spoken) == len(set(spoken)) == 4


@pytest.mark.parametrize(
    "kind", brief(SignalRig.kinds, [SignalRig.group]), ids=lambda kind: kind.name
)
async def test_a_running_conversation_is_set_aside_with_its_answer_and_brought_back(
    home: Household, kind: Kind
):
    await home.at_home(kind)
    async with home.gateway():
        home.model.hold("think")
        await home.writes("think")
        await home.model.hears("think")
        async with home.desk("what is 2 and 2?") as desk:
            moving = asyncio.create_task(desk.hand_off(Platform.SIGNAL))
            await home.handoff(State.RUNNING)
            home.model.let_go()
            assert (await moving).state is State.COMPLETED
        notice = await home.sees("was here before")
        assert "Type /resume" in notice.text
        (bring_back,) = notice.labels
        await home.writes("and on")
        await home.sees("(3) and on")
        await home.rig.press(home.anna, home.chat, notice, bring_back)
        await home.sees("“Sums” was here before")
        await home.writes("where were we?")
        await home.sees("(2) where were we?")
        await home.writes("/resume Sums")
        await home.sees("“Sums” continues here.", times=2)
        await home.writes("once more")
        await home.sees("(4) once more")
    spoken = await home.texts()
    assert spoken.count("(1) think") == 1
    assert spoken.index("(1) think") < spoken.index(notice.text)
    answers = [text for text in spoken if text.startswith("(")]
    assert len(answers) == len(set(answers))


async def test_what_the_owner_writes_to_other_people_is_ignored(home: Household):
    """A linked device sees all of the owner's chats."""
    await home.at_home(SignalRig.note)
    group = await home.new_chat(SignalRig.group)
    friend = await home.new_chat(SignalRig.dm)
    write(home, home.rig.settings().replace('groups = "all"', ""))
    async with home.gateway():
        await home.rig.driver.say(ME.id, friend, "/status")
        await home.rig.driver.say(home.eve, group, "/status")
        await home.rig.driver.say(ME.id, group, "see you tonight")
        await home.rig.driver.say(ME.id, group, "@segue what is it?")
        await home.sees("(1) what is it?", chat=group)
        await home.answered()
    assert await home.texts(chat=friend) == []
    assert await home.texts(chat=group) == ["(1) what is it?"]


async def test_a_message_that_is_marked_as_read_is_recorded(home: Household):
    await home.at_home(SignalRig.dm)
    async with home.gateway():
        await home.writes("hello")
        await home.sees("(1) hello")
        await home.rig.driver.say(home.eve, await home.new_chat(SignalRig.group), "hello")
        shown = await home.rig.driver.until(lambda shown: any(it.read for it in shown.messages))
    assert [it.author for it in shown.messages if it.read] == [home.anna], "strangers see nothing"


async def test_what_is_written_while_no_gateway_runs_is_answered_by_the_next(home: Household):
    """It waits on Signal's server: `--receive-mode on-connection`."""
    await home.rig.driver.settings(Settings(keep_alive=0.01))  # it notices soon who is gone
    await home.at_home(SignalRig.dm)
    async with home.gateway():
        await home.writes("one")
        await home.sees("(1) one")
    await home.rig.driver.until(lambda shown: shown.clients == 0)
    await home.writes("two")
    async with home.gateway():
        await home.sees("(2) two")


async def test_what_the_owner_did_not_get_in_a_group_is_neither_shown_nor_delivered(
    home: Household,
):
    await home.at_home(home.rig.group)
    path = home.person.cwd / "made"
    driver = cast("Driver", home.rig.driver)
    async with home.gateway():
        await driver.change(home.chat, failure=Failure.IDENTITY, failing=[home.anna])
        home.model.plans.append(tool_call("shell", command=f"touch {path}"))
        await home.writes("make it")
        question = await home.sees(QUESTION)
        await home.rig.press(home.anna, home.chat, question, "Allow")
        await home.sees("(1) make it")
        assert not path.exists()
        async with home.store.listen(Topic.SENT) as wake:
            while len(troubles := await outbox.troubled(home.store)) < 3:
                await wake.wait(0.1)
        assert {it.state for it in troubles} == {OutgoingState.FAILED}
        assert all("trust -v SAFETY_NUMBER USER" in str(it.error) for it in troubles)
        assert [text for text in await home.texts() if QUESTION in text] == [question.text]
        await driver.change(home.chat)
        await home.writes("and now?")
        await home.sees("and now?")


async def test_a_captcha_is_a_problem_that_is_shown_until_it_is_solved(home: Household):
    await home.at_home(home.rig.dm)
    home.set_constants({"segue.gateway.outbound.PROBE_SECONDS": 2.0})
    elsewhere = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")
    await owners.set_home(home.store, OWNER, HomeChannel(address=elsewhere, name="Anna"))
    driver = cast("Driver", home.rig.driver)
    async with home.gateway():
        await driver.change(home.chat, failure=Failure.RATE_LIMIT, challenge="T0", seconds=86_400)
        await home.writes("hello")
        async with home.store.listen(Topic.OUTBOX) as wake:
            while not await outbox.paused(home.store):
                await wake.wait(0.1)
        for command in ("status", "doctor"):
            shown = await home.shell(command)
            told = " ".join(shown.stdout.split())
            assert "signal takes no messages until" in told
            assert "submitRateLimitChallenge --challenge T0" in told
        assert shown.returncode == 1
        assert await waiting(home.store, elsewhere) == 1, "one notice in the other home"
        # A try that the gateway's end interrupts might have arrived, and is not repeated.
        async with home.store.listen(Topic.SENT) as wake:
            await wake.wait(10)
    async with home.gateway():
        await home.writes("again")
        await driver.change(home.chat)
        await home.sees("(1) hello")
        await home.sees("(2) again")
        assert await outbox.paused(home.store) == ()
