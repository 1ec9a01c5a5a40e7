"""Calls to Discord, its events, and what their failures mean.

Calls go over our HTTP client, and events come over discord.py's gateway socket. The library's own
loop ends at a malformed event, and its own calls wait and repeat themselves, while the gateway must
know what happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import aiohttp
import yarl
from discord import Client as Library
from discord import ConnectionClosed, Intents
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from msgspec import Struct

from segue.core.address import Address, Platform
from segue.platforms.base import Inbound
from segue.platforms.connection import Reconnects
from segue.platforms.discord.updates import Detail, GatewayInfo
from segue.platforms.errors import FailureRule, Failures, Lost, Refused, converted, parsed
from segue.platforms.http import HttpClient, decode
from segue.platforms.sending import number

Event = tuple[str, Any]  # its name and its data
T = TypeVar("T")

_TOKEN = re.compile(r"[A-Za-z0-9._-]+")
_AGENT = {"User-Agent": "DiscordBot (https://pypi.org/project/segue, 1)"}
_INTENTS = Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
_BEGINNINGS = ("READY", "RESUMED")
_EVENTS = (
    *_BEGINNINGS, "GUILD_CREATE", "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE",
    "INTERACTION_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "THREAD_UPDATE", "THREAD_DELETE",
)  # fmt: skip
_MALFORMED = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
_MOST_WAITING = 10_000
"""Events that wait to be handled. Then the connection is not read any more."""
PORTAL = "https://discord.com/developers/applications"
_UNKNOWN = f"the token is not right; get it at {PORTAL} and type `segue setup discord`"
_MISSING = "there is no token for the bot yet; type `segue setup discord`"
_NO_CONTENT = (
    f"the bot's Message Content Intent is off; turn it on at {PORTAL}, under Bot, and type "
    "`segue setup discord`"
)
_OUTDATED = "Discord does not take this version of Segue any more; install a newer one"
_NO_STARTS = "the bot began more sessions today than Discord allows"
_FATAL = {"4004": 401, "4010": 400, "4011": 400, "4012": 400, "4013": 400, "4014": 401}
"""Close codes after which Discord wants no other attempt, with the status that each is like:
https://discord.com/developers/docs/topics/opcodes-and-status-codes"""
_UNDELIVERED = {
    "it was deleted; go on with `segue resume`, or with /resume in another chat": ("10003",),
    "the bot was removed from that server or channel; invite it again": ("50001", "10004"),
    "the bot lacks a permission there; type `segue doctor` to see which": ("50013",),
    "the thread is locked; unlock it there, or let the bot manage threads": ("160005",),
    "you do not let the bot write to you; allow messages from members of your server": ("50007",),
    "a forum takes messages only in its posts": ("40058", "50008"),
}
NO_THREADS = ("50001", "50013", "50024", "160006", "160007")  # not allowed, or too many


def _broken(error: Exception) -> Refused | Lost:
    """Translate a failure of the socket."""
    code = str(error.code) if isinstance(error, ConnectionClosed) else ""
    if code in _FATAL:
        return Refused(_FATAL[code], "the connection was refused", code=code)
    return Lost("the connection broke", arrived=True)


_SOCKET_ERRORS = (ConnectionClosed, ReconnectWebSocket, aiohttp.ClientError, OSError)
FAILURES = Failures(
    Platform.DISCORD,
    connecting=(
        FailureRule(_NO_CONTENT, ("4014",), setup=True),
        FailureRule(_UNKNOWN, ("4004",), setup=True),
        FailureRule(_OUTDATED, ("4010", "4011", "4012", "4013"), setup=True),
        FailureRule(_UNKNOWN, status=(401,)),
    ),
    delivering=(
        FailureRule(_UNKNOWN, status=(401,), account=True),
        *(FailureRule(reason, says) for reason, says in _UNDELIVERED.items()),
    ),
    no_threads=(FailureRule(says=NO_THREADS),),
    known=dict.fromkeys(_SOCKET_ERRORS, _broken),
)

logger = logging.getLogger(__name__)
logging.getLogger("discord.client").setLevel(logging.ERROR)  # it misses packages for sound


class Resumable(NamedTuple):
    """A session that can be continued."""

    id: str
    sequence: int
    url: yarl.URL
    """Where to continue it, which is not where it began."""


