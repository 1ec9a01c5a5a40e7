"""The test's side of a fake: what a test can do to it, over HTTP or in the fake's event loop.

An action is a method of the fake's `Control`. Its parameters and its result travel as JSON and are
checked against its signature, so it is written once. A `Driver` names it for the test, and reads
what the users see:

    say = Action(Control.say)
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import CoroutineType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeAlias, TypeVar

import httpx2
import msgspec

from segue.system import http
from segue.testing.peers import signature, snapshot
from segue.testing.peers.faults import Fault, Outage, Trouble
from segue.testing.peers.snapshot import Called
from segue.testing.peers.state import State


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of an action, and its parameters."""

    action: str
    given: msgspec.Raw = msgspec.Raw(b"{}")


AnyState = TypeVar("AnyState", bound=State[Any, Any, Any, Any, Any])


class Control(Generic[AnyState]):
    """The actions of a test. Each fake adds those of its users."""

    def __init__(self, state: AnyState) -> None:
        self.state = state

    def fail(
        self,
        method: str,
        trouble: Trouble,
        *,
        times: int = 1,
        seconds: float = 0.05,
        chat: int | str | None = None,
    ) -> None:
        """Inject a fault into the next calls of that method, only in `chat` if it is given."""
        where = None if chat is None else str(chat)
        self.state.faults.add(Fault(method, trouble, times, seconds, where))

    def populate(self, chat: int | str, members: Sequence[int | str]) -> None:
        """Replace the members of a chat, other than the bot."""
        before = self.state.chats[chat]
        self.state.chats[chat] = msgspec.structs.replace(before, members=tuple(members))

    def calm(self) -> None:
        """Remove all faults and drop the connections of hanging calls."""
        self.state.faults.calm()

    def inject(self, frames: Sequence[str]) -> None:
        """Deliver these frames as updates without checking them."""
        for frame in frames:
            self.state.updates.inject(frame)

    def repeat(self, last: int = 1) -> None:
        """Deliver the last updates again."""
        self.state.updates.repeat(last)

    def hold(self) -> None:
        """Hold updates back until `release`."""
        self.state.updates.hold()

    def release(self, *, backwards: bool = False) -> None:
        """Deliver the held updates, in reverse order if `backwards`."""
        self.state.updates.release(backwards=backwards)

    def content(self, file: str) -> bytes:
        """The content of a message's file, by file id."""
        return self.state.files[file][1]

    def calls(self, method: str | None = None) -> list[Called]:
        """The calls so far, without polls; only of `method` if it is given."""
        return [call for call in self.state.calls if method in (None, call.method)]

    def errors(self) -> tuple[str, ...]:
        """The bot's mistakes. Must be empty at the end of every test."""
        return tuple(self.state.errors)


WITHIN = 10.0
"""Default timeout of a wait, in seconds."""
_LOOK_SECONDS = 5.0

Obey: TypeAlias = Callable[[bytes], Awaitable[tuple[bool, bytes]]]
"""Carries out an order given as JSON. Returns whether it succeeded, and the answer as JSON."""

_Shared: TypeAlias = Control[Any]
P = ParamSpec("P")
T = TypeVar("T")
Id = TypeVar("Id", int, str)
Settings = TypeVar("Settings", bound=msgspec.Struct)
AnyMessage = TypeVar("AnyMessage", bound=snapshot.Message[Any])
AnyThread = TypeVar("AnyThread", bound=snapshot.Thread[Any])
AnyShown = TypeVar("AnyShown", bound=snapshot.Shown[Any, Any, Any])


class OrderRefused(Exception):
    """The test ordered something impossible."""


class Action(Generic[P, T]):
    """A method of `Driver` that calls the method of `Control` given here."""

    def __init__(self, do: Callable[Concatenate[Any, P], T]) -> None:
        self._do = do
        self._signature = inspect.signature(do)

    def __get__(
        self, driver: Driver[Any, Any, Any, Any, Any], owner: object = None
    ) -> Callable[P, CoroutineType[Any, Any, T]]:
        def call(*args: P.args, **kwargs: P.kwargs) -> CoroutineType[Any, Any, T]:
            _, *given = self._signature.bind(None, *args, **kwargs).arguments.items()
            return driver.do(self._do.__name__, signature.result(self._do), **dict(given))

        return call


