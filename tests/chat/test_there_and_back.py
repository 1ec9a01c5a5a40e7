"""From the terminal to a chat and back, with the real gateway: everything as a person does it."""

from __future__ import annotations

import asyncio
import json
import os
import signal

from segue.store.processes import whose
from segue.testing.platform import Peer, Shape
from segue.testing.platform.driver import Hands
from segue.testing.platform.process import serving as platform
from tests.harness.gateways import alive, none_left, segue_says, serving
from tests.harness.pty import Terminal
from tests.harness.terminal import Person


def serving_peer(person: Person, peer: Peer) -> None:
    serving(person, "segue.testing.platform.adapter:make")
    person.environment.update(SEGUE_TELEGRAM_URL=peer.url, SEGUE_TELEGRAM_TOKEN=peer.token)


async def paired(person: Person, hands: Hands) -> tuple[str, str]:
    """Anna, who is the person, and her chat, in which handoffs arrive."""
    told = await asyncio.to_thread(segue_says, person, "pair", "--json")
    code = json.loads(told.stdout)["code"]
    anna = await hands.user("Anna")
    chat = await hands.chat(Shape.DM, [anna])
    await hands.say(anna, chat, code)
    await hands.until(lambda shown: len(shown.messages) > 1, chat=chat)
    await hands.say(anna, chat, "/sethome")
    await hands.until(lambda shown: any("andoffs" in text for text in shown.texts), chat=chat)
    return anna, chat


async def says(shown: Terminal, *texts: str) -> None:
    for text in texts:
        await shown.ready()
        shown.say(text)
        await shown.shows(f"what I hear: {text}")
    await shown.ready()


def heard(text: str) -> str:
    return f"what I hear: {text}"


async def test_a_session_goes_to_a_chat_and_comes_back(person: Person):
    async with platform() as peer:
        serving_peer(person, peer)
        async with none_left(person), peer.hands() as hands:
            started = await asyncio.to_thread(segue_says, person, "gateway", "start")
            assert started.returncode == 0, started.stderr
            anna, chat = await paired(person, hands)
            async with person.opens() as shown:
                await says(shown, "the boat is red", "it has two masts", "it is called Nautilus")
                shown.say("/title Boats")
                await shown.shows("The title of this session is Boats.")
                shown.say("/handoff telegram")
                assert await shown.end() == 0
                await shown.shows("Boats continues at")
            thread = await hands.thread(chat)
            await hands.until(lambda s: any("Nautilus" in text for text in s.texts), chat=chat)
            await hands.say(anna, chat, "and it is fast", thread=thread.id)
            await hands.until(
                lambda s: any(heard("and it is fast") in text for text in s.texts), chat=chat
            )
            (gateway,) = await alive(person)
            os.kill(whose(gateway.process)[1], signal.SIGKILL)
            async with person.opens("resume", "boats") as back:
                await back.shows("and it is fast")
                await back.see("Boats · scripted")
                await says(back, "home again")
            assert (await asyncio.to_thread(segue_says, person, "gateway", "start")).returncode == 0
            await hands.until(
                lambda s: any("This conversation went to" in text for text in s.texts), chat=chat
            )
            said = [text for role, text in await person.said("boats") if role == "user"]
            spoken = ["the boat is red", "it has two masts", "it is called Nautilus"]
            assert said[:3] == spoken
            assert said[-2:] == ["and it is fast", "home again"]
