"""The Slack fake's state, its error responses, and the events that changes cause.

Almost all have the status 200 and `"ok": false`: docs.slack.dev/apis/web-api. Each method's errors
are on its page, docs.slack.dev/reference/methods/<method>, as collected in smstoslack/slack_kit.

Socket Mode: docs.slack.dev/apis/events-api/using-socket-mode. Frames are as in the tests of
python-slack-sdk, slack-go, node-slack-sdk and java-slack-sdk. An event that the bot does not
acknowledge in time comes again, in a new envelope with `retry_attempt` and `retry_reason`, up to
three times (docs.slack.dev/apis/events-api). A command or a press does not: its user sees an error.
An acknowledgement may come through any of the app's sockets.

A socket that is about to be closed gets a `disconnect` with the reason `warning`, and later another
one with `refresh_requested`: both are about that socket. An app has ten at most, and one more gets
`too_many_websockets` (bolt-js issue 2225, node-slack-sdk issue 1654). `link_disabled` means that
Socket Mode was turned off.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import field
from msgspec.structs import replace

from segue.testing import peers
from segue.testing.http import Response
from segue.testing.peers import File, Outage, Pulse, Trouble, User
from segue.testing.peers.updates import Update
from segue.testing.websocket import Close, WebSocket
from tests.fakes.protocols import shapes
from tests.fakes.protocols.errors import bad_gateway
from tests.fakes.protocols.sockets import Pushed
from tests.fakes.protocols.templates import Json, Templates
from tests.fakes.protocols.uploads import Uploads

fill = Templates(Path(__file__).with_name("objects.json"))
"""Shapes: docs.slack.dev/reference/objects and /reference/events, slack-api-specs (`events-api`),
the samples in java-slack-sdk (`json-logs`), and the tests of bolt-python and slack-go."""
Ts: TypeAlias = str | None
"""The `ts` of a root, or None outside of threads."""
Thread: TypeAlias = peers.Thread[str]
"""Its id is the `ts` of its root. It exists from the first reply on."""
BOT: peers.User[str] = peers.User(id="U0100000000", name="Segue", username="segue", bot=True)
TEAM = "T0100000001"
"""The workspace of the app."""
OTHER_TEAM = "T0200000001"
"""The workspace of another organisation. Its users can have the same ids."""
COMMAND = "/segue"
"""The app's slash command."""


class Kind(StrEnum):
    """The kinds of conversation, as in a message event's `channel_type`."""

    CHANNEL = "channel"
    GROUP = "group"
    """A private channel. Its id begins with C, as a public channel's does."""
    IM = "im"
    MPIM = "mpim"
    """A direct message with several users."""

    @property
    def family(self) -> str:
        """The kind in the names of scopes and subscriptions."""
        return f"{self}s" if self in (Kind.CHANNEL, Kind.GROUP) else str(self)


class Settings(peers.Settings, frozen=True, kw_only=True):
    """The app's settings, and the speed of the server."""

    scopes: tuple[str, ...] = tuple(fill("app")["scopes"])
    app_scopes: tuple[str, ...] = ("connections:write",)
    events: tuple[str, ...] = tuple(fill("app")["events"])
    """The events that the app subscribed to."""
    streams: bool = True
    """Whether channels support streamed messages."""
    stream_seconds: float = 300.0
    """The longest that a message streams: python-slack-sdk issue 1859, vercel/chat issue 637."""
    ack_seconds: float = 3.0
    retry_seconds: tuple[float, ...] = (0.0, 60.0, 300.0)
    """The pause before each redelivery of an event."""
    page: int = 999
    """The most messages on a page of a history. 15 for an app that is sold outside of the
    Marketplace: docs.slack.dev/changelog/2025/05/29/rate-limit-changes-for-non-marketplace-apps."""
    page_seconds: float = 0.0
    """The time between two pages; 60 for such an app, and 1.2 for others (tier 3)."""
    leave_seconds: float = 10.0
    """How long a socket stays open after the warning."""
    most_sockets: int = 10
    """How many sockets an app can have."""


class Chat(peers.Chat[str], frozen=True, kw_only=True):
    kind: Kind
    archived: bool = False
    shared: bool = False
    """With another organisation: Slack Connect."""
    restriction: str = ""
    """The error for messages here, such as `restricted_action_read_only_channel`."""


