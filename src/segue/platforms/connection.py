"""The connection of an adapter: its client, the pauses between attempts, and checks of the setup.

The checks use a separate client, so they work without a connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from segue.core.errors import ConnectFailed, SetupNeeded
from segue.platforms.base import Finding
from segue.platforms.errors import Failures, Refused
from segue.system.backoff import Backoff

STEADY_SECONDS = 30.0
"""A connection that lasted this long was a success. A shorter one counts as a failure, even if
updates arrived: a platform that greets and hangs up must not be called without a pause."""
_MAX_POLL_PAUSE = 10.0

logger = logging.getLogger(__name__)


class Closable(Protocol):
    """A client: the platform's library, or an HttpClient."""

    async def close(self) -> None:
        """Cancel running calls, and release all resources."""
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
        """Connect, or raise ConnectFailed. `greet` makes the first calls. An open client is kept,
        because messages may be on their way over it."""
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
        """Close the client. Running calls fail with Lost. Idempotent."""
        client = self._client
        self._client = None
        if client is not None:
            await client.close()
        if self._background:  # they have just failed
            await asyncio.wait(self._background)

    def in_background(self, call: Callable[[C], Awaitable[object]]) -> None:
        """Make a call without waiting for it. A failure is only logged."""
        task = asyncio.create_task(self._attempt(call))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _attempt(self, call: Callable[[C], Awaitable[object]]) -> None:
        try:
            await call(self.client)
        except (ConnectFailed, *self._failures.all) as error:
            logger.info("call failed platform=%s reason=%s", self._failures.platform, error)


class Reconnects:
    """The pauses between the connections of one adapter. However they fail, there are only a few a
    minute."""

    def __init__(
        self, backoff: Backoff | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        """`clock` returns seconds: the event loop's unless it is given."""
        self._backoff = backoff or Backoff()
        self._clock = clock or _loop_time
        self._since: float | None = None

    def begin(self) -> None:
        """Note that a connection is attempted now."""
        self._since = self._clock()

    async def wait(self, failure: Exception | None) -> None:
        """Wait before the next attempt. After SetupNeeded, wait for ever: the caller is cancelled
        when the settings change."""
        if isinstance(failure, SetupNeeded):
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.pause(failure))

    def pause(self, failure: Exception | None, *, at_once: bool = False) -> float:
        """Seconds until the next attempt. With `at_once`, the first one is not delayed."""
        if self._since is not None and self._clock() - self._since >= STEADY_SECONDS:
            self._backoff.reset()
        seconds = self._backoff.next()
        if at_once and self._backoff.attempt == 1:
            seconds = 0.0
        after = failure.after if isinstance(failure, ConnectFailed | Refused) else None
        return max(seconds, after or 0.0)


class PollPace:
    """Pauses between polls that return at once without updates, although the server was asked to
    wait for them. Without pauses, a broken server would be called hundreds of times a second."""

    def __init__(self) -> None:
        self._backoff = Backoff(most=_MAX_POLL_PAUSE)
        self._since = 0.0

    def begin(self) -> None:
        """Note that a poll begins now."""
        self._since = _loop_time()

    async def end(self, seconds: float, *, is_empty: bool) -> None:
        """Note that the poll has returned, and pause if it must not be repeated at once. The server
        was asked to wait for `seconds`."""
        if is_empty and _loop_time() - self._since < seconds / 2:
            await asyncio.sleep(self._backoff.next())
        else:
            self._backoff.reset()


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


# Checks of the setup


def check(ok: object, good: str, bad: str, fix: str, *, vital: bool = False) -> Finding:
    """The finding `good`, or `bad` with its fix."""
    return Finding(True, good) if ok else Finding(False, bad, fix, vital=vital)


async def examine(
    make: Callable[[], C],
    checks: Callable[[C], AsyncGenerator[Finding]],
    failures: Failures,
    no_account: Finding,
) -> list[Finding]:
    """Run the checks with a new client, until one of its calls fails. `no_account` is the finding
    for an account that the platform does not accept."""
    found: list[Finding] = []
    try:
        client = make()
    except ConnectFailed:
        return [no_account]
    try:
        async for finding in checks(client):
            found.append(finding)  # noqa: PERF401 - those before a failure count
    except failures.all as error:
        failure = failures.read(error)
        if isinstance(failure, Refused) and failure.status in (401, 404):
            found.append(no_account)
        else:
            platform = failures.platform
            text = f"{platform.title()} cannot be asked: {failure.reason}."
            fix = f"Check the network, and platforms.{platform}.url if you have set it."
            found.append(Finding(False, text, fix, vital=True))
    finally:
        await client.close()
    return found