class Driver(Generic[Settings, Id, AnyMessage, AnyThread, AnyShown]):
    """Drives a running fake and reads its state. Each fake adds the actions of its users.

    Any process can connect through the control URL. In the fake's own event loop no URL is needed.
    """

    snapshot: type[AnyShown]

    def __init__(self, to: str | Obey) -> None:
        """`to` is the control URL, or the function that takes orders in this event loop."""
        self._far: _Far | None = None
        if isinstance(to, str):
            self._far = _Far(to)
            to = self._far.obey
        self._obey = to

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._far is not None:
            await self._far.close()

    async def do(self, action: str, result: Any, **given: object) -> Any:
        """Carry out an action and return its result. Raises OrderRefused if it is impossible."""
        order = {"action": action, "given": given}
        done, answer = await self._obey(msgspec.json.encode(order))
        if not done:
            raise OrderRefused(f"{action} {given}: {msgspec.json.decode(answer, type=str)}")
        return msgspec.json.decode(answer, type=result)

    # Reading

    async def look(self, chat: Id | None = None) -> AnyShown:
        """The current state, only of `chat` if it is given."""
        return await self.do("look", self.snapshot, chat=chat)

    async def until(
        self,
        condition: Callable[[AnyShown], bool],
        *,
        chat: Id | None = None,
        within: float = WITHIN,
    ) -> AnyShown:
        """Return the state once the condition holds.

        Raises AssertionError, with the last state, if it does not hold within the timeout.
        """
        shown = await self.look(chat)
        try:
            async with asyncio.timeout(within):
                while not condition(shown):
                    shown = await self.do(
                        "look", self.snapshot, chat=chat, after=shown.version, seconds=_LOOK_SECONDS
                    )
        except TimeoutError:
            raise AssertionError(f"not within {within} s; there is {shown}") from None
        return shown

    async def message(
        self, text: str, *, chat: Id | None = None, within: float = WITHIN
    ) -> AnyMessage:
        """Wait for a message with exactly this text and return the newest."""
        shown = await self.until(lambda shown: text in shown.texts, chat=chat, within=within)
        return next(message for message in reversed(shown.messages) if message.text == text)

    async def thread(self, chat: Id, *, within: float = WITHIN) -> AnyThread:
        """Wait for a thread in that chat and return the newest."""
        shown = await self.until(lambda shown: bool(shown.threads), chat=chat, within=within)
        return shown.threads[-1]

    content = Action(_Shared.content)
    calls = Action(_Shared.calls)
    errors = Action(_Shared.errors)

    # The platform

    fail = Action(_Shared.fail)
    calm = Action(_Shared.calm)
    populate = Action(_Shared.populate)
    repeat = Action(_Shared.repeat)
    hold = Action(_Shared.hold)
    release = Action(_Shared.release)

    async def inject(self, frames: Iterable[str]) -> None:
        """Deliver these frames as updates without checking them."""
        await self.do("inject", None, frames=tuple(frames))

    async def down(self) -> None:
        """Drop the bot's connections and refuse new ones, until `up`."""
        await self.do("down", None)

    async def up(self) -> None:
        """Listen at the same address again."""
        await self.do("up", None)

    async def fail_connections(self, outage: Outage, *, everything: bool = False) -> None:
        """Let connections fail in that way, and all other calls if `everything`, until
        `recover`."""
        await self.do("fail_connections", None, outage=outage, everything=everything)

    async def recover(self) -> None:
        await self.do("recover", None)

    async def arrivals(self) -> list[float]:
        """The times of the bot's requests since `fail_connections`."""
        return await self.do("arrivals", list[float])

    async def flooded(self, most: int, seconds: float) -> None:
        """Wait for more than so many requests since `fail_connections`, but not longer than so many
        seconds."""
        await self.do("flooded", None, most=most, seconds=seconds)

    async def clear(self, settings: Settings | None = None) -> None:
        """Reset the fake to its initial state, with these settings or the default ones."""
        await self.do("clear", None, settings={} if settings is None else settings)


class _Far:
    """A fake in another process or another event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        timeout = httpx2.Timeout(WITHIN + _LOOK_SECONDS)
        self._http = http.client(timeout=timeout, trust_env=False)

    async def obey(self, said: bytes) -> tuple[bool, bytes]:
        response = await self._http.post(self._url, content=said)
        return response.status_code == 200, response.content

    async def close(self) -> None:
        await self._http.aclose()
