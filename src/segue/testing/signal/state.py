"""The Signal fake's state, and the events that changes cause."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from segue.testing import peers
from segue.testing.peers import File, Pulse, User
from segue.testing.peers.templates import Json
from segue.testing.signal import errors, snapshot
from segue.testing.signal.errors import USER, Refuse, check
from segue.testing.signal.events import Events
from segue.testing.signal.snapshot import ME, Chat, Kind, Message, Settings, Thread, fill


class State(peers.State[Settings, str, Chat, Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        self.events = Events(pulse, self)
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
        """An account whose device was unlinked is gone: ReceiveHelper.onWebSocketStateChange."""
        return () if self.settings.revoked else self.settings.accounts

    # Lookups

    def group(self, name: str) -> Chat:
        """CommandUtil.getGroupId, SendHelper.sendAsGroupMessage"""
        check(
            len(name) == 44, f'Invalid group id: Failed to decode groupId (must be base64) "{name}"'
        )
        chat = self.chats.get(name)
        if chat is None:
            raise Refuse(USER, f"Group not found: {name}")
        inside = f"{chat.title} ({chat.id})"
        check(chat.joined, f"User is not a member in group: {inside}")
        check(not chat.announcements, f"User is not allowed to send message to group: {inside}")
        return chat

    def direct(self, name: str) -> Chat:
        """RecipientIdentifier.Single.fromString"""
        found = next((it for it in self.users.values() if name in (it.id, it.username)), None)
        if found is None:
            check(len(name) == 36, f"Invalid phone number '{name}': not a number")
            return Chat(id=name, kind=Kind.DM, failure=snapshot.Failure.UNREGISTERED)
        return self.chats.get(found.id) or Chat(id=found.id, kind=Kind.DM, members=(found.id,))

    def message(self, chat: str, timestamp: str) -> Message:
        if (found := self.messages.get((chat, timestamp))) is None:
            raise Refuse(USER, f"there is no message {timestamp}")
        return found

    # Objects

    def data(self, chat: Chat, at: int, text: str | None, **more: Any) -> Json:
        names = ("reaction", "quote", "mentions", "files", "deleted", "styles")
        group = fill("group", it=chat) if chat.kind is Kind.GROUP else None
        given = dict.fromkeys(names) | {name: it for name, it in more.items() if it}
        return fill("data", at=at, text=text, group=group, **given)

    def quote(self, message: Message) -> Json:
        files = [fill("quoted", it=it) for it in message.files]
        by = who(self.users[message.author])
        return fill("quote", target=int(message.newest), text=message.text, files=files, **by)

    # Changes

    def tell(
        self, by: User[str], chat: Chat, at: int, data: Json | None = None, **more: Any
    ) -> None:
        """Queue an event, unless the bot is not in the chat."""
        if not chat.joined:
            return
        parts = dict.fromkeys(("edit", "receipt", "typing", "sync")) | {"data": data} | more
        if by.id == ME.id:
            edit = {"editMessage": parts["edit"]} if parts["edit"] else {}
            sent = {**self._destination(chat), **(data or {}), **edit}
            parts |= {"data": None, "edit": None, "sync": {"sentMessage": sent}}
        self.put(fill("receive", number=ME.username, device=1, at=at, **who(by), **parts))

    def put(self, event: Json) -> None:
        self.events.inject(msgspec.json.encode(event).decode())

    def _destination(self, chat: Chat) -> Json:
        if chat.kind is Kind.GROUP:
            return fill("sent", source=None, number=None, uuid=None)
        other = who(self.users[chat.id])
        return fill("sent", source=other["source"], number=other["known"], uuid=chat.id)

    def snapshot(self, chat: str | None) -> snapshot.Shown:
        links = tuple(uri for uri, number in self.links.items() if not number)
        return snapshot.Shown(**self.shown(chat), clients=len(self.events.clients), links=links)


def who(user: User[str]) -> Json:
    """A user, by number if the number is known: RecipientAddress.getLegacyIdentifier."""
    return {"by": user, "source": user.username or user.id, "known": user.username or None}


def attached(file: File) -> Json:
    return fill("file", it=file)
