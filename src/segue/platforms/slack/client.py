"""Slack's Web API (https://docs.slack.dev): its answers, its calls, and what its errors mean."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import Raw, Struct

from segue.core.address import Address, Platform
from segue.platforms.errors import FailureRule, Failures, Refused, parsed
from segue.platforms.http import HttpClient, bearer, decode
from segue.platforms.slack.messages import STAMP_PREFIX
from segue.platforms.slack.socket import Socket

T = TypeVar("T")

_FILES = "https://files.slack.com/"
_UPLOAD_SECONDS = 60.0
_HOUR = 60 * 60
_DAY = 24 * _HOUR
_WEEK = 7 * _DAY
_SEARCHED = 10_000
"""How many messages of a thread are searched for our own."""
PAGE = 200
"""Slack's recommendation. It gives fewer to some apps: `has_more` says whether there are others."""
_LARGE_PAGE = 999
_AT = "at https://api.slack.com/apps"
_UNKNOWN = (
    f"the bot token is not right; copy it from OAuth & Permissions {_AT} and type "
    "`segue setup slack`"
)
_APP_UNKNOWN = (
    "the app-level token is not right; generate one with the scope connections:write under Basic "
    f"Information {_AT} and type `segue setup slack`"
)
_SCOPE = f"the app lacks the scope {{}}; add it under OAuth & Permissions {_AT}, and reinstall it"
_THREAD_GONE = (
    "the thread was deleted, or Slack does not find it; go on with `segue resume` in a terminal, "
    "or with /resume in another chat"
)
_OVER = ("account_inactive", "token_revoked", "token_expired")
_INVALID = ("invalid_auth", "not_authed", "not_allowed_token_type", *_OVER)
_BROKEN = ("internal_error", "fatal_error", "service_unavailable", "request_timeout")
_UNDELIVERED = {
    _THREAD_GONE: ("thread_not_found", "invalid_thread_ts"),
    "the app is not in that channel; write `/invite @segue` there": ("in channel", "channel not"),
    "that channel is archived": ("is_archived",),
    "the workspace does not let the app write there": ("restricted",),
}

FAILURES = Failures(
    Platform.SLACK,
    connecting=(
        FailureRule(_APP_UNKNOWN, ("app-level token",)),
        FailureRule(_UNKNOWN, status=(401,)),
    ),
    delivering=(
        FailureRule(_UNKNOWN, status=(401,), account=True),
        *(FailureRule(reason, codes) for reason, codes in _UNDELIVERED.items()),
    ),
    thread_gone=_THREAD_GONE,
)


# Answers. What can be missing can be null too.


class SlackFile(Struct, frozen=True):
    id: str
    name: str | None = None
    mimetype: str | None = None
    size: int | None = None
    mode: str | None = None
    url_private_download: str | None = None


class Said(Struct, frozen=True, kw_only=True):
    """A message, or another one that it shares."""

    ts: str | None = None
    user: str | None = None
    text: str | None = None
    subtype: str | None = None
    bot_id: str | None = None
    thread_ts: str | None = None
    parent_user_id: str | None = None
    files: tuple[SlackFile, ...] = ()
    attachments: tuple[Said, ...] = ()
    is_share: bool | None = None
    author_name: str | None = None
    team: str | None = None
    user_team: str | None = None
    source_team: str | None = None

    @property
    def author_team(self) -> str | None:
        """The workspace or the organisation of the author, if Slack names it. In a channel that is
        shared with others, `team` can be a workspace that sees the message."""
        return self.user_team or self.source_team or self.team

    @property
    def is_tombstone(self) -> bool:
        """Whether it stands for a deleted message, below which the thread goes on."""
        return self.subtype == "tombstone"


class SlackItem(Struct, frozen=True):
    """A part of a payload or an answer. Its kind decides which fields are set."""

    id: str = ""
    team_id: str | None = None
    value: str | None = None
    channel_id: str = ""
    message_ts: str = ""
    thread_ts: str | None = None
    display_name: str = ""
    real_name: str = ""
    next_cursor: str = ""
    block_id: str = ""
    event_payload: dict[str, Any] = {}


