"""Updates that a fake pushes as server-sent events, without acknowledgement.

An update goes to every client that listens, and is gone. A client that went away is noticed only
when a write to it fails, so it may be handed updates, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from segue.testing.http import Response
from segue.testing.peers import snapshot
from segue.testing.peers.updates import Make, Pulse, Updates


class Settings(snapshot.Settings, frozen=True, kw_only=True):
    on_start: bool = False
    """Whether updates are taken, and lost, while no client listens."""
    keep_alive: float = 15.0
    """Seconds after which a client that hears nothing gets a comment."""
    repeats: bool = False
    """Whether a client that connects gets all earlier updates again. No server does that: it is for
    tests that kill clients, and would lose what a dying one was handed."""


class EventStreams(Updates):
    def __init__(self, pulse: Pulse, settings: Callable[[], Settings]) -> None:
        super().__init__(pulse)
        self._settings = settings
        self.clients: list[asyncio.Queue[str]] = []

    def add(self, make: Make) -> None:
        super().add(make)
        self._hand_over()

    def _hand_over(self) -> None:
        if not self.clients and not self._settings().on_start:
            return
        taken = self.waiting
        self.waiting = []
        for client in self.clients:
            for update in taken:
                client.put_nowait(update.frame)
        self._pulse.beat()

    def listen(self, event: str) -> Response:
        """A response with all updates as events of that name, until the client goes away."""
        return Response(headers={"Content-Type": "text/event-stream"}, body=self._events(event))

    async def _events(self, event: str) -> AsyncGenerator[bytes]:
        queue = asyncio.Queue[str]()
        if self._settings().repeats:
            for update in self.last(self.next):
                if update not in self.waiting:
                    queue.put_nowait(update.frame)
        self.clients.append(queue)
        self._hand_over()
        try:
            while True:
                try:
                    async with asyncio.timeout(self._settings().keep_alive):
                        frame = await queue.get()
                    yield f"event:{event}\ndata:{frame}\n\n".encode(errors="surrogatepass")
                except TimeoutError:
                    yield b":\n"
        finally:
            self.clients.remove(queue)
            self._pulse.beat()
