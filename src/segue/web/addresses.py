"""Addresses of the page: one chat per owner, with a thread for each conversation."""

from __future__ import annotations

from segue.core.address import Address, ChatType, Platform


def of(owner: str, page: str | None = None) -> Address:
    """The address of a conversation, or of the owner's page itself."""
    return Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id=owner, thread_id=page)
