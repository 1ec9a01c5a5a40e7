"""Never two writers, never stuck, never lost: a state machine of everything at once.

Terminals and gateways come, hang, crash and come back; clocks step; requests are cancelled,
claimed, taken over and finished, also by those who no longer may. The machine keeps its own small
account of what was promised, and compares it with the world after every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from segue.core.address import Address, ChatType, Platform
from segue.core.errors import HandoffError, SegueError, SessionError, SessionHeld, SessionMoved
from segue.core.session import SECOND, Lease
from segue.handoffs.values import MAX_ATTEMPTS, Handoff, State, Step
from tests.fakes import postgres
from tests.store.model import (
    CLAIM_LEASE,
    CLAIM_WAIT,
    LEASE,
    NAIVE,
    Flaw,
    Line,
    Opening,
    PostgresWorld,
    SketchWorld,
    SqliteWorld,
    World,
)

T = TypeVar("T")

PICK = st.integers(0, 7)
STEPS = st.sampled_from([Step.OPENING, Step.REPLYING, Step.DELIVERING])
PAUSES = st.sampled_from([1, 10, CLAIM_LEASE + 1, LEASE + 1, CLAIM_LEASE + CLAIM_WAIT + 1])
THREADS = [
    Address(platform=Platform.TELEGRAM, chat_type=ChatType.THREAD, chat_id="1", thread_id=str(n))
    for n in range(2)
]
DESK = Address(platform=Platform.LOCAL, chat_type=ChatType.DM, chat_id="desk")


@dataclass
class Process:
    """A terminal or gateway, and whether it is still there."""

    opening: Opening
    alive: bool = True


@dataclass
class ModelLease:
    """A lease that a process was given, and may still use."""

    by: Process
    lease: Lease
    until: int


@dataclass
class Asked:
    """A handoff as the machine expects it."""

    id: int
    session: str
    epoch: int
    count: int
    claim_by: int
    state: State = State.PENDING
    fence: int = 0
    attempt: int = 0
    by: Process | None = None
    lease_until: int = 0
    thread: Address | None = None
    step: Step | None = None
    told: bool = False
    """Whether a thread knows that the session will not come."""
    ends: list[str] = field(default_factory=list[str])

    @property
    def in_flight(self) -> bool:
        return self.state in (State.PENDING, State.RUNNING)

    def end(self, how: str, state: State) -> None:
        self.ends.append(how)
        self.state = state


@dataclass
class Claim:
    by: Process
    handoff: Handoff
    asked: Asked


class Conversations(RuleBasedStateMachine):
    """Everything that terminals and gateways do to two sessions."""

    def __init__(self, make: Callable[[], World]) -> None:
        super().__init__()
        self.world = make()
        self.clock = self.world.clock
        self.sound = True
        self.said = 0
        self.terminals = [self.start() for _ in range(2)]
        self.gateways = [self.start() for _ in range(2)]
        self.current: dict[str, ModelLease | None] = dict.fromkeys(self.world.sessions)
        self.epochs: dict[str, int] = dict.fromkeys(self.world.sessions, 0)
        self.places: dict[str, Address | None] = dict.fromkeys(self.world.sessions)
        self.logs: dict[str, list[str]] = {session: [] for session in self.world.sessions}
        self.lines: dict[str, list[Line]] = {session: [] for session in self.world.sessions}
        self.leases: list[ModelLease] = []
        self.handoffs: dict[int, Asked] = {}
        self.claims: list[Claim] = []

    def start(self) -> Process:
        return Process(self.world.open())

    def words(self, count: int = 1) -> list[str]:
        """A new text."""
        self.said += count
        return [f"words {self.said - i}" for i in range(count)]

    def session(self, pick: int) -> str:
        return chosen(self.world.sessions, pick)

    # Expected state

    def now(self) -> int:
        return self.clock.ticks()

    def ends(self, seconds: float) -> int:
        return self.now() + int(seconds * SECOND)

    def dead(self, process: Process | None) -> bool:
        return process is not None and not process.alive

    def holder(self, session: str) -> ModelLease | None:
        """The holder, if it is alive and its lease has not expired."""
        held = self.current[session]
        if held is None or self.now() >= held.until or self.dead(held.by):
            return None
        return held

    def gone(self, asked: Asked) -> bool:
        return self.now() >= asked.lease_until or self.dead(asked.by)

    def claimable(self, asked: Asked) -> bool:
        free = asked.state is State.PENDING or (asked.state is State.RUNNING and self.gone(asked))
        return free and self.now() < asked.claim_by and asked.attempt < MAX_ATTEMPTS

    def void(self, asked: Asked) -> bool:
        if not asked.in_flight:
            return False
        exhausted = asked.attempt >= MAX_ATTEMPTS and self.gone(asked)
        return self.now() >= asked.claim_by or (asked.state is State.RUNNING and exhausted)

    def moves(self, session: str, address: Address) -> None:
        for other, place in self.places.items():
            if place == address:
                self.places[other] = None
        self.places[session] = address

    def takes(self, process: Process, lease: Lease) -> None:
        assert lease.epoch > self.epochs[lease.session_id], "an epoch was used again"
        held = ModelLease(process, lease, self.ends(LEASE))
        self.epochs[lease.session_id] = lease.epoch
        self.current[lease.session_id] = held
        self.leases.append(held)

    # Leases

    @rule(who=PICK, which=PICK, take_over=st.booleans())
    def acquire(self, who: int, which: int, take_over: bool) -> None:
        process = chosen([*self.terminals, *self.gateways], who)
        self.take(process, self.session(which), take_over=take_over)

    def take(self, process: Process, session: str, *, take_over: bool) -> None:
        holder = self.holder(session)
        try:
            lease = process.opening.acquire(session, take_over=take_over)
        except SessionHeld:
            assert holder, "a free session was refused"
            assert not take_over, "taking over was refused"
        else:
            assert holder is None or take_over, "a session has two holders"
            self.takes(process, lease)

    @rule(who=PICK, which=PICK)
    def resume(self, who: int, which: int) -> None:
        process, session = chosen(self.terminals, who), self.session(which)
        lease = process.opening.resume(session, DESK)
        self.takes(process, lease)
        self.leaves(session, DESK)
        self.moves(session, DESK)

    def leaves(self, session: str, address: Address) -> None:
        """A chat gets the notice that the session goes from there to `address`."""
        left = self.places[session]
        if left in THREADS and left != address:
            self.lines[session].append(Line("moved", left.key))

    @precondition(lambda self: self.leases)
    @rule(which=PICK, count=st.integers(1, 3))
    def append(self, which: int, count: int) -> None:
        self.say(chosen(self.leases, which), count)

    def say(self, held: ModelLease, count: int) -> None:
        words, session = self.words(count), held.lease.session_id
        mine = self.current[session] is held
        try:
            held.by.opening.append(held.lease, words)
        except SessionMoved:
            assert not mine, "the holder was refused"
        else:
            assert mine, "somebody appended who no longer holds the session"
            self.logs[session] += words

    @precondition(lambda self: self.leases)
    @rule(which=PICK)
    def renew(self, which: int) -> None:
        held = chosen(self.leases, which)
        mine = self.current[held.lease.session_id] is held
        try:
            held.lease = held.by.opening.renew(held.lease)
        except SessionMoved:
            assert not mine, "the holder could not renew"
        else:
            assert mine, "somebody renewed a lease that is no longer theirs"
            held.until = self.ends(LEASE)

    @precondition(lambda self: self.leases)
    @rule(which=PICK)
    def release(self, which: int) -> None:
        held = chosen(self.leases, which)
        mine = self.current[held.lease.session_id] is held
        assert held.by.opening.release(held.lease) == mine, "released somebody else's lease"
        if mine:
            self.current[held.lease.session_id] = None

    # Handoffs, by the terminal

    @rule(who=PICK, which=PICK)
    def request_without_lease(self, who: int, which: int) -> None:
        self.request(chosen(self.terminals, who), self.session(which), None)

    @precondition(lambda self: self.leases)
    @rule(which=PICK)
    def request_under_lease(self, which: int) -> None:
        held = chosen(self.leases, which)
        self.request(held.by, held.lease.session_id, held)

    def request(self, process: Process, session: str, held: ModelLease | None) -> None:
        under_way = [a for a in self.handoffs.values() if a.session == session and a.in_flight]
        try:
            handoff = process.opening.request(session, held.lease if held else None)
        except SessionHeld:
            assert held is None, "the holder was refused"
            assert self.holder(session), "a free session was refused"
        except SessionMoved:
            assert held, "nobody holds it"
            assert self.current[session] is not held, "the holder was refused"
        except HandoffError:
            assert not all(map(self.void, under_way)), "a void handoff stands in the way"
        else:
            assert held is self.current[session] if held else self.holder(session) is None
            assert all(map(self.void, under_way)), "two handoffs of one session"
            assert (handoff.session_id, handoff.state) == (session, State.PENDING)
            self.handoffs[handoff.id] = Asked(
                handoff.id,
                session,
                self.epochs[session],
                len(self.logs[session]),
                self.ends(CLAIM_WAIT),
            )

    @precondition(lambda self: self.handoffs)
    @rule(who=PICK, which=PICK)
    def cancel(self, who: int, which: int) -> None:
        asked = latest(list(self.handoffs.values()), which)
        won = chosen(self.terminals, who).opening.cancel(asked.id)
        assert won == asked.in_flight, f"cancel said {won} of a handoff that is {asked.state}"
        if won:
            self.failed(asked, "cancel")

    def failed(self, asked: Asked, how: str) -> None:
        asked.end(how, State.FAILED)
        self.tell(asked, asked.thread)

    def tell(self, asked: Asked, thread: Address | None) -> None:
        if thread and not asked.told:
            asked.told = True
            self.lines[asked.session].append(Line("stayed", thread.key))

    # Handoffs, by the gateway

    @rule(who=PICK, which=PICK)
    def a_handoff_gets_under_way(self, who: int, which: int) -> None:
        """A rare sequence: one process requests a handoff, and another claims it."""
        session = self.session(which)
        held = self.current[session]
        alive = held if held and held.by.alive else None
        self.request(alive.by if alive else chosen(self.terminals, who), session, alive)
        self.claim_next(who)

    @precondition(lambda self: self.claims)
    @rule(who=PICK, late=st.sampled_from(["", "complete", "fail"]))
    def another_gateway_takes_over(self, who: int, late: str) -> None:
        """The same: a gateway hangs for longer than its claim lasts, another continues, and the
        first comes back and completes."""
        hung = self.claims[-1]
        self.clock.advance(CLAIM_LEASE + 1)
        self.claim(who, 0)
        if late == "complete":
            self.completes(hung, chosen(THREADS, who), self.words())
        elif late == "fail":
            self.fails(hung)

    @precondition(lambda self: self.claims)
    @rule(who=PICK, late=st.booleans())
    def the_session_goes_on_meanwhile(self, who: int, late: bool) -> None:
        """The same: a message is added, or the session resumed, during the handoff."""
        claim = self.claims[-1]
        session = claim.asked.session
        held = self.current[session]
        if held and held.by.alive:
            self.say(held, 1)
        else:
            self.take(chosen(self.terminals, who), session, take_over=True)
        if late:
            self.completes(claim, chosen(THREADS, who), self.words())

    @precondition(lambda self: self.handoffs)
    @rule(who=PICK, which=PICK)
    def claim(self, who: int, which: int) -> None:
        process, asked = chosen(self.gateways, who), latest(list(self.handoffs.values()), which)
        expected = self.claimable(asked)
        handoff = process.opening.claim(asked.id)
        assert (handoff is not None) == expected, f"claim of {asked} gave {handoff}"
        if handoff:
            self.claimed(process, handoff)

    @rule(who=PICK)
    def claim_next(self, who: int) -> None:
        process = chosen(self.gateways, who)
        free = [asked for asked in self.handoffs.values() if self.claimable(asked)]
        handoff = process.opening.claim_next()
        if handoff is None:
            assert not free, f"nobody is given {free}"
            return
        pending = [asked.id for asked in free if asked.state is State.PENDING]
        assert handoff.id in (pending[:1] or [asked.id for asked in free]), "not the oldest"
        self.claimed(process, handoff)

    def claimed(self, process: Process, handoff: Handoff) -> None:
        asked = self.handoffs[handoff.id]
        assert handoff.fence > asked.fence, "a fence was used again"
        assert handoff.thread == asked.thread, "the thread that was opened is forgotten"
        asked.state, asked.by = State.RUNNING, process
        asked.fence, asked.attempt = handoff.fence, asked.attempt + 1
        asked.step = asked.step or Step.CLAIMED
        self.beat(asked)
        self.claims.append(Claim(process, handoff, asked))

    def beat(self, asked: Asked) -> None:
        asked.lease_until = self.ends(CLAIM_LEASE)
        asked.claim_by = self.ends(CLAIM_LEASE + CLAIM_WAIT)

    def newest(self, claim: Claim) -> bool:
        return claim.asked.state is State.RUNNING and claim.asked.fence == claim.handoff.fence

    @precondition(lambda self: self.claims)
    @rule(which=PICK)
    def heartbeat(self, which: int) -> None:
        claim = latest(self.claims, which)
        newest = self.newest(claim)
        assert claim.by.opening.heartbeat(claim.handoff) == newest
        if newest:
            self.beat(claim.asked)

    @precondition(lambda self: self.claims)
    @rule(which=PICK, step=STEPS, thread=st.sampled_from([None, *THREADS]))
    def record_step(self, which: int, step: Step, thread: Address | None) -> None:
        claim = latest(self.claims, which)
        newest = self.newest(claim)
        assert claim.by.opening.record_step(claim.handoff, step, thread) == newest
        if newest:
            claim.asked.step = step
            claim.asked.thread = thread or claim.asked.thread
        elif claim.asked.state is State.FAILED:
            self.tell(claim.asked, thread)

    @precondition(lambda self: self.claims)
    @rule(which=PICK, where=PICK, count=st.integers(0, 2))
    def complete(self, which: int, where: int, count: int) -> None:
        self.completes(latest(self.claims, which), chosen(THREADS, where), self.words(count))

    def completes(self, claim: Claim, address: Address, words: list[str]) -> None:
        asked = claim.asked
        session, newest = asked.session, self.newest(claim)
        same = (self.epochs[session], len(self.logs[session])) == (asked.epoch, asked.count)
        try:
            won = claim.by.opening.complete(claim.handoff, address, words)
        except SessionError as error:
            if "continued elsewhere during the handoff" not in str(error):
                raise
            assert (newest, same) == (True, False), "refused, though nothing had changed"
            return
        assert won == (newest and same), f"complete said {won}; newest {newest}, same {same}"
        if won:
            asked.end("complete", State.COMPLETED)
            asked.thread = address
            self.logs[session] += words
            for other, place in self.places.items():
                if place == address and other != session:
                    self.lines[other].append(Line("displaced", address.key))
            self.leaves(session, address)
            self.moves(session, address)
            self.current[session] = None
            epoch = self.world.observe()[session].epoch
            assert epoch > self.epochs[session], "the session moved, its epoch did not"
            self.epochs[session] = epoch

    @precondition(lambda self: self.claims)
    @rule(which=PICK)
    def fail(self, which: int) -> None:
        self.fails(latest(self.claims, which))

    def fails(self, claim: Claim) -> None:
        newest = self.newest(claim)
        assert claim.by.opening.fail(claim.handoff) == newest, "fail by a stale claim"
        if newest:
            self.failed(claim.asked, "fail")

    # Clocks, crashes and restarts

    @rule(seconds=PAUSES)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(hours=st.sampled_from([-1, 1]))
    def somebody_sets_the_clock(self, hours: int) -> None:
        self.clock.set_wall(self.clock.now() + timedelta(hours=hours))

    @rule(who=PICK)
    def expire(self, who: int) -> None:
        due = sum(self.void(asked) for asked in self.handoffs.values())
        assert chosen(self.gateways, who).opening.expire() == due

    @rule(who=PICK)
    def somebody_crashes(self, who: int) -> None:
        processes = chosen([self.terminals, self.gateways], who)
        place = who // 2 % len(processes)
        self.end(processes[place])
        processes[place] = self.start()

    def end(self, process: Process) -> None:
        process.opening.crash()
        process.alive = False
        self.leases = [held for held in self.leases if held.by is not process]
        self.claims = [claim for claim in self.claims if claim.by is not process]

    @precondition(lambda self: any(self.current.values()) and self.handoffs)
    @rule()
    def the_machine_restarts(self) -> None:
        for process in (*self.terminals, *self.gateways):
            self.end(process)
        if self.world.restart():
            for held in self.current.values():
                if held:
                    held.until = 0
            for asked in self.handoffs.values():
                asked.claim_by = asked.lease_until = 0
        self.terminals = [self.start() for _ in self.terminals]
        self.gateways = [self.start() for _ in self.gateways]

    # Invariants

    @invariant()
    def as_promised(self) -> None:
        self.sound = False
        for session, seen in self.world.observe().items():
            assert list(seen.texts) == self.logs[session], "lost, doubled or out of order"
            assert seen.epoch == self.epochs[session], "the epoch moved by itself"
            assert seen.address == self.places[session], "the binding moved by itself"
            assert sum(h.in_flight for h in seen.handoffs) <= 1, "two handoffs of one session"
            for handoff in seen.handoffs:
                self.compare(self.handoffs[handoff.id], handoff)
            told, promised = sorted(seen.lines), sorted(self.lines[session])
            assert told == promised, "somebody was not told, or told twice, or told wrong"
        self.sound = True

    def compare(self, asked: Asked, handoff: Handoff) -> None:
        if handoff.state is State.FAILED and self.void(asked):
            self.failed(asked, "expire")
        assert handoff.state is asked.state, f"{asked.ends} left it {handoff.state}"
        assert len(asked.ends) == (not asked.in_flight), f"it ended by {asked.ends}"
        assert (handoff.fence, handoff.attempt) == (asked.fence, asked.attempt)
        assert (handoff.step, handoff.thread) == (asked.step, asked.thread)
        assert (handoff.failure is None) == (asked.state is not State.FAILED)

    def teardown(self) -> None:
        try:
            if self.sound:
                self.nobody_is_stuck()
        except SegueError as error:
            raise AssertionError("somebody is stuck") from error
        finally:
            self.world.close()

    def nobody_is_stuck(self) -> None:
        """After any sequence of events, every session can soon be continued and handed off."""
        self.clock.advance(2 * (CLAIM_LEASE + CLAIM_WAIT + LEASE))
        terminal, gateway = self.start(), self.start()
        terminal.opening.expire()
        for n, session in enumerate(self.world.sessions):
            lease = terminal.opening.acquire(session, take_over=False)
            before, after = self.words(2), self.words(2)
            terminal.opening.append(lease, before)
            asked = terminal.opening.request(session, lease)
            claim = gateway.opening.claim_next()
            assert claim, "nobody is given it"
            assert claim.id == asked.id, "stuck behind another handoff"
            assert gateway.opening.complete(claim, THREADS[n], after), "could not be completed"
            self.logs[session] += before + after
        for session, seen in self.world.observe().items():
            assert list(seen.texts) == self.logs[session]
            assert not any(h.in_flight for h in seen.handoffs), "one was left behind"


def chosen(things: Sequence[T], pick: int) -> T:
    return things[pick % len(things)]


def latest(things: Sequence[T], pick: int) -> T:
    """Usually the newest, sometimes an older one."""
    return things[-1 - min(max(pick - 2, 0) // 2, len(things) - 1)]


def play(make: Callable[[], World], *, examples: int, steps: int, known: bool = False) -> None:
    """With `known`, `make fuzz` plays the same examples too."""
    factory: Any = partial(Conversations, make)
    run_state_machine_as_test(
        factory,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=known or settings().derandomize,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            # Add Phase.shrink to see more: on a real store it takes minutes.
            phases=[Phase.generate],
        ),
    )


def test_the_state_machine_finds_the_split_brain_of_a_naive_implementation():
    with pytest.raises(AssertionError):
        play(lambda: SketchWorld(NAIVE), examples=200, steps=50, known=True)


SLOW = {Flaw.TOLD_ANYWAY, Flaw.LEFT_WONDERING}
"""Flaws that are found only after many examples."""


@pytest.mark.parametrize(
    "flaw", [pytest.param(f, marks=pytest.mark.kill) if f in SLOW else f for f in Flaw]
)
def test_the_state_machine_finds_each_single_flaw(flaw: Flaw):
    with pytest.raises(AssertionError):
        play(lambda: SketchWorld(frozenset({flaw})), examples=1000, steps=50, known=True)


def test_the_state_machine_accepts_a_sketch_without_flaws():
    play(SketchWorld, examples=40, steps=50, known=True)


@pytest.mark.timeout(300)
def test_conversations_on_sqlite_are_never_lost_nor_held_twice_nor_stuck(seed: int):
    play(SqliteWorld, examples=200 if seed else 12, steps=50)


@pytest.mark.real
@pytest.mark.timeout(300)
def test_conversations_on_postgresql_are_never_lost_nor_held_twice_nor_stuck(
    postgres_server: postgres.Server, seed: int
):
    play(lambda: PostgresWorld(postgres_server), examples=50 if seed else 8, steps=40)
