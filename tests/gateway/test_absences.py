"""What was written while the gateway was away: answered, or reported to the owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import structs

import segue.store
from segue.core.address import Address, ChatType, Sender
from segue.core.session import ME
from segue.gateway import texts
from segue.gateway.access import Gate
from segue.gateway.dispatch import MAX_WAITING
from segue.platforms.base import Gap, Inbound, InboundKind
from segue.store import gateways, pairings
from segue.store.base import Tx
from segue.testing.platform import PeerAdapter
from segue.testing.platform.adapter import Client
from tests.harness.house import TELEGRAM, WITHIN, House

SINCE = datetime(2026, 11, 3, 9, 30, tzinfo=UTC)
GAP = Gap(SINCE, SINCE + timedelta(days=2))
UNREAD = texts.unread(GAP.since, GAP.until)


class Late(PeerAdapter):
    """An adapter that first yields what was missed."""

    missed: Sequence[Inbound] = ()
    is_behind = False
    given: Mapping[str, Any] = {}

    @property
    def is_caught_up(self) -> bool:
        return not self.is_behind

    def remember(self, recorded: Mapping[Address, str], **more: Any) -> None:
        self.given = {"recorded": recorded, **more}

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        self.is_behind = True
        for inbound in self.missed:
            yield inbound
        yield None
        self.is_behind = False
        async for inbound in super().receive():
            yield inbound


class Behind(Late):
    """An adapter that does not get on with what was missed."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.stuck = asyncio.Event()

    async def receive(self) -> AsyncGenerator[Inbound | None]:
        self.is_behind = True
        yield None
        self.stuck.set()
        await asyncio.Event().wait()


class Forgetful(PeerAdapter):
    """An adapter of a platform that keeps messages for a day."""

    async def _greet(self, client: Client) -> None:
        await super()._greet(client)
        self.capabilities = replace(self.capabilities, keeps=timedelta(hours=24))


def late(*missed: Inbound) -> type[Late]:
    class LateAdapter(Late):
        pass

    LateAdapter.missed = missed
    return LateAdapter


def gap_at(address: Address) -> Inbound:
    sender = Sender(platform=address.platform, user_id="")
    name = f"gap {address.key} {GAP.since.isoformat()}"
    return Inbound(kind=InboundKind.GAP, update_id=name, address=address, sender=sender, gap=GAP)


