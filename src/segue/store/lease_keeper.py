"""Renews the leases of one process, and notices when another process takes one over, or asks for
its session.

One listener and one renewing transaction are enough for any number of held sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Generator, Sequence

from segue.core.errors import SessionError, StoreClosed, StoreError
from segue.core.session import Lease
from segue.store import leases, release_requests
from segue.store.base import Engine, Topic, Tx
from segue.store.release_requests import ReleaseRequest
from segue.store.wake import Waiter

_PAUSE = 1.0
"""Seconds to wait before listening again after a store error."""

logger = logging.getLogger(__name__)


class HeldLease:
    """A session that this process holds. `lost` is set as soon as its lease is known to be lost."""

    def __init__(
        self, lease: Lease, seconds: float, release_request: ReleaseRequest | None = None
    ) -> None:
        self.lease = lease
        self.seconds = seconds
        """How long the lease lasts without renewal."""
        self.lost = asyncio.Event()
        self.moved: SessionError | None = None
        """The error that says where the session is now, once it is lost."""
        self.release_request: ReleaseRequest | None = None
        """The request of another process to let the session go, or None."""
        self.release_requested = asyncio.Event()
        """Set while there is a request."""
        self.release_request_changed = asyncio.Event()
        """Set when there is another request, or none any more. Its reader clears it."""
        self._stops: list[asyncio.Event] = []
        self.note_release_request(release_request)

    @contextlib.contextmanager
    def stopping(self, stop: asyncio.Event) -> Generator[None]:
        """While this context is open, set `stop` as soon as the session is lost, or another process
        asks for it now."""
        self._stops.append(stop)
        if self.lost.is_set():
            stop.set()
        try:
            yield
        finally:
            self._stops.remove(stop)

    def note_release_request(self, request: ReleaseRequest | None) -> None:
        """Record the request for the session. Stop at once unless it waits for a safe point."""
        if request == self.release_request:
            return
        self.release_request = request
        self.release_request_changed.set()
        if request is None:
            self.release_requested.clear()
            return
        self.release_requested.set()
        if request.now:
            for stop in self._stops:
                stop.set()

    def lose(self, moved: SessionError) -> None:
        """Record that the lease is lost, and where the session is now."""
        self.moved = moved
        for event in (self.lost, *self._stops):
            event.set()


class LeaseKeeper:
    """Renews the lease of each held session, from `add` to `remove`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._due: dict[HeldLease, float] = {}
        """When each lease is due for renewal."""
        self._next = 0.0
        self._task: asyncio.Task[None] | None = None
        self._wake: Waiter | None = None

    def add(
        self, lease: Lease, seconds: float, release_request: ReleaseRequest | None = None
    ) -> HeldLease:
        """Renew the lease from now on. `release_request` is the one that there was when the lease
        was acquired."""
        held = HeldLease(lease, seconds, release_request)
        self._put_off(held)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._wake is not None and self._due[held] < self._next:
            self._wake.wake()
        return held

    def remove(self, held: HeldLease) -> None:
        self._due.pop(held, None)

    def _put_off(self, held: HeldLease) -> None:
        self._due[held] = time.monotonic() + held.seconds / 3

    async def _run(self) -> None:
        """Run for as long as there are leases to renew."""
        try:
            while self._due:
                try:
                    async with self._engine.notifier.listen(Topic.LEASES) as self._wake:
                        await self._watch(self._wake)
                except StoreClosed:
                    return
                except StoreError as error:
                    logger.warning("lease changes not watched: %s", error)
                    await asyncio.sleep(_PAUSE)
        finally:
            self._task = self._wake = None

    async def _watch(self, wake: Waiter) -> None:
        while self._due:
            self._next = min(self._due.values())
            woken = await wake.wait(max(0.0, self._next - time.monotonic()))
            now = time.monotonic()
            due = [held for held, at in self._due.items() if at <= now]
            rest = [held for held, at in self._due.items() if at > now] if woken else []
            try:
                await self._check(due, rest)
            except StoreClosed:
                raise
            except StoreError as error:
                # Not fatal: if a lease is lost meanwhile, the epoch check rejects our writes.
                logger.warning("leases not renewed: %s", error)

    async def _check(self, due: Sequence[HeldLease], rest: Sequence[HeldLease]) -> None:
        """Renew the leases that are due, and check that the rest are still ours."""
        for held in due:
            self._put_off(held)
        if due:
            asked = [(held.lease, held.seconds) for held in due]
            self._update(due, await self._engine.mark(_renew, asked))
        if rest:
            asked = [held.lease for held in rest]
            self._update(rest, await self._engine.read(_current, asked))

    def _update(self, asked: Sequence[HeldLease], found: Sequence[_Found]) -> None:
        for held, now in zip(asked, found, strict=True):
            if held not in self._due:  # released meanwhile
                continue
            if isinstance(now, SessionError):
                self.remove(held)
                held.lose(now)
            else:
                held.lease, request = now
                held.note_release_request(request)


_Found = tuple[Lease, ReleaseRequest | None] | SessionError
"""The lease as it is now and the release request for its session, or where the session is if it was
lost."""


def _renew(tx: Tx, asked: Sequence[tuple[Lease, float]]) -> list[_Found]:
    renewed: list[_Found] = []
    requested = release_requests.by_session(tx)
    for lease, seconds in asked:
        try:
            now = leases.renew(tx, lease, seconds=seconds)
        except SessionError as error:  # nothing was changed
            renewed.append(error)
        else:
            renewed.append((now, requested.get(lease.session_id)))
    return renewed


def _current(tx: Tx, asked: Sequence[Lease]) -> list[_Found]:
    sql = f"SELECT 1 FROM sessions WHERE {leases.OURS}"
    requested = release_requests.by_session(tx)
    return [
        (lease, requested.get(lease.session_id))
        if tx.row(sql, **leases.named(lease))
        else leases.moved(tx, lease.session_id)
        for lease in asked
    ]
