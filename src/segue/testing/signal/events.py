"""The event stream: HttpServerHandler.java and ServerSentEventSender.java.

An event goes to every client that listens, and is gone. A client that went away is noticed only
when a write to it fails, so it may be handed events, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from segue.testing.peers import Pulse, Updates
from segue.testing.peers.updates import Make

if TYPE_CHECKING:
    from segue.testing.signal.state import State


class Events(Updates):
    def __init__(self, pulse: Pulse, state: State) -> None:
        super().__init__(pulse)
        self._state = state
        self.clients: list[asyncio.Queue[str]] = []

    def add(self, make: Make) -> None:
        super().add(make)
        self._hand_over()

    def _hand_over(self) -> None:
        """Take what waits on Signal's server, if a client listens, or the daemon always does."""
        if not self.clients and not self._state.settings.on_start:
            return
        taken, self.waiting = self.waiting, []
        for client in self.clients:
            for update in taken:
                client.put_nowait(update.frame)
        self._pulse.beat()

    async def listen(self) -> AsyncGenerator[bytes]:
        """The body of a response, until the client goes away."""
        queue = asyncio.Queue[str]()
        if self._state.settings.repeats:
            for update in self.last(self.next):
                if update not in self.waiting:
                    queue.put_nowait(update.frame)
        self.clients.append(queue)
        self._hand_over()
        try:
            while True:
                try:
                    async with asyncio.timeout(self._state.settings.keep_alive):
                        frame = await queue.get()
                    yield f"event:receive\ndata:{frame}\n\n".encode(errors="surrogatepass")
                except TimeoutError:
                    yield b":\n"
        finally:
            self.clients.remove(queue)
            self._pulse.beat()