class CallStatus(Struct, frozen=True):
    ok: bool
    error: str = ""
    needed: str = ""  # a scope


class Me(Struct, frozen=True):
    user_id: str
    user: str = ""
    team: str = ""
    team_id: str = ""
    enterprise_id: str | None = None  # of an organisation with several workspaces


class Posted(Struct, frozen=True):
    ts: str
    message: Said = Said()


class NewFile(Struct, frozen=True):
    upload_url: str
    file_id: str


class SlackChannel(Struct, frozen=True):
    id: str = ""
    name: str = ""
    is_im: bool = False
    is_mpim: bool = False
    is_private: bool = False
    is_member: bool = False
    is_archived: bool = False
    is_ext_shared: bool = False  # with other organisations


class Person(Struct, frozen=True):
    name: str = ""
    profile: SlackItem = SlackItem()


class HistoryMessage(Said, frozen=True, kw_only=True):
    ts: str = ""
    streaming_state: str | None = None
    latest_reply: str | None = None
    """The newest message of the thread that this one began."""
    metadata: SlackItem = SlackItem()
    blocks: tuple[SlackItem, ...] = ()

    @property
    def number(self) -> int:
        """Its id without the point. 0 if it is malformed."""
        digits = self.ts.replace(".", "")
        return int(digits) if digits.isdecimal() else 0


class MemberPage(Struct, frozen=True):
    """A page of the members of a channel."""

    members: tuple[str, ...] = ()
    response_metadata: SlackItem = SlackItem()


class ChannelHistory(Struct, frozen=True):
    messages: tuple[Raw, ...]
    has_more: bool = False
    response_metadata: SlackItem | None = None


