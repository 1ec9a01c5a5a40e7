"""An event loop whose clock jumps to the next timer instead of waiting for it.

Hours of pauses, timeouts and keepalives pass in a second, in code that knows only asyncio. It needs
all parties in this process: what another process or a thread does takes no time on this clock.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

_GRACE = 0.002
"""Seconds for bytes that are on their way through a loopback connection."""


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0
        """Seconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        found = super().select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            return super().select(None)
        found = super().select(_GRACE)
        if not found:
            self.skipped += timeout
        return found


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.skipped
