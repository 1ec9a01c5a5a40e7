"""What a test does on the test platform as its people, and sees there as they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Self

import httpx2
import msgspec

from segue.testing.platform import orders
from segue.testing.platform.client import tls
from segue.testing.platform.orders import Message, Order, Shape, Shown, Thread, Trouble, Upload
from segue.testing.platform.wire import Refusal, Rules

WITHIN = 10.0
"""Seconds that a test waits for what should come."""
_LOOK_SECONDS = 5.0


class OrderRefused(Exception):
    """The test asked the platform for something that is not possible."""


class Hands:
    """People's hands and eyes on the platform; any process may have some, by its control URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(WITHIN + _LOOK_SECONDS), verify=tls(), trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    # People

    async def user(self, name: str, *, bot: bool = False) -> str:
        """A new one; their id."""
        return await self._name(orders.AddUser(name=name, bot=bot))

    async def chat(
        self, shape: Shape, members: Sequence[str], *, name: str = "", topic: str = ""
    ) -> str:
        """A new one, with these and the bot in it; its id."""
        return await self._name(
            orders.AddChat(shape=shape, members=tuple(members), name=name, topic=topic)
        )

    async def say(
        self,
        user: str,
        chat: str,
        text: str,
        *,
        thread: str | None = None,
        files: Sequence[Upload] = (),
    ) -> str:
        """The id of the message."""
        return await self._name(
            orders.Say(user=user, chat=chat, text=text, thread=thread, files=tuple(files))
        )

    async def command(self, user: str, chat: str, text: str, *, thread: str | None = None) -> str:
        """Say what the platform marks as a command; the id of the message."""
        return await self._name(
            orders.Say(user=user, chat=chat, text=text, thread=thread, command=True)
        )

    async def edit(self, message: str, text: str) -> None:
        await self._do(orders.Rewrite(message=message, text=text))

    async def press(self, user: str, message: str, label: str) -> None:
        """Press the button with that label."""
        await self._do(orders.Press(user=user, message=message, label=label))

    async def join(self, user: str, chat: str) -> None:
        """Begin the chat with the bot, or add it there."""
        await self._do(orders.Join(user=user, chat=chat))

    async def delete_thread(self, thread: str) -> None:
        await self._do(orders.DeleteThread(thread=thread))

    # Eyes

    async def look(self, chat: str | None = None) -> Shown:
        """What is there now."""
        return await self._shown(orders.Look(chat=chat))

    async def until(
        self,
        condition: Callable[[Shown], bool],
        *,
        chat: str | None = None,
        within: float = WITHIN,
    ) -> Shown:
        """What is there once the condition holds; AssertionError, with what was there, when it
        does not in time."""
        shown = await self.look(chat)
        try:
            async with asyncio.timeout(within):
                while not condition(shown):
                    shown = await self._shown(
                        orders.Look(after=shown.version, seconds=_LOOK_SECONDS, chat=chat)
                    )
        except TimeoutError:
            raise AssertionError(f"not within {within} s; there is {shown}") from None
        return shown

    async def message(
        self, text: str, *, chat: str | None = None, within: float = WITHIN
    ) -> Message:
        """The newest message with exactly this text, once there is one."""
        shown = await self.until(lambda shown: text in shown.texts, chat=chat, within=within)
        return next(message for message in reversed(shown.messages) if message.text == text)

    async def thread(self, chat: str, *, within: float = WITHIN) -> Thread:
        """The newest thread in that chat, once there is one."""
        shown = await self.until(lambda shown: bool(shown.threads), chat=chat, within=within)
        return shown.threads[-1]

    # The platform itself

    async def rules(self, rules: Rules) -> None:
        """From now on it can do this, and no more."""
        await self._do(orders.SetRules(rules=rules))

    async def fail(
        self,
        method: str,
        trouble: Trouble,
        *,
        times: int = 1,
        seconds: float = 0.05,
        chat: str | None = None,
    ) -> None:
        """Trouble for the next calls of that method."""
        await self._do(
            orders.Fail(method=method, trouble=trouble, times=times, seconds=seconds, chat=chat)
        )

    async def calm(self) -> None:
        """No more trouble; what hangs is cut off."""
        await self._do(orders.Calm())

    async def inject(self, frames: Iterable[str]) -> None:
        """Updates as they are, whatever they are."""
        await self._do(orders.Inject(frames=tuple(frames)))

    async def repeat(self, last: int = 1) -> None:
        """Deliver the last updates once more."""
        await self._do(orders.Repeat(last=last))

    async def hold(self) -> None:
        """Let updates wait."""
        await self._do(orders.Hold())

    async def release(self, *, backwards: bool = False) -> None:
        """Deliver what waits."""
        await self._do(orders.Release(backwards=backwards))

    async def down(self) -> None:
        """The bot's connections are cut, and new ones refused, until `up`."""
        await self._do(orders.Shut())

    async def up(self) -> None:
        await self._do(orders.Open())

    async def clear(self, rules: Rules = Rules()) -> None:  # noqa: B008 - it is frozen
        """Everything as at the start, under these rules."""
        await self._do(orders.Clear(rules=rules))

    async def _do(self, order: Order) -> bytes:
        response = await self._http.post(self._url, content=msgspec.json.encode(order))
        if response.status_code != 200:
            refusal = msgspec.json.decode(response.content, type=Refusal)
            raise OrderRefused(f"{order}: {refusal.reason}")
        return response.content

    async def _name(self, order: Order) -> str:
        return msgspec.json.decode(await self._do(order), type=str)

    async def _shown(self, order: orders.Look) -> Shown:
        return msgspec.json.decode(await self._do(order), type=Shown)