# Calls


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of the history of a channel or a thread."""

    messages: list[HistoryMessage]
    """Those that can be read, in order."""
    size: int
    next: str
    """Where the next page begins. Empty if there is none."""


class SlackClient:
    """Calls the methods of the Web API, and holds the connection for events."""

    def __init__(self, token: str, app_token: str, url: str, silence: float) -> None:
        """Raise ConnectFailed if one of the tokens cannot be one."""
        with FAILURES.connecting():
            self._bot = bearer(token)
            self._app = bearer(app_token)
        self._server = (url or "https://slack.com").rstrip("/")
        self._api = f"{self._server}/api"
        self._http = HttpClient(silence=silence, secret=token, trust_env=not url)
        self.socket = Socket(self.endpoint, silence, trust_env=not url)
        self.scopes: Collection[str] = ()
        """The bot's scopes, as of the last call."""

    async def close(self) -> None:
        await self.socket.close()
        await self._http.close()

    async def endpoint(self) -> str:
        """A URL for one connection. It contains a secret."""
        try:
            return await self.call("apps.connections.open", str, "url", app=True)
        except Refused as refused:
            if refused.status not in (400, 401):
                raise
            raise Refused(401, f"app-level token: {refused.reason}") from refused

    async def call(
        self, method: str, kind: type[T], part: str = "", *, app: bool = False, **given: Any
    ) -> T:
        """Call a method, and return its answer, or a part of it. `app`: with that token."""
        # Every method takes a form, and some take nothing else.
        form = {name: _field(value) for name, value in given.items() if value is not None}
        headers = self._app if app else self._bot
        url = f"{self._api}/{method}"
        response = await self._http.exchange("POST", url, data=form, headers=headers)
        status = decode(response.body, CallStatus)
        if not status.ok:
            raise _refused(status)
        if not app:
            self.scopes = response.headers.get("x-oauth-scopes", "").replace(" ", "").split(",")
        body = response.body
        if part:
            parts = decode(body, dict[str, Raw])
            body = bytes(parts.get(part, Raw()))
        return decode(body, kind)

    async def do(self, method: str, **given: Any) -> bool:
        """Call a method whose answer has only a status."""
        status = await self.call(method, CallStatus, **given)
        return status.ok

    async def channel(self, name: str) -> SlackChannel:
        """The channel with that id."""
        return await self.call("conversations.info", SlackChannel, "channel", channel=name)

    async def upload(self, url: str, content: bytes) -> None:
        await self._http.request("POST", url, content=content, seconds=_UPLOAD_SECONDS)

    async def fetch(self, file_id: str, limit: int) -> bytes:
        """The content of a file. If the app may not see it, Slack answers with a web page."""
        file = await self.call("files.info", SlackFile, "file", file=file_id)
        url = file.url_private_download or ""
        if not url.startswith((_FILES, f"{self._server}/")):  # no other server may get the token
            raise Refused(404, "the file is gone, or is not on Slack")
        response = await self._http.exchange("GET", url, limit=limit, headers=self._bot)
        is_page = response.headers.get("content-type", "").startswith("text/html")
        if is_page and file.mimetype != "text/html":
            raise Refused(403, "the app may not see the file")
        return response.body

    async def stamped(self, at: Address, me: str) -> tuple[dict[str, str], set[str]]:
        """The ids of our messages in a channel or thread, by the stamps that they carry, and the
        ids of our streams without a stamp."""
        found = dict[str, str]()
        streams = set[str]()
        for message in await self._recent(at):
            names = [block.block_id for block in message.blocks]
            names.append(str(message.metadata.event_payload.get("stamp")))
            stamps = [it for it in names if it.startswith(STAMP_PREFIX)]
            for stamp in stamps:
                found[stamp] = message.ts
            if message.streaming_state and message.user == me and not stamps:
                streams.add(message.ts)
        return found, streams

    async def _recent(self, at: Address) -> list[HistoryMessage]:
        """The messages of the last week. A thread is read from its oldest message on, so a long one
        is read in spans of time, the newest first: what we may have sent is among the newest."""
        now = time.time()
        page = await self.history(at, _ts(now - _WEEK))
        if not page.next:
            return page.messages
        found: list[HistoryMessage] = []
        latest = now + _DAY
        for seconds in (_HOUR, _DAY, _WEEK):
            oldest = now - seconds
            begin = ""
            while len(found) < _SEARCHED:
                page = await self.history(
                    at, _ts(oldest), begin, latest=_ts(latest), size=_LARGE_PAGE
                )
                found += page.messages
                begin = page.next
                if not begin:
                    break
            latest = oldest
        return found

    async def history(
        self, at: Address, oldest: str, begin: str = "", *, latest: str = "", size: int = 0
    ) -> HistoryPage:
        """A page of what was written between two times. In a channel, the first page has the newest
        messages, in a thread the message that began it, and the oldest."""
        # Given both ends, Slack begins with the newest. Our clock may be behind Slack's.
        latest = latest or _ts(time.time() + _DAY)
        given: dict[str, Any] = {
            "channel": at.chat_id,
            "oldest": oldest,
            "limit": size or PAGE,
            "include_all_metadata": True,
        }
        if at.thread_id is None:
            method = "conversations.history"
            given["latest"] = begin or latest
        else:
            method = "conversations.replies"
            given["latest"] = latest
            given["ts"] = at.thread_id
            given["cursor"] = begin or None
        page = await self.call(method, ChannelHistory, **given)
        read = [parsed(bytes(it), HistoryMessage) for it in page.messages]
        messages = sorted((it for it in read if it is not None), key=lambda it: it.ts)
        next_page = ""
        if at.thread_id is not None and page.response_metadata is not None:
            next_page = page.response_metadata.next_cursor
        elif at.thread_id is None and page.has_more and messages:
            next_page = messages[0].ts
        return HistoryPage(messages, len(page.messages), next_page)


def _field(value: Any) -> str:
    """An argument of a call as a field of a form."""
    return value if isinstance(value, str) else json.dumps(value)


def _ts(seconds: float) -> str:
    return f"{seconds:.6f}"


def _refused(status: CallStatus) -> Refused:
    code = status.error or "unknown_error"
    reason = code.replace("_", " ")
    if code == "missing_scope":
        reason = _SCOPE.format(status.needed)
    number = 400
    if code == "ratelimited":
        number = 429
    elif code in _INVALID:
        number = 401
    elif code in _BROKEN:
        number = 500
    return Refused(number, reason, code=code)
