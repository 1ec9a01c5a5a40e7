"""Handoffs to the page while its gateway is killed at any moment and restarted: nothing is lost or
duplicated, and each session is in one place."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from segue import config
from segue.core.address import Address, Platform
from segue.core.errors import HandoffError
from segue.core.session import ME
from segue.handoffs import Completed, HandoffRequest, hand_off
from segue.handoffs.values import Handoff
from segue.store import bindings, transcripts
from tests.harness.house import Desk
from tests.web import gateways
from tests.web.conftest import Site
from tests.web.gateways import Killer
from tests.web.handshake import Key
from tests.web.reader import Reader

TERMINALS = 5
"""Terminals that hand off at the same time."""
MOST_MOMENTS = 20
"""Moments in the life of a gateway: fewer than a round has."""
WITHIN = 300.0
GREETING = "[This session has just been handed off to web,"


@dataclass(frozen=True)
class Moved:
    """One session that was handed off."""

    session_id: str
    name: str
    at: Address
    reader: Reader

    @property
    def question(self) -> str:
        return f"and {self.name}?"


async def handed_off(desk: Desk, killer: Killer) -> Handoff:
    """Complete the handoff, as a user who tries again when there was no gateway."""
    while True:
        try:
            async for progress in hand_off(desk.store, desk.held, HandoffRequest(Platform.WEB)):
                killer.moment()
                if isinstance(progress, Completed):
                    return progress.handoff
        except HandoffError:
            await asyncio.sleep(0.05)


@dataclass(frozen=True)
class Mover:
    """Hands sessions off, and continues each of them on an open page."""

    site: Site
    killer: Killer
    key: Key
    pages: contextlib.AsyncExitStack

    async def move(self, name: str) -> Moved:
        async with self.site.terminal((f"{name}?", f"{name}!"), title=name) as desk:
            done = await handed_off(desk, self.killer)
        assert done.thread is not None
        assert done.thread.thread_id is not None
        reader = Reader(self.site.url, self.key, done.thread.thread_id, self.killer.moment)
        await self.pages.enter_async_context(reader.reading())
        moved = Moved(done.session_id, name, done.thread, reader)
        await reader.say(moved.question)
        return moved

    async def moves(self, terminal: int, count: int) -> list[Moved]:
        return [await self.move(f"boat {terminal}/{n}") for n in range(count)]


HANDOFFS = [1, *(pytest.param(6, id=f"6, {n}") for n in range(3))]
"""Handoffs of each terminal in one round."""


@pytest.mark.kill
@pytest.mark.parametrize("count", HANDOFFS)
async def test_handoffs_to_the_page_survive_a_kill_of_the_gateway_at_any_step(
    site: Site, tmp_path: Path, port: int, seed: int, count: int, request: pytest.FixtureRequest
):
    environment = {**gateways.environment(tmp_path, port), "SEGUE_MODEL": "scripted"}
    site.settings = config.load(environment)
    site.url = f"http://127.0.0.1:{site.settings.web.port}"
    async with site.gateway():
        key = await site.key()
    killer = Killer(environment, random.Random(f"{request.node.name} {seed}"), MOST_MOMENTS)
    async with asyncio.timeout(WITHIN), killer.killing(), contextlib.AsyncExitStack() as pages:
        mover = Mover(site, killer, key, pages)
        found = await asyncio.gather(*(mover.moves(n, count) for n in range(TERMINALS)))
        await killer.spare()
        everything = [moved for of_one in found for moved in of_one]
        for moved in everything:
            await moved.reader.until(6)
        await are_there_once(site, everything)
    assert len(everything) == TERMINALS * count
    assert killer.kills >= count


async def are_there_once(site: Site, everything: list[Moved]) -> None:
    bound = await bindings.list_bindings(site.store, ME, limit=1000)
    assert len({binding.session_id for binding in bound}) == len(bound)
    where = {binding.session_id: binding.address for binding in bound}
    for moved in everything:
        assert where[moved.session_id] == moved.at
        seen = moved.reader.seen
        asked, answered, greeting, question, answer = seen.told
        assert (asked[1], answered[0]) == (f"<p>{moved.name}?</p>", "assistant")
        assert GREETING in greeting[1]
        assert question == ("user", f"<p>{moved.question}</p>")
        assert moved.question in answer[1]
        assert seen.messages == {}
        assert [(move["text"], move["after"]) for move in seen.moves.values()] == [
            ("Moved here", 2)
        ]
        said = [m.content for m in await transcripts.load(site.store, moved.session_id)]
        assert said[:2] == [f"{moved.name}?", f"{moved.name}!"]
        assert said[-2] == moved.question
        assert len(said) == 6
