"""The base class through which a test drives a fake and reads its state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, Self, TypeAlias, TypeVar

import httpx2
import msgspec

from segue.testing.peers import control
from segue.testing.peers.control import Order, Trouble
from segue.testing.peers.tls import tls

WITHIN = 10.0
"""Default timeout of a wait, in seconds."""
_LOOK_SECONDS = 5.0

Obey: TypeAlias = Callable[[bytes], Awaitable[tuple[bool, bytes]]]
"""Carries out an order given as JSON. Returns whether it succeeded, and the answer as JSON."""

T = TypeVar("T")
Chat = TypeVar("Chat")
Message = TypeVar("Message")
Shown = TypeVar("Shown", bound=control.Shown[Any])


class OrderRefused(Exception):
    """The test ordered something impossible."""


class Hands(Generic[Chat, Message, Shown]):
    """Drives a running fake and reads its state. Each fake adds methods for what its users do.

    Any process can connect through the control URL. In the fake's own event loop no URL is needed.
    """

    def __init__(self, to: str | Obey, shown: type[Shown]) -> None:
        """`to` is the control URL, or the function that takes orders in this event loop."""
        self._shown = shown
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

    # Reading

    async def look(self, chat: Chat | None = None) -> Shown:
        """The current state."""
        return await self._ask(control.Look(chat=chat), self._shown)

    async def until(
        self,
        condition: Callable[[Shown], bool],
        *,
        chat: Chat | None = None,
        within: float = WITHIN,
    ) -> Shown:
        """Return the state once the condition holds.

        Raises AssertionError, with the last state, if it does not hold within the timeout.
        """
        shown = await self.look(chat)
        try:
            async with asyncio.timeout(within):
                while not condition(shown):
                    order = control.Look(after=shown.version, seconds=_LOOK_SECONDS, chat=chat)
                    shown = await self._ask(order, self._shown)
        except TimeoutError:
            raise AssertionError(f"not within {within} s; there is {shown}") from None
        return shown

    async def message(
        self, text: str, *, chat: Chat | None = None, within: float = WITHIN
    ) -> Message:
        """Wait for a message with exactly this text and return the newest."""
        shown = await self.until(lambda shown: text in shown.texts, chat=chat, within=within)
        return next(message for message in reversed(shown.messages) if message.text == text)

    # The platform

    async def fail(
        self,
        method: str,
        trouble: Trouble,
        *,
        times: int = 1,
        seconds: float = 0.05,
        chat: Chat | None = None,
    ) -> None:
        """Inject a fault into the next calls of that method."""
        name = None if chat is None else str(chat)
        order = control.Fail(
            method=method, trouble=trouble, times=times, seconds=seconds, chat=name
        )
        await self._do(order)

    async def calm(self) -> None:
        """Remove all faults and drop the connections of hanging calls."""
        await self._do(control.Calm())

    async def inject(self, frames: Iterable[str]) -> None:
        """Deliver these frames as updates without checking them."""
        await self._do(control.Inject(frames=tuple(frames)))

    async def repeat(self, last: int = 1) -> None:
        """Deliver the last updates again."""
        await self._do(control.Repeat(last=last))

    async def hold(self) -> None:
        """Hold updates back until `release`."""
        await self._do(control.Hold())

    async def release(self, *, backwards: bool = False) -> None:
        """Deliver the held updates, in reverse order if `backwards`."""
        await self._do(control.Release(backwards=backwards))

    async def down(self) -> None:
        """Drop the bot's connections and refuse new ones, until `up`."""
        await self._do(control.Shut())

    async def up(self) -> None:
        await self._do(control.Open())

    # Transport

    async def _do(self, order: Order) -> bytes:
        """Send an order and return the answer as JSON. Raises OrderRefused if it is impossible."""
        done, answer = await self._obey(msgspec.json.encode(order))
        if not done:
            raise OrderRefused(f"{order}: {msgspec.json.decode(answer, type=str)}")
        return answer

    async def _ask(self, order: Order, answer: type[T]) -> T:
        return msgspec.json.decode(await self._do(order), type=answer)


class _Far:
    """A fake in another process or another event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(WITHIN + _LOOK_SECONDS), verify=tls(), trust_env=False
        )

    async def obey(self, said: bytes) -> tuple[bool, bytes]:
        response = await self._http.post(self._url, content=said)
        return response.status_code == 200, response.content

    async def close(self) -> None:
        await self._http.aclose()
