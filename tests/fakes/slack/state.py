"""The Slack fake's state, and the events that changes cause."""

from __future__ import annotations

import time

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.peers import File, Pulse, User
from tests.fakes.protocols.uploads import Uploads
from tests.fakes.slack import errors, snapshot
from tests.fakes.slack.errors import Refuse, check
from tests.fakes.slack.snapshot import (
    BOT,
    TEAM,
    Chat,
    Json,
    Kind,
    Message,
    Settings,
    Thread,
    Ts,
    fill,
)
from tests.fakes.slack.sockets import EVENT, Envelopes

TOMBSTONE = "tombstone"
SLACKBOT = User(id="USLACKBOT", name="Slackbot", bot=True)


class State(peers.State[Settings, str, Chat, Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        self.envelopes = Envelopes(pulse, self)
        super().__init__(settings, pulse, self.envelopes, errors.injected)
        self.users |= {BOT.id: BOT, SLACKBOT.id: SLACKBOT}
        self.links: set[str] = set()
        """The addresses of sockets that the bot may open."""
        self.failed: list[str] = []
        self.deleted: set[tuple[str, str]] = set()
        self.uploads = Uploads()

    def name(self, letter: str) -> str:
        return f"{letter}{self.number(letter, 100_000_001):010d}"

    def ts(self) -> str:
        return f"{int(time.time())}.{self.number('ts'):06d}"

    # Lookups

    def need(self, scope: str, *, app: bool = False) -> None:
        provided = self.settings.app_scopes if app else self.settings.scopes
        if scope and scope not in provided:
            raise Refuse("missing_scope", needed=scope, provided=",".join(provided))

    def chat(self, channel: str, right: str = "") -> Chat:
        """A conversation that the bot can see, and has the right to `read`, or its `history`."""
        chat = self.chats.get(channel)
        if chat is None or not (chat.joined or chat.kind is Kind.CHANNEL):
            raise Refuse("channel_not_found")
        self.need(right and f"{chat.kind.family}:{right}")
        check(right != "history" or chat.joined, "not_in_channel")
        return chat

    def writable(self, channel: str, thread: Ts) -> Chat:
        chat = self.chat(channel)
        check(chat.joined, "not_in_channel")
        check(not chat.archived, "is_archived")
        top_only = chat.restriction.endswith(("non_threadable_channel", "thread_locked"))
        replies_only = chat.restriction.endswith("thread_only_channel")
        check(not chat.restriction or (replies_only if thread else top_only), chat.restriction)
        return chat

    def message(self, chat: str, ts: str, error: str = "message_not_found") -> Message:
        if (found := self.messages.get((chat, ts))) is None:
            raise Refuse(error)
        return found

    def stream(self, message: Message) -> str:
        """The `streaming_state` in the histories that node-slack-sdk's types describe."""
        if not message.streaming:
            return "completed" if message.started else ""
        age = time.monotonic() - message.started
        return "in_progress" if age <= self.settings.stream_seconds else "errored"

    # Objects

    def wire(self, message: Message, *, metadata: bool = False) -> Json:
        """A message as in histories and events, without what is empty."""
        author, replies = self.users[message.author], self.replies(message.chat, message.id)
        root = self.messages.get((message.chat, message.thread or ""))
        made = fill(
            "message",
            it=message,
            stream=self.stream(message),
            user=author.id if message.subtype != "bot_message" else None,
            bot=f"B{author.id[1:]}" if author.bot and author is not SLACKBOT else None,
            other=None if message.team == TEAM else message.team,
            files=[self.file(it, author.id) for it in message.files],
            metadata=message.metadata if metadata else None,
            edited=fill("edited", it=message) if message.edited else None,
            thread=root.id if root else replies and message.id,
            parent=root and root.author,
            count=len(replies),
            latest=replies and replies[-1].id,
        )
        return {"text": message.fallback, **{name: it for name, it in made.items() if it}}

    def file(self, file: File, author: str) -> Json:
        return fill("file", it=file, author=author, url=self.url)

    # Changes

    def say(self, message: Message) -> Message:
        """Show the message, and tell the bot, also of its own messages."""
        where, chat = (message.chat, message.thread or ""), self.chats[message.chat]
        if message.thread is not None and where not in self.threads:
            root = self.message(*where, "thread_not_found")
            thread = Thread(id=root.id, chat=chat.id, title=root.text, by=root.author)
            self.threads[where] = thread
        team = message.team
        event = self.wire(self.post(message)) | {"channel": chat.id, "event_ts": message.id}
        self.tell(f"message.{chat.kind.family}", {**event, "channel_type": chat.kind}, chat, team)
        addressed = f"<@{BOT.id}>" in message.mentions and message.author != BOT.id
        if addressed and chat.kind is not Kind.IM:
            self.tell("app_mention", event | {"type": "app_mention"}, chat, team)
        return message

    def change(self, before: Message, after: Message, *, edited: bool = True) -> Message:
        """Replace the message, and tell the bot. If not `edited`, only links were unfurled."""
        previous = self.wire(before)
        after = self.edit(before, after) if edited else self.keep(after)
        self._tell_change(after.chat, "message_changed", previous, message=self.wire(after))
        return after

    def remove(self, message: Message) -> None:
        """Delete the message. A root with replies becomes a tombstone, below which the thread goes
        on: it is not locked (hackclub/toriel pull request 238). The tombstone is deleted with the
        last reply (slack-edge pull request 10)."""
        where, previous = (message.chat, message.id), self.wire(message)
        if self.replies(*where):
            text = "This message was deleted."
            gone = Message(id=message.id, chat=message.chat, author=SLACKBOT.id, text=text, team="")
            self.change(message, replace(gone, fallback=text, subtype=TOMBSTONE))
            return
        self.deleted.add(where)
        self.threads.pop(where, None)
        del self.messages[where]
        self._tell_change(message.chat, "message_deleted", previous, deleted_ts=message.id)
        root = self.messages.get((message.chat, message.thread or ""))
        is_last = root is not None and not self.replies(root.chat, root.id)
        if root is not None and is_last and root.subtype == TOMBSTONE:
            self.remove(root)

    def _tell_change(self, channel: str, subtype: str, previous: Json, **more: object) -> None:
        chat = self.chats[channel]
        event = fill("change", subtype=subtype, chat=chat, ts=self.ts(), previous=previous)
        self.tell(f"message.{chat.kind.family}", event | more, chat, previous.get("team", ""))

    def tell(
        self, subscription: str, event: Json, chat: Chat | None = None, team: str = TEAM
    ) -> None:
        """Queue an event, if the app subscribed to it and is in the chat. `team` is the workspace
        of its author: docs.slack.dev/apis/slack-connect, and the tests of bolt-python."""
        away = chat is not None and not chat.joined and not subscription.endswith("_left")
        if subscription not in self.settings.events or away:
            return
        event = {"type": subscription.partition(".")[0], "event_ts": self.ts(), **event}
        where = {"team": team, "shared": chat is not None and chat.shared}
        when = int(time.time())
        payload = fill("event", event=event, name=self.name("Ev"), time=when, **where)
        self.envelopes.put(EVENT, payload)

    def snapshot(self, chat: str | None) -> snapshot.Shown:
        return snapshot.Shown(
            **self.shown(chat),
            sockets=len(self.envelopes.sockets),
            connections=self.envelopes.connections,
            most_connections=self.envelopes.most,
            failed=tuple(self.failed),
        )
