"""The Signal fake's state, and the events that changes cause."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from segue.testing import peers
from segue.testing.peers import File, Pulse, User
from segue.testing.peers.templates import Json
from tests.fakes.protocols.event_streams import EventStreams
from tests.fakes.signal import errors, snapshot
from tests.fakes.signal.errors import check
from tests.fakes.signal.snapshot import ME, Chat, Kind, Message, Settings, Thread, fill

_PARTS = dict.fromkeys(("data", "edit", "sync"))
_CONTENTS = dict.fromkeys(("reaction", "quote", "mentions", "files", "deleted"))


class State(peers.State[Settings, str, Chat, Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        self.events = EventStreams(pulse, lambda: self.settings)
        super().__init__(settings, pulse, self.events, errors.injected)
        self.users[ME.id] = ME
        self.chats[ME.id] = Chat(id=ME.id, kind=Kind.SELF, members=(ME.id,), title="Note to Self")
        self.links: dict[str, str] = {}
        """The device links that wait for a phone, each with the number of the one that came."""
        self._last = 0

    def time(self) -> int:
        """A new timestamp in milliseconds. It identifies a message of its author."""
        self._last = max(self._last + 1, int(time.time() * 1000))
        return self._last

    @property
    def accounts(self) -> tuple[str, ...]:
        return () if self.settings.revoked else self.settings.accounts

    # Lookups

    def group(self, name: str) -> Chat:
        """CommandUtil.getGroupId, SendHelper.sendAsGroupMessage"""
        reason = f'Invalid group id: Failed to decode groupId (must be base64) "{name}"'
        check(len(name) == 44, reason)
        check(name in self.chats, f"Group not found: {name}")
        chat = self.chats[name]
        check(chat.joined, f"User is not a member in group: {chat.title} ({chat.id})")
        return chat

    def direct(self, name: str) -> Chat:
        """RecipientIdentifier.Single.fromString"""
        found = next((it for it in self.users.values() if name in (it.id, it.username)), None)
        if found is None:
            check(len(name) == 36, f"Invalid phone number '{name}': not a number")
            return Chat(id=name, kind=Kind.DM, failure=snapshot.Failure.UNREGISTERED)
        return self.chats.get(found.id) or Chat(id=found.id, kind=Kind.DM, members=(found.id,))

    def message(self, chat: str, timestamp: str) -> Message:
        check((chat, timestamp) in self.messages, f"there is no message {timestamp}")
        return self.messages[chat, timestamp]

    # Changes

    def tell(
        self,
        user: str,
        chat: str,
        text: str | None = None,
        *,
        at: int | None = None,
        edits: str = "",
        **more: Any,
    ) -> None:
        """Queue an event with a message of a user, unless the bot is not in the chat. What another
        device of the account sends is a sync message."""
        where, by, at = self.chats[chat], self.users[user], at or self.time()
        if not where.joined:
            return
        group = fill("group", it=where) if where.kind is Kind.GROUP else None
        given = _CONTENTS | {name: it for name, it in more.items() if it}
        parts: Json = {"data": fill("data", at=at, text=text, group=group, **given)}
        if edits:
            parts = {"edit": {"targetSentTimestamp": int(edits), "dataMessage": parts["data"]}}
        if by.id == ME.id:
            to = {"source": None, "known": None} if group else who(self.users[chat])
            sent = fill("sent", **to, uuid=None if group else chat)
            sent |= {"editMessage": parts["edit"]} if edits else parts["data"]
            parts = {"sync": {"sentMessage": sent}}
        number = ME.username if self.settings.names_account else None
        event = fill("receive", number=number, at=at, **who(by), **_PARTS | parts)
        self.events.inject(msgspec.json.encode(event).decode())

    def snapshot(self, chat: str | None) -> snapshot.Shown:
        links = tuple(uri for uri, number in self.links.items() if not number)
        return snapshot.Shown(**self.shown(chat), clients=len(self.events.clients), links=links)


def who(user: User[str]) -> Json:
    """A user, by number if the number is known: RecipientAddress.getLegacyIdentifier."""
    return {"by": user, "source": user.username or user.id, "known": user.username or None}


def attached(files: tuple[File, ...]) -> list[Json]:
    return [fill("file", it=it) for it in files]
