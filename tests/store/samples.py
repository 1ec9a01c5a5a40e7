"""Sample messages and addresses."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from segue.approvals.queries import Approval, whole_key
from segue.core.address import Address, ChatType, Platform
from segue.core.session import Lease
from segue.core.transcript import Image, Kind, Message, Role, ToolCall
from segue.store import Store, Waiter, deliveries, leases, outbox, transcripts
from segue.store.base import Tx
from segue.store.outbox import Draft

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOPIC = Address(
    platform=Platform.TELEGRAM, chat_type=ChatType.GROUP, chat_id="-100200", thread_id="7"
)
DM = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="42")
CHANNEL = Address(platform=Platform.SLACK, chat_type=ChatType.CHANNEL, chat_id="C024BE91L")
ROOM = Address(platform=Platform.MATRIX, chat_type=ChatType.GROUP, chat_id="!room:example.org")

on_sqlite = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize(
    "url", [pytest.param("postgres", marks=pytest.mark.real)], indirect=True
)

PICTURES = (Image("image/png", bytes(range(256))), Image("image/webp", b""))

# Characters that a text column of either database cannot store.
ODD = "a\0b\ud800c"


def said(text: str, *, tokens: int = 1) -> Message:
    return Message(Role.USER, text, AT, tokens=tokens)


def answered(text: str, *, tokens: int = 1) -> Message:
    return Message(Role.ASSISTANT, text, AT, tokens=tokens)


def called(*names: str) -> Message:
    calls = tuple(ToolCall(f"call_{i}_{name}", name, "{}") for i, name in enumerate(names))
    return Message(Role.ASSISTANT, "", AT, tool_calls=calls, tokens=1)


def result(call: ToolCall, text: str = "done") -> Message:
    return Message(Role.TOOL, text, AT, tool_call_id=call.id, tool_name=call.name, tokens=1)


def summary(text: str, *, tokens: int = 1) -> Message:
    return Message(Role.SYSTEM, text, AT, tokens=tokens, kind=Kind.SUMMARY)


def draft(key: str, address: Address = DM, body: str = "hello") -> Draft:
    return Draft(key=key, address=address, body=body)


async def waiting(store: Store, address: Address) -> int:
    """How many messages to this address are queued or being sent."""

    def count(tx: Tx) -> int:
        sql = "SELECT count(*) FROM outbox WHERE address = :key AND state IN ('queued', 'sending')"
        return tx.one(sql, key=address.key)[0]

    return await store.read(count)


async def show(store: Store, asked: Approval) -> None:
    """Send the message that shows the whole call that the question is about."""
    message = draft(whole_key(asked.id, "asked"), asked.address, asked.what)
    if await outbox.enqueue(store, message):
        (sending,) = await deliveries.claim(store, [asked.address.platform])
        await deliveries.sent(store, sending, "1")


def texts(messages: Iterable[Message]) -> list[str]:
    return [message.content for message in messages]


async def hold(store: Store, session_id: str, *messages: Message) -> Lease:
    """Open the session in a terminal, append messages, and keep the lease."""
    lease = await leases.acquire(store, session_id, "a terminal on desk")
    if messages:
        await transcripts.append(store, lease, messages)
    return lease


async def say(store: Store, session_id: str, *messages: Message) -> None:
    """Append messages to the session and release the lease."""
    await leases.release(store, await hold(store, session_id, *messages))


async def settled(wake: Waiter) -> Waiter:
    """Return the waiter after consuming its initial wake-up, if there is one."""
    await wake.wait(0)
    return wake
