"""Names of users and chats, for a platform whose updates have only their ids."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from segue.core.address import ChatType
from segue.platforms import content
from segue.platforms.base import Inbound
from segue.platforms.errors import Failures
from segue.platforms.recent import Recent

T = TypeVar("T")

SECONDS = 1.0
"""How long an update waits for a name. It must be recorded soon."""


class KnownNames:
    """What the platform said about users and chats. It is asked once about each."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._known = Recent[str, Any]()

    async def get(self, name: str, ask: Callable[[], Awaitable[T]], unknown: T) -> T:
        """What `ask` returns about the user or chat with the id `name`, or `unknown` if the
        platform does not say."""
        if name not in self._known:
            try:
                async with asyncio.timeout(SECONDS):
                    self._known[name] = await ask()
            except (TimeoutError, *self._failures.all):
                return unknown
        return self._known[name]


def named(inbound: Inbound, sender: str, chat: str) -> Inbound:
    """The update with the names of its sender and its chat. A direct message has the sender's."""
    who = dataclasses.replace(inbound.sender, name=sender)
    if inbound.address.chat_type is ChatType.DM:
        return replace(inbound, sender=who, chat_name=sender)
    return replace(inbound, sender=who, chat_name=chat, readers=content.members(chat))