async def test_messages_that_were_not_read_are_reported_in_the_chat_once(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        at = await house.address(chat)
        await house.idle()
    for _ in range(2):  # the process stops before anything else is recorded
        async with house.gateway(speaks=late(gap_at(at))):
            await house.driver.message(UNREAD, chat=chat)
            await house.idle()
    shown = await house.driver.look(chat)
    assert list(shown.texts).count(UNREAD) == 1
    assert "2026-11-0" in UNREAD


async def test_a_gap_in_a_chat_where_no_owner_talks_is_not_reported_there(house: House):
    chat = await house.chat()
    at = Address(platform=TELEGRAM, chat_type=ChatType.DM, chat_id=chat)
    async with house.gateway(speaks=late(gap_at(at))):
        await house.driver.say(house.anna, chat, "hello")
        await house.driver.message("(1) hello", chat=chat)
        await house.idle()
    assert UNREAD not in (await house.driver.look(chat)).texts


async def test_a_message_that_was_edited_meanwhile_is_answered_once_in_its_newest_text(
    house: House,
):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        at = await house.address(chat)
        await house.idle()
    message = Inbound(
        kind=InboundKind.MESSAGE,
        update_id="1",
        address=at,
        sender=Sender(platform=TELEGRAM, user_id=house.anna),
        text="remove A",
        message_id="7",
    )
    edits = [
        structs.replace(message, kind=InboundKind.EDIT, update_id=f"edit {text}", text=text)
        for text in ("remove B", "remove C")
    ]
    async with house.gateway(speaks=late(message, *edits)):
        await house.driver.message("(2) remove C", chat=chat)
        await house.idle()
    assert len(house.model.prompts) == 2
    assert texts.ANSWERED_ALREADY not in (await house.driver.look(chat)).texts


async def test_what_was_written_meanwhile_is_not_refused_because_it_is_much(house: House):
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        at = await house.address(chat)
        await house.idle()
    sender = Sender(platform=TELEGRAM, user_id=house.anna)
    missed = [
        Inbound(
            kind=InboundKind.MESSAGE,
            update_id=f"late {number}",
            message_id=f"late {number}",
            address=at,
            sender=sender,
            text=f"n{number}",
        )
        for number in range(MAX_WAITING + 10)
    ]
    async with house.gateway(speaks=late(*missed)):
        last = MAX_WAITING + 9
        await house.driver.message(f"({last + 2}) n{last}", chat=chat)
        await house.idle()
    shown = await house.driver.look(chat)
    answers = [text for text in shown.texts if text.startswith("(")]
    assert answers == ["(1) hello", *(f"({n + 2}) n{n}" for n in range(MAX_WAITING + 10))]
    assert texts.BUSY not in shown.texts


async def test_only_senders_with_an_effect_are_wanted(house: House):
    gate = Gate(house.store)
    anna = Sender(platform=TELEGRAM, user_id=house.anna)
    eve = Sender(platform=TELEGRAM, user_id=house.eve)
    assert await gate.wants(anna, "anything")
    assert not await gate.wants(eve, "anything")
    code = await pairings.begin(house.store, ME)
    assert await gate.wants(eve, code)
    assert await gate.wants(eve, f"/start {code}")


# The last contact


def _move_back(tx: Tx, microseconds: int) -> None:
    tx.change("UPDATE contacts SET at = at - :by", by=microseconds)


async def absent(house: House, days: int) -> str:
    """A chat with a session, in a store whose gateway stopped that many days ago."""
    chat = await house.chat()
    async with house.gateway():
        await house.driver.say(house.anna, chat, "hello")
        await house.address(chat)
        await house.idle()
    await house.store.write(_move_back, timedelta(days=days) // timedelta(microseconds=1))
    return chat


async def test_an_absence_that_is_longer_than_the_platform_keeps_messages_is_reported_once(
    house: House,
):
    chat = await absent(house, 3)
    for number in range(2):
        async with house.gateway(speaks=Forgetful):
            await house.driver.say(house.anna, chat, str(number))
            await house.driver.message(f"({number + 2}) {number}", chat=chat)
            await house.idle()
    [notice] = [text for text in (await house.driver.look(chat)).texts if "24 hours" in text]
    assert "Telegram keeps messages for 24 hours" in notice
    assert "Send again what matters" in notice


async def test_it_is_reported_in_the_home_channel(house: House):
    await absent(house, 3)
    home = await house.chat()
    await house.home(home)
    async with house.gateway(speaks=Forgetful):
        await house.driver.until(lambda s: any("24 hours" in it for it in s.texts), chat=home)


async def test_a_short_absence_is_not_reported(house: House):
    chat = await absent(house, 0)
    async with house.gateway(speaks=Forgetful):
        await house.driver.say(house.anna, chat, "again")
        await house.driver.message("(2) again", chat=chat)
        await house.idle()
    assert not any("24 hours" in text for text in (await house.driver.look(chat)).texts)


async def test_the_contact_is_kept_only_after_what_was_missed_is_recorded(house: House):
    await absent(house, 3)
    store = house.store
    adapter = Behind(TELEGRAM, house.peer.url, house.peer.token)
    async with await segue.store.open(house.url) as opened, house.serve(opened, adapter):
        async with asyncio.timeout(WITHIN):
            await adapter.stuck.wait()
        contact = adapter.given["contact"]
        assert await gateways.last_contact(store, TELEGRAM, adapter.account) == contact
    assert datetime.now(UTC) - contact > timedelta(days=2)
