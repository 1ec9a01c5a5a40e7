"""The message that another one answers, by a reply or in a thread under it. The inbox and the
outbox know its text where the platform does not send it."""

from __future__ import annotations

import dataclasses

import msgspec
from msgspec.structs import replace

from segue.core.address import Address
from segue.core.session import Session
from segue.gateway import messages
from segue.platforms.base import Inbound, Quote
from segue.store import Store, inbox, outbox, sessions
from segue.store.outbox import Outgoing


async def complete(store: Store, account: str, inbound: Inbound, session: Session) -> Inbound:
    """The message, with the text of the one that it replies to. The first message of a session in a
    thread brings the message along under which the thread was opened, if the agent wrote that."""
    quote = inbound.quote
    if quote is None and session.messages == 0:
        root = await find_root(store, inbound.address, session.owner)
        quote = None if root is None else Quote(text=root.body, ours=True)
    elif quote is not None and not quote.text and quote.message_id:
        quote = replace(quote, text=await _text(store, account, inbound.address, quote))
    return replace(inbound, quote=quote)


async def find_root(store: Store, thread: Address, owner: str) -> Outgoing | None:
    """The message of ours under which a thread was opened. It has the thread's id. None if it is
    not known, or is not of a session of that owner."""
    if thread.thread_id is None:
        return None
    chat = dataclasses.replace(thread, thread_id=None)
    root = await outbox.sent_as(store, chat, thread.thread_id)
    if root is None or root.session_id is None:
        return None
    wrote = await sessions.get(store, root.session_id)
    return root if wrote is not None and wrote.owner == owner else None


async def _text(store: Store, account: str, at: Address, quote: Quote) -> str:
    """The text of a message in that chat. Empty if it is not known."""
    if quote.ours:
        sent = await outbox.sent_as(store, at, quote.message_id)
        return "" if sent is None else sent.body
    body = await inbox.said(store, account, at, quote.message_id)
    try:
        return "" if not body else messages.decode(body).text
    except msgspec.DecodeError:  # written by an older version
        return ""
