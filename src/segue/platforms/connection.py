"""The connection of an adapter: its client while connected, and why there is none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from segue.core.errors import ConnectFailed
from segue.platforms.errors import Failures

logger = logging.getLogger(__name__)


class Closable(Protocol):
    """A client: the platform's library, or an HttpClient."""

    async def close(self) -> None:
        """Fail what is under way, and release all resources."""
        ...


C = TypeVar("C", bound=Closable)


class Connection(Generic[C]):
    """One client at a time."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._client: C | None = None
        self._why = "it is not connected"
        self._background: set[asyncio.Task[None]] = set()

    async def connect(self, make: Callable[[], C], greet: Callable[[C], Awaitable[None]]) -> None:
        """Connect, or raise ConnectFailed. `greet` makes the first calls. A client that is open is
        kept: messages may be on their way over it."""
        try:
            with self._failures.connecting():
                await self._connect(make, greet)
        except ConnectFailed as error:
            self._why = str(error.fields["reason"])
            raise

    async def _connect(self, make: Callable[[], C], greet: Callable[[C], Awaitable[None]]) -> None:
        client = self._client or make()
        try:
            await greet(client)
        except BaseException:
            if client is not self._client:
                await client.close()
            raise
        self._client = client

    @property
    def client(self) -> C:
        """The connected client. Raise ConnectFailed with the last reason if there is none."""
        if self._client is None:
            raise self._failures.unreachable(self._why)
        return self._client

    def check(self) -> None:
        """Raise ConnectFailed with the last reason if there is no client."""
        self.client  # noqa: B018

    async def close(self) -> None:
        """Close the client. What is under way fails with Lost. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if self._background:  # they have just failed
            await asyncio.wait(self._background)

    def in_background(self, call: Callable[[C], Awaitable[object]]) -> None:
        """Make a call on which nothing depends. Its failure is logged."""
        task = asyncio.create_task(self._attempt(call))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _attempt(self, call: Callable[[C], Awaitable[object]]) -> None:
        try:
            await call(self.client)
        except (ConnectFailed, *self._failures.all) as error:
            logger.info("call failed platform=%s reason=%s", self._failures.platform, error)
