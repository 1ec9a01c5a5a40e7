"""A gateway with opcodes, as Discord has it: heartbeats, sessions, events, close codes.

A client gets HELLO (10), and sends IDENTIFY (2) or RESUME (6), and heartbeats (1), which are
acknowledged (11). Numbered events (0) follow. The gateway can ask for a heartbeat (1) or for a new
connection (7), and invalidate the session (9).
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.testing.peers import control
from segue.testing.peers.control import Action, AnyShown, Control, Driver, Settings
from segue.testing.peers.faults import Outage, Refuse, Trouble
from segue.testing.peers.snapshot import AnyMessage, AnyThread, Id, Shown
from segue.testing.peers.state import AnyChat, State
from segue.testing.peers.updates import Pulse
from segue.testing.websocket import Close, WebSocket
from tests.fakes.protocols.sessions import Session, SessionUpdates


class Identify(Struct, frozen=True):
    """What the library sends more, such as its name, has no effect here."""

    token: str
    intents: int


class Resume(Struct, frozen=True):
    token: str
    session_id: str
    seq: int


class Payload(Struct, frozen=True):
    op: int
    d: msgspec.Raw = msgspec.Raw(b"null")


class Event(Struct, frozen=True, kw_only=True):
    op: Literal[0] = 0
    t: str
    d: dict[str, Any]
    s: int = 0


class GatewaySession(Session):
    """The events of one IDENTIFY."""

    def __init__(self, gateway: Gateway, name: str, wire: WebSocket, intents: int) -> None:
        super().__init__(name, wire)
        self._gateway = gateway
        self.intents = intents

    def take(self, frame: str) -> None:
        """Send an event with its number, unless the session did not ask for it.

        What is not an event is sent as it is.
        """
        try:
            event = msgspec.json.decode(frame, type=Event)
        except (msgspec.MsgspecError, RecursionError):
            self.push(frame)
            return
        if (wanted := self._gateway.rules.wanted(event, self.intents)) is not None:
            numbered = replace(wanted, s=len(self.frames) + 1)
            super().take(msgspec.json.encode(numbered).decode())

    def tell(self, event: str, data: dict[str, Any]) -> None:
        """Send an event to this session alone."""
        self.take(msgspec.json.encode(Event(t=event, d=data)).decode())


class Gateway(SessionUpdates[GatewaySession]):
    def __init__(self, pulse: Pulse, rules: GatewayState[Any, Any, Any, Any, Any]) -> None:
        super().__init__(pulse)
        self.rules = rules
        self.is_silent = False
        """Heartbeats are not acknowledged."""
        self.missed: set[object] = set()
        """The messages that users wrote while the bot was not connected to its session."""

    def tell(self, event: str, data: dict[str, Any]) -> None:
        """Queue an event for all sessions."""
        self.inject(msgspec.json.encode(Event(t=event, d=data)).decode())

    def miss(self, message: object) -> None:
        """Note a message, if the bot has a session, but is not connected to it."""
        if self.sessions and not self.connected:
            self.missed.add(message)


class GatewaySocket:
    """A connection of the bot. It ends when heartbeats are missing for a while."""

    def __init__(
        self,
        gateway: Gateway,
        wire: WebSocket,
        token: str,
        errors: list[str],
        outage: Outage | None = None,
    ) -> None:
        """`token` is the one with which the bot can identify; none if it is empty. With the outage
        GOODBYE it is closed after HELLO, and with TOO_MANY every session is invalidated after
        READY."""
        self._gateway = gateway
        self._wire = wire
        self._token = token
        self._errors = errors
        self._outage = outage
        self._session: GatewaySession | None = None

    async def serve(self, seconds: float, most: float) -> None:
        """Carry a session until the connection is closed. Heartbeats come every `seconds`, and
        after `most` at the latest."""
        send(self._wire, 10, {"heartbeat_interval": round(seconds * 1000)})
        if self._outage is Outage.GOODBYE:
            raise Close(4000, "Unknown error")
        try:
            async with asyncio.timeout(most) as limit:
                while (data := await self._wire.receive()) is not None:
                    if self._take(data):
                        limit.reschedule(asyncio.get_running_loop().time() + most)
        except TimeoutError:
            # The client must then resume, so the code allows it.
            raise self.mistake(4000, "a heartbeat is missing") from None
        finally:
            self._gateway.leave(self._wire)

    def mistake(self, code: int, reason: str) -> Close:
        """What closes the connection of a client that does what no client should do."""
        self._errors.append(f"gateway: {code} {reason}")
        return Close(code, reason)

    def _take(self, data: bytes) -> bool:
        """Carry out what the client sent. Return whether it was a heartbeat."""
        try:
            payload = msgspec.json.decode(data, type=Payload)
            match payload.op:
                case 1:
                    msgspec.json.decode(payload.d, type=int | None)
                    if not self._gateway.is_silent:
                        send(self._wire, 11)
                case 2:
                    self._identify(msgspec.json.decode(payload.d, type=Identify))
                case 6:
                    self._resume(msgspec.json.decode(payload.d, type=Resume))
                case 3 if self._session is not None:
                    pass  # the bot's presence, which nobody looks at
                case 3 | 4 | 8 if self._session is None:
                    raise self.mistake(4003, "Not authenticated")
                case _:
                    raise self.mistake(4001, f"Unknown opcode {payload.op}")
        except msgspec.MsgspecError as error:
            raise self.mistake(4002, f"Decode error: {error}") from error
        return payload.op == 1

    def _check_token(self, token: str) -> None:
        if self._session is not None:
            raise self.mistake(4005, "Already authenticated")
        if token != self._token or not token:
            raise Close(4004, "Authentication failed")

    def _identify(self, it: Identify) -> None:
        self._check_token(it.token)
        if (refused := self._gateway.rules.identify(it.intents)) is not None:
            raise Close(*refused)
        may_begin = self._gateway.rules.may_begin()
        self._gateway.rules.identified.append(asyncio.get_running_loop().time())
        if not may_begin:
            send(self._wire, 9, data=False)
            return
        name = f"session{time.time_ns():x}"
        session = GatewaySession(self._gateway, name, self._wire, it.intents)
        self._session = self._gateway.begin(session)
        self._gateway.rules.greet(session)
        if self._outage is Outage.TOO_MANY:
            send(self._wire, 9, data=False)
            del self._gateway.sessions[name]

    def _resume(self, it: Resume) -> None:
        self._check_token(it.token)
        session = self._gateway.sessions.get(it.session_id)
        if session is None or self._outage is Outage.TOO_MANY:
            send(self._wire, 9, data=False)
            return
        if it.seq > len(session.frames):
            raise self.mistake(4007, "Invalid seq")
        self._session = session
        self._gateway.missed.clear()
        self._gateway.resume(session, self._wire, it.seq)
        session.tell("RESUMED", {"_trace": []})


def send(wire: WebSocket, op: int, data: object = None) -> None:
    """Send a payload that is not an event."""
    wire.send(msgspec.json.encode({"op": op, "d": data, "s": None, "t": None}).decode())


class GatewayShown(Shown[Id, AnyMessage, AnyThread], frozen=True, kw_only=True):
    connected: int
    """The number of sessions of the bot that are connected to the gateway now."""
    sessions: int
    """The number of sessions, including those that can be resumed."""
    resumed: int
    """How often a session was resumed."""
    identified: int
    """How often the bot asked for a new session."""


class GatewayState(State[Settings, Id, AnyChat, AnyThread, AnyMessage], ABC):
    def __init__(
        self, settings: Settings, pulse: Pulse, refusal: Callable[[Trouble, float], Refuse]
    ) -> None:
        self.gateway = Gateway(pulse, self)
        super().__init__(settings, pulse, self.gateway, refusal)
        self.identified: list[float] = []
        """The time of each IDENTIFY, by the clock of the event loop."""

    def may_begin(self) -> bool:
        """Return whether another session may begin now."""
        return True

    # What each fake implements

    @abstractmethod
    def identify(self, intents: int) -> tuple[int, str] | None:
        """Return the code and the reason with which these intents are refused, or None."""

    @abstractmethod
    def greet(self, session: GatewaySession) -> None:
        """Send the first events of a new session."""

    @abstractmethod
    def wanted(self, event: Event, intents: int) -> Event | None:
        """Return the event as a session with these intents gets it, or None."""

    # What they share

    def shown(self, chat: Id | None, **more: Any) -> Mapping[str, Any]:
        it = self.gateway
        counts = {"connected": it.connected, "sessions": len(it.sessions), "resumed": it.resumed}
        counts["identified"] = len(self.identified)
        return super().shown(chat, **counts, unconfirmed=len(it.missed), **more)


AnyState = TypeVar("AnyState", bound=GatewayState[Any, Any, Any, Any, Any])


class GatewayControl(Control[AnyState], Generic[AnyState]):
    """What a test can do to connections."""

    def cut(self, code: int | None = None, *, forget: bool = False) -> None:
        """Close the bot's connections with that code, or drop them.

        Sessions that the gateway forgets cannot be resumed.
        """
        self.state.gateway.cut(code, forget=forget)

    def signal(self, op: int, *, resumable: bool = False) -> None:
        """Ask the bot for a heartbeat (1) or to reconnect (7), or invalidate its session (9)."""
        for session in self.state.gateway.sessions.values():
            if session.wire is not None:
                send(session.wire, op, resumable if op == 9 else None)
        if op == 9 and not resumable:
            self.state.gateway.sessions.clear()

    def silence(self, *, on: bool = True) -> None:
        """Stop acknowledging heartbeats, or start again."""
        self.state.gateway.is_silent = on


_Connections = GatewayControl[GatewayState[Any, Any, Any, Any, Any]]


class GatewayDriver(Driver[Settings, control.Id, AnyMessage, AnyThread, AnyShown]):
    cut = Action(_Connections.cut)
    signal = Action(_Connections.signal)
    silence = Action(_Connections.silence)
