"""What every client of a test would otherwise make for itself."""

from __future__ import annotations

import functools
import ssl

import httpx2


@functools.cache
def tls() -> ssl.SSLContext:
    """Made once: it takes longer than most tests."""
    return httpx2.create_ssl_context(trust_env=False)
