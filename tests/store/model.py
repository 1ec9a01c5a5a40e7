"""Worlds for the state machine of test_model: the real store, and a sketch of it with known flaws.

A World is shared by several terminals and gateways. The sketch is a few dictionaries. Without flaws
it keeps every invariant, and each flaw breaks one, as naive implementations do. So the state
machine must pass with the flawless sketch, and must catch every flaw.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import structs

import segue.store
from segue.core.address import Address, Platform
from segue.core.errors import SessionError, SessionHeld, SessionMoved
from segue.core.session import SECOND, Lease, Origin, Ticks
from segue.handoffs import queries as handoffs
from segue.handoffs.values import MAX_ATTEMPTS, Failure, Handoff, State, Step
from segue.store import Store, bindings, errors, leases, owners, sessions, transcripts
from segue.store.base import Tx
from segue.testing.clock import FakeClock
from tests.fakes import postgres
from tests.harness import stores
from tests.store.samples import said

T = TypeVar("T")

SESSIONS = 2
LEASE = leases.LEASE_SECONDS
CLAIM_LEASE = handoffs.LEASE_SECONDS
CLAIM_WAIT = handoffs.CLAIM_SECONDS


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """A queued notice to users, reduced to what the state machine checks."""

    about: str
    """`stayed` for a thread that expected a session, `moved` for a place that a session left."""
    where: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A session as an observer sees it."""

    epoch: int
    texts: tuple[str, ...]
    address: Address | None
    handoffs: tuple[Handoff, ...]
    lines: tuple[Line, ...]
    """The notices queued about it."""


class Opening(Protocol):
    """One process that has the store open. The method names and errors are those of the store."""

    def acquire(self, session: str, *, take_over: bool) -> Lease: ...
    def resume(self, session: str, address: Address) -> Lease:
        """Take over the lease and move the session here in one transaction."""
        ...

    def renew(self, lease: Lease) -> Lease: ...
    def release(self, lease: Lease) -> bool: ...
    def append(self, lease: Lease, texts: Sequence[str]) -> None: ...
    def request(self, session: str, lease: Lease | None) -> Handoff: ...
    def cancel(self, handoff_id: int) -> bool: ...
    def claim(self, handoff_id: int) -> Handoff | None: ...
    def claim_next(self) -> Handoff | None: ...
    def heartbeat(self, claim: Handoff) -> bool: ...
    def record_step(self, claim: Handoff, step: Step, thread: Address | None) -> bool: ...
    def complete(self, claim: Handoff, address: Address, texts: Sequence[str]) -> bool: ...
    def fail(self, claim: Handoff) -> bool: ...
    def expire(self) -> int: ...
    def crash(self) -> None:
        """Exit without any cleanup in the store."""
        ...


class World(Protocol):
    @property
    def clock(self) -> FakeClock: ...

    @property
    def sessions(self) -> tuple[str, ...]: ...

    def open(self) -> Opening: ...
    def observe(self) -> dict[str, Seen]: ...
    def restart(self) -> bool:
        """Reboot the machine, after all processes have crashed.

        Return whether the clock restarts.
        """
        ...

    def close(self) -> None: ...


# The real store


