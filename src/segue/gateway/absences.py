"""Absences that were longer than a platform keeps messages."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from segue.core.address import Address, Platform
from segue.gateway import texts
from segue.platforms import registry
from segue.platforms.base import Adapter, Gap
from segue.store import Store, bindings, outbox, owners
from segue.store.base import Tx
from segue.store.outbox import Draft

logger = logging.getLogger(__name__)


async def report(store: Store, adapter: Adapter, contact: datetime) -> None:
    """Notify the owners, once, if the gateway was away for longer than the platform keeps messages.
    `contact` is when a gateway last received from it."""
    keeps = adapter.capabilities.keeps
    now = datetime.now(UTC)
    if keeps is None or now - contact <= keeps:
        return
    missing = Gap(contact, now - keeps)
    title = registry.SPECS[adapter.platform].title
    body = texts.forgotten(title, keeps, missing.since, missing.until)
    logger.warning(
        "messages not kept platform=%s since=%s until=%s", title, missing.since, missing.until
    )
    await store.write(_report, adapter.platform, adapter.account, contact, body)


def _report(tx: Tx, platform: Platform, account: str, contact: datetime, body: str) -> None:
    for owner in owners.all_owners(tx):
        at = _place(tx, platform, owner.id)
        if at is not None:
            key = f"away:{platform}:{account}:{owner.id}:{contact.isoformat()}"
            outbox.enqueue(tx, Draft(key=key, address=at, body=body))


def _place(tx: Tx, platform: Platform, owner: str) -> Address | None:
    """The owner's home channel, or else the chat of their last session there."""
    homes = [home.address for home in owners.homes(tx, owner)]
    chats = [binding.address for binding in bindings.list_bindings(tx, owner)]
    return next((it for it in (*homes, *chats) if it.platform is platform), None)
