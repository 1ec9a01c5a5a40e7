"""A signal-cli daemon: calls by JSON-RPC, the stream of its events, and what its errors mean.

The answers are those of src/main/java/org/asamk/signal/json in https://github.com/AsamK/signal-cli.
Fields that can be missing can also be null.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Raw, Struct

from segue.core.address import Platform
from segue.platforms.errors import FailureRule, Failures, Lost, Refused, parsed, tolerating_absence
from segue.platforms.http import HttpClient, decode, encode
from segue.platforms.signal.spec import COMMAND, OLDEST, URL

T = TypeVar("T")

_SILENCE = 60.0
"""The daemon sends something every 15 seconds. Before 0.14.4 it answers only with that."""
_LONG_SECONDS = 180.0
_LINE = 4 * 1024 * 1024
_ANSWER = 70 * 1024 * 1024  # a file of 50 MB in base64
_JSON = {"Content-Type": "application/json"}
_FOR_ALL = ("version", "listAccounts", "startLink", "finishLink")  # and not for one account
_UNLINKED = (
    "signal-cli has no such account: the phone unlinked it, or it was never linked; type "
    "`segue setup signal`"
)
_CHOOSE = (
    "signal-cli has several accounts, or was started for one that it does not name; choose with "
    "`segue setup signal --account NUMBER`"
)
_CAPTCHA = (
    "Signal wants a captcha before it takes more messages; solve the one at "
    "https://signalcaptchas.org/challenge/generate.html, copy the link of Open Signal, and type "
    "`signal-cli -a {account} submitRateLimitChallenge --challenge {token} --captcha LINK`"
)
_IDENTITY = (
    "the safety number of a user there changed, so signal-cli sends nothing to them; compare it on "
    "both phones, then type `signal-cli -a {account} trust -v SAFETY_NUMBER USER`"
)
# Codes of SignalJsonRpcCommandHandler.java, and results for a recipient: JsonSendMessageResult.java
_CODES = {-3: "NETWORK_FAILURE", -4: "IDENTITY_FAILURE", -5: "RATE_LIMIT_FAILURE"}
_BROKEN = -32603
_MEANINGS: dict[int | str, tuple[int, str]] = {
    _BROKEN: (401, "{message}"),
    -32602: (401, "{message}"),
    -32601: (404, "this version of signal-cli lacks something: {message}"),
    "RATE_LIMIT_FAILURE": (429, "Signal wants fewer messages"),
    "UNREGISTERED_FAILURE": (400, "that user is not on Signal any more"),
    "INVALID_PRE_KEY_FAILURE": (400, "the keys of that user are not valid; try again later"),
    "IDENTITY_FAILURE": (403, _IDENTITY),
}

_RULES = (FailureRule(_UNLINKED, status=(401,), account=True),)
FAILURES = Failures(Platform.SIGNAL, connecting=_RULES, delivering=_RULES)


class SignalEntry(Struct, frozen=True, rename="camel"):
    """An entry of a list in an answer. Its kind decides which fields are set."""

    number: str | None = None
    uuid: str | None = None
    name: str | None = None
    is_member: bool = False
    is_blocked: bool = False
    members: tuple[SignalEntry, ...] = ()
    trust_level: str = ""
    type: str = ""
    recipient_address: SignalEntry | None = None
    token: str | None = None
    retry_after_seconds: float | None = None


class SendAnswer(Struct, frozen=True, rename="camel"):
    timestamp: int
    results: tuple[SignalEntry, ...] = ()


class _RpcError(Struct, frozen=True):
    code: int
    message: str = ""
    data: Raw = Raw(b"null")


class _RpcAnswer(Struct, frozen=True):
    """https://www.jsonrpc.org/specification"""

    result: Raw = Raw(b"null")
    error: _RpcError | None = None


