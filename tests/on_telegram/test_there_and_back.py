"""From the terminal to a phone with Telegram and back, in every shape of chat that it has:
everything as a person does it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from segue.core.session import ME
from tests.household import HANDED_OFF
from tests.on_telegram.conftest import TELEGRAM, Home, Shape, wants
from tests.terminal.gateways import segue_says


async def talks_and_hands_off(home: Home) -> None:
    """Three things are said at a terminal, for one of which a file is read; then it leaves."""
    (home.person.cwd / "boat.txt").write_text("She is red, and has two masts.")
    home.mind.plans.append(wants("read_file", path="boat.txt"))
    async with home.terminal("what is our boat like?", "is she fast?", "who built her?") as shown:
        await home.hands_off(shown)


async def place(home: Home, chat: int, shape: Shape) -> int | None:
    """The topic that the session has come to; None where it is the chat itself."""
    shown = await home.hands.look(chat)
    if not shape.has_topics:
        assert shown.topics == ()
        return None
    (topic,) = shown.topics
    assert topic.name == "Sums"
    return topic.id


async def replies(home: Home, chat: int, thread: int | None, text: str) -> None:
    """Anna says something there. Outside of topics she names the bot, as it says she has to in a
    group."""
    said = f"@segue_test_bot {text}" if thread is None else text
    await home.hands.say(home.anna, chat, said, thread=thread)


def heard(request: dict[str, Any]) -> list[tuple[str, str]]:
    """By whom, and what, in a request to the model; of a tool call, its name."""
    return [
        (m["role"], m["content"] or m["tool_calls"][0]["function"]["name"])
        for m in request["messages"]
        if m["role"] != "system"
    ]


@pytest.mark.parametrize("shape", [Shape.FORUM, Shape.DM])
async def test_a_session_goes_to_the_phone_and_comes_back(home: Home, shape: Shape):
    chat = await home.at_home(shape)
    async with home.gateway():
        await talks_and_hands_off(home)
        thread = await place(home, chat, shape)
        recap = await home.sees("Sums goes on here.", chat, thread=thread)
        assert "who built her?" in recap.text
        assert ("No thread could be opened" in recap.text) is not shape.has_topics
        hinted = "begin yours with @segue_test_bot" in recap.text
        assert hinted is (shape in (Shape.GROUP, Shape.SUPERGROUP))
        await home.sees(HANDED_OFF, chat, thread=thread)
        await replies(home, chat, thread, "and what does she cost?")
        await home.sees("(5) and what does she cost?", chat, thread=thread)
        assert heard(home.mind.requests[-1]) == [
            ("user", "what is our boat like?"),
            ("assistant", "read_file"),
            ("tool", "She is red, and has two masts."),
            ("assistant", "(1) what is our boat like?"),
            ("user", "is she fast?"),
            ("assistant", "(2) is she fast?"),
            ("user", "who built her?"),
            ("assistant", "(3) who built her?"),
            *(said for said in await home.said() if HANDED_OFF in said[1]),
            ("user", "and what does she cost?"),
        ]
        async with home.person.opens("resume", "sums") as back:
            await back.shows("(5) and what does she cost?")
            await back.ready()
            await home.says(back, "home again", after=5)
        await home.sees("This conversation went to", chat, thread=thread)
    assert "and what does she cost?" in [said for _, said in heard(home.mind.requests[-1])]
    assert [s.id for s in await home.store.sessions.list(ME)] == [(await home.session()).id]
    spoken = home.spoken(await home.hands.look(chat), thread)
    assert len(spoken) == len({message.text for message in spoken}) == 4
    if thread is not None:
        assert home.spoken(await home.hands.look(chat), None) == []


async def pairing_code(home: Home) -> tuple[str, str]:
    """A fresh one, and all that a person is told of it."""
    told = await asyncio.to_thread(segue_says, home.person, "pair", "--json")
    return json.loads(told.stdout)["code"], told.stdout


@pytest.mark.parametrize("shape", [Shape.TOPICS, Shape.DM])
async def test_whoever_starts_the_bot_with_the_code_is_paired_and_at_home(home: Home, shape: Shape):
    chat = await home.chat(shape)
    async with home.gateway():
        code, told = await pairing_code(home)
        assert f"https://t.me/segue_test_bot?start={code}" in told
        await home.hands.say(home.anna, chat, f"/start {code}")
        await home.sees("handoffs arrive in this chat", chat)
        await talks_and_hands_off(home)
        thread = await place(home, chat, shape)
        await home.sees(HANDED_OFF, chat, thread=thread)
        await replies(home, chat, thread, "and on")
        await home.sees("(5) and on", chat, thread=thread)
    (known,) = await home.store.owners.identities(ME)
    assert (known.sender.platform, known.sender.user_id) == (TELEGRAM, str(home.anna))


@pytest.mark.parametrize("shape", [Shape.FORUM, Shape.GROUP])
async def test_a_group_becomes_the_home_channel_when_its_owner_says_so(home: Home, shape: Shape):
    chat = await home.chat(shape)
    direct = await home.hands.private(home.anna)
    async with home.gateway():
        code, _ = await pairing_code(home)
        await home.hands.say(home.anna, direct, f"/start {code}")
        await home.sees("You are paired", direct)
        await home.hands.say(home.eve, chat, "/sethome yes")
        await home.hands.say(home.anna, chat, "/sethome@segue_test_bot yes")
        await home.sees(f"Handoffs to {TELEGRAM} arrive here from now on.", chat)
        await talks_and_hands_off(home)
        thread = await place(home, chat, shape)
        await home.sees(HANDED_OFF, chat, thread=thread)
    first, *_ = home.spoken(await home.hands.look(chat), None)
    assert first.text.startswith("Handoffs to")  # and nothing to Eve before that
