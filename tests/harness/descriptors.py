"""Simulate a process that has run out of file descriptors."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Generator


@contextlib.contextmanager
def exhausted() -> Generator[None]:
    """Inside the block this process cannot open files or sockets. Open ones keep working."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
