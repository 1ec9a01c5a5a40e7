"""What users, chats and the gateway ask of a store, by the public operations alone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from benchmarks.scale import stores, texts
from benchmarks.scale.stores import Size
from benchmarks.store import samples
from segue import store
from segue.core.address import Address, Platform
from segue.core.errors import SessionNotFound
from segue.core.lease import Lease
from segue.core.reset import ResetMode, ResetPolicies, ResetPolicy
from segue.core.session import Session
from segue.store import Store, leases
from segue.store.outbox import Draft

Way = Callable[[], Awaitable[object]]

_POLICIES = ResetPolicies(default=ResetPolicy(mode=ResetMode.IDLE))
_KEPT = timedelta(days=7)
_CHATS = frozenset(Platform) - {Platform.LOCAL, Platform.WEB}
_FEW = 10
_SEED = 28
"""A session with this number, modulo 40, has a title, is on Telegram and was answered there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An open store, and one session in the middle of it."""

    store: Store
    size: Size
    owner: str
    title: str
    address: Address
    receipt: str
    session: Session
    lease: Lease
    keys: itertools.count[int] = field(default_factory=itertools.count)


@contextlib.asynccontextmanager
async def opened(url: str, size: Size) -> AsyncGenerator[Scene]:
    number = size.sessions // 2 // 40 * 40 + _SEED
    owner = stores.owner(number // stores.PER_OWNER if size.has_many_owners else 0)
    address = f"agent:main:telegram:group:-100{number % 40}:{number}"
    title = stores.title(number)
    async with await store.open(url) as s:
        session = await s.sessions.find(owner, title, exact=True)
        lease = await s.leases.acquire(session.id, "a benchmark", take_over=True)
        yield Scene(
            store=s,
            size=size,
            owner=owner,
            title=title,
            address=Address.parse(address),
            receipt=str(number),
            session=session,
            lease=lease,
        )


def reading_and_writing(scene: Scene) -> dict[str, Way]:
    """The operations, by name. None changes what another one costs."""
    s = scene.store
    owner = scene.owner
    now = datetime.now(UTC)

    async def unknown() -> None:
        with contextlib.suppress(SessionNotFound):
            await s.sessions.find(owner, "zanzibar")

    return {
        "search, common word": lambda: s.sessions.search(owner, texts.COMMON),
        "search, rare word": lambda: s.sessions.search(owner, f"ticket {scene.receipt}"),
        "resume by title": lambda: s.sessions.find(owner, scene.title),
        "resume by the start of an id": lambda: s.sessions.find(owner, scene.session.id[:-3]),
        "resume by an unknown name": unknown,
        "list sessions": lambda: s.sessions.list(owner),
        "list sessions of one platform": lambda: s.sessions.list(owner, platform=Platform.SIGNAL),
        "list sessions that have ended": lambda: s.sessions.list(owner, ended=True),
        "list sessions that are open": lambda: s.sessions.list(owner, ended=False),
        "page: list of sessions": lambda: s.page_sessions.list(owner, limit=60),
        "page: search in titles": lambda: s.page_sessions.list(
            owner, limit=_FEW, words=texts.IN_TITLES
        ),
        "page: search in titles, nothing found": lambda: s.page_sessions.list(
            owner, limit=60, words="zanzibar"
        ),
        "count sessions": s.sessions.count,
        "inbox.newest, at every connection": lambda: s.inbox.newest(
            Platform.TELEGRAM, stores.ACCOUNT
        ),
        "bindings.stale, every 30 s": lambda: s.bindings.stale(_POLICIES, UTC, _CHATS),
        "prune the inbox": lambda: s.inbox.prune(now - _KEPT),
        "prune the outbox": lambda: s.outbox.prune(now - _KEPT),
        "leases of a dead process": lambda: s.mark(leases.run_out, "desk-1-00000000"),
        "a reaction": lambda: s.outbox.sent_as(scene.address, scene.receipt),
        "a delivery status": lambda: s.outbox.undelivered(scene.address, "unknown", "It is gone."),
        "append a message": lambda: s.transcripts.append(scene.lease, [samples.message()]),
    }


@contextlib.asynccontextmanager
async def waiting(scene: Scene) -> AsyncGenerator[Way]:
    """Let messages wait for one chat, and yield how one more is queued and the first one sent."""

    async def send() -> None:
        key = f"more:{next(scene.keys)}"
        draft = Draft(key=key, address=Address.parse(stores.BUSY), body="It is done.")
        await scene.store.outbox.enqueue(draft)
        (claimed,) = await scene.store.outbox.claim([Platform.WHATSAPP])
        assert await scene.store.outbox.sent(claimed, "1")

    await scene.store.write(stores.wait_in_line, scene.size.waiting)
    try:
        yield send
    finally:
        await scene.store.write(stores.leave_line)


async def index_for(scene: Scene, seconds: float) -> None:
    """Do a first search for that long: it indexes what is not indexed yet."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await scene.store.sessions.search(scene.owner, texts.COMMON)
