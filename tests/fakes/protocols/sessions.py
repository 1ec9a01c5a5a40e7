"""Updates through connections that a bot can lose and resume: numbered and kept per session."""

from __future__ import annotations

from typing import Generic, TypeVar

from segue.testing.peers.updates import Make, Pulse, Updates
from segue.testing.websocket import WebSocket


class Session:
    """The updates for one client. It has no `wire` while its connection is lost."""

    def __init__(self, name: str, wire: WebSocket) -> None:
        self.name = name
        self.frames: list[str] = []
        self.wire: WebSocket | None = wire

    def take(self, frame: str) -> None:
        """Keep an update, and send it. A fake may change or drop it first."""
        self.frames.append(frame)
        self.push(frame)

    def push(self, frame: str) -> None:
        """Send this without keeping it."""
        if self.wire is not None:
            self.wire.send(frame)

    def resume(self, wire: WebSocket, after: int) -> None:
        """Send the updates after that number again, and all later ones, there."""
        if self.wire is not None:
            self.wire.close(4000, "resumed elsewhere")
        self.wire = wire
        for frame in self.frames[after:]:
            wire.send(frame)


AnySession = TypeVar("AnySession", bound=Session)


class SessionUpdates(Updates, Generic[AnySession]):
    """Each update goes to all sessions at once. Without any it is lost."""

    def __init__(self, pulse: Pulse) -> None:
        super().__init__(pulse)
        self.sessions: dict[str, AnySession] = {}
        self.resumed = 0
        """How often a session was resumed."""

    @property
    def connected(self) -> int:
        """The number of sessions that have a connection."""
        return sum(it.wire is not None for it in self.sessions.values())

    def add(self, make: Make) -> None:
        super().add(make)
        for update in self.waiting:
            for session in self.sessions.values():
                session.take(update.frame)
        self.waiting.clear()

    def begin(self, session: AnySession) -> AnySession:
        """Add a session. A client that begins one has given up those it lost."""
        kept = {name: it for name, it in self.sessions.items() if it.wire is not None}
        self.sessions = {**kept, session.name: session}
        self._pulse.beat()
        return session

    def resume(self, session: AnySession, wire: WebSocket, after: int) -> None:
        """Send the updates after that number again, and all later ones, there."""
        session.resume(wire, after)
        self.resumed += 1
        self._pulse.beat()

    def leave(self, wire: WebSocket) -> None:
        """Keep the session of a closed connection, unless the client ended it."""
        for session in [it for it in self.sessions.values() if it.wire is wire]:
            session.wire = None
            if wire.code in (1000, 1001):
                del self.sessions[session.name]
        self._pulse.beat()

    def cut(self, code: int | None, *, forget: bool) -> None:
        """Close all connections with that code, or drop them. Forget what could be resumed."""
        for session in self.sessions.values():
            if session.wire is None:
                continue
            if code is None:
                session.wire.drop()
            else:
                session.wire.close(code)
        if forget:
            self.sessions.clear()
