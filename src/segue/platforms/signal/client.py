"""The JSON-RPC interface and the events of a signal-cli daemon, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from segue.core.address import Platform
from segue.platforms.errors import FailureRule, Failures, Lost, Refused, parsed, tolerating_absence
from segue.platforms.http import HttpClient
from segue.platforms.rpc import RpcClient, RpcError
from segue.platforms.signal import wire
from segue.platforms.signal.spec import COMMAND, OLDEST, URL
from segue.platforms.unrecorded import Ahead

T = TypeVar("T")

_SILENCE = 60.0
"""The daemon sends something every 15 seconds. Before 0.14.4 it answers only with that."""
_LONG_SECONDS = 180.0
_LINE, _ANSWER = 4 * 1024 * 1024, 70 * 1024 * 1024  # a file of 50 MB in base64
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


class SignalClient:
    """Calls a daemon for one account, and listens to its events."""

    def __init__(self, account: str, url: str, silence: float) -> None:
        self.account = account
        """The number. Empty until `find_account`, if the daemon has only one."""
        self.is_only_account = False
        """Whether the daemon has no other account. Known after `find_account`."""
        self.url = (url or URL).rstrip("/")
        self._http = HttpClient(silence=silence, refusal=_no_daemon)
        self._rpc = RpcClient(self._http, f"{self.url}/api/v1/rpc", self._failure)
        self.events = Ahead(self._events)

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
        if tuple(map(int, re.findall(r"\d+", version))) < OLDEST:
            raise Refused(
                400, "signal-cli {} is too old, and Segue needs {}.{}".format(version, *OLDEST)
            )
        return version

    async def find_account(self) -> None:
        """Set the account, if it is the only one. Raise Refused, with 401 if it is not there."""
        accounts = [self.account]  # of a daemon that was started for one, which it does not name
        with tolerating_absence():
            found = await self.call("listAccounts", tuple[wire.SignalEntry, ...])
            accounts = [it.number or "" for it in found]
        if not self.account and len(accounts) == 1:
            [self.account] = accounts
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
        return await self._rpc.call(method, params, kind, part, seconds=seconds, limit=_ANSWER)

    def _failure(self, error: RpcError) -> Refused | Lost:
        """What an error means. What the command did before it failed is in its `data`."""
        failed = parsed(error.data, dict[str, wire.SendAnswer]) or {}
        results = failed["response"].results if "response" in failed else ()
        if error.code == _BROKEN and "AuthorizationFailed" not in error.message:
            return Lost(error.message or "internal error", arrived=True)
        return self._meaning(_CODES.get(error.code, error.code), results, error.message)

    def missed(self, results: Sequence[wire.SignalEntry]) -> Refused | Lost:
        """Why these members of a group did not get a message that other members got."""
        return self._meaning(results[0].type, results, results[0].type)

    def _meaning(
        self, code: int | str, results: Sequence[wire.SignalEntry], message: str
    ) -> Refused | Lost:
        found = {code, *(it.type for it in results)}
        if "NETWORK_FAILURE" in found:
            return Lost("signal-cli cannot reach Signal", arrived=True)
        meanings = (it for kind, it in _MEANINGS.items() if kind in found)
        status, reason = next(meanings, (400, "{message}"))
        token = next((it.token for it in results if it.token), None)
        after = max((it.retry_after_seconds or 0.0 for it in results), default=0.0)
        given = {"account": self.account, "token": token, "message": message}
        return Refused(
            status,
            (_CAPTCHA if token else reason).format(**given),
            after=after or None,
            ends_early=token is not None,
        )


def _no_daemon(status: int, body: bytes) -> Refused:
    """What an HTTP error means. That of the event stream is 400 if the account is gone."""
    reason = f"HTTP {status}; is this a signal-cli daemon? Start one with `{COMMAND}`"
    return Refused(401 if status == 400 else status, reason)