class _GatewaySocket(DiscordWebSocket):
    """The library's gateway socket, which skips a malformed frame."""

    async def received_message(self, msg: Any, /) -> None:
        try:
            await super().received_message(msg)
        except _MALFORMED as error:
            logger.warning("frame skipped platform=discord: %s", type(error).__name__)


class DiscordClient:
    """A bot: its calls, and its connection for events."""

    def __init__(
        self, on_event: Callable[[Event], None], token: str, url: str, silence: float, pause: float
    ) -> None:
        """Raise ConnectFailed if `token` cannot be one."""
        if not _TOKEN.fullmatch(token):
            reason = _UNKNOWN if token else _MISSING
            raise FAILURES.unreachable(reason, setup=True)
        self._on_event = on_event
        self._token = token
        self._official = not url
        self._pause = pause
        server = (url or "https://discord.com").rstrip("/")
        self._api = f"{server}/api/v10"
        self._http = HttpClient(silence=silence, secret=token, refusal=_refusal, trust_env=not url)
        self._session: aiohttp.ClientSession | None = None
        self._socket: _GatewaySocket | None = None
        self._url: yarl.URL | None = None
        """Where sessions begin, as Discord said last."""
        self._identified = float("-inf")
        """The time of the last attempt to begin a session, by the clock of the event loop."""
        self._reconnects = Reconnects()
        self._resumable: Resumable | None = None
        """How to continue the session after the connection broke; None if there is none."""
        self._begun = False
        self._closed = False
        self.ready = Detail()
        """The application and the servers of the bot. Known once connected."""

    async def call(self, method: str, path: str, kind: type[T], **body: Any) -> T:
        """Make a call and return its answer. `body` is that of HttpClient.request. An empty answer
        is None."""
        headers = {**_AGENT, "Authorization": f"Bot {self._token}"}
        answer = await self._http.request(method, self._api + path, headers=headers, **body)
        return decode(answer or b"null", kind)

    async def fetch(self, url: str, limit: int) -> bytes:
        """The content of a file. It is on another server, which must not get the token."""
        return await self._http.request("GET", url, limit=limit, headers=_AGENT)

    # Events

    async def connect(self) -> None:
        """Connect for events, unless connected. An interrupted session continues where it stopped.
        If it cannot, a new one begins, with the event READY."""
        if self._socket is not None and self._socket.open:
            return
        if self._resumable is not None and await self._resumed(self._resumable):
            return
        url = await self._start_allowed()
        try:
            await self._open(url, None)
        finally:
            # Discord counts from the time at which it receives IDENTIFY.
            self._identified = asyncio.get_running_loop().time()

    async def _resumed(self, session: Resumable) -> bool:
        """Continue the session. Return False if that is impossible, or if its server is down."""
        try:
            await self._open(session.url, session)
        except _SOCKET_ERRORS as error:
            if isinstance(_broken(error), Refused):
                raise
            logger.info("session not resumed platform=discord reason=%s", type(error).__name__)
            if isinstance(error, ReconnectWebSocket) and not error.resume:
                self._resumable = None
            return False
        return True

    async def _start_allowed(self) -> yarl.URL:
        """Wait until another session may begin, and return the URL for it. Raise Refused if the
        limit for today is reached: Discord resets the token of a bot that exceeds it."""
        try:
            found = await self.call("GET", "/gateway/bot", GatewayInfo)
        except (Refused, Lost) as error:
            is_down = isinstance(error, Lost) or error.status >= 500
            if self._url is None or not is_down:
                raise
            return self._url
        self._url = yarl.URL(found.url)
        limit = found.session_start_limit
        if limit.remaining <= 0:
            raise Refused(429, _NO_STARTS, after=limit.reset_after / 1000)
        # We have one shard, so `max_concurrency` allows one session in this time. If another
        # process has begun one too, this one is invalid, and the next attempt waits again.
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(max(self._identified + self._pause - now, 0.0))
        return self._url

    async def _open(self, url: yarl.URL, session: Resumable | None) -> None:
        """Connect, and begin or resume a session. Each step has its own time limit."""
        self._reconnects.begin()
        try:
            silence = self._http.silence
            self._session = aiohttp.ClientSession(trust_env=self._official)
            self._begun = False
            library = Library(intents=_INTENTS)
            library.loop = asyncio.get_running_loop()
            library.http.token = self._token
            library.http.ws_connect = cast("Any", partial(self._dial, self._session))
            state = library._connection  # pyright: ignore[reportPrivateUsage]
            state.parsers = {name: partial(self._parse, name) for name in _EVENTS}
            options: Any = {"initial": True, "gateway": url}
            if session is not None:
                options["resume"] = True
                options["session"] = session.id
                options["sequence"] = session.sequence
            async with asyncio.timeout(2 * silence):  # to connect, and for HELLO
                self._socket = await _GatewaySocket.from_client(library, **options)
            async with asyncio.timeout(silence):  # for READY or RESUMED
                while not self._begun:
                    await self._poll()
        except BaseException:
            await self._hang_up()
            raise

    async def _dial(
        self, session: aiohttp.ClientSession, url: str
    ) -> aiohttp.ClientWebSocketResponse:
        async with asyncio.timeout(self._http.silence):
            return await session.ws_connect(url, max_msg_size=0, autoclose=False, headers=_AGENT)

    def _parse(self, name: str, data: Any) -> None:
        if name in _BEGINNINGS:
            self._begun = True
        if name == "READY":
            self.ready = converted(data, Detail) or self.ready
        self._on_event((name, data))

    async def listen(self) -> None:
        """Wait until something arrives. Reconnect if Discord asks for it. If it asks again soon,
        raise ReconnectWebSocket, and the caller waits before it connects again."""
        try:
            await self._poll()
        except ReconnectWebSocket as again:
            await self._hang_up()
            if not again.resume:
                self._resumable = None
            if self._closed or self._reconnects.pause(None, at_once=True) > 0:
                raise
            await self.connect()

    async def _poll(self) -> None:
        socket = self._socket
        if socket is None:
            raise ReconnectWebSocket(None)
        try:
            await socket.poll_event()
        finally:
            if socket.session_id and socket.sequence is not None:
                self._resumable = Resumable(socket.session_id, socket.sequence, socket.gateway)

    async def _hang_up(self, code: int = 4000) -> None:
        """Close the connection. With the code 1000, Discord ends the session, too."""
        socket = self._socket
        session = self._session
        self._socket = None
        self._session = None
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with asyncio.timeout(2.0):
                if socket is not None:
                    await socket.close(code)
        if session is not None:
            await session.close()

    async def close(self) -> None:
        self._closed = True
        await self._hang_up(1000)
        await self._http.close()


