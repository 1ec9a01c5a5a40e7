"""HTTP client of the test platform. Errors say whether the call may have had an effect."""

from __future__ import annotations

import re
from typing import TypeVar

import httpx2
import msgspec

from segue.testing.peers import tls
from segue.testing.platform.wire import Call, Refusal

T = TypeVar("T")

_TOKEN = re.compile(r"[!-~]+")

# Errors raised before the call left this machine.
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)


class Refused(Exception):
    """The platform refused the call."""

    def __init__(self, status: int, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.status = status
        self.refusal = refusal


class Lost(Exception):
    """No answer came. If `arrived`, the call may have had its effect."""

    def __init__(self, reason: str, *, arrived: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.arrived = arrived


class Client:
    """Calls the platform with one token. Raises only Refused and Lost."""

    def __init__(self, url: str, token: str, *, silence: float) -> None:
        """`silence` is how many seconds a call waits for an answer before it counts as lost."""
        self._silence = silence
        if not _TOKEN.fullmatch(token):
            # The library's error message would contain the token.
            raise Lost("its token is missing, or holds what no token does", arrived=False)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        try:
            self._url = httpx2.URL(f"{url.rstrip('/')}/v1/")
        except httpx2.InvalidURL as error:
            raise Lost(str(error), arrived=False) from error
        # The bare transport, not the library's full client, because this client is part of what
        # the gateway benchmarks measure. Each call scans all kept connections, so keep few.
        kept = httpx2.Limits(max_connections=100, max_keepalive_connections=4)
        self._http = httpx2.AsyncHTTPTransport(verify=tls(), trust_env=False, limits=kept)

    async def close(self) -> None:
        await self._http.aclose()

    async def call(self, method: str, call: Call, answer: type[T], *, seconds: float = 0.0) -> T:
        """Return the answer. The platform may take up to `seconds` longer than usual for it."""
        content = await self.content(method, call, seconds=seconds)
        try:
            return msgspec.json.decode(content, type=answer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise Lost(f"its answer makes no sense ({error})", arrived=True) from error

    async def content(self, method: str, call: Call, *, seconds: float = 0.0) -> bytes:
        """Return the body of the answer."""
        timeout = httpx2.Timeout(self._silence, read=seconds + self._silence)
        try:
            request = httpx2.Request(
                "POST",
                self._url.join(method),
                headers=self._headers,
                content=msgspec.json.encode(call),
                extensions={"timeout": timeout.as_dict()},
            )
            response = await self._http.handle_async_request(request)
            try:
                content = await response.aread()
            finally:
                await response.aclose()
        except UnicodeEncodeError as error:
            raise Lost("there is half a character in it", arrived=False) from error
        except _UNSENT as error:
            raise Lost(_told(error), arrived=False) from error
        except httpx2.HTTPError as error:
            raise Lost(_told(error), arrived=True) from error
        if response.status_code != 200:
            raise Refused(response.status_code, _refusal(response.status_code, content))
        return content


def _told(error: httpx2.HTTPError) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "it does not answer"
    return str(error).rstrip(".") or "the connection broke"


def _refusal(status: int, content: bytes) -> Refusal:
    try:
        return msgspec.json.decode(content, type=Refusal)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Refusal(code="unknown", reason=f"HTTP {status}")
