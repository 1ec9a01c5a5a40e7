"""A fake's two HTTP listeners: one for the bot, one for the test."""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from segue.testing import http
from segue.testing.http import Handler, Request, Response
from segue.testing.peers import control
from segue.testing.peers.control import Clear, Look, Order
from segue.testing.peers.errors import Refuse
from segue.testing.peers.faults import Faults
from segue.testing.peers.pulse import Pulse

Steps = Mapping[type[Any], Callable[[Any], object]]
"""The handler for each type of order. Its return value is the answer."""


class Door:
    """A loopback address that can be shut: connections are dropped and new ones refused."""

    def __init__(self, port: int = 0) -> None:
        # Bound but never listening, to reserve the port while the door is shut.
        self._place = _bound(port)
        self._port: int = self._place.getsockname()[1]
        self._open = contextlib.AsyncExitStack()
        self.url = f"http://127.0.0.1:{self._port}"

    async def open(self, handler: Handler) -> None:
        await self.shut()
        await self._open.enter_async_context(http.serving(handler, _bound(self._port)))

    async def shut(self) -> None:
        await self._open.aclose()

    async def close(self) -> None:
        """Shut the door for good and free the port."""
        await self.shut()
        self._place.close()


def _bound(port: int) -> socket.socket:
    # asyncio sets TCP_NODELAY only on sockets created with this protocol, so that writes do not
    # wait for each other.
    bound = socket.socket(proto=socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound


class _Updates(Protocol):
    """The updates waiting for the bot."""

    def inject(self, frames: Sequence[str]) -> None: ...
    def repeat(self, last: int) -> None: ...
    def hold(self) -> None: ...
    def release(self, *, backwards: bool) -> None: ...


class World(Protocol):
    """The whole state of a fake."""

    @property
    def faults(self) -> Faults: ...
    @property
    def updates(self) -> _Updates: ...
    def steps(self) -> Steps:
        """The handlers of the orders that only this fake takes."""
        ...

    def shown(self, chat: Any) -> object:
        """The visible state, only of `chat` if it is given."""
        ...


Settings = TypeVar("Settings")
AnyWorld = TypeVar("AnyWorld", bound=World)


class Doors(ABC, Generic[Settings, AnyWorld]):
    """Serves the bot at one door, which each fake implements, and the test at the other."""

    orders: ClassVar[Any]
    """The union of the orders that the test may give."""

    def __init__(
        self, settings: Settings, *, token: str, port: int = 0, journal: Path | None = None
    ) -> None:
        self._token = token
        self._journal = journal
        self._pulse = Pulse()
        self._world = self._fresh(settings)
        self.bot = Door(port)
        self.test = Door()
        self._steps: Mapping[type[Any], Callable[[Any], Awaitable[object]]] = {
            Look: self._look,
            Clear: self._clear,
            control.Shut: lambda _: self.bot.shut(),
            control.Open: lambda _: self._open_to_bot(),
        }
        """The handlers of orders that concern the doors. The world handles the others."""

    @abstractmethod
    def _fresh(self, settings: Settings) -> AnyWorld:
        """Return a world in its initial state."""

    @abstractmethod
    async def _answer_bot(self, request: Request) -> Response: ...

    async def open(self) -> None:
        await self._open_to_bot()
        await self.test.open(self._answer_test)

    async def close(self) -> None:
        await self.bot.close()
        await self.test.close()

    def _note(self, entry: object) -> None:
        """Append an entry to the journal, if there is one."""
        if self._journal is not None:
            with self._journal.open("ab") as journal:
                journal.write(msgspec.json.encode(entry) + b"\n")

    async def _answer_test(self, request: Request) -> Response:
        done, answer = await self.obey(request.body)
        return Response(200 if done else 400, body=answer)

    async def obey(self, said: bytes) -> tuple[bool, bytes]:
        """Carry out an order given as JSON. Return whether it succeeded, and the answer as JSON."""
        try:
            order: Order = msgspec.json.decode(said, type=self.orders)
            return True, msgspec.json.encode(await self._obey(order))
        except (msgspec.MsgspecError, Refuse) as refused:
            return False, msgspec.json.encode(str(refused))

    async def _obey(self, order: Order) -> object:
        if (step := self._steps.get(type(order))) is not None:
            return await step(order)
        steps = {**_shared(self._world.faults, self._world.updates), **self._world.steps()}
        result = steps[type(order)](order)
        self._pulse.beat()
        return result

    async def _look(self, order: Look[Any]) -> object:
        await self._pulse.until(lambda: self._pulse.count > order.after, order.seconds)
        return self._world.shown(order.chat)

    async def _clear(self, order: Clear[Settings]) -> None:
        self._world.faults.calm()
        self._world = self._fresh(order.settings)
        await self._open_to_bot()

    async def _open_to_bot(self) -> None:
        await self.bot.open(self._answer_bot)


def _shared(faults: Faults, updates: _Updates) -> Steps:
    """The handlers of the orders that every fake takes."""
    return {
        control.Fail: faults.order,
        control.Calm: lambda _: faults.calm(),
        control.Inject: lambda order: updates.inject(order.frames),
        control.Repeat: lambda order: updates.repeat(order.last),
        control.Hold: lambda _: updates.hold(),
        control.Release: lambda order: updates.release(backwards=order.backwards),
    }
