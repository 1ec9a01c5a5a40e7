"""What only Discord has: its kinds of channels."""

from __future__ import annotations

import pytest

from segue.core.address import ChatType
from tests.harness.cases import brief
from tests.harness.household import HANDED_OFF, Household, told
from tests.rigs import DiscordRig, Kind

pytestmark = pytest.mark.parametrize("home", [DiscordRig], indirect=True)


@pytest.mark.parametrize(
    "kind",
    brief([*DiscordRig.kinds, DiscordRig.posts], [DiscordRig.forum, DiscordRig.posts]),
    ids=lambda kind: kind.name,
)
async def test_a_session_comes_and_goes_in_every_kind_of_chat(home: Household, kind: Kind):
    await home.at_home(kind)
    async with home.gateway():
        thread = await home.arrives()
        assert (thread is not None) == kind.threads
        shown = (await home.rig.driver.look()).threads
        assert [int(home.anna) in it.members for it in shown] == [True] * kind.threads
        asks = thread is not None or kind.chat_type is ChatType.DM
        await home.writes("go on" if asks else home.rig.addressed("go on"), thread)
        await home.sees("(3) go on", thread)
        first, arrival, last = told(home.model.requests[-1])
        assert (first, last) == ("what is 2 and 2?", "go on")
        assert HANDED_OFF in arrival
        async with home.person.opens("resume", "sums") as back:
            await back.shows("(3) go on")
            await back.ready()
            await home.types(back, "home again", after=3)
    assert (await home.rig.look()).faults == ()


async def test_a_command_is_acknowledged_while_the_agent_works(home: Household):
    chat = await home.at_home(DiscordRig.dm)
    driver = home.rig.driver
    home.model.hold("do it")
    async with home.gateway():
        await home.writes("do it")
        await home.model.hears("do it")
        use = await driver.slash(int(home.anna), int(chat), "/status")
        await driver.until(lambda shown: str(use) in shown.answered)
        assert "(1) do it" not in await home.texts(), "the agent is not done yet"
        home.model.let_go()
        await home.sees("(1) do it")
    assert (await home.rig.look()).faults == ()


async def test_what_was_written_during_an_absence_is_answered_or_reported(home: Household):
    chat = await home.at_home(DiscordRig.group)
    ask = home.rig.addressed
    async with home.gateway():
        await home.writes(ask("one"))
        await home.sees("(1) one")
    for _ in range(130):
        await home.rig.say(home.eve, chat, "chatter")
    await home.writes(ask("two"))
    async with home.gateway():
        await home.sees("(2) two")
    home.set_constants({"segue.platforms.backlog.MESSAGES": 50})
    await home.writes(ask("too old"))
    for _ in range(130):
        await home.rig.say(home.eve, chat, "chatter")
    await home.writes(ask("three"))
    async with home.gateway():
        await home.sees("(3) three")
    reports = [text for text in await home.texts() if "Send again what matters" in text]
    assert len(reports) == 1
    assert home.model.heard("too old") == 0
    assert (await home.rig.look()).faults == ()
