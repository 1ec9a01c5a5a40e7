"""HTTP clients: how they trust and find a server, how much they read of its responses, and what its
errors mean. What a failure means to the caller is for the caller to say.

Imports httpx2, which is slow to import: import this module only where requests are made.
"""

from __future__ import annotations

import functools
import math
import ssl
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx2

_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)


def client(
    base_url: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    limits: httpx2.Limits | None = None,
    trust_env: bool = True,
    follow_redirects: bool = False,
) -> httpx2.AsyncClient:
    """Create a client, which has no timeout unless one is given. With `trust_env`, it uses the
    certificates and the proxies of the environment, except to reach a server on this machine."""
    return httpx2.AsyncClient(
        base_url=base_url,
        headers=headers,
        timeout=timeout,
        limits=limits or httpx2.Limits(max_connections=100, max_keepalive_connections=20),
        verify=tls(trust_env=trust_env),
        trust_env=trust_env,
        mounts=around_proxies(base_url),
        follow_redirects=follow_redirects,
    )


def transport(limits: httpx2.Limits) -> httpx2.AsyncHTTPTransport:
    """Create a bare transport, which costs half of what a client does. It ignores the environment,
    and has no timeouts of its own."""
    return httpx2.AsyncHTTPTransport(tls(trust_env=False), trust_env=False, limits=limits)


@functools.cache
def tls(*, trust_env: bool) -> ssl.SSLContext:
    """The TLS context with the trusted certificates, with `trust_env` those of the environment.
    Creating it takes longer than a request."""
    return httpx2.create_ssl_context(trust_env=trust_env)


def around_proxies(url: str) -> dict[str, None]:
    """Mounts that bypass the environment's proxies for a server on this machine."""
    try:
        host = urlsplit(url).hostname or ""
        is_here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return {}
    if not is_here:
        return {}
    return {f"all://[{host}]" if ":" in host else f"all://{host}": None}


async def read(response: httpx2.Response, limit: int | None = None) -> bytes:
    """Read the body, or its first `limit` bytes."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if limit is not None and len(body) >= limit:
            break
    return bytes(memoryview(body)[:limit])


def was_sent(error: httpx2.HTTPError) -> bool:
    """Whether a request that failed so may have reached its server. Otherwise it never left this
    machine."""
    return not isinstance(error, _UNSENT)


def retry_after(response: httpx2.Response, now: datetime) -> float | None:
    """The seconds that the server asks to wait before the next request. None if it does not."""
    value = response.headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds_until(date: str, now: datetime) -> float:
    """The seconds until a date in the format of HTTP. Not a number if it is none."""
    try:
        return (parsedate_to_datetime(date) - now).total_seconds()
    except (ValueError, TypeError):  # TypeError: it has no time zone
        return math.nan
