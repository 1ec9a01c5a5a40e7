"""What a test does at any fake, and how it sees what is there."""

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
"""Seconds that a test waits for what should come."""
_LOOK_SECONDS = 5.0

Obey: TypeAlias = Callable[[bytes], Awaitable[tuple[bool, bytes]]]
"""Carries out an order: whether that could be done, and the answer. All of it is JSON."""

T = TypeVar("T")
Chat = TypeVar("Chat")
Message = TypeVar("Message")
Shown = TypeVar("Shown", bound=control.Shown[Any])


class OrderRefused(Exception):
    """The test asked for something that is not possible."""


class Hands(Generic[Chat, Message, Shown]):
    """Hands and eyes at a fake that runs; any process may have some, by the control URL, and the
    one in which it runs can do without it. Each fake adds what its people do."""

    def __init__(self, to: str | Obey, shown: type[Shown]) -> None:
        """`to`: the control URL, or what obeys in this event loop."""
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

    # Eyes

    async def look(self, chat: Chat | None = None) -> Shown:
        """What is there now."""
        return await self._ask(control.Look(chat=chat), self._shown)

    async def until(
        self,
        condition: Callable[[Shown], bool],
        *,
        chat: Chat | None = None,
        within: float = WITHIN,
    ) -> Shown:
        """What is there once the condition holds; AssertionError, with what was there, when it
        does not in time."""
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
        """The newest message with exactly this text, once there is one."""
        shown = await self.until(lambda shown: text in shown.texts, chat=chat, within=within)
        return next(message for message in reversed(shown.messages) if message.text == text)

    # The platform itself

    async def fail(
        self,
        method: str,
        trouble: Trouble,
        *,
        times: int = 1,
        seconds: float = 0.05,
        chat: Chat | None = None,
    ) -> None:
        """Trouble for the next calls of that method."""
        name = None if chat is None else str(chat)
        order = control.Fail(
            method=method, trouble=trouble, times=times, seconds=seconds, chat=name
        )
        await self._do(order)

    async def calm(self) -> None:
        """No more trouble; what hangs is cut off."""
        await self._do(control.Calm())

    async def inject(self, frames: Iterable[str]) -> None:
        """Updates as they are, whatever they are."""
        await self._do(control.Inject(frames=tuple(frames)))

    async def repeat(self, last: int = 1) -> None:
        """Deliver the last updates once more."""
        await self._do(control.Repeat(last=last))

    async def hold(self) -> None:
        """Let updates wait."""
        await self._do(control.Hold())

    async def release(self, *, backwards: bool = False) -> None:
        """Deliver what waits."""
        await self._do(control.Release(backwards=backwards))

    async def down(self) -> None:
        """The bot's connections are cut, and new ones refused, until `up`."""
        await self._do(control.Shut())

    async def up(self) -> None:
        await self._do(control.Open())

    # How it is told

    async def _do(self, order: Order) -> bytes:
        """What it is answered, in JSON; OrderRefused when it is not possible."""
        done, answer = await self._obey(msgspec.json.encode(order))
        if not done:
            raise OrderRefused(f"{order}: {msgspec.json.decode(answer, type=str)}")
        return answer

    async def _ask(self, order: Order, answer: type[T]) -> T:
        return msgspec.json.decode(await self._do(order), type=answer)


class _Far:
    """A fake in another process, or in another event loop."""

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
