"""The Bot API: python-telegram-bot over our HTTP client, and what its failures mean."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from telegram import Bot
from telegram.error import TelegramError
from telegram.request import BaseRequest, RequestData

from segue.core.address import Platform
from segue.platforms.errors import UNREADABLE, FailureRule, Failures, Lost, Refused, nonsense
from segue.platforms.http import HttpClient, hide
from segue.platforms.telegram.wire import ASKED_FOR

POLL_SECONDS = 25
_TOPIC_GONE = (
    "the topic was deleted, or Telegram does not find it; go on with `segue resume` in a terminal, "
    "or with /resume in another chat"
)
_TELEGRAM = "https://api.telegram.org"
_TOKEN = re.compile(r"[A-Za-z0-9:_-]+")
_PREFIX = re.compile(r"(Bad Request|Forbidden|Conflict|Too Many Requests|[\w ]+ Error): ")

_UNKNOWN = "the token is not right; copy it from @BotFather and type `segue setup telegram`"
_MISSING = "there is no token for the bot yet; type `segue setup telegram`"
_TAKEN = (
    "another program receives what is sent to this bot; stop it, or get a bot of your own from "
    "@BotFather"
)

# What the library raises for valid JSON of an unexpected shape.
_SENSELESS = (TelegramError, AttributeError, KeyError, TypeError, ValueError, RecursionError)

FAILURES = Failures(
    Platform.TELEGRAM,
    connecting=(
        FailureRule(_UNKNOWN, status=(401, 404)),
        FailureRule(
            "another program has set a webhook for this bot; it will be removed",
            ("webhook",),
            status=(409,),
        ),
        FailureRule(_TAKEN, status=(409,)),
    ),
    delivering=(
        FailureRule(_UNKNOWN, status=(401,), account=True),
        FailureRule(_TOPIC_GONE, ("message thread not found", "topic_deleted", "topic_id_invalid")),
        FailureRule(
            "the topic is closed, and the bot may not open it; open it there", ("topic_closed",)
        ),
        FailureRule(
            "the bot is blocked there; unblock it in your chat with it", ("blocked by the user",)
        ),
        FailureRule(
            "the bot is no longer in that chat; add it there again",
            ("bot was kicked", "not a member"),
        ),
        FailureRule("that account was deleted", ("user is deactivated",)),
        FailureRule(
            "there is no such chat, or it has no message to the bot yet", ("chat not found",)
        ),
    ),
    known=dict.fromkeys(_SENSELESS, nonsense),
    thread_gone=_TOPIC_GONE,
)


class BotRefused(Refused, TelegramError):
    """Passes through the library, which wraps all errors except its own."""

    moved_to: int | None = None


class BotLost(Lost, TelegramError):
    """Passes through the library, too."""


def moved_to(refused: Refused) -> int | None:
    """The supergroup that the group has become, if that is why the call was refused."""
    return refused.moved_to if isinstance(refused, BotRefused) else None


class Client:
    """A bot, and the two calls that the library does not do as we need them."""

    def __init__(self, token: str, url: str | None, silence: float) -> None:
        """Raise ConnectFailed if it cannot be a token."""
        if not _TOKEN.fullmatch(token):
            raise FAILURES.unreachable(_UNKNOWN if token else _MISSING)
        base = (url or _TELEGRAM).rstrip("/")
        self._http = HttpClient(
            silence=silence, secret=token, refusal=_refusal, trust_env=url is None
        )
        self.close = self._http.close
        hide(token, "telegram.Bot")
        self._files = f"{base}/file/bot{token}"
        request = _Request(self._http)
        self.bot = Bot(
            token,
            base_url=f"{base}/bot{{token}}",
            base_file_url=f"{base}/file/bot{{token}}",
            request=request,
            get_updates_request=request,
        )

    async def poll(self, offset: int | None, limit: int | None = None) -> bytes:
        """The response to getUpdates. In the library's own method one bad update spoils the whole
        batch."""
        asked = {"offset": offset, "limit": limit, "timeout": POLL_SECONDS}
        params = {name: value for name, value in asked.items() if value is not None}
        return await self._http.request(
            "GET",
            f"{self.bot.base_url}/getUpdates",
            params={**params, "allowed_updates": json.dumps(ASKED_FOR)},
            seconds=POLL_SECONDS + self._http.silence,
        )

    async def fetch(self, file_id: str, limit: int) -> bytes:
        """The content of a file. The library's own method has no size limit."""
        path = (await self.bot.get_file(file_id)).file_path
        if not path:
            raise Refused(404, "the file is gone")
        url = f"{self._files}/{path.removeprefix(f'{self._files}/')}"
        return await self._http.request("GET", url, limit=limit)


class _Request(BaseRequest):
    """The library's transport."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    @property
    def read_timeout(self) -> float:
        return self._http.silence

    async def initialize(self) -> None:
        """Do nothing: the HTTP client is open."""

    async def shutdown(self) -> None:
        """Do nothing: Client closes it."""

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        *_: Any,
        **__: Any,
    ) -> tuple[int, bytes]:
        seconds = None if read_timeout is self.DEFAULT_NONE else read_timeout
        data = files = None
        if request_data is not None:
            data, files = request_data.json_parameters, request_data.multipart_data
        try:
            return 200, await self._http.request(
                method, url, data=data, files=files or None, seconds=seconds
            )
        except Lost as lost:
            raise BotLost(lost.reason, arrived=lost.arrived) from lost

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Also accept control characters and half characters, which users have in their names."""
        return json.loads(payload.decode("utf-8", "replace"), strict=False)


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class _Error(msgspec.Struct, frozen=True):
    """https://core.telegram.org/bots/api#making-requests"""

    description: str = ""
    parameters: _Parameters = _Parameters()


def _refusal(status: int, body: bytes) -> Refused:
    try:
        error = msgspec.json.decode(body, type=_Error)
    except UNREADABLE:
        error = _Error()
    reason = _PREFIX.sub("", error.description, count=1).rstrip(".") or f"HTTP {status}"
    refused = BotRefused(status, reason, after=error.parameters.retry_after)
    refused.moved_to = error.parameters.migrate_to_chat_id
    return refused
