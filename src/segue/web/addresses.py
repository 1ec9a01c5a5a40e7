"""The addresses of the page: each owner has one, with a thread for every conversation."""

from __future__ import annotations

from segue.core.address import Address, ChatType, Platform


def of(owner: str, page: str | None = None) -> Address:
    """A conversation of an owner's page, or the page itself."""
    return Address(platform=Platform.WEB, chat_type=ChatType.DM, chat_id=owner, thread_id=page)
