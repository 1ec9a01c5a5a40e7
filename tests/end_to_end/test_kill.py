"""Handoffs to Telegram while the gateway is killed at any moment and started again: none is
lost, nothing is there twice without a word about it, and each session is in one place."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

import pytest

import segue.store
from segue.core.address import Address, ChatType, Sender
from segue.core.errors import HandoffError
from segue.core.handoff import Handoff
from segue.core.reset import ResetPolicy
from segue.core.session import ME
from segue.core.transcript import Message as Said
from segue.core.transcript import Role, spoken
from segue.handoff import Completed, hand_off
from segue.store import Store, Topic
from segue.testing.telegram import Hands, running
from tests.crash.world import outgoing
from tests.end_to_end.accounts import Account, violations
from tests.end_to_end.conftest import KINDS, TELEGRAM, Shape
from tests.gateway.conftest import Desk, terminal
from tests.web.gateways import Killer

TERMINALS = 8
"""Which hand off at one time."""
HANDOFFS = [1, *(pytest.param(5, id=f"5, {n}") for n in range(3))]
"""Of each of them, in one round."""
MOST_MOMENTS = 60
"""Calls to Telegram and steps of handoffs in the life of a gateway: fewer than there are."""
GIVES_UP = 0.3
"""How likely a person goes on in the terminal when a handoff has failed."""
WITHIN = 50.0
NAME = "@segue_test_bot"
STAYED = "and then?"


@dataclass(frozen=True)
class Town:
    """Where everything takes place."""

    environment: dict[str, str]
    hands: Hands
    store: Store
    killer: Killer
    chance: random.Random
    shapes: Iterator[Shape]

    async def chat(self, name: str) -> tuple[Shape, int, int]:
        """A fresh one, in which the owner has been before, and who they are there."""
        shape = next(self.shapes)
        person = await self.hands.user(name)
        await self.store.owners.link(Sender(platform=TELEGRAM, user_id=str(person)), ME)
        if shape.is_private:
            chat = await self.hands.private(person, topics=shape.has_topics)
        else:
            chat = await self.hands.chat(KINDS[shape], [person], manage_topics=shape is Shape.FORUM)
        kind = ChatType.DM if shape.is_private else ChatType.GROUP
        address = Address(platform=TELEGRAM, chat_type=kind, chat_id=str(chat))
        await self.store.bindings.get_or_create(address, ME, policy=ResetPolicy(), zone=UTC)
        return shape, chat, person

    async def watch(self) -> None:
        """Every call of the gateway may be the moment."""
        version = -1
        while True:
            shown = await self.hands.until(lambda s, v=version: s.version > v, chat=0)
            version = shown.version
            self.killer.moment()


@dataclass(frozen=True)
class Moved:
    """One session that was to be handed off."""

    session_id: str
    chat: int
    person: int
    said: tuple[str, str]
    moved: bool = True


async def move(town: Town, name: str) -> Moved:
    """Hand a session off, and go on with it there, or in the terminal."""
    shape, chat, person = await town.chat(name)
    async with terminal(
        town.environment["SEGUE_STORE"], (f"{name}?", f"{name}!"), title=name
    ) as desk:
        done = await handed_off(town, desk, chat)
        if done is None:
            await goes_on(desk)
            return Moved(desk.session.id, chat, person, (f"{name}?", STAYED), moved=False)
    assert done.thread is not None
    thread = None if done.thread.thread_id is None else int(done.thread.thread_id)
    assert (thread is not None) is shape.has_topics
    asked = f"and {name}?"
    await town.hands.say(person, chat, f"{NAME} {asked}", thread=thread)
    return Moved(desk.session.id, chat, person, (f"{name}?", asked))


async def handed_off(town: Town, desk: Desk, chat: int) -> Handoff | None:
    """As a person does it who asks again when there was no gateway; when it has failed, they may
    have enough of it."""
    while True:
        try:
            async for progress in hand_off(
                desk.store, desk.held, TELEGRAM.value, chat_id=str(chat)
            ):
                town.killer.moment()
                if isinstance(progress, Completed):
                    return progress.handoff
        except HandoffError:
            await asyncio.sleep(0.05)
            continue
        if town.chance.random() < GIVES_UP:
            return None


async def goes_on(desk: Desk) -> None:
    """The session is in hand as if nothing had been."""
    now = desk.session.started
    said = [spoken(STAYED, now), Said(Role.ASSISTANT, "Then we stay.", now)]
    await desk.store.transcripts.append(desk.held.lease, said)


async def moves(town: Town, number: int, count: int) -> list[Moved]:
    return [await move(town, f"boat {number}/{n}") for n in range(count)]


async def settled(town: Town) -> None:
    """Wait until nothing is under way any more."""
    await town.hands.until(lambda shown: shown.unconfirmed == 0, chat=0, within=WITHIN)
    store = town.store
    async with store.listen(Topic.HANDOFFS, Topic.INBOX, Topic.SENT) as wake:
        while (
            await store.in_flight()
            or await store.inbox.waiting()
            or await store.outbox.due([TELEGRAM])
        ):
            await wake.wait(0.1)


async def told(town: Town) -> None:
    """Wait until the sessions were told of everything that is uncertain."""
    # The next gateway looks for that at once, and this one some seconds later.
    town.killer.strike()
    async with town.store.listen(Topic.SENT) as wake:
        while await town.store.outbox.troubled(reported=False):
            await wake.wait(0.1)


@contextlib.asynccontextmanager
async def town(folder: Path, seed: str) -> AsyncGenerator[Town]:
    with running() as peer:
        settings = folder / "config.toml"
        settings.write_text(
            f'[platforms.telegram]\nurl = "{peer.url}"\ntoken = "{peer.token}"\n'
            "[web]\nenabled = false\n"
        )
        settings.chmod(0o600)
        environment = {
            "SEGUE_CONFIG": str(settings),
            "SEGUE_STORE": f"sqlite://{folder}/segue.db",
            "SEGUE_GATEWAY_LOG": f"{folder}/gateway.log",
            "SEGUE_MODEL": "scripted",
        }
        chance = random.Random(seed)
        killer = Killer(environment, chance, MOST_MOMENTS)
        async with (
            peer.hands() as hands,
            await segue.store.open(environment["SEGUE_STORE"]) as store,
        ):
            await store.owners.ensure(ME)
            await store.owners.introduced(ME)
            shapes = itertools.cycle([Shape.FORUM, Shape.TOPICS, Shape.FORUM, *Shape])
            yield Town(environment, hands, store, killer, chance, shapes)


async def account(town: Town, moved: Moved) -> Account:
    store = town.store
    shown = await town.hands.look(moved.chat)
    bindings = await store.bindings.list(ME, limit=10_000)
    return Account(
        session_id=moved.session_id,
        moved=moved.moved,
        said=moved.said,
        handoffs=list(reversed(await store.list_handoffs(moved.session_id))),
        addresses=[b.address for b in bindings if b.session_id == moved.session_id],
        transcript=(await store.transcripts.load(moved.session_id)).messages,
        outgoing=await outgoing(store, str(moved.chat)),
        messages=[m for m in shown.messages if m.author != moved.person],
        topics=shown.threads,
    )


@pytest.mark.kill
@pytest.mark.parametrize("count", HANDOFFS)
async def test_handoffs_to_telegram_survive_any_death_of_the_gateway(
    tmp_path: Path, seed: int, count: int, request: pytest.FixtureRequest
):
    chance = f"{request.node.name} {seed}"
    async with town(tmp_path, chance) as here, asyncio.timeout(WITHIN), here.killer.killing():
        watching = asyncio.create_task(here.watch())
        found = await asyncio.gather(*(moves(here, number, count) for number in range(TERMINALS)))
        watching.cancel()
        await here.killer.spare()
        await settled(here)
        await told(here)
        every = [moved for of_one in found for moved in of_one]
        broken = {
            moved.session_id: wrong
            for moved in every
            if (wrong := violations(await account(here, moved)))
        }
        errors = await here.hands.errors()
    assert broken == {}
    assert errors == ()
    assert len(every) == TERMINALS * count
    assert here.killer.kills >= count
    assert sum(moved.moved for moved in every) >= count