class Message(peers.Message[str], frozen=True, kw_only=True):
    """Its id is its `ts`. Its text, with the markup, is that of the blocks, if it has blocks."""

    fallback: str = ""
    """The `text` on the wire."""
    blocks: tuple[Json, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    subtype: str = ""
    team: str = TEAM
    """The workspace of the author."""
    attachments: tuple[Json, ...] = ()
    """The message that a user forwarded with it."""
    mentions: tuple[str, ...] = ()
    """The users and groups that it notifies, such as `<@U1>` and `<!channel>`."""
    streaming: bool = False
    started: float = 0.0  # to stream


class Shown(peers.Shown[str, Message, Thread], frozen=True, kw_only=True):
    sockets: int
    """The number of connections that take new envelopes."""
    connections: int
    """The number of connections that are open, those too that the bot was asked to leave."""
    most_connections: int
    """The largest number that were open at the same time."""
    failed: tuple[str, ...]
    """The commands, presses and events that the bot did not acknowledge in time."""


class Refuse(peers.Refuse):
    """Raised by the handler of a call: it is answered with this error."""

    def __init__(self, error: str, reason: str = "", *, mistake: bool = False, **more: str) -> None:
        messages = {"messages": [f"[ERROR] {reason}"]} if reason else {}
        answer = {"ok": False, "error": error, "response_metadata": messages, **more}
        body = msgspec.json.encode(answer)
        super().__init__(f"{error}: {reason}", Response(body=body), mistake=mistake)


def check(fine: object, error: str) -> None:
    """Refuse the call with this error, unless all is fine."""
    if not fine:
        raise Refuse(error)


def mistake(reason: str, error: str = "invalid_arguments") -> Refuse:
    """A call that no bot should make, such as one with an argument that does not exist."""
    return Refuse(error, reason, mistake=True)


def too_often(seconds: float) -> peers.Refuse:
    """docs.slack.dev/apis/web-api/rate-limits"""
    after = {"Retry-After": str(max(math.ceil(seconds), 1))}
    return peers.Refuse("ratelimited", Response(429, after, b'{"ok":false,"error":"ratelimited"}'))


def injected(trouble: Trouble, seconds: float) -> peers.Refuse:
    """Return the error for a fault that a test ordered."""
    if trouble is Trouble.BUSY:
        return too_often(seconds)
    return Refuse("restricted_action") if trouble is Trouble.FORBIDDEN else bad_gateway()


TOO_MANY = "too_many_websockets"
EVENT = "events_api"
PRESS = "interactive"
SLASH = "slash_commands"
_SHAPES = shapes.types({"Acknowledgement": {"envelope_id": "text"}})
"""It has no payload: a bot like ours answers with messages."""


class Envelopes(Pushed):
    def __init__(self, pulse: Pulse, state: State) -> None:
        super().__init__(pulse)
        self._state = state

    def put(self, kind: str, payload: Json) -> None:
        """Queue an envelope. An event that Slack delivers again waits for a socket. Anything else
        is lost without one, and its user sees an error."""
        if not self.sockets and (kind != EVENT or not self._state.settings.retry_seconds):
            self._state.failed.append(f"{kind}: the app is not connected")
            return
        more = {"payload": payload, "accepts_response_payload": kind == SLASH}
        self.inject(msgspec.json.encode({"type": kind, **more}).decode())

    def frame(self, update: Update, attempt: int, name: str) -> str | None:
        if not update.frame.startswith('{"type":"'):  # a test injected it
            self._learn_name(update.frame)
            return None
        made = {"envelope_id": name, **_opened(update)}
        if made["type"] == EVENT:
            made |= {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
        return msgspec.json.encode(made).decode()

    def _learn_name(self, frame: str) -> None:
        """Expect an acknowledgement of this frame, if it is an envelope."""
        with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
            self.names.add(str(msgspec.json.decode(frame, type=dict[str, Any]).get("envelope_id")))

    def patience(self, update: Update) -> tuple[float, Sequence[float]]:
        settings = self._state.settings
        again = _opened(update)["type"] == EVENT
        return settings.ack_seconds, settings.retry_seconds if again else ()

    def gave_up(self, update: Update) -> None:
        self._state.failed.append(f"{_opened(update)['type']}: not acknowledged")

    def take(self, frame: bytes) -> None:
        try:
            name = msgspec.json.decode(frame, type=_SHAPES["Acknowledgement"]).envelope_id
        except msgspec.MsgspecError as error:
            name = str(error)
        if name not in self.names:
            self._state.errors.append(f"socket: no acknowledgement of an envelope: {name}")
        update = self.acknowledge(name)
        if update is not None and _opened(update)["type"] == PRESS:
            self._state.answered.append(_opened(update)["payload"]["trigger_id"])

    def disconnect(self, reason: str) -> None:
        """Ask the bot to leave all of its sockets, those too that it was asked to leave before:
        `refresh_requested` follows a `warning` through the same socket."""
        self.dismiss(_goodbye(reason), self._state.settings.leave_seconds)

    async def connect(self, link: str, socket: WebSocket, outage: Outage | None = None) -> None:
        """Serve a connection to that address."""
        if link not in self._state.links:
            self._state.errors.append(f"socket: {link} is not from apps.connections.open")
        self._state.links.discard(link)  # it is good for one connection
        if self.connections >= self._state.settings.most_sockets:
            socket.send(_goodbye(TOO_MANY))
            raise Close(1000, "")
        hello = fill("hello", count=self.connections + 1)
        socket.send(msgspec.json.encode(hello).decode())
        if outage is Outage.TOO_MANY:
            socket.send(_goodbye(TOO_MANY))
        if outage is not None:
            raise Close(1000, "")
        await self.serve(socket)


def _goodbye(reason: str) -> str:
    return msgspec.json.encode(fill("disconnect", reason=reason)).decode()


def _opened(update: Update) -> dict[str, Any]:
    return msgspec.json.decode(update.frame)


TOMBSTONE = "tombstone"
SLACKBOT = User(id="USLACKBOT", name="Slackbot", bot=True)


class State(peers.State[Settings, str, Chat, Thread, Message]):
    def __init__(self, settings: Settings, pulse: Pulse) -> None:
        self.envelopes = Envelopes(pulse, self)
        super().__init__(settings, pulse, self.envelopes, injected)
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
        author = self.users[message.author]
        replies = self.replies(message.chat, message.id)
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
        where = (message.chat, message.thread or "")
        chat = self.chats[message.chat]
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
        after = self.edit(before, after) if edited else self.put(after)
        self._tell_change(after.chat, "message_changed", previous, message=self.wire(after))
        return after

    def remove(self, message: Message) -> None:
        """Delete the message. A root with replies becomes a tombstone, below which the thread goes
        on: it is not locked (hackclub/toriel pull request 238). The tombstone is deleted with the
        last reply (slack-edge pull request 10)."""
        where = (message.chat, message.id)
        previous = self.wire(message)
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

    def snapshot(self, chat: str | None) -> Shown:
        return Shown(
            **self.shown(chat),
            sockets=len(self.envelopes.sockets),
            connections=self.envelopes.connections,
            most_connections=self.envelopes.most,
            failed=tuple(self.failed),
        )
