"""Updates that a fake pushes through the WebSockets of the bot.

Each goes through one of them, in turn, and comes again until the bot acknowledges it: when the time
for that is over, or at once when its connection is closed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from segue.testing.peers.updates import Make, Pulse, Update, Updates
from segue.testing.websocket import WebSocket


class Pushed(Updates, ABC):
    def __init__(self, pulse: Pulse) -> None:
        super().__init__(pulse)
        self.sockets: list[WebSocket] = []
        """Those that take updates. The first is next."""
        self._leaving: list[WebSocket] = []
        """Those that take none any more, and are still open."""
        self.most = 0
        """The largest number that were open at the same time."""
        self.names: set[str] = set()
        """Those of all deliveries. The bot acknowledges a delivery by its name."""
        self._open: dict[str, tuple[Update, int, WebSocket]] = {}
        self._backlog: list[tuple[Update, int]] = []

    # What each fake implements

    @abstractmethod
    def frame(self, update: Update, attempt: int, name: str) -> str | None:
        """The update under that name, for the first time or again.

        None if it is to be sent as it is, without acknowledgement.
        """

    @abstractmethod
    def patience(self, update: Update) -> tuple[float, Sequence[float]]:
        """The seconds to wait for an acknowledgement, and the pause before each repetition."""

    @abstractmethod
    def gave_up(self, update: Update) -> None: ...

    @abstractmethod
    def take(self, frame: bytes) -> None:
        """Handle what the bot sent."""

    # The bot

    async def serve(self, socket: WebSocket) -> None:
        """Send updates through this connection too, until it is closed."""
        self.sockets.append(socket)
        self.most = max(self.most, self.connections)
        backlog = self._backlog
        self._backlog = []
        for update, attempt in backlog:
            self._deliver(update, attempt)
        self._pulse.beat()
        try:
            while (frame := await socket.receive()) is not None:
                self.take(frame)
        finally:
            self._leave(socket)
            self._leaving = [it for it in self._leaving if it is not socket]
            self._pulse.beat()
            for name, (_, _, through) in tuple(self._open.items()):
                if through is socket:
                    self._overdue(name)

    @property
    def connections(self) -> int:
        """The number that are open."""
        return len(self.sockets) + len(self._leaving)

    def dismiss(self, farewell: str, seconds: float) -> None:
        """Send this through all connections, and no more updates. Close those that stay open."""
        for socket in self._leaving:
            socket.send(farewell)
        for socket in self.sockets:
            socket.send(farewell)
            self._leave(socket)
            self._leaving.append(socket)
            asyncio.get_running_loop().call_later(seconds, socket.close, 1000)

    def _leave(self, socket: WebSocket) -> None:
        self.sockets = [it for it in self.sockets if it is not socket]
        self._pulse.beat()

    def acknowledge(self, name: str) -> Update | None:
        """Return the update that was delivered under that name, unless the bot is too late."""
        update, _, _ = self._open.pop(name, (None, 0, None))
        if update is not None:
            self._remove(update)
        return update

    # Delivery

    def add(self, make: Make) -> None:
        before = self.next
        super().add(make)
        if self.next > before:
            self._deliver(self.waiting[-1], 0)

    def _deliver(self, update: Update, attempt: int) -> None:
        if not self.sockets:
            self._backlog.append((update, attempt))
            return
        socket = self.sockets.pop(0)
        self.sockets.append(socket)
        name = f"{update.number}-{attempt}"
        if (frame := self.frame(update, attempt, name)) is None:
            socket.send(update.frame)
            self._remove(update)
            return
        socket.send(frame)
        self.names.add(name)
        self._open[name] = (update, attempt, socket)
        seconds, _ = self.patience(update)
        asyncio.get_running_loop().call_later(seconds, self._overdue, name)

    def _overdue(self, name: str) -> None:
        """Deliver the update again, or give up."""
        update, attempt, _ = self._open.pop(name, (None, 0, None))
        if update is None:
            return
        _, pauses = self.patience(update)
        if attempt == len(pauses):
            self._remove(update)
            self.gave_up(update)
        elif pauses[attempt]:
            loop = asyncio.get_running_loop()
            loop.call_later(pauses[attempt], self._deliver, update, attempt + 1)
        else:
            self._deliver(update, attempt + 1)

    def _remove(self, update: Update) -> None:
        self.waiting.remove(update)
        self._pulse.beat()