class StoreOpening:
    def __init__(self, runner: asyncio.Runner, store: Store, opened: list[StoreOpening]) -> None:
        self._runner = runner
        self._opened = opened
        self.store = store

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def acquire(self, session: str, *, take_over: bool) -> Lease:
        return self.run(leases.acquire(self.store, session, "somebody", take_over=take_over))

    def resume(self, session: str, address: Address) -> Lease:
        def work(tx: Tx) -> Lease:
            lease = leases.acquire(tx, session, "somebody", seconds=LEASE, take_over=True)
            bindings.rebind(tx, session, address, Origin.RESUME)
            return lease

        async def write() -> Lease:
            return await self.store.write(work)

        return self.run(write())

    def renew(self, lease: Lease) -> Lease:
        return self.run(leases.renew(self.store, lease))

    def release(self, lease: Lease) -> bool:
        return self.run(leases.release(self.store, lease))

    def append(self, lease: Lease, texts: Sequence[str]) -> None:
        self.run(transcripts.append(self.store, lease, [said(text) for text in texts]))

    def request(self, session: str, lease: Lease | None) -> Handoff:
        return self.run(handoffs.request(self.store, session, Platform.TELEGRAM, lease=lease))

    def cancel(self, handoff_id: int) -> bool:
        return self.run(handoffs.cancel(self.store, handoff_id))

    def claim(self, handoff_id: int) -> Handoff | None:
        return self.run(handoffs.claim(self.store, handoff_id))

    def claim_next(self) -> Handoff | None:
        return self.run(handoffs.claim_next(self.store, [Platform.TELEGRAM]))

    def heartbeat(self, claim: Handoff) -> bool:
        return self.run(handoffs.heartbeat(self.store, claim))

    def record_step(self, claim: Handoff, step: Step, thread: Address | None) -> bool:
        return self.run(handoffs.record_step(self.store, claim, step, thread=thread))

    def complete(self, claim: Handoff, address: Address, texts: Sequence[str]) -> bool:
        messages = [said(text) for text in texts]
        done = self.run(handoffs.complete(self.store, claim, address=address, messages=messages))
        return done is not None

    def fail(self, claim: Handoff) -> bool:
        return self.run(handoffs.fail(self.store, claim, "the platform said no"))

    def expire(self) -> int:
        return self.run(handoffs.expire(self.store))

    def crash(self) -> None:
        self._opened.remove(self)
        self.run(self.store.close())


class StoreWorld:
    """The store at `url`. Each process opens it separately, and so does the observer."""

    def __init__(self, url: str, *, one_machine: bool) -> None:
        self.clock = FakeClock()
        self._one_machine = one_machine
        self._url = url
        self._runner = asyncio.Runner()
        self._opened: list[StoreOpening] = []
        self._observer = self.open()
        self.sessions = tuple(self._observer.run(self._prepare()))

    async def _prepare(self) -> list[str]:
        store = self._observer.store
        await owners.ensure(store, "me")
        made = [await sessions.create(store, "me", Platform.LOCAL) for _ in range(SESSIONS)]
        return [session.id for session in made]

    def open(self) -> StoreOpening:
        store = self._runner.run(segue.store.open(self._url, clock=self.clock))
        opening = StoreOpening(self._runner, store, self._opened)
        self._opened.append(opening)
        return opening

    def observe(self) -> dict[str, Seen]:
        def look(tx: Tx) -> dict[str, Seen]:
            return {session: self._seen(tx, session) for session in self.sessions}

        async def read() -> dict[str, Seen]:
            return await self._observer.store.write(look)

        return self._observer.run(read())

    def _seen(self, tx: Tx, session: str) -> Seen:
        row = tx.row(
            "SELECT s.epoch, b.address FROM sessions s LEFT JOIN bindings b"
            " ON b.session_no = s.no WHERE s.id = :id",
            id=session,
        )
        assert row is not None, "a session is gone"
        queued = tx.rows("SELECT key, address FROM outbox WHERE session_id = :id", id=session)
        return Seen(
            epoch=row[0],
            texts=tuple(message.content for message in transcripts.load(tx, session)),
            address=Address.parse(row[1]) if row[1] else None,
            handoffs=handoffs.history(tx, session, limit=1000),
            lines=tuple(Line(_about(key), address) for key, address in queued),
        )

    def restart(self) -> bool:
        self._observer.crash()
        if self._one_machine:  # with a server, its clock continues
            self.clock.restart()
        self._observer = self.open()
        return self._one_machine

    def close(self) -> None:
        for opening in [*self._opened]:
            opening.crash()
        self._runner.close()


def _about(key: str) -> str:
    if key.startswith("handoff:"):
        return key.rpartition(":")[2]
    return key.partition(":")[0]


