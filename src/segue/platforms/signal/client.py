"""The JSON-RPC interface and the events of a signal-cli daemon, and what its errors mean."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Raw

from segue.core.address import Platform
from segue.platforms.errors import NONSENSE, FailureRule, Failures, Lost, Refused, parsed
from segue.platforms.http import HttpClient, decode, encode
from segue.platforms.signal import wire
from segue.platforms.signal.spec import COMMAND, OLDEST, URL
from segue.platforms.unrecorded import Ahead

T = TypeVar("T")

ANSWER_SECONDS = 1.0
"""Before 0.14.4 the event stream is answered only with the first event, or after 15 seconds."""
_SILENCE = 60.0
"""The daemon sends something every 15 seconds."""
_LONG_SECONDS = 180.0
_LINE, _ANSWER = 4 * 1024 * 1024, 70 * 1024 * 1024
"""The longest event and answer in bytes. A file of 50 MB is in base64."""
_DATA = b"data:"
_FOR_ALL = ("version", "listAccounts", "startLink", "finishLink")
"""Methods that are for no particular account."""
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

FAILURES = Failures(
    Platform.SIGNAL,
    connecting=(FailureRule(_UNLINKED, status=(401,)),),
    delivering=(FailureRule(_UNLINKED, status=(401,), account=True),),
)


class SignalClient:
    """Calls a daemon for one account, and listens to its events."""

    def __init__(self, account: str, url: str, silence: float) -> None:
        self.account = account
        """The number. Empty until `find_account`, if the daemon has only one."""
        self.url = (url or URL).rstrip("/")
        headers = {"Content-Type": "application/json"}
        self._http = HttpClient(silence=silence, headers=headers, refusal=_no_daemon)
        self._ids = itertools.count(1)
        self.events = Ahead(self._events)

    async def close(self) -> None:
        await self.events.close()
        await self._http.close()

    async def _events(self) -> AsyncGenerator[bytes]:
        """The JSON of each event, and empty lines as a sign of life."""
        url = f"{self.url}/api/v1/events?account={quote(self.account)}"
        async for line in self._http.lines(url, seconds=_SILENCE, limit=_LINE):
            yield line.removeprefix(_DATA) if line.startswith(_DATA) else b""

    async def version(self) -> str:
        """The daemon's version. Raise Refused if it is too old."""
        version = await self.call("version", str, "version")  # such as 0.14.4.1 or 0.15.0-SNAPSHOT
        if tuple(map(int, re.findall(r"\d+", version))) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise Refused(400, f"signal-cli {version} is too old, and Segue needs {oldest}")
        return version

    async def find_account(self) -> None:
        """Set the account to the daemon's only one. Raise Refused if that is not clear (400), or if
        it does not have the account (401)."""
        try:
            found = await self.call("listAccounts", tuple[wire.SignalEntry, ...])
            accounts = [it.number or "" for it in found]
        except Refused as refused:
            if refused.status != 404:
                raise
            accounts = [self.account]  # the daemon was started for one, which it does not name
        if not self.account and len(accounts) == 1:
            [self.account] = accounts
        if accounts and not self.account:
            raise Refused(400, _CHOOSE)
        if self.account not in accounts:
            raise Refused(401, "no account")

    async def call(self, method: str, kind: type[T], part: str = "", **given: Any) -> T:
        """Call a method and return its result, or a part of it."""
        params = {name: it for name, it in given.items() if it is not None}
        if self.account and method not in _FOR_ALL:
            params["account"] = self.account
        call = {"jsonrpc": "2.0", "method": method, "id": next(self._ids), "params": params}
        is_long = method == "finishLink" or "attachment" in given
        body = await self._http.request(
            "POST",
            f"{self.url}/api/v1/rpc",
            content=encode(call),
            seconds=_LONG_SECONDS if is_long else None,
            limit=_ANSWER,
        )
        answer = decode(body, wire.RpcAnswer)
        if answer.error is not None:
            raise self._failure(answer.error)
        result = decode(answer.result, dict[str, Raw]).get(part, Raw()) if part else answer.result
        return decode(result, kind)

    def _failure(self, error: wire.RpcError) -> Refused | Lost:
        """What an error means. What the command did before it failed is in its `data`."""
        failed = parsed(error.data, dict[str, wire.SendAnswer]) or {}
        results = failed["response"].results if "response" in failed else ()
        found = {_CODES.get(error.code, error.code), *(it.type for it in results)}
        if "NETWORK_FAILURE" in found:
            return Lost("signal-cli cannot reach Signal", arrived=True)
        if _BROKEN in found and "AuthorizationFailed" not in error.message:
            return Lost(error.message or NONSENSE, arrived=True)
        meanings = (it for kind, it in _MEANINGS.items() if kind in found)
        status, reason = next(meanings, (400, "{message}"))
        token = next((it.token for it in results if it.token), None)
        after = max((it.retry_after_seconds or 0.0 for it in results), default=0.0)
        given = {"account": self.account, "token": token, "message": error.message}
        return Refused(status, (_CAPTCHA if token else reason).format(**given), after=after or None)


def _no_daemon(status: int, body: bytes) -> Refused:
    if status == 400:  # of the event stream: the account is gone
        return Refused(401, "no account")
    reason = f"HTTP {status}; is this a signal-cli daemon? Start one with `{COMMAND}`"
    return Refused(status, reason)
