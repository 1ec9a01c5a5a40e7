"""HTTP to a platform. Failures are sorted by what the caller must know: Refused or Lost.

URLs and headers can hold secrets, so neither is in any error or log. Imports httpx2, which is slow
to import: only adapters import this module.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import httpx2
import msgspec

from segue.platforms.errors import NONSENSE, UNREADABLE, Lost, Refused, Unusable
from segue.system import http

T = TypeVar("T")

# Possessive: a string of many megabytes must not fill the memory with places to try again.
JSON_MARK = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)
"""A string of a JSON document as a whole, or a mark that opens, closes or separates."""
_DEPTH = 64
_TOKEN = re.compile(r"[!-~]+")
_REFUSAL_BYTES = 64 * 1024
_LOGGERS = ("httpx2", "httpcore2.connection", "httpcore2.http11", "httpcore2.proxy")
_CLOSED = "it was closed"
_HALF = "there is half a character in it"


class Response(NamedTuple):
    """A successful response. The names of its headers are lower-case."""

    body: bytes
    headers: Mapping[str, str]


RefusalReader = Callable[[int, bytes], Refused]
"""Makes the error for a response with that status and body."""


def refusal(status: int, body: bytes) -> Refused:
    """The error for a response of which only the status is known."""
    return Refused(status, f"HTTP {status}")


class HttpClient:
    """Calls one server. Raises only Refused and Lost."""

    def __init__(
        self,
        *,
        silence: float,
        secret: str = "",
        headers: Mapping[str, str] | None = None,
        refusal: RefusalReader = refusal,
        trust_env: bool = False,
    ) -> None:
        """`silence` is the timeout in seconds after which a call counts as lost. Logs that contain
        `secret` are dropped. With `trust_env`, use the proxy from the environment."""
        self.silence = silence
        self._headers = dict(headers or {})
        self._refusal = refusal
        self._calls: set[asyncio.Task[Response]] = set()
        self._closed = False
        # Every call checks each idle connection, so keep only a few open.
        limits = httpx2.Limits(max_connections=256, max_keepalive_connections=4)
        if trust_env:
            client = http.client(limits=limits)
            self._send = functools.partial(client.send, stream=True)
            self._close = client.aclose
        else:
            transport = http.transport(limits)
            self._send = transport.handle_async_request
            self._close = transport.aclose
        hide(secret, *_LOGGERS)

    async def close(self) -> None:
        """Cancel running calls: a poll would wait for a long time."""
        self._closed = True
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._close()

    async def request(self, method: str, url: str, **more: Any) -> bytes:
        """Return the body of the response. `more` is that of `exchange`."""
        response = await self.exchange(method, url, **more)
        return response.body

    async def exchange(
        self,
        method: str,
        url: str,
        *,
        seconds: float | None = None,
        limit: int | None = None,
        cut: bool = False,
        headers: Mapping[str, str] | None = None,
        **body: Any,
    ) -> Response:
        """Return the response. `body` is one of httpx2's `content`, `data`, `files`, `json` and
        `params`. The platform may take `seconds` for its response. If it has more than `limit`
        bytes, raise Refused, or with `cut` return the first ones."""
        if self._closed:
            raise Lost(_CLOSED, arrived=False)
        timeout = httpx2.Timeout(self.silence, read=seconds or self.silence)
        try:
            request = httpx2.Request(
                method,
                url,
                headers={**self._headers, **(headers or {})},
                extensions={"timeout": timeout.as_dict()},
                **body,
            )
        except UnicodeEncodeError:
            raise Lost(_HALF, arrived=False) from None
        except httpx2.InvalidURL:
            raise Lost("its URL is not valid", arrived=False) from None
        call = asyncio.ensure_future(self._exchange(request, limit, cut=cut))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise Lost(_CLOSED, arrived=True) from None

    async def lines(self, url: str, *, seconds: float, limit: int) -> AsyncGenerator[bytes]:
        """Yield the lines of a response that does not end: an empty one when it begins, and then
        each that has at most `limit` bytes. Raise Lost when the response ends, or if no byte comes
        for `seconds`."""
        timeout = httpx2.Timeout(self.silence, read=seconds)
        extensions = {"timeout": timeout.as_dict()}
        request = httpx2.Request("GET", url, headers=self._headers, extensions=extensions)
        rest = bytearray()
        is_long = False
        try:
            response = await self._send(request)
            try:
                if not response.is_success:
                    raise self._refusal(response.status_code, b"")
                yield b""
                async for chunk in response.aiter_bytes():
                    *whole, last = chunk.split(b"\n")
                    for line in whole:
                        found = bytes(rest + line)
                        rest = bytearray()
                        if not is_long and len(found) <= limit:
                            yield found
                        is_long = False
                    is_long = is_long or len(rest) + len(last) > limit
                    rest = bytearray() if is_long else rest + last
            finally:
                await response.aclose()
        except httpx2.HTTPError as error:
            raise _lost(error) from error
        raise Lost("the connection was closed", arrived=False)

    async def _exchange(self, request: httpx2.Request, limit: int | None, *, cut: bool) -> Response:
        most = None if limit is None else limit + 1
        try:
            response = await self._send(request)
            try:
                is_good = response.is_success
                found = await http.read(response, most if is_good else _REFUSAL_BYTES)
            finally:
                await response.aclose()
        except httpx2.LocalProtocolError:  # its text contains the headers
            raise Lost("no connection can be made", arrived=False) from None
        except httpx2.HTTPError as error:
            raise _lost(error) from error
        if not is_good:
            refused = self._refusal(response.status_code, found)
            if refused.after is None:
                refused.after = http.retry_after(response, datetime.now(UTC))
            raise refused
        if limit is not None and len(found) > limit:
            if not cut:
                raise Refused(413, f"the file is larger than {limit:,} bytes")
            found = found[:limit]
        return Response(found, response.headers)


def bearer(token: str) -> dict[str, str]:
    """The header with which most platforms authenticate a bot."""
    if not _TOKEN.fullmatch(token):
        raise Unusable("its token is missing, or has characters that no token has")
    return {"Authorization": f"Bearer {token}"}


def encode(call: object) -> bytes:
    """Write a call as JSON."""
    try:
        return msgspec.json.encode(call)
    except UnicodeEncodeError:
        raise Lost(_HALF, arrived=False) from None


def decode(body: bytes | memoryview, kind: type[T]) -> T:
    """Parse a JSON response. Content that is nested too deeply is left out: others wrote it."""
    try:
        return msgspec.json.decode(body, type=kind)
    except RecursionError:
        return _decode_shallow(body, kind)
    except UNREADABLE as error:
        raise Lost(f"{NONSENSE} ({error})", arrived=True) from error


def _decode_shallow(body: bytes | memoryview, kind: type[T]) -> T:
    """Parse a JSON response without its deeply nested content."""
    try:
        return msgspec.json.decode(_shallow(body), type=kind)
    except UNREADABLE as error:
        raise Lost(f"{NONSENSE} ({error})", arrived=True) from error


def _shallow(payload: bytes | memoryview) -> bytes:
    """The document with null in place of content that is nested too deeply for any use. One such
    element would make the whole document unreadable."""
    kept = bytearray()
    level = 0
    start = 0
    whole = bytes(payload)
    for mark in JSON_MARK.finditer(whole):
        match mark[0]:
            case b"[" | b"{":
                level += 1
                if level == _DEPTH:
                    kept += whole[start : mark.start()] + b"null"
            case b"]" | b"}":
                if level == _DEPTH:
                    start = mark.end()
                level -= 1
            case _:
                pass
    return bytes(kept + whole[start:])


def _lost(error: httpx2.HTTPError) -> Lost:
    was_sent = http.was_sent(error)
    if isinstance(error, httpx2.TimeoutException):
        return Lost("it does not answer", arrived=was_sent)
    # The library's message may contain the URL.
    reason = "the connection broke" if was_sent else "no connection can be made"
    return Lost(reason, arrived=was_sent)


class _Hidden(logging.Filter):
    """Drops log records that contain a secret."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not any(secret in message for secret in self.secrets)


_HIDDEN = _Hidden()


def hide(secret: str, *loggers: str) -> None:
    """Drop the log records of these loggers that contain the secret."""
    if secret:
        _HIDDEN.secrets.add(secret)
    for name in loggers:
        logging.getLogger(name).addFilter(_HIDDEN)  # adding it twice has no effect
