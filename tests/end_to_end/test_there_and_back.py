"""From the terminal to a phone and back, as a user does it."""

from __future__ import annotations

import json
from typing import Any

from segue.core.session import ME
from segue.handoffs.values import State
from segue.store import owners, sessions
from tests import rigs
from tests.end_to_end.conftest import on, tool_call
from tests.harness.household import HANDED_OFF, Household


def heard(request: dict[str, Any]) -> list[tuple[str, str]]:
    """The author and the text of each message in a request; for a tool call, its name."""
    return [
        (m["role"], m["content"] or m["tool_calls"][0]["function"]["name"])
        for m in request["messages"]
        if m["role"] != "system"
    ]


# Discord, Slack and Signal have a journey to each of their kinds of chats.
@on(rigs.TelegramRig, among=rigs.THREADED)
async def test_a_session_goes_to_the_phone_and_comes_back(home: Household):
    await home.at_home(home.rig.forum)
    (home.person.cwd / "boat.txt").write_text("She is red, and has two masts.")
    home.model.plans.append(tool_call("read_file", path="boat.txt"))
    async with home.gateway():
        async with home.terminal("what is our boat like?", "who built her?") as shown:
            shown.say(f"/handoff {home.rig.platform}")
            assert await shown.end() == 0
        await home.handoff(State.COMPLETED)
        (topic,) = (await home.rig.look(home.chat)).threads
        assert topic.title == "Sums"
        recap = await home.sees("“Sums” continues here.", topic.id)
        assert "who built her?" in recap.text
        assert "No thread could be opened" not in recap.text
        assert "begin yours with" not in recap.text
        await home.sees(HANDED_OFF, topic.id)
        await home.writes("and what does she cost?", topic.id)
        await home.sees("(4) and what does she cost?", topic.id)
        assert heard(home.model.requests[-1]) == [
            ("user", "what is our boat like?"),
            ("assistant", "read_file"),
            ("tool", "She is red, and has two masts."),
            ("assistant", "(1) what is our boat like?"),
            ("user", "who built her?"),
            ("assistant", "(2) who built her?"),
            *(said for said in await home.said() if HANDED_OFF in said[1]),
            ("user", "and what does she cost?"),
        ]
        async with home.person.opens("resume", "sums") as back:
            await back.shows("(4) and what does she cost?")
            await back.ready()
            await home.types(back, "home again", after=4)
        await home.sees("This conversation went to", topic.id)
    assert "and what does she cost?" in [said for _, said in heard(home.model.requests[-1])]
    assert [s.id for s in await sessions.list_sessions(home.store, ME)] == [
        (await home.session()).id
    ]
    spoken = await home.texts(topic.id)
    assert len(spoken) == len(set(spoken)) == 4
    assert await home.texts(None) == []


async def pairing_code(home: Household) -> str:
    return json.loads((await home.shell("pair", "--json")).stdout)["code"]


@on(rigs.TelegramRig, rigs.WhatsAppRig, rigs.SignalRig)
async def test_the_sender_of_the_code_is_paired_and_gets_a_home_channel(home: Household):
    await home.new_chat(home.rig.dm)
    async with home.gateway():
        await home.writes(f"/start {await pairing_code(home)}")
        await home.sees("handoffs arrive in this chat", None)
        thread = await home.arrives()
        assert (thread is not None) == home.rig.dm.threads
        await home.writes("and on", thread)
        await home.sees("(3) and on", thread)
    (known,) = await owners.identities(home.store, ME)
    assert (known.sender.platform, known.sender.user_id) == (home.rig.platform, home.anna)


@on(rigs.DiscordRig, rigs.SlackRig, among=rigs.THREADED)
async def test_a_group_becomes_the_home_channel_when_its_owner_says_so(home: Household):
    await home.new_chat(home.rig.group)
    direct = await home.new_chat(home.rig.dm)
    async with home.gateway():
        await home.writes(f"/start {await pairing_code(home)}", chat=direct)
        await home.sees("You are paired", None, chat=direct)
        await home.rig.say(home.eve, home.chat, "/sethome yes")
        await home.writes(home.rig.addressed("/sethome yes"))
        first = await home.sees(f"Handoffs to {home.rig.platform} arrive here from now on.", None)
        thread = await home.arrives()
        assert (thread is not None) == home.rig.group.threads
        await home.writes(home.rig.addressed("and on"), thread)
        await home.sees("(3) and on", thread)
    assert home.spoken(await home.rig.look(home.chat))[0] == first, "Eve got an answer"
