"""The test platform's calls over HTTP."""

from __future__ import annotations

from typing import TypeVar

from segue.platforms.errors import Refused, parsed
from segue.platforms.http import HttpClient, bearer, decode, encode
from segue.testing.platform.wire import Call, Refusal

T = TypeVar("T")


class Client:
    """Calls the platform with one token. Raises only Refused and Lost."""

    def __init__(self, url: str, token: str, *, silence: float) -> None:
        headers = {"Content-Type": "application/json", **bearer(token)}
        self._url = f"{url.rstrip('/')}/v1/"
        self._http = HttpClient(silence=silence, secret=token, headers=headers, refusal=_refused)
        self.close = self._http.close

    async def call(self, method: str, call: Call, answer: type[T], *, seconds: float = 0.0) -> T:
        """Return the answer. The platform may take up to `seconds` longer than usual for it."""
        return decode(await self.content(method, call, seconds=seconds), answer)

    async def content(self, method: str, call: Call, *, seconds: float = 0.0) -> bytes:
        """Return the body of the answer."""
        return await self._http.request(
            "POST",
            self._url + method,
            content=encode(call),
            seconds=seconds + self._http.silence,
        )


def _refused(status: int, body: bytes) -> Refused:
    found = parsed(body, Refusal) or Refusal(code="unknown", reason=f"HTTP {status}")
    return Refused(status, found.reason.rstrip("."), code=found.code, after=found.retry_after)
