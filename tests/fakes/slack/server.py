"""The Slack fake's interface for the bot: the Web API, sockets and files.

docs.slack.dev/apis/web-api: a token in the Authorization header; arguments as a form or, for
methods that write, as JSON. Without the token, a file's `url_private` leads to a login page.

Methods: docs.slack.dev/reference/methods. There are only the methods and arguments that a bot like
ours needs. Slack ignores unknown arguments; this fake refuses them, because a misspelt argument
would silently do nothing. Sources: the method pages (also as collected in smstoslack/slack_kit),
slack-api-specs, and the clients python-slack-sdk, slack-go and slack-morphism-rust.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from segue.testing import peers
from segue.testing.http import Request, Response
from segue.testing.peers import Button, Record
from segue.testing.peers.server import Effect
from segue.testing.peers.state import Pace
from segue.testing.websocket import WebSocket
from tests.fakes.protocols import forms, rpc
from tests.fakes.protocols.errors import page
from tests.fakes.slack import blocks as kit
from tests.fakes.slack.control import Control, Driver
from tests.fakes.slack.state import (
    BOT,
    Chat,
    Json,
    Kind,
    Message,
    Refuse,
    Settings,
    State,
    Ts,
    check,
    fill,
    mistake,
    too_often,
)

METHODS = rpc.table(Path(__file__).with_name("methods.json"), always="team_id")  # Bolt adds it
_SPLIT = 4_000
_TRUNCATED = 40_000
_PAGE = 999


class Methods:
    """Each returns its answer or raises Refuse."""

    def __init__(self, state: State) -> None:
        self._state = state

    def auth(self, _: Any) -> Json:
        return fill("auth")

    def open_socket(self, _: Any) -> Json:
        ticket = self._state.name("t")
        link = f"/link/?ticket={ticket}"
        self._state.links.add(link)
        return {"url": self._state.url.replace("http", "ws", 1) + link}

    # Messages

    def post(self, it: Any) -> Json:
        """Slack splits a long text without blocks, and then the bot cannot edit it: recorded."""
        chat = self._state.writable(it.channel, it.thread_ts)
        content = _content(it, it.blocks)
        if len(it.text or "") > _SPLIT and not it.blocks:
            self._state.errors.append(f"chat.postMessage: text of over {_SPLIT} characters")
        preview = bool(it.unfurl_links or it.unfurl_media in (None, True))
        message = self._say(chat, it.thread_ts, **content, metadata=_metadata(it), preview=preview)
        return {"channel": chat.id, "ts": message.id, "message": self._state.wire(message)}

    def _say(self, chat: Chat, thread: Ts, **more: Any) -> Message:
        """Slack posts a reply to a root that is gone in the channel, without an error: slack-go
        issue 1571, langchain-ai/open-swe pull request 2753. A tombstone is a root like others."""
        state = self._state
        settings = self._state.settings
        if (chat.id, thread) in state.deleted:
            thread = None
        if thread and state.message(chat.id, thread, "thread_not_found").thread is not None:
            raise mistake("thread_ts is that of a reply", "cannot_reply_to_message")
        if (wait := state.wait(chat.id, settings.per_second, settings.chat_seconds, burst=1)) > 0:
            raise too_often(wait)
        message = Message(id=state.ts(), chat=chat.id, thread=thread, author=BOT.id, **more)
        return state.say(message)

    def update(self, it: Any) -> Json:
        """Text alone leaves the blocks as they are, and empty metadata removes it."""
        state = self._state
        before = self._own(it, "cant_update_message")
        check(not state.chats[before.chat].archived, "is_inactive")
        check(not self._streams(before), "streaming_state_conflict")
        check(len(it.text or "") <= _SPLIT, "msg_too_long")
        kept = before.blocks if it.blocks is None and it.markdown_text is None else it.blocks
        metadata = before.metadata if it.metadata is None else _metadata(it)
        linked = before.started > 0 and "://" in f"{it.text}"  # a preview that nothing forbids
        more = {"metadata": metadata, "streaming": False, "preview": before.preview or linked}
        after = replace(before, **_content(it, kept), **more)
        made = state.wire(state.change(before, after))
        return {"channel": it.channel, "ts": it.ts, "text": after.fallback, "message": made}

    def delete(self, it: Any) -> Json:
        message = self._own(it, "cant_delete_message")
        check(not self._streams(message), "cant_delete_message")
        self._state.remove(message)
        return {"channel": it.channel, "ts": it.ts}

    def _own(self, it: Any, error: str) -> Message:
        message = self._state.message(self._state.chat(it.channel).id, it.ts)
        check(message.author == BOT.id, error)
        return message

    # Streams

    def start_stream(self, it: Any) -> Json:
        chat = self._state.writable(it.channel, it.thread_ts)
        if chat.kind is not Kind.IM:
            check(self._state.settings.streams, "channel_type_not_supported")
            check(it.recipient_team_id, "missing_recipient_team_id")
            check(it.recipient_user_id, "missing_recipient_user_id")
            check(it.recipient_user_id in chat.members, "user_not_found")
        text = _text(kit.appended(it.chunks, it.markdown_text))
        more = {"streaming": True, "started": time.monotonic()}
        stream = self._say(chat, it.thread_ts, **text, **more, preview="://" in text["text"])
        return {"channel": chat.id, "ts": stream.id}

    def append_stream(self, it: Any) -> Json:
        check(it.markdown_text or it.chunks, "no_text")
        self._state.edit(*self._grown(it))
        return {"channel": it.channel, "ts": it.ts}

    def stop_stream(self, it: Any) -> Json:
        before, after = self._grown(it)
        after = replace(after, **_blocks(it.blocks), metadata=_metadata(it), streaming=False)
        self._state.change(before, after)
        return {"channel": it.channel, "ts": it.ts, "message": self._state.wire(after)}

    def _grown(self, it: Any) -> tuple[Message, Message]:
        before = self._own(it, "message_not_owned_by_app")
        check(self._streams(before), "message_not_in_streaming_state")
        text = before.fallback + kit.appended(it.chunks, it.markdown_text)
        return before, replace(before, **_text(text), preview="://" in text)

    def _streams(self, message: Message) -> bool:
        return self._state.stream(message) == "in_progress"

    # Conversations and users

    def info(self, it: Any) -> Json:
        chat = self._state.chat(it.channel, "read")
        shape = "im" if chat.kind is Kind.IM else "channel"
        private = chat.kind is not Kind.CHANNEL
        members = {"num_members": len(chat.members) + 1} if it.include_num_members else {}
        more = {"private": private, "mpim": chat.kind is Kind.MPIM, "user": chat.members[0]}
        return {"channel": fill(shape, it=chat, **more) | members}

    def members(self, it: Any) -> Json:
        """The users in a conversation, the app among them."""
        chat = self._state.chat(it.channel, "read")
        inside = [*chat.members, BOT.id] if chat.joined else list(chat.members)
        some, cursor = rpc.page(inside, it.cursor, min(it.limit or 100, _PAGE))
        return {"members": some, "response_metadata": {"next_cursor": cursor}}

    def history(self, it: Any) -> Json:
        """Newest first, without replies. With `oldest` alone, the first page has those closest to
        it, as the page of channels.history said, which this replaced."""
        chat = self._state.chat(it.channel, "history").id
        every = self._state.messages.values()
        top = [one for one in every if not one.thread or one.subtype == "thread_broadcast"]
        newest_first = it.latest is not None or it.oldest is None
        return self._page([one for one in top if one.chat == chat], it, newest_first=newest_first)

    def replies(self, it: Any) -> Json:
        """The root, whatever `oldest` is, then its replies, oldest first."""
        chat = self._state.chat(it.channel, "history").id
        root = self._state.message(chat, it.ts, "thread_not_found")
        return self._page(self._state.replies(chat, it.ts), it, root)

    def _page(
        self, every: Sequence[Message], it: Any, *root: Message, newest_first: bool = False
    ) -> Json:
        settings = self._state.settings
        start = it.oldest or ""
        end = it.latest or "9"
        pace = Pace("history", settings.page_seconds, 1)
        if settings.page_seconds and (wait := self._state.meter.wait(pace)) > 0:
            raise too_often(wait)
        ends = (start, end) if it.inclusive else ()
        found = [one for one in every if start < one.id < end or one.id in ends]
        limit = 100 if it.limit is None else it.limit
        if limit > _PAGE:
            raise mistake(f"no page has {limit} messages", "invalid_limit")
        ordered = [*root, *(found[::-1] if newest_first else found)]
        some, cursor = rpc.page(ordered, it.cursor, min(limit, settings.page))
        # Within a page, a channel's messages are the newest first in any case.
        some = sorted(some, key=lambda one: one.id, reverse=not root)
        made = [self._state.wire(one, metadata=bool(it.include_all_metadata)) for one in some]
        return fill("page", messages=made, more=bool(cursor), cursor=cursor)

    def user(self, it: Any) -> Json:
        check(it.user in self._state.users, "user_not_found")
        return {"user": fill("user", it=self._state.users[it.user])}

    # Files

    def upload_url(self, it: Any) -> Json:
        check(it.length > 0, "missing_argument")
        file = self._state.name("F")
        self._state.uploads.announce(file, it.filename, it.length)
        return {"upload_url": f"{self._state.url}/upload/{file}", "file_id": file}

    def upload(self, file: str, content: bytes) -> bytes:
        """The file itself, posted to its URL."""
        if not self._state.uploads.arrive(file, content):
            raise page(f"{len(content)} bytes are not what was announced", 400)
        return f"OK - {len(content)}".encode()

    def complete_upload(self, it: Any) -> Json:
        """The answer does not name the message. With a comment, the blocks are ignored."""
        state = self._state
        chat = self._state.writable(it.channel_id or it.channels, it.thread_ts)
        if (uploads := state.uploads.take([str(one.get("id")) for one in it.files])) is None:
            raise Refuse("file_not_found")
        files = tuple(state.add_file(file, upload) for file, upload in uploads.items())
        comment = it.initial_comment or ""
        blocks = () if it.initial_comment else it.blocks or ()
        shown = _blocks(blocks) | _text(kit.displayed(blocks) if blocks else comment)
        self._say(chat, it.thread_ts, **shown, files=files, subtype="file_share")
        return {"files": [{"id": one["id"], "title": one.get("title", "")} for one in it.files]}

    def file_info(self, it: Any) -> Json:
        """Its `shares` name the message with the file."""
        state = self._state
        every = self._state.messages.values()
        one = next((one for one in every if it.file in [file.id for file in one.files]), None)
        if one is None:
            raise Refuse("file_not_found")
        kind = "public" if state.chats[one.chat].kind is Kind.CHANNEL else "private"
        made = state.file(state.files[it.file][0], one.author)
        return {"file": {**made, "shares": {kind: {one.chat: [{"ts": one.id}]}}}}

    def set_status(self, it: Any) -> Json:
        self._state.message(self._state.chat(it.channel_id).id, it.thread_ts, "invalid_thread_ts")
        self._state.typing[it.channel_id, it.thread_ts] += bool(it.status)
        return {}


def _text(text: str) -> dict[str, Any]:
    return {"text": html.unescape(text), "fallback": text, "mentions": kit.mentions(text)}


def _blocks(given: Sequence[Json] | None) -> dict[str, Any]:
    blocks = kit.checked(given or ())
    found = kit.buttons(blocks).items()
    buttons = tuple(Button(label=label, data=it.get("value", "")) for label, it in found)
    return {"blocks": blocks, "buttons": buttons}


def _content(it: Any, blocks: Sequence[Json] | None) -> dict[str, Any]:
    """What users see, and what the wire has, of a message with these blocks."""
    check(it.markdown_text is None or not (it.blocks or it.text), "markdown_text_conflict")
    text = kit.appended((), it.markdown_text) or (it.text or "")[:_TRUNCATED]
    check(text or blocks, "no_text")
    shown = _blocks(blocks) | _text(kit.displayed(blocks) if blocks else text)
    mentions = tuple({*shown["mentions"], *kit.mentions(text)})
    return {**shown, "fallback": text, "mentions": mentions}


def _metadata(it: Any) -> Json:
    if it.metadata and (wrong := kit.flaw(it.metadata, "Metadata")):
        raise mistake(wrong, "invalid_metadata_format")
    return it.metadata or {}


APP_TOKEN = "xapp-1-A0100000001-100000003-thetokenoftheappfortests"
_TARGET = re.compile(r"/(api|upload|download)/([^/?]+).*")


class Server(peers.Server[Settings, State]):
    control = Control

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    async def connect(self, wire: WebSocket, target: str) -> None:
        await self.state.envelopes.connect(target, wire, self.outages.now)

    async def _answer_bot(self, request: Request) -> Response:
        response = await super()._answer_bot(request)
        headers = {"X-OAuth-Scopes": ",".join(self.state.settings.scopes), **response.headers}
        # Files are on other servers, whose errors are not JSON.
        refused = not request.target.startswith("/api/") and "Content-Type" not in headers
        status = 403 if refused and response.status == 200 else response.status
        return dataclasses.replace(response, status=status, headers=headers)

    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        methods = Methods(self.state)
        match = _TARGET.fullmatch(request.target)
        kind, name = (match[1], match[2]) if match is not None else ("login", "")
        _, _, token = request.headers.get("authorization", "").partition("Bearer ")
        record.method = name if kind == "api" else kind
        if kind == "api":
            return self._call(methods, token, request, record)
        if kind == "upload":
            return functools.partial(methods.upload, name, request.body), None
        if kind == "download" and (file := self.state.files.get(name)) is not None:
            if token == self.token and "files:read" in self.state.settings.scopes:
                return lambda: file[1], None
            raise page("Found", 302, Location=f"{self.state.url}/?redir={request.target}")
        raise page("Sign in to Segue", 200)

    def _call(
        self, methods: Methods, token: str, request: Request, record: Record
    ) -> tuple[Effect, str | None]:
        name = record.method
        settings = self.state.settings
        app = name.startswith("apps.")
        called = METHODS.get(name)
        if called is None or name in settings.missing:
            raise Refuse("unknown_method", mistake=called is None)
        declared, taken = called
        check(token, "not_authed")
        check(token != (self.token if app else APP_TOKEN), "not_allowed_token_type")
        check(token in (self.token, APP_TOKEN), "invalid_auth")
        check(app or not settings.revoked, "token_revoked")
        self.state.need(declared.scope, app=app)
        if not declared.json and "json" in request.headers.get("content-type", ""):
            raise mistake(f"{name} takes no JSON")
        it: Any = taken(**forms.recorded(taken, request, record))
        if name == "chat.postMessage" and it.thread_ts:
            record.method = "reply"
        chat = getattr(it, "channel", None) or getattr(it, "channel_id", None)
        return functools.partial(getattr(methods, declared.do), it), chat

    def envelope(self, result: object) -> object:
        return {"ok": True, **cast("Json", result)}

    def malformed(self, reason: str) -> Refuse:
        return mistake(reason)


TOKEN = "xoxb-100000001-100000002-thetokenofthebotfortests"


class Peer(peers.Peer):
    """A running fake. Pass its `base_url` to slack_sdk's web client."""

    app_token = APP_TOKEN

    @property
    def base_url(self) -> str:
        return f"{self.url}/api/"

    def driver(self) -> Driver:
        """Return new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.slack", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