class EventQueue:
    """Events in the order of their arrival. The first one stays until it is recorded."""

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque()
        self._changed = asyncio.Event()

    def append(self, event: Event) -> None:
        self._waiting.append(event)
        self._changed.set()

    async def receive(
        self,
        listen: Callable[[], Awaitable[None]],
        handle: Callable[[Event], AsyncGenerator[Inbound | None]],
    ) -> AsyncGenerator[Inbound | None]:
        """Yield what `handle` makes of each event, as Adapter.receive does.

        `listen` waits until something arrives. It runs even while an event is handled, which may
        take minutes, because Discord closes a connection that is not read.
        """
        listener = asyncio.ensure_future(self._listen(listen))
        try:
            while True:
                with FAILURES.connecting():
                    await self._wait_for_event(listener)
                yield None
                async with contextlib.aclosing(handle(self._waiting[0])) as found:
                    async for inbound in found:
                        yield inbound
                self._waiting.popleft()
                self._changed.set()
        finally:
            listener.cancel()
            await asyncio.wait([listener])
            if not listener.cancelled():
                listener.exception()  # marks it as retrieved: it was raised, or is too late

    async def _listen(self, listen: Callable[[], Awaitable[None]]) -> None:
        while True:
            while len(self._waiting) >= _MOST_WAITING:
                self._changed.clear()
                await self._changed.wait()
            await listen()

    async def _wait_for_event(self, listener: asyncio.Future[None]) -> None:
        """Wait for an event. Raise what `listen` raised if there is none."""
        while not self._waiting:
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait([listener, changed], return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            if listener.done() and not self._waiting:
                listener.result()


def channel_of(at: Address) -> str:
    """The id of the channel that the address names. Raise Refused if it is not one of Discord's."""
    return str(number(at.thread_id or at.chat_id, "Unknown Channel"))


class _DiscordError(Struct, frozen=True):
    """https://discord.com/developers/docs/reference#error-messages"""

    message: str = ""
    code: int = 0
    retry_after: float | None = None


def _refusal(status: int, body: bytes) -> Refused:
    error = parsed(body, _DiscordError) or _DiscordError()
    reason = error.message.rstrip(".") or f"HTTP {status}"
    return Refused(status, reason, code=str(error.code or ""), after=error.retry_after)
