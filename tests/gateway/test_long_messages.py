"""Messages that are very long: memory stays bounded, and the owner is told what was not read."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager

from segue.core.address import Address, ChatType, Platform, Sender
from segue.gateway.service import Gateway
from segue.platforms.base import Inbound, InboundKind
from segue.store import inbox
from segue.store.values import MESSAGE_LIMIT
from segue.testing.platform import Shape
from tests.harness.house import TELEGRAM, House

MEGABYTE = 1024 * 1024


def message(house: House, chat: str, text: str, **more: object) -> Inbound:
    given = {
        "kind": InboundKind.MESSAGE,
        "update_id": f"{chat}/{len(text)}",
        "address": Address(platform=TELEGRAM, chat_type=ChatType.DM, chat_id=chat),
        "sender": Sender(platform=TELEGRAM, user_id=house.anna),
        "text": text,
    }
    return Inbound(**{**given, **more})  # pyright: ignore[reportArgumentType]


@contextmanager
def peak(copies: float, of: int) -> Generator[None]:
    """Assert that Python takes no more memory than so many copies of `of` bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < copies * of


async def receive(house: House, gateway: Gateway, inbound: Inbound) -> None:
    await gateway.receiver.receive(house.adapter(), inbound)


async def test_a_message_beyond_the_limit_is_refused_without_a_copy(house: House):
    chat = await house.chat()
    huge = message(house, chat, "word " * (4 * MESSAGE_LIMIT // 5))
    async with house.gateway() as gateway:
        with peak(0.5, of=4 * MESSAGE_LIMIT):
            await receive(house, gateway, huge)
            shown = await house.driver.until(lambda s: len(s.messages) > 0, chat=chat)
        await receive(house, gateway, huge)  # delivered again
        await house.idle()
    assert [m.text for m in shown.messages] == [
        "That message has 33,554,430 bytes; the limit is 8,388,608. Send it as a file, or in parts."
    ]
    assert len((await house.driver.look(chat)).messages) == 1
    assert house.model.prompts == []
    (refused,) = await inbox.troubled(house.store)
    assert refused.body == ""


async def test_a_message_within_the_limit_is_copied_a_few_times_only(house: House):
    chat = await house.chat()
    size = MESSAGE_LIMIT - MEGABYTE
    async with house.gateway(model=["yes", "yes"]) as gateway:
        await receive(house, gateway, message(house, chat, "hello"))
        await house.driver.until(lambda s: len(s.messages) > 0, chat=chat)
        with peak(8, of=size):
            await receive(house, gateway, message(house, chat, "word " * (size // 5)))
            await house.idle()


async def test_a_long_message_between_users_of_a_group_is_not_mentioned(house: House):
    chat = await house.chat(Shape.GROUP, house.eve)
    address = Address(platform=TELEGRAM, chat_type=ChatType.GROUP, chat_id=chat)
    huge = message(house, chat, "x" * (MESSAGE_LIMIT + 1), address=address, addressed=False)
    async with house.gateway() as gateway:
        await receive(house, gateway, huge)
        await house.idle()
    assert (await house.driver.look(chat)).texts == []
    assert await inbox.troubled(house.store) == ()


async def test_a_long_message_of_a_stranger_causes_nothing(house: House):
    chat = await house.chat()
    stranger = Sender(platform=Platform.TELEGRAM, user_id=house.eve)
    huge = message(house, chat, "x" * (MESSAGE_LIMIT + 1), sender=stranger)
    async with house.gateway() as gateway:
        with peak(0.5, of=MESSAGE_LIMIT):
            await receive(house, gateway, huge)
        await house.idle()
    assert (await house.driver.look(chat)).texts == []
    assert await inbox.troubled(house.store) == ()
