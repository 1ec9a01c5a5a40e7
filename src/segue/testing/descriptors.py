"""A process that has run out of file descriptors, for tests."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Generator


@contextlib.contextmanager
def exhausted() -> Generator[None]:
    """Inside, this process can open nothing more; what is open stays so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
