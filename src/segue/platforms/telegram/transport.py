"""The line to Telegram: what can happen to a call, sorted by what the caller must know.

The token is in every URL, so this module lets no URL out of it, in no error and no log.
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

# Such a call never left this machine.
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
    """Telegram said no."""

    def __init__(
        self, status: int, reason: str, *, after: float | None = None, moved_to: int | None = None
    ) -> None:
        """`after`: seconds to wait. `moved_to`: the id that the chat has now."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.after = after
        self.moved_to = moved_to

    def says(self, *fragments: str) -> bool:
        """Whether one of these is in the reason; they are given in small letters."""
        reason = self.reason.lower()
        return any(fragment in reason for fragment in fragments)


class Lost(TelegramError):
    """No answer came that makes sense; `arrived`: the call may have had its effect."""

    def __init__(self, reason: str, *, arrived: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.arrived = arrived


class _Parameters(Struct, frozen=True):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class _Answer(Struct, frozen=True):
    """https://core.telegram.org/bots/api#making-requests, when it is not `ok`."""

    description: str = ""
    parameters: _Parameters = _Parameters()


class Line(HTTPXRequest):
    """What `telegram.Bot` calls Telegram with. Raises Refused or Lost, and nothing else."""

    def __init__(self, *, silence: float, trust_env: bool) -> None:
        """`silence`: seconds without an answer before a call counts as lost. `trust_env`: go
        through the proxy that the environment names."""
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
        """End what is under way as well: a poll would wait for long, and the library forgets those
        calls that are just being connected."""
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
            # A client that was closed meanwhile is a RuntimeError.
            raise Lost("its address makes no sense, or it was closed", arrived=False) from error
        if not 200 <= status <= 299:
            raise _refused(status, payload)
        return status, payload

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """An answer that has half a character in a name, such as msgspec refuses, is an answer."""
        try:
            found = json.loads(payload.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError) as error:
            raise Lost("its answer makes no sense", arrived=True) from error
        if not isinstance(found, dict):
            raise Lost("its answer makes no sense", arrived=True)
        return cast("dict[str, Any]", found)

    async def download(self, url: str, limit: int) -> bytes:
        """The bytes there; Refused when they are more than `limit`."""
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
    """Made once: it takes a while."""
    return httpx.create_ssl_context(trust_env=trust_env)


def _lost(cause: BaseException | None) -> Lost:
    unsent = isinstance(cause, _UNSENT)
    if isinstance(cause, httpx.TimeoutException):
        return Lost("it does not answer", arrived=not unsent)
    # What the library says of a connection names no URL, but only this one is sure not to.
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
    """Keeps lines with a URL of the Bot API out of the log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return _IN_A_URL.search(record.getMessage()) is None


_HUSH = _Hush()


def _hush() -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_HUSH)  # a second time does nothing
