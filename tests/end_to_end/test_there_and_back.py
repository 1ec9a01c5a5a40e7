"""From the terminal to a phone with Telegram and back: everything as a person does it."""

from __future__ import annotations

import json
from typing import Any

from segue.core.session import ME
from tests.end_to_end.conftest import TELEGRAM, Home, Shape, wants
from tests.harness.household import HANDED_OFF


async def talks_and_hands_off(home: Home) -> None:
    """Two things are said at a terminal, for one of which a file is read; then it leaves."""
    (home.person.cwd / "boat.txt").write_text("She is red, and has two masts.")
    home.mind.plans.append(wants("read_file", path="boat.txt"))
    async with home.terminal("what is our boat like?", "who built her?") as shown:
        await home.hands_off(shown)


async def place(home: Home, chat: int, shape: Shape) -> int | None:
    """The topic that the session has come to; None where it is the chat itself."""
    shown = await home.hands.look(chat)
    if not shape.has_topics:
        assert shown.threads == ()
        return None
    (topic,) = shown.threads
    assert topic.title == "Sums"
    return topic.id


def heard(request: dict[str, Any]) -> list[tuple[str, str]]:
    """By whom, and what, in a request to the model; of a tool call, its name."""
    return [
        (m["role"], m["content"] or m["tool_calls"][0]["function"]["name"])
        for m in request["messages"]
        if m["role"] != "system"
    ]


async def test_a_session_goes_to_the_phone_and_comes_back(home: Home):
    chat = await home.at_home(Shape.FORUM)
    async with home.gateway():
        await talks_and_hands_off(home)
        thread = await place(home, chat, Shape.FORUM)
        recap = await home.sees("Sums continues here.", chat, thread=thread)
        assert "who built her?" in recap.text
        assert "No thread could be opened" not in recap.text
        assert "begin yours with @segue_test_bot" not in recap.text
        await home.sees(HANDED_OFF, chat, thread=thread)
        await home.hands.say(home.anna, chat, "and what does she cost?", thread=thread)
        await home.sees("(4) and what does she cost?", chat, thread=thread)
        assert heard(home.mind.requests[-1]) == [
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
            await home.says(back, "home again", after=4)
        await home.sees("This conversation went to", chat, thread=thread)
    assert "and what does she cost?" in [said for _, said in heard(home.mind.requests[-1])]
    assert [s.id for s in await home.store.sessions.list(ME)] == [(await home.session()).id]
    spoken = home.spoken(await home.hands.look(chat), thread)
    assert len(spoken) == len({message.text for message in spoken}) == 4
    assert home.spoken(await home.hands.look(chat), None) == []


async def pairing_code(home: Home) -> tuple[str, str]:
    """A fresh one, and all that a person is told of it."""
    told = await home.shell("pair", "--json")
    return json.loads(told.stdout)["code"], told.stdout


async def test_whoever_starts_the_bot_with_the_code_is_paired_and_at_home(home: Home):
    chat = await home.chat(Shape.TOPICS)
    async with home.gateway():
        code, told = await pairing_code(home)
        assert f"https://t.me/segue_test_bot?start={code}" in told
        await home.hands.say(home.anna, chat, f"/start {code}")
        await home.sees("handoffs arrive in this chat", chat)
        thread = await home.arrives(chat)
        assert await place(home, chat, Shape.TOPICS) == thread
        await home.hands.say(home.anna, chat, "and on", thread=thread)
        await home.sees("(3) and on", chat, thread=thread)
    (known,) = await home.store.owners.identities(ME)
    assert (known.sender.platform, known.sender.user_id) == (TELEGRAM, str(home.anna))


async def test_a_group_becomes_the_home_channel_when_its_owner_says_so(home: Home):
    chat = await home.chat(Shape.GROUP)
    direct = await home.hands.private(home.anna)
    async with home.gateway():
        code, _ = await pairing_code(home)
        await home.hands.say(home.anna, direct, f"/start {code}")
        await home.sees("You are paired", direct)
        await home.hands.say(home.eve, chat, "/sethome yes")
        await home.hands.say(home.anna, chat, "/sethome@segue_test_bot yes")
        await home.sees(f"Handoffs to {TELEGRAM} arrive here from now on.", chat)
        thread = await home.arrives(chat)
        assert await place(home, chat, Shape.GROUP) == thread
        await home.sees("begin yours with @segue_test_bot", chat)
        await home.hands.say(home.anna, chat, "@segue_test_bot and on")
        await home.sees("(3) and on", chat)
    first, *_ = home.spoken(await home.hands.look(chat), None)
    assert first.text.startswith("Handoffs to")  # and nothing to Eve before that
