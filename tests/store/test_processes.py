"""Processes that are killed, stopped and raced: what one saw committed, every other one finds."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from segue.core.address import Address, ChatType, Platform
from segue.handoffs.values import MAX_ATTEMPTS, State, Step
from segue.store import sqlite
from segue.store.processes import Processes
from tests.fakes import postgres
from tests.store.model import fast_folder
from tests.store.processes import Player, Refused, Troupe, spin, stage_door, until

BEFORE = ["what was asked", "what was answered"]
CONFIRMING = ["you are here now", "I am here, and we were at it"]
LEASE = 60.0
"""Seconds that the claims and leases of killed processes last. No test waits for their end."""
SHORT = 0.3
"""Seconds that those of hung processes last, whose death shows only in their silence."""


def topic(number: int) -> str:
    return Address(
        platform=Platform.TELEGRAM,
        chat_type=ChatType.THREAD,
        chat_id="-100200",
        thread_id=str(number),
    ).key


@pytest.fixture
def folder() -> Generator[Path]:
    """A fast folder: a kill does not lose data that the kernel has."""
    with tempfile.TemporaryDirectory(prefix="segue-", dir=fast_folder()) as folder:
        yield Path(folder)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest, folder: Path) -> Generator[str]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            yield f"sqlite://{folder}/segue.db"
        else:
            server: postgres.Server = request.getfixturevalue("postgres_server")
            yield stack.enter_context(server.database())


@pytest.fixture(scope="module")
def door() -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="segue-") as folder, stage_door(Path(folder)) as door:
        yield door


@pytest.fixture
def troupe(door: str) -> Generator[Troupe]:
    troupe = Troupe(door)
    yield troupe
    troupe.close()


def acquired(player: Player, session: str, *, seconds: float = LEASE) -> int:
    """Acquire the session as soon as it is free."""

    def attempt() -> int | None:
        try:
            return player.ask("acquire", session=session, seconds=seconds)
        except Refused as refused:
            if refused.name != "SessionHeld":
                raise
            return None

    return until(attempt)


def claimed(player: Player, handoff: int) -> dict[str, Any]:
    """Claim the handoff as soon as its former gateway is known to be gone."""
    return until(lambda: player.ask("claim", handoff=handoff))


def settled(player: Player, session: str) -> None:
    """Wait for a commit that a server may still be making for a dead process."""
    with suppress(Refused):  # it has moved the session away
        player.ask("renew", session=session)


def handed_over(troupe: Troupe, url: str) -> tuple[Player, str, int]:
    """A terminal that has requested the handoff of a session with a few messages."""
    terminal = troupe.opened(url)
    session = terminal.ask("session")
    terminal.ask("acquire", session=session, seconds=LEASE)
    terminal.ask("append", session=session, texts=BEFORE)
    return terminal, session, terminal.ask("request", session=session)


def refused(player: Player, do: str, **values: Any) -> str:
    with pytest.raises(Refused) as error:
        player.ask(do, **values)
    return error.value.name


# kill -9


class TestAKilledGateway:
    STEPS = ("claimed", "thread opened", "replying", "delivering")

    @pytest.mark.parametrize("steps", range(4), ids=STEPS)
    def test_is_replaced_by_one_that_continues_from_the_recorded_step(
        self, troupe: Troupe, url: str, steps: int
    ):
        terminal, session, handoff = handed_over(troupe, url)
        first, second = troupe.opened(url), troupe.opened(url)
        first.ask("claim", handoff=handoff, seconds=LEASE)
        recorded, thread = self._proceed(first, handoff, steps)
        first.kill()

        claim = claimed(second, handoff)

        assert claim == {"step": recorded, "thread": thread, "attempt": 2}
        thread = thread or topic(2)
        assert second.ask("complete", handoff=handoff, thread=thread, texts=CONFIRMING)
        self._check(terminal, session, thread)

    def _proceed(self, gateway: Player, handoff: int, steps: int) -> tuple[str, str | None]:
        names = [Step.OPENING, Step.REPLYING, Step.DELIVERING][:steps]
        for step in names:
            thread = topic(1) if step is Step.OPENING else None
            assert gateway.ask("step", handoff=handoff, step=step, thread=thread)
        return (names[-1], topic(1)) if names else (Step.CLAIMED, None)

    def _check(self, terminal: Player, session: str, thread: str) -> None:
        assert terminal.ask("state", session=session) == State.COMPLETED
        assert terminal.ask("load", session=session) == BEFORE + CONFIRMING
        assert terminal.ask("where", session=session) == thread
        assert refused(terminal, "append", session=session, texts=["late"]) == "SessionMoved"

    def test_right_before_its_commit_has_moved_nothing(self, troupe: Troupe, url: str):
        terminal, session, handoff = handed_over(troupe, url)
        first, second = troupe.opened(url), troupe.opened(url)
        first.ask("claim", handoff=handoff, seconds=LEASE)
        self._proceed(first, handoff, 3)
        first.tell("complete_and_hang", handoff=handoff, thread=topic(1), texts=CONFIRMING)
        assert first.hear() == {"hanging": True}
        first.kill()

        assert terminal.ask("state", session=session) == State.RUNNING
        assert terminal.ask("load", session=session) == BEFORE
        assert terminal.ask("where", session=session) is None

        claim = claimed(second, handoff)
        assert claim == {"step": Step.DELIVERING, "thread": topic(1), "attempt": 2}
        assert second.ask("complete", handoff=handoff, thread=topic(1), texts=CONFIRMING)
        self._check(terminal, session, topic(1))

    def test_right_after_its_commit_has_moved_everything(self, troupe: Troupe, url: str):
        terminal, session, handoff = handed_over(troupe, url)
        first, second = troupe.opened(url), troupe.opened(url)
        first.ask("claim", handoff=handoff, seconds=0)
        assert first.ask("complete", handoff=handoff, thread=topic(1), texts=CONFIRMING)
        first.kill()

        assert second.ask("claim", handoff=handoff) is None
        self._check(terminal, session, topic(1))

    def test_at_any_moment_has_moved_everything_or_nothing(
        self, troupe: Troupe, url: str, seed: int
    ):
        terminal, second = troupe.opened(url), troupe.opened(url)
        chance = random.Random(seed)
        whole = 0.0
        for n in range(100 if seed else 6):
            session = terminal.ask("session")
            terminal.ask("acquire", session=session, seconds=60)
            terminal.ask("append", session=session, texts=BEFORE)
            handoff = terminal.ask("request", session=session)
            first = troupe.opened(url)
            begun = time.perf_counter()
            if n == 0:  # how long it takes
                assert first.ask("carry_out", handoff=handoff, thread=topic(n), texts=CONFIRMING)
                whole = time.perf_counter() - begun
                continue
            first.tell("carry_out", handoff=handoff, thread=topic(n), texts=CONFIRMING)
            spin(chance.uniform(0, 1.2 * whole))
            first.kill()
            settled(terminal, session)
            state = terminal.ask("state", session=session)
            if state != State.COMPLETED:
                assert terminal.ask("load", session=session) == BEFORE
                assert terminal.ask("where", session=session) is None
                if not url.startswith("sqlite"):
                    continue  # its claim takes a minute to expire there
                claimed(second, handoff)
                assert second.ask("complete", handoff=handoff, thread=topic(n), texts=CONFIRMING)
            self._check(terminal, session, topic(n))

    def test_three_times_in_a_row_fails_the_handoff(self, troupe: Troupe, url: str):
        terminal, session, handoff = handed_over(troupe, url)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            gateway = troupe.opened(url)
            claim = until(lambda g=gateway: g.ask("claim", handoff=handoff, seconds=LEASE))
            assert claim["attempt"] == attempt
            gateway.kill()
        until(lambda: terminal.ask("state", session=session) == State.FAILED)
        assert terminal.ask("load", session=session) == BEFORE
        terminal.ask("append", session=session, texts=["still here"])
        assert terminal.ask("request", session=session) != handoff


class TestAKilledTerminal:
    def test_leaves_a_session_that_another_process_can_acquire(self, troupe: Troupe, url: str):
        first, second = troupe.opened(url), troupe.opened(url)
        session = first.ask("session")
        first.ask("acquire", session=session, seconds=LEASE)
        first.kill()
        acquired(second, session)
        second.ask("append", session=session, texts=BEFORE)
        assert second.ask("load", session=session) == BEFORE

    def test_leaves_the_messages_that_it_appended(self, troupe: Troupe, url: str):
        first, second = troupe.opened(url), troupe.opened(url)
        session = first.ask("session")
        first.ask("acquire", session=session, seconds=LEASE)
        first.ask("append", session=session, texts=BEFORE)
        first.kill()
        acquired(second, session)
        second.ask("append", session=session, texts=["and on"])
        assert second.ask("load", session=session) == [*BEFORE, "and on"]

    def test_during_the_request_has_requested_nothing(self, troupe: Troupe, url: str):
        first, second = troupe.opened(url), troupe.opened(url)
        session = first.ask("session")
        first.ask("acquire", session=session, seconds=LEASE)
        first.tell("request_and_hang", session=session)
        assert first.hear() == {"hanging": True}
        first.kill()
        assert second.ask("state", session=session) is None
        assert second.ask("pending") == 0
        acquired(second, session)
        assert second.ask("request", session=session)

    def test_after_the_request_does_not_stop_the_handoff(self, troupe: Troupe, url: str):
        first, session, handoff = handed_over(troupe, url)
        gateway = troupe.opened(url)
        first.kill()
        assert gateway.ask("carry_out", handoff=handoff, thread=topic(1), texts=CONFIRMING)
        self._check(gateway, session, State.COMPLETED, BEFORE + CONFIRMING)

    def test_while_the_gateway_works_does_not_stop_the_handoff(self, troupe: Troupe, url: str):
        first, session, handoff = handed_over(troupe, url)
        gateway = troupe.opened(url)
        gateway.ask("claim", handoff=handoff)
        first.kill()
        assert gateway.ask("complete", handoff=handoff, thread=topic(1), texts=CONFIRMING)
        self._check(gateway, session, State.COMPLETED, BEFORE + CONFIRMING)

    def test_during_the_cancellation_has_cancelled_nothing(self, troupe: Troupe, url: str):
        first, session, handoff = handed_over(troupe, url)
        gateway = troupe.opened(url)
        gateway.ask("claim", handoff=handoff)
        first.tell("cancel_and_hang", handoff=handoff)
        assert first.hear() == {"hanging": True}
        first.kill()
        assert gateway.ask("complete", handoff=handoff, thread=topic(1), texts=CONFIRMING)
        self._check(gateway, session, State.COMPLETED, BEFORE + CONFIRMING)

    def test_after_the_cancellation_has_cancelled_the_handoff(self, troupe: Troupe, url: str):
        first, session, handoff = handed_over(troupe, url)
        gateway = troupe.opened(url)
        gateway.ask("claim", handoff=handoff)
        assert first.ask("cancel", handoff=handoff)
        first.kill()
        assert not gateway.ask("complete", handoff=handoff, thread=topic(1), texts=CONFIRMING)
        self._check(gateway, session, State.FAILED, BEFORE)

    def test_after_the_commit_changes_nothing(self, troupe: Troupe, url: str):
        first, session, handoff = handed_over(troupe, url)
        gateway = troupe.opened(url)
        assert gateway.ask("carry_out", handoff=handoff, thread=topic(1), texts=CONFIRMING)
        first.kill()
        self._check(gateway, session, State.COMPLETED, BEFORE + CONFIRMING)

    def _check(self, witness: Player, session: str, state: State, texts: list[str]) -> None:
        assert witness.ask("state", session=session) == state
        assert witness.ask("load", session=session) == texts
        acquired(witness, session)  # the next process can continue
        witness.ask("append", session=session, texts=["and on"])
        assert witness.ask("load", session=session) == [*texts, "and on"]


def test_a_write_that_a_killed_process_saw_committed_is_kept(troupe: Troupe, url: str, seed: int):
    witness = troupe.opened(url)
    session = witness.ask("session")
    chance = random.Random(seed)
    kept = 0
    for _ in range(100 if seed else 10):
        writer = troupe.opened(url)
        writer.ask("acquire", session=session, take_over=True)
        writer.tell("append_for_ever", session=session, first=kept)
        for _ in range(chance.randrange(1, 15)):
            kept = writer.hear()["kept"] + 1
        spin(chance.uniform(0, 0.002))
        writer.kill()
        kept += len(writer.rest())
        # The server may still be at the last append of the dead process: the next holder waits.
        witness.ask("acquire", session=session, take_over=True)
        found = witness.ask("load", session=session)
        assert found == [str(n) for n in range(len(found))]
        assert len(found) in (kept, kept + 1), "acknowledged, and not kept"
        kept = len(found)


# SIGSTOP


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "not yet finished"])
def test_a_gateway_that_hung_past_its_claim_changes_nothing(
    troupe: Troupe, url: str, finished: bool
):
    terminal, session, handoff = handed_over(troupe, url)
    stale, second = troupe.opened(url), troupe.opened(url)
    stale.ask("claim", handoff=handoff, seconds=SHORT)
    stale.ask("step", handoff=handoff, step=Step.OPENING, thread=topic(1))
    stale.stop()
    assert claimed(second, handoff)["thread"] == topic(1)
    complete = {"handoff": handoff, "thread": topic(1), "texts": CONFIRMING}
    if finished:
        assert second.ask("complete", **complete)
    stale.go_on()

    assert not stale.ask("heartbeat", handoff=handoff)
    assert not stale.ask("step", handoff=handoff, step=Step.REPLYING)
    assert not stale.ask("complete", handoff=handoff, thread=topic(2), texts=["stale"])
    assert not stale.ask("fail", handoff=handoff)

    if not finished:
        assert terminal.ask("state", session=session) == State.RUNNING
        assert second.ask("complete", **complete)
    assert terminal.ask("state", session=session) == State.COMPLETED
    assert terminal.ask("load", session=session) == BEFORE + CONFIRMING
    assert terminal.ask("where", session=session) == topic(1)


def test_a_gateway_that_hung_in_its_commit_completes_everything_or_nothing(
    troupe: Troupe, url: str
):
    terminal, session, handoff = handed_over(troupe, url)
    stale, second = troupe.opened(url), troupe.opened(url)
    stale.ask("claim", handoff=handoff, seconds=0)  # whose claim expires at once
    stale.tell("complete_and_stop", handoff=handoff, thread=topic(1), texts=CONFIRMING)
    stale.stopped()
    second.tell("claim", handoff=handoff)  # has to wait
    stale.go_on()
    stale.answer()
    assert second.answer() is None
    assert terminal.ask("state", session=session) == State.COMPLETED
    assert terminal.ask("load", session=session) == BEFORE + CONFIRMING


def test_a_terminal_that_hung_past_its_lease_gets_session_moved(troupe: Troupe, url: str):
    stale, second = troupe.opened(url), troupe.opened(url)
    session = stale.ask("session")
    stale.ask("acquire", session=session, seconds=SHORT)
    stale.ask("append", session=session, texts=["mine"])
    stale.stop()
    acquired(second, session)
    second.ask("append", session=session, texts=["now mine"])
    stale.go_on()
    assert refused(stale, "append", session=session, texts=["stale"]) == "SessionMoved"
    assert refused(stale, "renew", session=session) == "SessionMoved"
    assert refused(stale, "request", session=session) == "SessionMoved"
    second.ask("append", session=session, texts=["still mine"])
    assert second.ask("load", session=session) == ["mine", "now mine", "still mine"]


# Races


@contextmanager
def fifos(folder: Path, *names: str) -> Generator[list[str]]:
    paths = [folder / name for name in names]
    for path in paths:
        os.mkfifo(path)
    # Held open here, so that a process that comes later misses nothing.
    held = [os.open(path, os.O_RDWR) for path in paths]
    try:
        yield [str(path) for path in paths]
    finally:
        for fd in held:
            os.close(fd)


@pytest.mark.timeout(180)
def test_of_cancel_and_commit_one_wins(troupe: Troupe, url: str, tmp_path: Path, seed: int):
    races = 2000 if seed else 50
    terminal, gateway = troupe.opened(url), troupe.opened(url)
    prepared = terminal.ask("prepared", count=races)
    sessions, ids = zip(*prepared, strict=True)
    assert gateway.ask("claim_all") == races
    threads = [topic(n) for n in range(races)]

    with fifos(tmp_path, "terminal", "gateway") as (here, there):
        gateway.tell(
            "race_to_complete", ids=ids, threads=threads, mine=there, theirs=here, seed=seed
        )
        terminal.tell("race_to_cancel", ids=ids, mine=here, theirs=there, seed=-1 - seed)
        cancelled, completed = terminal.answer(), gateway.answer()

    assert all(a != b for a, b in zip(cancelled, completed, strict=True)), "both, or neither"
    for n, found in enumerate(terminal.ask("look", sessions=sessions)):
        before = [f"{n} asked", f"{n} answered"]
        if completed[n]:
            assert found == [State.COMPLETED, threads[n], [*before, f"{n} here", f"{n} I am"]]
        else:
            assert found == [State.FAILED, None, before]
    if seed:
        assert min(sum(cancelled), sum(completed)) >= races // 50, "one side always wins: no race"


def test_each_request_is_claimed_by_one_of_two_gateways(troupe: Troupe, url: str, seed: int):
    terminal, one, two = troupe.opened(url), troupe.opened(url), troupe.opened(url)
    one.tell("drain")
    two.tell("drain")
    asked = terminal.ask("requests", count=1000 if seed else 100)
    until(lambda: terminal.ask("pending") == 0)
    for gateway in (one, two):
        gateway.tell("enough")
    first, second = one.answer(), two.answer()
    assert sorted(first + second) == sorted(asked)
    if seed:
        assert min(len(first), len(second)) > 0, "only one of them got any"


# Opening


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def places(request: pytest.FixtureRequest, folder: Path) -> Generator[Iterator[str]]:
    """New places for a store."""
    if request.param == "sqlite":
        yield (f"sqlite://{folder}/{n}.db" for n in itertools.count())
        return
    server: postgres.Server = request.getfixturevalue("postgres_server")

    def databases() -> Generator[str]:
        while True:
            with server.database() as url:
                yield url

    made = databases()
    yield made
    made.close()


def test_concurrent_processes_create_one_store(
    troupe: Troupe, places: Iterator[str], tmp_path: Path
):
    rounds, count = 3, 6
    with fifos(tmp_path, "start") as (barrier,):
        start = os.open(barrier, os.O_RDWR)
        for url in itertools.islice(places, rounds):
            players = [troupe.player() for _ in range(count)]
            for player in players:
                player.tell("open_at_once", url=url, barrier=barrier)
                assert player.hear() == {"ready": True}
            os.write(start, b"." * count)
            sessions = {player.answer() for player in players}
            assert len(sessions) == count
            assert {player.ask("sessions") for player in players} == {count}
            troupe.close()
        os.close(start)


def test_a_store_opens_after_its_creator_is_killed_at_any_moment(
    troupe: Troupe, places: Iterator[str], seed: int
):
    chance = random.Random(seed)
    witnesses = troupe.player(), troupe.player()
    begun = time.perf_counter()
    witnesses[0].ask("open", url=next(places))
    whole = time.perf_counter() - begun
    for url in itertools.islice(places, 50 if seed else 5):
        creator = troupe.player()
        creator.tell("open_and_tell", url=url)
        assert creator.hear() == {"opening": True}
        spin(chance.uniform(0, 1.2 * whole))
        creator.kill()
        one_store(witnesses, url)


@pytest.mark.parametrize(
    "stride",
    [
        23,
        pytest.param(5, marks=pytest.mark.kill),
        pytest.param(1, marks=[pytest.mark.kill, pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
def test_a_store_opens_after_its_creator_is_killed_at_every_step(
    troupe: Troupe, folder: Path, stride: int
):
    witnesses = troupe.player(), troupe.player()
    step = 0
    for step in range(1, 1000, stride):
        url = f"sqlite://{folder}/{step}.db"
        creator = troupe.player()
        creator.tell("open_and_die", url=url, at=step)
        try:
            creator.answer()
        except EOFError:
            creator.ended()
            troupe.dismiss(creator)
        else:
            break
        open_to_others = [p for p in folder.rglob("*") if p.lstat().st_mode & 0o077]
        assert not open_to_others, f"not private at step {step}"
        one_store(witnesses, url)
    assert step > 30, f"only {step} steps were seen"


def test_an_older_store_is_upgraded_once_in_a_race(
    troupe: Troupe, places: Iterator[str], tmp_path: Path
):
    count = 6
    with fifos(tmp_path, "start") as (barrier,):
        start = os.open(barrier, os.O_RDWR)
        for url in itertools.islice(places, 2):
            older_store(url)
            players = [troupe.player() for _ in range(count)]
            for player in players:
                player.tell("open_at_once", url=url, barrier=barrier)
                assert player.hear() == {"ready": True}
            os.write(start, b"." * count)
            assert len({player.answer() for player in players}) == count
            assert {player.ask("sessions") for player in players} == {count}
            troupe.close()
        os.close(start)


def older_store(url: str) -> None:
    """A store as it was before the first migration."""
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite://"))
        path.with_name(path.name + "-run").mkdir(0o700)
        connection = apsw.Connection(str(path))
        connection.pragma("application_id", sqlite.APPLICATION_ID)
        connection.pragma("journal_mode", "wal")
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA segue")
        connection.execute("CREATE TABLE segue.schema_version (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO segue.schema_version VALUES (0)")


def one_store(witnesses: tuple[Player, Player], url: str) -> None:
    """Check that the next process finds or creates a store, and that the one after it finds the
    same."""
    one, two = witnesses
    one.ask("reopen", url=url)
    two.ask("reopen", url=url)
    session = one.ask("session")
    one.ask("acquire", session=session)
    one.ask("append", session=session, texts=BEFORE)
    assert two.ask("load", session=session) == BEFORE
    assert two.ask("sessions") == 1


def test_two_concurrent_checks_both_see_that_a_process_is_dead(folder: Path):
    asking, dead = Processes(folder, "vm-1-a"), Processes(folder, "vm-2-b")
    assert not asking.dead(dead.me)
    path = folder / "vm-2-b.lock"
    path.rename(folder / "kept")
    dead.close()
    (folder / "kept").rename(path)
    with path.open("rb") as another:  # it has checked, and not yet removed the file
        fcntl.flock(another, fcntl.LOCK_SH)
        assert asking.dead(dead.me)
    asking.close()
