"""Messages that an outage has queued, on their way out or in: a new conversation does not wait for
them. Counted in sends and answers, not in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import pytest

import segue.store
from segue.core.address import Address, ChatType, Platform, Sender
from segue.core.session import ME, Owner
from segue.gateway import messages, outbound
from segue.platforms.base import Button, Inbound, InboundKind, Part, Receipt
from segue.store import Store, outbox, owners
from segue.store.outbox import Draft
from segue.testing.platform import PeerAdapter
from tests.harness.house import TELEGRAM, WITHIN, House
from tests.harness.house import Slow as Thinking

ROOM = 4
QUEUED = 200


class Slow(PeerAdapter):
    """An adapter whose sends end when the test allows it."""

    def __init__(self, platform: Platform, url: str, token: str) -> None:
        super().__init__(platform, url, token)
        self.begun: list[str] = []
        """The chats in which a message was begun, in order."""
        self._allowed = asyncio.Semaphore(0)
        self._begins = asyncio.Event()

    async def send(
        self, to: Address, part: Part, *, key: str, buttons: Sequence[Button] = ()
    ) -> Receipt:
        self.begun.append(to.chat_id)
        self._begins.set()
        await self._allowed.acquire()
        return Receipt(key)

    def allow(self, sends: int) -> None:
        for _ in range(sends):
            self._allowed.release()

    async def until(self, count: int) -> None:
        """Wait until so many sends have begun."""
        async with asyncio.timeout(WITHIN):
            while len(self.begun) < count:
                self._begins.clear()
                await self._begins.wait()


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "MAX_CONCURRENT", ROOM)


async def queue(house: House, platform: Platform, chats: Iterable[str]) -> None:
    for chat in chats:
        address = Address(platform=platform, chat_type=ChatType.DM, chat_id=chat)
        await outbox.enqueue(house.store, Draft(key=chat, address=address, body="words"))


async def test_a_message_in_a_new_chat_is_among_the_next_that_are_sent(house: House):
    await queue(house, Platform.TELEGRAM, [f"{n}" for n in range(QUEUED)])
    slow = Slow(Platform.TELEGRAM, house.peer.url, house.peer.token)
    async with await segue.store.open(house.url) as store, house.serve(store, slow):
        await slow.until(ROOM)
        await queue(house, Platform.TELEGRAM, ["new"])
        slow.allow(2)
        await slow.until(ROOM + 2)
        assert "new" in slow.begun
        slow.allow(QUEUED + 1)
        await slow.until(QUEUED + 1)
        await house.idle()
    assert sorted(slow.begun) == sorted({*slow.begun})


async def test_a_platform_that_is_slow_takes_no_room_of_another(house: House):
    await queue(house, Platform.TELEGRAM, [f"{n}" for n in range(QUEUED)])
    slow = Slow(Platform.TELEGRAM, house.peer.url, house.peer.token)
    other = Slow(Platform.DISCORD, house.peer.url, house.peer.token)
    async with await segue.store.open(house.url) as store, house.serve(store, slow, other):
        await slow.until(ROOM)
        await queue(house, Platform.DISCORD, ["new"])
        await other.until(1)
        assert len(slow.begun) == ROOM
        slow.allow(QUEUED)
        other.allow(1)
        await house.idle()


async def test_messages_that_wait_in_one_chat_do_not_hold_up_another(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    """A gateway finds them when it starts, and knows their sender after one look."""
    chat = await house.chat()
    sender = Sender(platform=TELEGRAM, user_id=house.anna)
    address = Address(platform=TELEGRAM, chat_type=ChatType.DM, chat_id=chat)
    for n in range(QUEUED):
        inbound = Inbound(
            kind=InboundKind.MESSAGE,
            update_id=f"earlier {n}",
            address=address,
            sender=sender,
            text=f"slow {n}",
        )
        await messages.record(house.store, "bot", ME, inbound)
    looked_up: list[str] = []
    who = owners.who

    async def counted(store: Store, platform: Platform, user_id: str) -> Owner | None:
        looked_up.append(user_id)
        return await who(store, platform, user_id)

    monkeypatch.setattr(owners, "who", counted)
    model = Thinking("slow")
    async with house.gateway(model=model):
        assert looked_up == [sender.user_id]
        await model.thinks.wait()
        other = await house.chat()
        await house.driver.say(house.anna, other, "hello")
        await house.driver.message("(1) hello", chat=other)
        assert len(model.prompts) == 1
        model.go.set()
