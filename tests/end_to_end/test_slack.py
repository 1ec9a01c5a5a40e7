"""What only Slack has: its kinds of chats, and sockets that it asks the bot to leave."""

from __future__ import annotations

import pytest

from segue.core.address import ChatType
from segue.core.handoff import State
from segue.testing.models.openai import Say
from segue.testing.slack import Settings
from tests.harness.household import Household, told
from tests.harness.rigs import Kind, SlackRig

pytestmark = pytest.mark.parametrize("home", [SlackRig], indirect=True)


@pytest.mark.parametrize("kind", SlackRig.kinds, ids=lambda kind: kind.name)
async def test_a_session_goes_to_each_kind_of_chat_and_comes_back(home: Household, kind: Kind):
    await home.at_home(kind)
    async with home.gateway():
        thread = await home.arrives()
        assert thread is not None
        await home.writes("go on", thread)
        await home.sees("(3) go on", thread)
        first, _, last = told(home.model.requests[-1])
        assert (first, last) == ("what is 2 and 2?", "go on")
        async with home.sits_down(await home.session()) as desk:
            await desk.says("home again")
            assert (await desk.hand_off(home.rig.platform)).state is State.COMPLETED
        back = await home.sees("Sums is back here.", thread)
        assert "home again" in back.text
    assert await home.texts(None) == []
    shown = (await home.rig.driver.look(home.chat)).messages
    mentioned = [it.mentions for it in shown if it.mentions]
    assert mentioned == ([] if kind.chat_type is ChatType.DM else [(f"<@{home.anna}>",)])


async def test_what_was_written_while_the_gateway_was_away_is_answered_once(home: Household):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        await home.rig.confirmed()
    await home.rig.driver.settings(Settings(retry_seconds=()))
    await home.writes("are you there?", thread)
    for number in (4, 5):
        async with home.gateway():
            await home.writes("and now?", thread)
            await home.sees(f"({number}) and now?", thread)
            await home.rig.confirmed()
    said = await home.texts(thread)
    assert said[2:] == ["(3) are you there?", "(4) and now?", "(5) and now?"]


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_nothing_is_lost_when_slack_replaces_the_connection(home: Household, reason: str):
    await home.at_home(home.rig.forum)
    async with home.gateway():
        thread = await home.arrives()
        home.model.hold("think")
        await home.writes("think", thread)
        await home.model.hears("think")
        await home.rig.driver.disconnect(reason)
        await home.writes("and then?", thread)
        home.model.let_go()
        await home.sees("(4) and then?", thread)
        await home.rig.confirmed()
        said = await home.texts(thread)
    assert said[2:] == ["(3) think", "(4) and then?"]


async def test_code_that_is_too_long_arrives_as_a_file(home: Household):
    code = "\n".join(f"print({number})" for number in range(500))
    await home.at_home(home.rig.dm)
    async with home.gateway():
        thread = await home.arrives()
        home.model.plans.append(Say(text=f"Here it is.\n\n```python\n{code}\n```\n\nThat is all."))
        await home.writes("count", thread)
        await home.sees("That is all.", thread)
        view = await home.rig.look(home.chat)
    *_, before, file, _ = home.spoken(view, thread)
    assert (before.text, file.file) == ("Here it is.", "code-1.py")
