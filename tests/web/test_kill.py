"""300 handoffs to the page, while its gateway is killed at any moment and started again: nothing is
lost, nothing is there twice, and each session is in one place."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from segue import config
from segue.core.address import Address
from segue.core.errors import HandoffError
from segue.core.handoff import Handoff
from segue.core.session import ME
from segue.handoff import Completed, hand_off
from tests.gateway.conftest import Desk
from tests.web.conftest import Site
from tests.web.killed import kill, started
from tests.web.reader import Reader

ROUNDS = 10
TERMINALS = 5
"""Which hand off at one time."""
HANDOFFS = 6
"""Of each of them, in one round."""
MOST_MOMENTS = 20
"""A gateway lives for so many at most: steps of handoffs, and messages that the page is told of."""
LATER = 0.03
"""Seconds by which it is killed later than that, at most."""
AT_BIRTH = 0.2
"""How likely one is killed while it starts, and within how many seconds."""
WITHIN = 55.0
GREETING = "[This session has just been handed off to web."


class Killer:
    """Kills the gateway, and starts another."""

    def __init__(self, environment: dict[str, str], chance: random.Random) -> None:
        self.kills = 0
        self._environment = environment
        self._chance = chance
        self._left = 0
        self._now = asyncio.Event()

    def moment(self) -> None:
        """Something has happened, so that this may be the moment."""
        self._left -= 1
        if self._left == 0:
            self._now.set()

    @contextlib.asynccontextmanager
    async def killing(self) -> AsyncGenerator[None]:
        """From now on, until `spare`; in the end none is left."""
        self._process = await asyncio.to_thread(started, self._environment)
        self._task = asyncio.create_task(self._kill())
        try:
            yield
        finally:
            await self.spare()
            kill(self._process)

    async def spare(self) -> None:
        """The one that there is now lives on."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _kill(self) -> None:
        while True:
            await self._its_moment()
            kill(self._process)
            self.kills += 1
            self._process = started(self._environment)

    async def _its_moment(self) -> None:
        if self._chance.random() < AT_BIRTH:
            await asyncio.sleep(self._chance.uniform(0, AT_BIRTH))
            return
        self._now.clear()
        self._left = self._chance.randint(1, MOST_MOMENTS)
        await self._now.wait()
        await asyncio.sleep(self._chance.uniform(0, LATER))


@dataclass(frozen=True)
class Moved:
    """One session that was handed off."""

    session_id: str
    name: str
    at: Address

    @property
    def chat(self) -> str:
        assert self.at.thread_id is not None
        return self.at.thread_id

    @property
    def question(self) -> str:
        return f"and {self.name}?"


async def handed_off(desk: Desk, killer: Killer) -> Handoff:
    """To the end, as a person does it who asks again when there was no gateway."""
    while True:
        try:
            async for progress in hand_off(desk.store, desk.held, "web"):
                killer.moment()
                if isinstance(progress, Completed):
                    return progress.handoff
        except HandoffError:
            await asyncio.sleep(0.05)


async def move(site: Site, killer: Killer, reader: Reader, name: str) -> Moved:
    """Hand a session off, and go on with it on the page."""
    async with site.terminal((f"{name}?", f"{name}!"), title=name) as desk:
        done = await handed_off(desk, killer)
    assert done.thread is not None
    moved = Moved(done.session_id, name, done.thread)
    await reader.open(moved.chat)
    await reader.say(moved.chat, moved.question)
    return moved


async def moves(site: Site, killer: Killer, reader: Reader, terminal: int) -> list[Moved]:
    return [await move(site, killer, reader, f"boat {terminal}/{n}") for n in range(HANDOFFS)]


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_handoffs_to_the_page_survive_any_death_of_the_gateway(
    site: Site, tmp_path: Path, seed: int
):
    environment = at_one_place(tmp_path)
    site.settings = config.load(environment)
    site.url = f"http://127.0.0.1:{site.settings.web.port}"
    async with site.gateway():
        cookie = await site.cookie()
    killer = Killer(environment, random.Random(seed))
    reader = Reader(site.url, cookie, hears=killer.moment)
    async with asyncio.timeout(WITHIN), killer.killing(), reader.reading():
        found = await asyncio.gather(
            *(moves(site, killer, reader, terminal) for terminal in range(TERMINALS))
        )
        await killer.spare()
        everything = [moved for of_one in found for moved in of_one]
        for moved in everything:
            await reader.until(moved.chat, 4)
        await are_there_once(site, reader, everything)
    assert len(everything) == TERMINALS * HANDOFFS
    assert killer.kills >= len(everything) / 5


async def are_there_once(site: Site, reader: Reader, everything: list[Moved]) -> None:
    bindings = await site.store.bindings.list(ME, limit=1000)
    assert len({binding.session_id for binding in bindings}) == len(bindings)
    where = {binding.session_id: binding.address for binding in bindings}
    for moved in everything:
        assert where[moved.session_id] == moved.at
        told = reader.followed[moved.chat].told
        first, greeting, answer = (text for author, text in told if author == "agent")
        assert f"{moved.name}</strong> goes on here" in first
        assert GREETING in greeting
        assert moved.question in answer
        # Who is quick writes before the greeting is there.
        (asked,) = (text for author, text in told if author == "person")
        assert asked == f"<p>{moved.question}</p>"
        kept = await site.store.pages.changes(moved.chat, 0)
        assert [message.no for message in kept] == sorted(reader.followed[moved.chat].messages)
        said = [m.content for m in await site.store.transcripts.load(moved.session_id)]
        assert said[:2] == [f"{moved.name}?", f"{moved.name}!"]
        assert said[-2] == moved.question
        assert len(said) == 6


def at_one_place(folder: Path) -> dict[str, str]:
    """Settings whose page stays where it is, whichever gateway serves it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = folder / "config.toml"
    path.write_text(f"[web]\nport = {port}\n")
    path.chmod(0o600)
    return {
        "SEGUE_CONFIG": str(path),
        "SEGUE_STORE": f"sqlite://{folder}/segue.db",
        "SEGUE_GATEWAY_LOG": f"{folder}/gateway.log",
        "SEGUE_MODEL": "scripted",
    }
