"""A fake's two HTTP listeners: one for the bot, one for the test."""

from __future__ import annotations

import contextlib
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import msgspec

from segue.testing import http, websocket
from segue.testing.http import Handler, Request, Response
from segue.testing.peers import signature
from segue.testing.peers.control import Control, Order
from segue.testing.peers.faults import Garble, Malformed, Outage, Outages, Refuse
from segue.testing.peers.snapshot import Called
from segue.testing.peers.state import State
from segue.testing.peers.updates import Pulse
from segue.testing.websocket import Close, WebSocket


class Listener:
    """A loopback address that can be shut: connections are dropped and new ones refused."""

    def __init__(self, port: int = 0) -> None:
        # Bound but never listening, to reserve the port while the listener is shut.
        self._place = http.bind(port)
        self._port: int = self._place.getsockname()[1]
        self._open = contextlib.AsyncExitStack()
        self.url = f"http://127.0.0.1:{self._port}"

    async def open(self, handler: Handler) -> None:
        await self.shut()
        await self._open.enter_async_context(http.serving(handler, http.bind(self._port)))

    async def shut(self) -> None:
        await self._open.aclose()

    async def close(self) -> None:
        """Shut it for good and free the port."""
        await self.shut()
        self._place.close()


Settings = TypeVar("Settings", bound=msgspec.Struct)
AnyState = TypeVar("AnyState", bound=State[Any, Any, Any, Any, Any])
Effect = Callable[[], object]
"""Carries out a call. Returns its result or a whole response, or an awaitable of it, or raises
Refuse."""

_GARBLED = Response(body=b'{"ok": <html>')
_MINE = ("look", "clear", "down", "up", "fail_connections", "recover", "arrivals", "flooded")
"""The actions on the server. All others are the control's."""


@dataclass(slots=True)
class Record:
    """A call in progress."""

    method: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])
    description: str = ""


