"""What users, chats and the gateway ask of a store, by the public operations alone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from benchmarks.scale import stores, texts
from benchmarks.scale.stores import Size
from benchmarks.store import samples
from segue import store
from segue.core.address import Address, Platform
from segue.core.errors import SessionNotFound
from segue.core.reset import ResetMode, ResetPolicies, ResetPolicy
from segue.core.session import Lease, Session
from segue.store import (
    Store,
    bindings,
    deliveries,
    inbox,
    leases,
    outbox,
    page_sessions,
    search,
    sessions,
    transcripts,
)
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
        session = await sessions.find(s, owner, title, exact=True)
        lease = await leases.acquire(s, session.id, "a benchmark", take_over=True)
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
            await sessions.find(s, owner, "zanzibar")

    return {
        "search, common word": lambda: search.messages(s, owner, texts.COMMON),
        "search, rare word": lambda: search.messages(s, owner, f"ticket {scene.receipt}"),
        "resume by title": lambda: sessions.find(s, owner, scene.title),
        "resume by the start of an id": lambda: sessions.find(s, owner, scene.session.id[:-3]),
        "resume by an unknown name": unknown,
        "list sessions": lambda: sessions.list_sessions(s, owner),
        "list sessions of one platform": lambda: sessions.list_sessions(
            s, owner, platform=Platform.SIGNAL
        ),
        "list sessions that have ended": lambda: sessions.list_sessions(s, owner, ended=True),
        "list sessions that are open": lambda: sessions.list_sessions(s, owner, ended=False),
        "page: list of sessions": lambda: page_sessions.list_entries(s, owner, limit=60),
        "page: search in titles": lambda: page_sessions.list_entries(
            s, owner, limit=_FEW, words=texts.IN_TITLES
        ),
        "page: search in titles, nothing found": lambda: page_sessions.list_entries(
            s, owner, limit=60, words="zanzibar"
        ),
        "count sessions": partial(sessions.count, s),
        "inbox.newest, at every connection": lambda: inbox.newest(
            s, Platform.TELEGRAM, stores.ACCOUNT
        ),
        "bindings.stale, every 30 s": lambda: bindings.stale(s, _POLICIES, UTC, _CHATS),
        "prune the inbox": lambda: inbox.prune(s, now - _KEPT),
        "prune the outbox": lambda: outbox.prune(s, now - _KEPT),
        "leases of a dead process": lambda: s.mark(leases.run_out, "desk-1-00000000"),
        "a reaction": lambda: outbox.sent_as(s, scene.address, scene.receipt),
        "a delivery status": lambda: deliveries.undelivered(
            s, scene.address, "unknown", "It is gone."
        ),
        "append a message": lambda: transcripts.append(s, scene.lease, [samples.message()]),
    }


@contextlib.asynccontextmanager
async def waiting(scene: Scene) -> AsyncGenerator[Way]:
    """Let messages wait for one chat, and yield how one more is queued and the first one sent."""

    async def send() -> None:
        key = f"more:{next(scene.keys)}"
        draft = Draft(key=key, address=Address.parse(stores.BUSY), body="It is done.")
        await outbox.enqueue(scene.store, draft)
        (claimed,) = await deliveries.claim(scene.store, [Platform.WHATSAPP])
        assert await deliveries.sent(scene.store, claimed, "1")

    await scene.store.write(stores.wait_in_line, scene.size.waiting)
    try:
        yield send
    finally:
        await scene.store.write(stores.leave_line)


async def index_for(scene: Scene, seconds: float) -> None:
    """Do a first search for that long: it indexes what is not indexed yet."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await search.messages(scene.store, scene.owner, texts.COMMON)