class SignalClient:
    """Calls a daemon for one account, and listens to its events."""

    def __init__(self, account: str, url: str, silence: float) -> None:
        self.account = account
        """The number. Empty until `find_account`, if the daemon has only one."""
        self.is_only_account = False
        """Whether the daemon has no other account. Known after `find_account`."""
        self.url = (url or URL).rstrip("/")
        self._http = HttpClient(silence=silence, refusal=_no_daemon)
        self._call_ids = itertools.count(1)
        self.events = EventStream(self._events)

    async def close(self) -> None:
        await self.events.close()
        await self._http.close()

    async def _events(self) -> AsyncGenerator[bytes]:
        """The JSON of each event, and empty lines as a sign of life."""
        url = f"{self.url}/api/v1/events?account={quote(self.account)}"
        async for line in self._http.lines(url, seconds=_SILENCE, limit=_LINE):
            yield line.removeprefix(b"data:") if line.startswith(b"data:") else b""

    async def version(self) -> str:
        """The daemon's version. Raise Refused if it is too old."""
        version = await self.call("version", str, "version")  # such as 0.14.4.1 or 0.15.0-SNAPSHOT
        numbers = tuple(map(int, re.findall(r"\d+", version)))
        if numbers < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            reason = f"signal-cli {version} is too old, and Segue needs {oldest}"
            raise Refused(400, reason)
        return version

    async def find_account(self) -> None:
        """Set the account, if it is the only one. Raise Refused, with 401 if it does not exist."""
        accounts = [self.account]  # a daemon that was started for one account does not list it
        with tolerating_absence():
            found = await self.call("listAccounts", tuple[SignalEntry, ...])
            accounts = [it.number or "" for it in found]
        if not self.account and len(accounts) == 1:
            self.account = accounts[0]
        if accounts and not self.account:
            raise Refused(400, _CHOOSE)
        if self.account not in accounts:
            raise Refused(401, "no account")
        self.is_only_account = len(accounts) == 1

    async def call(self, method: str, kind: type[T], part: str = "", **given: Any) -> T:
        """Call a method and return its result, or a part of it."""
        params = {name: it for name, it in given.items() if it is not None}
        if self.account and method not in _FOR_ALL:
            params["account"] = self.account
        seconds = _LONG_SECONDS if {"attachment", "deviceLinkUri"} & params.keys() else None
        call = {"jsonrpc": "2.0", "method": method, "id": next(self._call_ids), "params": params}
        body = await self._http.request(
            "POST",
            f"{self.url}/api/v1/rpc",
            content=encode(call),
            headers=_JSON,
            seconds=seconds,
            limit=_ANSWER,
        )
        answer = decode(body, _RpcAnswer)
        if answer.error is not None:
            raise self._failure(answer.error)
        result = answer.result
        if part:
            result = decode(result, dict[str, Raw]).get(part, Raw())
        return decode(result, kind)

    def _failure(self, error: _RpcError) -> Refused | Lost:
        """Translate an error. Its `data` has the results for recipients from before the failure."""
        failed = parsed(error.data, dict[str, SendAnswer]) or {}
        results = failed["response"].results if "response" in failed else ()
        if error.code == _BROKEN and "AuthorizationFailed" not in error.message:
            return Lost(error.message or "internal error", arrived=True)
        return self._meaning(_CODES.get(error.code, error.code), results, error.message)

    def missed(self, results: Sequence[SignalEntry]) -> Refused | Lost:
        """Why these members of a group did not get a message that other members got."""
        return self._meaning(results[0].type, results, results[0].type)

    def _meaning(
        self, code: int | str, results: Sequence[SignalEntry], message: str
    ) -> Refused | Lost:
        failures = {code, *(it.type for it in results)}
        if "NETWORK_FAILURE" in failures:
            return Lost("signal-cli cannot reach Signal", arrived=True)
        meanings = [it for kind, it in _MEANINGS.items() if kind in failures]
        status, reason = meanings[0] if meanings else (400, "{message}")
        tokens = [it.token for it in results if it.token]
        token = tokens[0] if tokens else None
        if token is not None:
            reason = _CAPTCHA
        after = max((it.retry_after_seconds or 0.0 for it in results), default=0.0)
        return Refused(
            status,
            reason.format(account=self.account, token=token, message=message),
            after=after or None,
            ends_early=token is not None,
        )


class EventStream:
    """The events. The next one is read ahead and stays until it is recorded, so a receiver that was
    cancelled gets it when it starts again."""

    def __init__(self, connect: Callable[[], AsyncGenerator[bytes]]) -> None:
        """`connect` returns a stream that raises Lost when it ends."""
        self._connect = connect
        self._updates: AsyncGenerator[bytes] | None = None
        self._first: asyncio.Future[bytes] | None = None

    async def open(self, seconds: float = 1.0) -> None:
        """Connect, unless it is connected. Wait for the first update, but not for long."""
        if self._is_open:
            return
        self._updates = self._connect()
        self._first = asyncio.ensure_future(anext(self._updates))
        await asyncio.wait([self._first], timeout=seconds)

    @property
    def _is_open(self) -> bool:
        if self._first is None or self._first.cancelled():
            return False
        return not self._first.done() or self._first.exception() is None

    async def first(self) -> bytes:
        """The first update that is not recorded. Raise the error of the stream, or Lost if it is
        closed."""
        if self._first is not None:
            await asyncio.wait([self._first])
        if self._first is None or self._first.cancelled():
            raise Lost("it was closed", arrived=False)
        return self._first.result()

    async def is_ready(self, seconds: float) -> bool:
        """Whether an update has arrived, or arrives in that time."""
        if self._first is None:
            return False
        done, _ = await asyncio.wait([self._first], timeout=seconds)
        return bool(done)

    def recorded(self) -> None:
        """Read the next update."""
        if self._updates is not None:
            self._first = asyncio.ensure_future(anext(self._updates))

    async def close(self) -> None:
        updates = self._updates
        first = self._first
        self._updates = None
        if updates is not None and first is not None:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await updates.aclose()


def _no_daemon(status: int, body: bytes) -> Refused:
    """Translate an HTTP error."""
    if status == 400:
        status = 401  # the account of the event stream is gone
    reason = f"HTTP {status}; is this a signal-cli daemon? Start one with `{COMMAND}`"
    return Refused(status, reason)
