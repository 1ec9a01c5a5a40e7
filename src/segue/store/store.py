"""An open store, on which the functions of `sessions`, `inbox` and so on are called."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from segue.store.base import Engine, Topic, Tx
from segue.store.lease_keeper import LeaseKeeper
from segue.store.wake import Waiter

P = ParamSpec("P")
T = TypeVar("T")


class Store:
    """All persistent state, and the only thing that the terminal and the gateway share.

    `await sessions.create(store, …)` runs a function in a transaction of its own, and `write` runs
    several in one.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False
        self.keeper = LeaseKeeper(engine)

    @property
    def process(self) -> str:
        """The unique name of this opening of the store."""
        return self._engine.process

    def listen(self, *topics: Topic) -> AbstractAsyncContextManager[Waiter]:
        """Use as `async with store.listen(Topic.HANDOFFS) as wake: await wake.wait()`."""
        return self._engine.notifier.listen(*topics)

    def write(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Run several operations in one transaction.

        `work(tx, …)` may call the functions of `segue.store.sessions`, `.transcripts`, `.inbox` and
        so on, and must do nothing else.
        """
        return self._engine.write(work, *args, **kwargs)

    def mark(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Like `write`, for marks (which process works on what), which a power cut may undo."""
        return self._engine.mark(work, *args, **kwargs)

    def read(
        self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """Like `write`, for several reads of one consistent snapshot."""
        return self._engine.read(work, *args, **kwargs)

    async def close(self) -> None:
        """Finish pending work and close the store. Idempotent."""
        if not self._closed:
            self._closed = True
            await self._engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