def fast_folder() -> Path | None:
    """A folder in memory, for tests that do not depend on the disk."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None


class SqliteWorld(StoreWorld):
    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="segue-model-", dir=fast_folder())
        super().__init__(stores.create(Path(self._folder) / "segue.db"), one_machine=True)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._folder)


class PostgresWorld(StoreWorld):
    def __init__(self, server: postgres.Server) -> None:
        self._database = server.database()
        super().__init__(self._database.__enter__(), one_machine=False)

    def close(self) -> None:
        super().close()
        self._database.__exit__(None, None, None)


# The sketch and its flaws


class Flaw(StrEnum):
    """A check that a naive implementation leaves out."""

    ANYBODY_APPENDS = "append does not look at the epoch"
    TWO_HOLDERS = "acquire does not look for a holder"
    STALE_FINISH = "complete and fail do not look at the fence"
    FINISH_TWICE = "complete and fail do not look at the state"
    BLIND_CANCEL = "cancel does not look at the state"
    TORN_COMPLETE = "complete moves the session before it looks whether it may"
    UNSEEN_CHANGE = "complete does not look whether the session went on"
    MANY_REQUESTS = "request does not look for one in flight"
    GHOSTS = "claim does not look at the deadline"
    STRANDED = "a claim whose gateway died stays for ever"
    WALL_CLOCK = "leases run by the time of day"
    LEFT_WAITING = "the thread of a handoff that failed is not told"
    TOLD_ANYWAY = "whoever finishes a handoff tells its thread, also when it was over already"
    LEFT_WONDERING = "the place that a session left is not told"


NAIVE = frozenset(Flaw) - {Flaw.TORN_COMPLETE}


@dataclass
class SketchSession:
    epoch: int = 0
    lease: Lease | None = None
    texts: list[str] = field(default_factory=list[str])
    address: Address | None = None
    lines: list[Line] = field(default_factory=list[Line])


@dataclass
class SketchWorld:
    """Sessions and handoffs in dictionaries, with the given flaws."""

    flaws: frozenset[Flaw] = frozenset()
    clock: FakeClock = field(default_factory=FakeClock)
    table: dict[str, SketchSession] = field(default_factory=dict[str, SketchSession])
    handoffs: dict[int, Handoff] = field(default_factory=dict[int, Handoff])
    asked: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    told: set[int] = field(default_factory=set[int])
    alive: set[str] = field(default_factory=set[str])
    names: int = 0

    def __post_init__(self) -> None:
        self.table = {f"session {n}": SketchSession() for n in range(SESSIONS)}

    @property
    def sessions(self) -> tuple[str, ...]:
        return tuple(self.table)

    def open(self) -> SketchOpening:
        self.names += 1
        self.alive.add(f"process {self.names}")
        return SketchOpening(self, f"process {self.names}")

    def observe(self) -> dict[str, Seen]:
        return {
            name: Seen(
                session.epoch,
                tuple(session.texts),
                session.address,
                tuple(
                    h
                    for _, h in sorted(self.handoffs.items(), reverse=True)
                    if h.session_id == name
                ),
                tuple(session.lines),
            )
            for name, session in self.table.items()
        }

    def restart(self) -> bool:
        self.clock.restart()
        for session in self.table.values():
            if session.lease:
                session.lease = structs.replace(session.lease, until=Ticks(0))
        for handoff in list(self.handoffs.values()):
            if handoff.in_flight:
                lease = None if handoff.lease_until is None else Ticks(0)
                self.put(handoff, claim_by=Ticks(0), lease_until=lease)
        return True

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def has(self, flaw: Flaw) -> bool:
        return flaw in self.flaws

    def now(self) -> Ticks:
        if self.has(Flaw.WALL_CLOCK):
            return Ticks(int(self.clock.now().timestamp() * SECOND))
        return self.clock.ticks()

    def until(self, seconds: float) -> Ticks:
        return Ticks(self.now() + int(seconds * SECOND))

    def put(self, handoff: Handoff, **changes: Any) -> Handoff:
        self.handoffs[handoff.id] = changed = structs.replace(handoff, **changes)
        return changed

    def gone(self, handoff: Handoff) -> bool:
        if self.has(Flaw.STRANDED) or handoff.lease_until is None:
            return False
        return self.now() >= handoff.lease_until or handoff.claimed_by not in self.alive

    def void(self, handoff: Handoff) -> bool:
        if handoff.state is State.RUNNING and self.has(Flaw.STRANDED):
            return False
        exhausted = handoff.attempt >= MAX_ATTEMPTS and self.gone(handoff)
        return handoff.expired(self.now()) or (handoff.in_flight and exhausted)


@dataclass(frozen=True)
class SketchOpening:
    world: SketchWorld
    name: str

    def alive(self, lease: Lease) -> bool:
        return lease.is_alive(self.world.now()) and lease.process in self.world.alive

    def acquire(self, session: str, *, take_over: bool) -> Lease:
        row = self.world.table[session]
        held = row.lease
        if held and self.alive(held) and not take_over and not self.world.has(Flaw.TWO_HOLDERS):
            raise SessionHeld(holder=held.holder)
        row.epoch += 1
        row.lease = Lease(
            session_id=session,
            holder="somebody",
            process=self.name,
            epoch=row.epoch,
            until=self.world.until(LEASE),
        )
        return row.lease

    def resume(self, session: str, address: Address) -> Lease:
        self._leave(session, address)
        self._move(session, address)
        return self.acquire(session, take_over=True)

    def _leave(self, session: str, address: Address) -> None:
        row = self.world.table[session]
        left = row.address
        told = left and left != address and left.platform is not Platform.LOCAL
        if left and told and not self.world.has(Flaw.LEFT_WONDERING):
            row.lines.append(Line("moved", left.key))

    def renew(self, lease: Lease) -> Lease:
        row = self._own(lease)
        row.lease = structs.replace(lease, until=self.world.until(LEASE))
        return row.lease

    def release(self, lease: Lease) -> bool:
        try:
            self._own(lease).lease = None
        except SessionMoved:
            return False
        return True

    def append(self, lease: Lease, texts: Sequence[str]) -> None:
        if self.world.has(Flaw.ANYBODY_APPENDS):
            self.world.table[lease.session_id].texts += texts
        else:
            self._own(lease).texts += texts

    def _own(self, lease: Lease) -> SketchSession:
        row = self.world.table[lease.session_id]
        if row.lease is None or row.lease.epoch != lease.epoch:
            raise SessionMoved(where="elsewhere", session=lease.session_id)
        return row

    def _move(self, session: str, address: Address) -> None:
        for row in self.world.table.values():
            if row.address == address:
                row.address = None
        self.world.table[session].address = address

    def request(self, session: str, lease: Lease | None) -> Handoff:
        row = self.world.table[session]
        held = row.lease
        if lease is not None:
            self._own(lease)
        elif held and self.alive(held):
            raise SessionHeld(holder=held.holder)
        mine = [h for h in self.world.handoffs.values() if h.session_id == session and h.in_flight]
        if not self.world.has(Flaw.MANY_REQUESTS) and not all(map(self.world.void, mine)):
            raise errors.handoff_in_flight(Platform.TELEGRAM)
        self.expire()
        number = len(self.world.handoffs) + 1
        self.world.asked[number] = row.epoch, len(row.texts)
        self.world.handoffs[number] = Handoff(
            id=number,
            session_id=session,
            platform=Platform.TELEGRAM,
            state=State.PENDING,
            requested=self.world.clock.now(),
            claim_by=self.world.until(CLAIM_WAIT),
            key=str(number),
        )
        return self.world.handoffs[number]

    def cancel(self, handoff_id: int) -> bool:
        handoff = self.world.handoffs[handoff_id]
        if self.world.has(Flaw.TOLD_ANYWAY):
            self._tell(handoff, handoff.thread)
        if not handoff.in_flight and not self.world.has(Flaw.BLIND_CANCEL):
            return False
        self._end(handoff, State.FAILED, failure=Failure.CANCELLED)
        return True

    def claim(self, handoff_id: int) -> Handoff | None:
        handoff = self.world.handoffs[handoff_id]
        late = handoff.expired(self.world.now()) and not self.world.has(Flaw.GHOSTS)
        busy = handoff.state is State.RUNNING and not self.world.gone(handoff)
        if not handoff.in_flight or late or busy or handoff.attempt >= MAX_ATTEMPTS:
            return None
        return self.world.put(
            handoff,
            state=State.RUNNING,
            fence=handoff.fence + 1,
            attempt=handoff.attempt + 1,
            claimed_by=self.name,
            lease_until=self.world.until(CLAIM_LEASE),
            claim_by=self.world.until(CLAIM_LEASE + CLAIM_WAIT),
            step=handoff.step or Step.CLAIMED,
        )

    def claim_next(self) -> Handoff | None:
        waiting = sorted(
            self.world.handoffs.values(), key=lambda h: (h.state is not State.PENDING, h.id)
        )
        return next((claim for h in waiting if (claim := self.claim(h.id))), None)

    def _current(self, claim: Handoff) -> Handoff | None:
        handoff = self.world.handoffs[claim.id]
        if handoff.fence != claim.fence and not self.world.has(Flaw.STALE_FINISH):
            return None
        if handoff.state is not State.RUNNING and not self.world.has(Flaw.FINISH_TWICE):
            return None
        return handoff

    def heartbeat(self, claim: Handoff) -> bool:
        handoff = self.world.handoffs[claim.id]
        if handoff.fence != claim.fence or handoff.state is not State.RUNNING:
            return False
        lease, wait = self.world.until(CLAIM_LEASE), self.world.until(CLAIM_LEASE + CLAIM_WAIT)
        self.world.put(handoff, lease_until=lease, claim_by=wait)
        return True

    def record_step(self, claim: Handoff, step: Step, thread: Address | None) -> bool:
        handoff = self.world.handoffs[claim.id]
        if handoff.fence != claim.fence or handoff.state is not State.RUNNING:
            if handoff.state is State.FAILED and thread:
                self._tell(handoff, thread)
            return False
        self.world.put(handoff, step=step, thread=thread or handoff.thread)
        return True

    def complete(self, claim: Handoff, address: Address, texts: Sequence[str]) -> bool:
        row = self.world.table[claim.session_id]
        same = self.world.asked[claim.id] == (row.epoch, len(row.texts))
        if self.world.has(Flaw.TORN_COMPLETE):
            self._move(claim.session_id, address)
        if (handoff := self._current(claim)) is None:
            return False
        if not same and not self.world.has(Flaw.UNSEEN_CHANGE):
            raise SessionError("The session continued elsewhere during the handoff.")
        self._end(handoff, State.COMPLETED, thread=address)
        for other in self.world.table.values():
            if other.address == address and other is not row:
                other.lines.append(Line("displaced", address.key))
        self._leave(claim.session_id, address)
        self._move(claim.session_id, address)
        row.epoch += 1
        row.lease = None
        row.texts += texts
        return True

    def fail(self, claim: Handoff) -> bool:
        if (handoff := self._current(claim)) is None:
            return False
        self._end(handoff, State.FAILED, failure=Failure.ERROR)
        return True

    def _end(self, handoff: Handoff, state: State, **changes: Any) -> None:
        finished = self.world.clock.now()
        self.world.put(handoff, state=state, lease_until=None, finished=finished, **changes)
        if state is State.FAILED and not self.world.has(Flaw.LEFT_WAITING):
            self._tell(handoff, handoff.thread)

    def _tell(self, handoff: Handoff, thread: Address | None) -> None:
        """Queue the notice once per handoff, as an idempotency key would."""
        if thread and handoff.id not in self.world.told:
            self.world.told.add(handoff.id)
            line = Line("stayed", thread.key)
            self.world.table[handoff.session_id].lines.append(line)

    def expire(self) -> int:
        due = [h for h in self.world.handoffs.values() if h.in_flight and self.world.void(h)]
        for handoff in due:
            failure = Failure.EXPIRED if handoff.state is State.PENDING else Failure.ABANDONED
            self._end(handoff, State.FAILED, failure=failure)
        return len(due)

    def crash(self) -> None:
        self.world.alive.discard(self.name)
