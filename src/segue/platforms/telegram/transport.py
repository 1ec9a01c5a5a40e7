"""HTTP transport to Telegram. Failures are sorted by what the caller must know.

Every URL contains the token, so no URL leaves this module, in errors or in logs.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
import ssl
from typing import Any, cast

import httpx
import msgspec
from msgspec import Struct
from telegram.error import TelegramError
from telegram.request import HTTPXRequest

TELEGRAM = "https://api.telegram.org"

# With these errors, the request never left this machine.
_UNSENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)
_PREFIX = re.compile(r"(Bad Request|Forbidden|Conflict|Too Many Requests|[\w ]+ Error): ")
_REFUSAL_BYTES = 64 * 1024


class Refused(TelegramError):
    """Telegram rejected the call."""

    def __init__(
        self, status: int, reason: str, *, after: float | None = None, moved_to: int | None = None
    ) -> None:
        """`after`: seconds to wait. `moved_to`: the chat's new id."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.after = after
        self.moved_to = moved_to

    def says(self, *fragments: str) -> bool:
        """Whether the reason contains one of these lower-case fragments."""
        reason = self.reason.lower()
        return any(fragment in reason for fragment in fragments)


class Lost(TelegramError):
    """No valid response. With `arrived`, the call may have had its effect."""

    def __init__(self, reason: str, *, arrived: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.arrived = arrived


class _Parameters(Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class _Answer(Struct, frozen=True):
    """An error response: https://core.telegram.org/bots/api#making-requests."""

    description: str = ""
    parameters: _Parameters = _Parameters()


class Line(HTTPXRequest):
    """The transport of `telegram.Bot`. Raises only Refused or Lost."""

    def __init__(self, *, silence: float, trust_env: bool) -> None:
        """`silence` is the timeout in seconds after which a call counts as lost. With `trust_env`,
        use the proxy from the environment."""
        super().__init__(
            read_timeout=silence,
            write_timeout=silence,
            connect_timeout=silence,
            pool_timeout=silence,
            httpx_kwargs={"trust_env": trust_env, "verify": _tls(trust_env)},
        )
        self._calls: set[asyncio.Task[tuple[int, bytes]]] = set()
        _hush()

    async def shutdown(self) -> None:
        """Also cancel running calls: a poll would wait for a long time, and the library forgets
        calls that are just connecting."""
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await super().shutdown()

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        call = asyncio.ensure_future(super().do_request(*args, **kwargs))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            status, payload = await call
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise
            raise Lost("it was closed", arrived=True) from None
        except TelegramError as error:
            raise _lost(error.__cause__) from error
        except (httpx.InvalidURL, RuntimeError) as error:
            # A client that was closed in the meantime raises RuntimeError.
            raise Lost("its address makes no sense, or it was closed", arrived=False) from error
        if not 200 <= status <= 299:
            raise _refused(status, payload)
        return status, payload

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Decode a response. Tolerates a lone surrogate in a name, which msgspec rejects."""
        try:
            found = json.loads(payload.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError) as error:
            raise Lost("its answer makes no sense", arrived=True) from error
        if not isinstance(found, dict):
            raise Lost("its answer makes no sense", arrived=True)
        return cast("dict[str, Any]", found)

    async def download(self, url: str, limit: int) -> bytes:
        """The content at `url`. Raise Refused if it is larger than `limit`."""
        found = bytearray()
        try:
            async with self._client.stream("GET", url) as response:
                whole = response.status_code == 200
                async for chunk in response.aiter_bytes():
                    found += chunk
                    if len(found) > (limit if whole else _REFUSAL_BYTES):
                        break
        except httpx.HTTPError as error:
            raise _lost(error) from error
        except (httpx.InvalidURL, RuntimeError) as error:
            raise Lost("its address makes no sense, or it was closed", arrived=False) from error
        if not whole:
            raise _refused(response.status_code, bytes(found))
        if len(found) > limit:
            raise Refused(413, f"the file is larger than {limit:,} bytes")
        return bytes(found)


@functools.cache
def _tls(trust_env: bool) -> ssl.SSLContext:
    """Cached, because creating it is slow."""
    return httpx.create_ssl_context(trust_env=trust_env)


def _lost(cause: BaseException | None) -> Lost:
    unsent = isinstance(cause, _UNSENT)
    if isinstance(cause, httpx.TimeoutException):
        return Lost("it does not answer", arrived=not unsent)
    # The library's message contains no URL either, but only ours is guaranteed not to.
    return Lost(
        "no connection can be made" if unsent else "the connection broke", arrived=not unsent
    )


def _refused(status: int, payload: bytes) -> Refused:
    try:
        answer = msgspec.json.decode(payload, type=_Answer)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        answer = _Answer()
    return Refused(
        status,
        _PREFIX.sub("", answer.description, count=1).rstrip(".") or f"HTTP {status}",
        after=answer.parameters.retry_after,
        moved_to=answer.parameters.migrate_to_chat_id,
    )


# Logs


_LOGGERS = ("httpx", "telegram.Bot")
_IN_A_URL = re.compile(r"/bot[^/\s]*\S")


class _Hush(logging.Filter):
    """Drops log records that contain a Bot API URL."""

    def filter(self, record: logging.LogRecord) -> bool:
        return _IN_A_URL.search(record.getMessage()) is None


_HUSH = _Hush()


def _hush() -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_HUSH)  # adding it twice has no effect
