"""A TLS context that all clients of a test run share."""

from __future__ import annotations

import functools
import ssl

import httpx2


@functools.cache
def tls() -> ssl.SSLContext:
    """Return the context, created once: creating it takes longer than most tests."""
    return httpx2.create_ssl_context(trust_env=False)
