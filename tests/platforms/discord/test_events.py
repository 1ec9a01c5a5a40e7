"""Events wait until they are recorded, and are received even while one is handled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.errors import ConnectFailed
from segue.platforms.base import Inbound, InboundKind
from segue.platforms.discord.client import Event, EventQueue
from segue.platforms.errors import Lost

ANNA = Sender(platform=Platform.DISCORD, user_id="1")
CHAT = Address(platform=Platform.DISCORD, chat_type=ChatType.CHANNEL, chat_id="5")


async def silence() -> None:
    await asyncio.Event().wait()


def message(number: int) -> Inbound:
    name = str(number)
    return Inbound(
        kind=InboundKind.MESSAGE, update_id=name, message_id=name, address=CHAT, sender=ANNA
    )


def queue(*numbers: int) -> EventQueue:
    events = EventQueue()
    for number in numbers:
        events.append(("MESSAGE_CREATE", number))
    return events


async def handled(event: Event) -> AsyncGenerator[Inbound | None]:
    yield message(event[1])


async def received(events: EventQueue, count: int) -> list[str]:
    """The ids of the next updates, the last of which is not recorded."""
    found: list[str] = []
    async with contextlib.aclosing(events.receive(silence, handled)) as updates:
        async for inbound in updates:
            if inbound is not None:
                found.append(inbound.update_id)
            if len(found) == count:
                break
    return found


async def test_an_event_stays_the_first_until_it_is_recorded():
    events = queue(1, 2, 3)
    assert await received(events, 2) == ["1", "2"]
    assert await received(events, 2) == ["2", "3"]


async def test_events_are_received_while_one_is_handled():
    events = queue(1)
    listened = asyncio.Event()

    async def listen() -> None:
        events.append(("MESSAGE_CREATE", 2))
        listened.set()
        await silence()

    async def slow(event: Event) -> AsyncGenerator[Inbound | None]:
        await listened.wait()  # Discord would close a connection that is not read
        yield message(event[1])

    async with contextlib.aclosing(events.receive(listen, slow)) as updates:
        found = [await anext(updates) for _ in range(4)]
    assert [it.update_id for it in found if it is not None] == ["1", "2"]


async def test_a_lost_connection_is_noticed_when_all_events_are_handled():
    events = queue(1)

    async def listen() -> None:
        raise Lost("it broke", arrived=True)

    async with contextlib.aclosing(events.receive(listen, handled)) as updates:
        assert await anext(updates) is None
        assert await anext(updates) == message(1)
        with pytest.raises(ConnectFailed):
            await anext(updates)
