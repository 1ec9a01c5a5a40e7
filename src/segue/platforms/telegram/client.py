"""The Bot API: python-telegram-bot over our HTTP client, and what its failures mean."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any, cast

from msgspec import Struct
from telegram import Bot
from telegram.error import TelegramError
from telegram.request import BaseRequest, RequestData

from segue.core.address import Address, Platform
from segue.platforms.errors import NONSENSE, FailureRule, Failures, Lost, Refused, parsed
from segue.platforms.http import HttpClient, hide
from segue.platforms.sending import number
from segue.platforms.telegram import polling
from segue.platforms.telegram.polling import Batch, Torn
from segue.platforms.telegram.updates import Update

POLL_SECONDS = 25
BATCH = 100
_POLL_BYTES = 64 * 1024 * 1024
"""Bytes of a response that are read. An update that does not fit has a text that no message of ours
may have, however it is escaped, and is refused."""
_TELEGRAM = "https://api.telegram.org"
_TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_PREFIX = re.compile(r"(Bad Request|Forbidden|Conflict|Too Many Requests|[\w ]+ Error): ")
_UNKNOWN = "the token is not right; copy it from @BotFather and type `segue setup telegram`"
_MISSING = "there is no token for the bot yet; type `segue setup telegram`"
_HOOKED = "another program has set a webhook for this bot; it will be removed"
_TAKEN = (
    "another program receives what is sent to this bot; stop it, or get a bot of your own from "
    "@BotFather"
)
_TOPIC_GONE = (
    "the topic was deleted, or Telegram does not find it; go on with `segue resume` in a terminal, "
    "or with /resume in another chat"
)
_UNDELIVERED = {
    _TOPIC_GONE: ("message thread not found", "topic_deleted", "topic_id_invalid"),
    "the topic is closed, and the bot may not open it; open it there": ("topic_closed",),
    "the bot is blocked there; unblock it in your chat with it": ("blocked by the user",),
    "the bot is no longer in that chat; add it there again": ("bot was kicked", "not a member"),
    "that account was deleted": ("user is deactivated",),
    "there is no such chat, or it has no message to the bot yet": ("chat not found",),
}
# The chat has no topics, or the bot may not open any. Telegram says which when asked; what we knew
# about the chat before may be out of date.
_NO_TOPICS = (
    "not a forum", "forums_disabled", "not enough rights", "chat_admin_required",
    "channel_forum_missing", "supergroup", "topics are not enabled",
)  # fmt: skip
_UNEXPECTED = (TelegramError, AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""What the library raises for valid JSON of an unexpected shape."""


def _nonsense(_: Exception) -> Lost:
    return Lost(NONSENSE, arrived=True)


FAILURES = Failures(
    Platform.TELEGRAM,
    connecting=(
        FailureRule(_UNKNOWN, status=(401, 404)),
        FailureRule(_HOOKED, ("webhook",), status=(409,)),
        FailureRule(_TAKEN, status=(409,)),
    ),
    delivering=(
        FailureRule(_UNKNOWN, status=(401,), account=True),
        *(FailureRule(reason, says) for reason, says in _UNDELIVERED.items()),
    ),
    no_threads=(FailureRule(says=_NO_TOPICS, status=(400,)),),
    thread_gone=_TOPIC_GONE,
    bad_markup="can't parse entities",
    unchanged="message is not modified",
    known=dict.fromkeys(_UNEXPECTED, _nonsense),
)


class Client:
    """A bot, and the two calls that the library does not do as we need them."""

    def __init__(self, token: str, url: str, silence: float) -> None:
        """Raise ConnectFailed if `token` cannot be one."""
        if not _TOKEN.fullmatch(token):
            reason = _UNKNOWN if token else _MISSING
            raise FAILURES.unreachable(reason, setup=True)
        hide(token, "telegram.Bot")
        base = (url or _TELEGRAM).rstrip("/")
        self._http = HttpClient(silence=silence, secret=token, refusal=_refusal, trust_env=not url)
        self.close = self._http.close
        # The library calls only `post` of its transport. Its own `post` wraps all errors.
        transport = cast("BaseRequest", SimpleNamespace(post=self._post))
        self.bot = Bot(token, f"{base}/bot", f"{base}/file/bot", transport, transport)

    async def poll(self, offset: int | None, seconds: int) -> Batch:
        """The next updates, for which the server waits that long. The library's own method loses
        the whole batch to one bad update."""
        payload = await self._poll(offset, BATCH, seconds)
        try:
            return polling.read(payload, offset)
        except Torn:
            pass
        del payload  # it can be large
        return polling.read(await self._poll(offset, 1, seconds), offset, alone=True)

    async def _poll(self, offset: int | None, limit: int, seconds: int) -> bytes:
        kinds = json.dumps(Update.__struct_fields__[1:])
        params = {"limit": limit, "timeout": seconds, "allowed_updates": kinds}
        if offset is not None:
            params["offset"] = offset
        url = f"{self.bot.base_url}/getUpdates"
        silence = seconds + self._http.silence
        return await self._http.request(
            "GET", url, params=params, seconds=silence, limit=_POLL_BYTES, cut=True
        )

    async def fetch(self, file_id: str, limit: int) -> bytes:
        """The content of a file. The library's own method has no size limit."""
        file = await self.bot.get_file(file_id)
        if not file.file_path:
            raise Refused(404, "the file is gone")
        base = f"{self.bot.base_file_url}/"
        url = base + file.file_path.removeprefix(base)
        return await self._http.request("GET", url, limit=limit)

    async def _post(self, url: str, request_data: RequestData, read_timeout: Any, **_: Any) -> Any:
        data = request_data.json_parameters
        files = request_data.multipart_data or None
        seconds = None if read_timeout is BaseRequest.DEFAULT_NONE else read_timeout
        answer = await self._http.request("POST", url, data=data, files=files, seconds=seconds)
        return result(answer)


def target(at: Address) -> dict[str, Any]:
    """The address as parameters of a call. Raise Refused if it is not one of Telegram's."""
    thread = None
    if at.thread_id is not None:
        thread = number(at.thread_id, "message thread not found")
    return {"chat_id": number(at.chat_id, "chat not found"), "message_thread_id": thread}


def result(payload: bytes) -> Any:
    """The result in a response. Control characters and half characters are accepted, because users
    have them in their names."""
    return json.loads(payload.decode("utf-8", "replace"), strict=False)["result"]


class _Parameters(Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class _TelegramError(Struct, frozen=True):
    """https://core.telegram.org/bots/api#making-requests"""

    description: str = ""
    parameters: _Parameters = _Parameters()


def _refusal(status: int, body: bytes) -> Refused:
    error = parsed(body, _TelegramError) or _TelegramError()
    reason = _PREFIX.sub("", error.description, count=1).rstrip(".")
    return Refused(
        status,
        reason or f"HTTP {status}",
        after=error.parameters.retry_after,
        moved_to=error.parameters.migrate_to_chat_id,
    )
