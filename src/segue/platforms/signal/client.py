"""The JSON-RPC interface of a signal-cli daemon, and what its errors mean.

Codes: SignalJsonRpcCommandHandler.java. A command that fails says in `data` what it did before.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Raw

from segue.core.address import Platform
from segue.platforms.errors import NONSENSE, FailureRule, Failures, Lost, Refused, parsed
from segue.platforms.http import HttpClient, decode, encode
from segue.platforms.signal import wire
from segue.platforms.signal.events import EventStream
from segue.platforms.signal.spec import COMMAND, URL

T = TypeVar("T")

_SILENCE = 60.0
"""The daemon sends something every 15 seconds."""
_LINE = 4 * 1024 * 1024
_UPLOAD_SECONDS = 120.0
_USER, _IO, _UNTRUSTED, _RATE_LIMIT = -1, -3, -4, -5
_NO_METHOD, _NO_ACCOUNT, _BROKEN = -32601, -32602, -32603
_UNLINKED = (
    "signal-cli has no such account: the phone unlinked it, or it was never linked; type "
    "`segue setup signal`"
)
_NAMES = {
    "UNREGISTERED_FAILURE": "that user is not on Signal any more",
    "INVALID_PRE_KEY_FAILURE": "the keys of that user are not valid; try again later",
}
_IDENTITY = (
    "the safety number of a user there changed, so signal-cli sends nothing to them; compare it on "
    "both phones, then type `signal-cli -a {} trust -v SAFETY_NUMBER USER`"
)
_CAPTCHA = (
    "Signal wants a captcha before it takes more messages; solve the one at "
    "https://signalcaptchas.org/challenge/generate.html, copy the link of Open Signal, and type "
    "`signal-cli -a {} submitRateLimitChallenge --challenge {} --captcha LINK`"
)

FAILURES = Failures(
    Platform.SIGNAL,
    connecting=(FailureRule(_UNLINKED, status=(401,)),),
    delivering=(FailureRule(_UNLINKED, status=(401,), account=True),),
)


class SignalClient:
    """Calls a daemon for one account, and holds its event stream."""

    def __init__(self, account: str, url: str, silence: float) -> None:
        self.account = account
        """The number. Until it is known, the daemon's only one."""
        self.url = (url or URL).rstrip("/")
        self._http = HttpClient(silence=silence, refusal=_no_daemon)
        self._ids = itertools.count(1)
        self.events = EventStream(self._lines)

    async def close(self) -> None:
        await self.events.close()
        await self._http.close()

    def _lines(self) -> AsyncGenerator[bytes]:
        url = f"{self.url}/api/v1/events?account={quote(self.account)}"
        return self._http.lines(url, seconds=_SILENCE, limit=_LINE)

    async def find_account(self) -> None:
        """Set the account to the daemon's only one, or raise Refused if it is not there."""
        found = await self.accounts()
        if found is None and self.account:
            return  # a daemon that was started for one account serves only that
        if found is None or (len(found) > 1 and not self.account):
            reason = "the account is not set; type `segue config set platforms.signal.account +…`"
            raise Refused(400, reason)
        if not found or (self.account or found[0]) not in found:
            raise Refused(401, "no account")
        self.account = self.account or found[0]

    async def accounts(self) -> list[str] | None:
        """The numbers of the daemon's accounts. None if it was started for one."""
        try:
            found = await self.call("listAccounts", tuple[wire.SignalAccount, ...], own=False)
        except Refused as refused:
            if refused.status != 404:
                raise
            return None
        return [it.number for it in found]

    async def version(self) -> str:
        return await self.call("version", str, "version", own=False)

    async def send(self, method: str, **given: Any) -> wire.SendAnswer:
        seconds = _UPLOAD_SECONDS if "attachment" in given else None
        return await self.call(method, wire.SendAnswer, seconds=seconds, **given)

    async def call(
        self,
        method: str,
        kind: type[T],
        part: str = "",
        *,
        own: bool = True,
        seconds: float | None = None,
        limit: int | None = None,
        **given: Any,
    ) -> T:
        """Call a method and return its result, or a part of it. `own`: it is for the account."""
        account = {"account": self.account} if own and self.account else {}
        params = {**account, **{name: it for name, it in given.items() if it is not None}}
        call = {"jsonrpc": "2.0", "method": method, "id": next(self._ids), "params": params}
        body = await self._http.request(
            "POST",
            f"{self.url}/api/v1/rpc",
            content=encode(call),
            headers={"Content-Type": "application/json"},
            seconds=seconds,
            limit=limit,
        )
        answer = decode(body, wire.RpcAnswer)
        if answer.error is not None:
            raise self._failure(answer.error)
        result = decode(answer.result, dict[str, Raw]).get(part, Raw()) if part else answer.result
        return decode(result, kind)

    def _failure(self, error: wire.RpcError) -> Refused | Lost:
        failed = parsed(error.data, wire.FailedSend)
        results = failed.response.results if failed is not None else ()
        kinds = {it.type for it in results}
        if error.code == _IO or "NETWORK_FAILURE" in kinds:
            return Lost("signal-cli cannot reach Signal", arrived=True)
        if error.code == _BROKEN and "AuthorizationFailed" not in error.message:
            return Lost(error.message or NONSENSE, arrived=True)
        if error.code in (_NO_ACCOUNT, _BROKEN):
            return Refused(401, error.message)
        if error.code == _NO_METHOD:
            return Refused(404, f"this version of signal-cli lacks something: {error.message}")
        if error.code == _UNTRUSTED:
            return Refused(403, _IDENTITY.format(self.account))
        if error.code == _RATE_LIMIT or "RATE_LIMIT_FAILURE" in kinds:
            return self._too_often(results)
        reason = next((_NAMES[kind] for kind in kinds if kind in _NAMES), error.message)
        return Refused(400, reason)

    def _too_often(self, results: tuple[wire.SendResult, ...]) -> Refused:
        token = next((it.token for it in results if it.token), None)
        after = max((it.retry_after_seconds or 0.0 for it in results), default=0.0)
        reason = _CAPTCHA.format(self.account, token) if token else "Signal wants fewer messages"
        return Refused(429, reason, after=after or None)


def _no_daemon(status: int, body: bytes) -> Refused:
    if status == 400:  # of the event stream: the account is gone
        return Refused(401, "no account")
    return Refused(
        status, f"HTTP {status}; is this a signal-cli daemon? Start one with `{COMMAND}`"
    )