class Server(ABC, Generic[Settings, AnyState]):
    """Serves the bot at one address, in the platform's protocol, and the test at another."""

    control: type[Control[AnyState]]
    polls: str = ""
    """The method that is recorded only if it fails, because the bot calls it all the time."""

    def __init__(
        self, settings: Settings, *, token: str, port: int = 0, journal: Path | None = None
    ) -> None:
        self.token = token
        self.pulse = Pulse()
        self.state = self.fresh(settings)
        self.outages = Outages()
        self._journal = journal
        self.bot = Listener(port)
        self.test = Listener()

    # What each fake implements

    @abstractmethod
    def fresh(self, settings: Settings) -> AnyState:
        """Return the initial state."""

    @abstractmethod
    def parse(self, request: Request, record: Record) -> tuple[Effect, str | None]:
        """Return the effect of a call, and the call's chat. Raises Refuse or Malformed.

        Sets the method of `record` as soon as it is known, and its parameters.
        """

    @abstractmethod
    def malformed(self, reason: str) -> Refuse: ...

    def envelope(self, result: object) -> object:
        """Return the JSON object in which a result is sent."""
        return result

    async def connect(self, wire: WebSocket, target: str) -> None:
        """Serve a WebSocket that the bot opened at that path, until it is closed."""
        raise Close(1008, f"there is no WebSocket at {target}")

    def receives_updates(self, request: Request) -> bool:
        """Whether the request is for updates: a WebSocket, a poll or a stream."""
        return request.headers.get("upgrade", "").lower() == "websocket"

    def farewell(self, request: Request, outage: Outage) -> Response:
        """The response to a request for updates that begins as it should and ends at once, or is
        one too many. A WebSocket ends in `connect`."""
        return websocket.upgrade(request, functools.partial(self.connect, target=request.target))

    # Serving

    async def open(self) -> None:
        await self.up()
        await self.test.open(self._answer_test)

    async def close(self) -> None:
        self.state.close()
        await self.bot.close()
        await self.test.close()

    async def _answer_bot(self, request: Request) -> Response:
        self.outages.arrive()
        self.pulse.beat()
        is_for_updates = self.receives_updates(request)
        if (outage := self.outages.now) and (is_for_updates or self.outages.everything):
            if outage in (Outage.GOODBYE, Outage.TOO_MANY):
                return self.farewell(request, outage)
            return await self.outages.response()
        if request.headers.get("upgrade", "").lower() == "websocket":
            serve = functools.partial(self.connect, target=request.target)
            return websocket.upgrade(request, serve)
        state = self.state
        record = Record()
        status = 0
        try:
            response = await self._respond(state, request, record)
            status = response.status
        except (Refuse, Malformed) as error:
            refuse = error if isinstance(error, Refuse) else self.malformed(str(error))
            if refuse.mistake:
                state.errors.append(f"{record.method}: {refuse}")
            record.description = str(refuse)
            state.refusals.append(record.description)
            response = refuse.response
            status = refuse.response.status
        except Garble:
            response = _GARBLED
            status = _GARBLED.status
        finally:
            self._note(state, record, status)
        return response

    async def _respond(self, state: AnyState, request: Request, record: Record) -> Response:
        try:
            effect, chat = self.parse(request, record)
        finally:
            state.counts[record.method] += 1
            self.pulse.beat()
        async with state.faults.around(record.method, chat):
            result = effect()
            if inspect.isawaitable(result):
                result = await result
        if isinstance(result, Response):
            return result
        if isinstance(result, bytes):
            return Response(headers={"Content-Type": "application/octet-stream"}, body=result)
        return Response(body=msgspec.json.encode(self.envelope(result)))

    def _note(self, state: AnyState, record: Record, status: int) -> None:
        """Record the call, also in the journal if there is one."""
        self.pulse.beat()
        if record.method == self.polls and status < 400:
            return
        called = Called(
            method=record.method,
            parameters=record.parameters,
            status=status,
            description=record.description,
        )
        state.calls.append(called)
        if self._journal is not None:
            with self._journal.open("ab") as journal:
                journal.write(msgspec.json.encode(called) + b"\n")

    async def _answer_test(self, request: Request) -> Response:
        is_done, answer = await self.obey(request.body)
        status = 200 if is_done else 400
        return Response(status, body=answer)

    async def obey(self, said: bytes) -> tuple[bool, bytes]:
        """Carry out an order given as JSON. Return whether it succeeded, and the answer as JSON."""
        try:
            order = msgspec.json.decode(said, type=Order)
            return True, msgspec.json.encode(await self._obey(order))
        except (msgspec.MsgspecError, Refuse) as refused:
            return False, msgspec.json.encode(str(refused))

    async def _obey(self, order: Order) -> object:
        owner: object = self if order.action in _MINE else self.control(self.state)
        action = getattr(type(owner), order.action)
        result = action(owner, **signature.arguments(action, bytes(order.given)))
        if owner is self:
            return await result
        self.pulse.beat()
        return result

    async def look(self, chat: int | str | None, after: int = -1, seconds: float = 0.0) -> object:
        """Return what is shown once its version exceeds `after`, or when `seconds` have passed."""
        await self.pulse.until(lambda: self.pulse.count > after, seconds)
        return self.state.snapshot(chat)

    async def clear(self, settings: msgspec.Raw) -> None:
        """Reset the fake to its initial state."""
        self.outages.end()
        self.state.faults.calm()
        self.state.close()
        kind = cast("type[Settings]", type(self.state.settings))
        self.state = self.fresh(msgspec.json.decode(settings, type=kind))
        await self.up()

    async def fail_connections(self, outage: Outage, everything: bool) -> None:
        """Drop the bot's connections, and let new ones fail, and `everything` else too."""
        await self.down()
        self.outages.begin(outage, everything=everything)
        if outage is not Outage.REFUSE:
            await self.up()

    async def recover(self) -> None:
        """End what `fail_connections` began."""
        self.outages.end()
        await self.up()

    async def arrivals(self) -> list[float]:
        """The times of the bot's requests since `fail_connections`."""
        return self.outages.arrivals

    async def flooded(self, most: int, seconds: float) -> None:
        """Return after more than so many requests since `fail_connections`, or so many seconds."""
        await self.pulse.until(lambda: len(self.outages.arrivals) > most, seconds)

    async def down(self) -> None:
        """Drop the bot's connections and refuse new ones."""
        await self.bot.shut()

    async def up(self) -> None:
        """Listen for the bot, at the same address as before."""
        self.state.url = self.bot.url
        await self.bot.open(self._answer_bot)
