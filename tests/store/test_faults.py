"""Full, failing and read-only disks, and servers that stop: every reported outcome is true."""

# ruff: noqa: ASYNC221 - nothing else runs here.

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import segue.store
from segue.core.address import Platform
from segue.core.errors import StoreError, StoreUncertain
from segue.core.session import Lease
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Handoff, State
from segue.store import Store, Tx, errors, leases, owners, sessions, sqlite, transcripts
from tests.fakes import postgres
from tests.harness import stores
from tests.harness.cases import brief
from tests.harness.descriptors import exhausted
from tests.store.model import fast_folder
from tests.store.processes import Player, Refused, Troupe, stage_door, until
from tests.store.samples import TOPIC, said

NO_SPACE = "No space is left"

# A separate disk, in a separate mount namespace


@pytest.fixture(scope="module")
def own_mounts() -> Generator[str]:
    """The socket of a fork server whose players can mount something for themselves alone."""
    unshare = (
        ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    )
    with (
        tempfile.TemporaryDirectory(prefix="segue-") as folder,
        stage_door(Path(folder), *unshare) as door,
    ):
        yield door


@pytest.fixture
def disk(own_mounts: str) -> Generator[tuple[Troupe, Path]]:
    """An empty folder, and players that can mount something there for themselves alone."""
    with tempfile.TemporaryDirectory(prefix="segue-") as folder:
        troupe = Troupe(own_mounts)
        yield troupe, Path(folder)
        troupe.close()


def keep_appending(player: Player, session: str, size: int) -> list[str]:
    """Append until the disk is full, and return what was kept."""
    kept: list[str] = []
    for n in range(10_000):
        text = f"{n} " + "x" * size
        try:
            player.ask("append", session=session, texts=[text])
        except Refused as refused:
            if NO_SPACE not in str(refused):
                raise
            return kept
        kept.append(text)
    raise AssertionError("the disk never filled up")


@pytest.mark.parametrize("size", [10, 3000, 40_000])
def test_a_store_on_a_full_disk_loses_nothing_and_works_again_when_there_is_space(
    disk: tuple[Troupe, Path], size: int
):
    troupe, folder = disk
    player = troupe.player()
    player.ask("mount", folder=str(folder), size="2m")
    player.ask("fill", path=f"{folder}/ballast", size=500_000)
    url = f"sqlite://{folder}/segue.db"
    player.ask("open", url=url)
    session = player.ask("session")
    player.ask("acquire", session=session)

    kept = keep_appending(player, session, size)

    assert kept
    assert player.ask("load", session=session) == kept
    for _ in range(3):
        with pytest.raises(Refused, match=NO_SPACE):
            player.ask("append", session=session, texts=["x" * 100_000])
    player.ask("remove", path=f"{folder}/ballast")
    player.ask("append", session=session, texts=["on", "we go"])
    kept += ["on", "we go"]
    assert player.ask("load", session=session) == kept
    assert troupe.opened(url).ask("load", session=session) == kept


def test_on_a_full_disk_exactly_the_acknowledged_appends_are_kept(
    disk: tuple[Troupe, Path],
):
    troupe, folder = disk
    player = troupe.player()
    player.ask("mount", folder=str(folder), size="2m")
    player.ask("fill", path=f"{folder}/ballast", size=500_000)
    url = f"sqlite://{folder}/segue.db"
    player.ask("open", url=url)
    session = player.ask("session")
    player.ask("acquire", session=session)
    kept: list[str] = []
    results: set[str] = set()
    for n in range(100):
        texts = [f"{n}.{i} " + "x" * 5000 * (i % 3) for i in range(12)]
        told = player.ask("append_each", session=session, texts=texts)
        told = [NO_SPACE if NO_SPACE in result else result for result in told]
        kept += [text for text, result in zip(texts, told, strict=True) if result == "kept"]
        results |= set(told)
        if NO_SPACE in told:
            break
    assert results == {"kept", NO_SPACE}
    assert sorted(player.ask("load", session=session)) == sorted(kept)
    player.ask("remove", path=f"{folder}/ballast")
    assert set(player.ask("append_each", session=session, texts=["on"])) == {"kept"}
    assert sorted(troupe.opened(url).ask("load", session=session)) == sorted([*kept, "on"])


def test_a_handoff_on_a_full_disk_moves_nothing_and_can_be_completed_later(
    disk: tuple[Troupe, Path],
):
    troupe, folder = disk
    player = troupe.player()
    player.ask("mount", folder=str(folder), size="2m")
    player.ask("fill", path=f"{folder}/ballast", size=500_000)
    player.ask("open", url=f"sqlite://{folder}/segue.db")
    session = player.ask("session")
    player.ask("acquire", session=session)
    player.ask("append", session=session, texts=["hello"])
    handoff = player.ask("request", session=session)
    player.ask("claim", handoff=handoff)
    player.ask("fill", path=f"{folder}/more")
    complete = {"handoff": handoff, "thread": TOPIC.key, "texts": ["x" * 60_000]}
    with pytest.raises(Refused, match=NO_SPACE):
        player.ask("complete", **complete)
    assert player.ask("look", sessions=[session]) == [[State.RUNNING, None, ["hello"]]]
    player.ask("remove", path=f"{folder}/ballast")
    assert player.ask("complete", **complete)
    found = player.ask("look", sessions=[session])
    assert found == [[State.COMPLETED, TOPIC.key, ["hello", "x" * 60_000]]]


@pytest.mark.parametrize("left", [0, 4096, 40_000, 120_000])
def test_a_store_that_cannot_be_created_for_lack_of_space_is_created_later(
    disk: tuple[Troupe, Path], left: int
):
    troupe, folder = disk
    player = troupe.player()
    player.ask("mount", folder=str(folder), size="2m")
    player.ask("fill", path=f"{folder}/spare", size=left)
    player.ask("fill", path=f"{folder}/ballast")
    player.ask("remove", path=f"{folder}/spare")
    url = f"sqlite://{folder}/segue.db"
    with pytest.raises(Refused, match=NO_SPACE):
        player.ask("open", url=url)
    player.ask("remove", path=f"{folder}/ballast")
    player.ask("open", url=url)
    session = player.ask("session")
    player.ask("acquire", session=session)
    player.ask("append", session=session, texts=["hello"])
    assert troupe.opened(url).ask("load", session=session) == ["hello"]


def test_a_read_only_disk_is_reported(disk: tuple[Troupe, Path]):
    troupe, folder = disk
    player, url = troupe.player(), f"sqlite://{folder}/segue.db"
    player.ask("mount", folder=str(folder), size="4m")
    player.ask("open", url=url)
    session = player.ask("session")
    player.ask("acquire", session=session)
    player.ask("append", session=session, texts=["hello"])
    player.kill()

    other = troupe.player()
    other.ask("make_read_only", folder=str(folder))
    before = other.ask("files", folder=str(folder))
    with pytest.raises(Refused, match=r"StoreError: .*Make the file and its folder writable"):
        other.ask("open", url=url)
    with pytest.raises(Refused, match=r"StoreError: .* cannot be written"):
        other.ask("open", url=f"sqlite://{folder}/new.db")
    with pytest.raises(Refused, match=r"StoreError: .*not there.*set SEGUE_STORE"):
        other.ask("open", url=f"sqlite://{folder}/.local/share/segue/segue.db")
    assert other.ask("files", folder=str(folder)) == before
    other.ask("run", command=["mount", "-o", "remount,bind,rw", str(folder)])
    other.ask("open", url=url)
    assert other.ask("load", session=session) == ["hello"]


async def test_a_process_out_of_file_descriptors_gets_an_error_and_recovers(tmp_path: Path):
    url = f"sqlite://{tmp_path}/segue.db"
    async with await segue.store.open(url) as store, await segue.store.open(url) as other:
        lease = await begin(other, ["one"])
        for _ in range(2):
            with exhausted(), pytest.raises(StoreError, match=r"Too many open .*ulimit -n 4096"):
                await leases.get(store, lease.session_id)
            assert await leases.get(store, lease.session_id) == lease


# A failing disk, by a VFS that fails


@dataclass
class Fault:
    """A fault: one kind of call to SQLite's files fails, the `at`th since it was armed."""

    call: str
    code: int
    at: int
    lasting: bool = False
    torn: bool = False
    armed: bool = False
    seen: int = 0
    struck: int = 0

    def strikes(self, call: str) -> bool:
        if not self.armed or call != self.call:
            return False
        self.seen += 1
        hit = self.seen == self.at or (self.lasting and self.seen > self.at)
        self.struck += hit
        return hit

    def error(self) -> Exception:
        return apsw.exception_for(self.code)


class FailingVFS(apsw.VFS):
    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        super().__init__("failing", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return FailingFile(self._fault, name, flags)


class FailingFile(apsw.VFSFile):
    def __init__(self, fault: Fault, name: Any, flags: list[int]) -> None:
        self._fault = fault
        super().__init__("unix", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        if self._fault.strikes("write"):
            if self._fault.torn:
                super().xWrite(data[: len(data) // 2], offset)
            raise self._fault.error()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._fault.strikes("sync"):
            raise self._fault.error()
        super().xSync(flags)

    def xRead(self, amount: int, offset: int) -> Any:  # noqa: N802
        if self._fault.strikes("read"):
            raise self._fault.error()
        return super().xRead(amount, offset)


@contextmanager
def failing(fault: Fault) -> Generator[Fault]:
    """Every database that is opened inside has that fault, once it is armed."""
    vfs = FailingVFS(fault)
    try:
        yield fault
    finally:
        vfs.unregister()


FAULTS = {
    "a write fails": ("write", apsw.SQLITE_IOERR_WRITE, False),
    "a write is torn": ("write", apsw.SQLITE_IOERR_WRITE, True),
    "a write finds no space": ("write", apsw.SQLITE_FULL, False),
    "a write is torn for lack of space": ("write", apsw.SQLITE_FULL, True),
    "a sync fails": ("sync", apsw.SQLITE_IOERR_FSYNC, False),
    "a sync finds no space": ("sync", apsw.SQLITE_FULL, False),
    "a read fails": ("read", apsw.SQLITE_IOERR_READ, False),
}


@dataclass
class Told:
    """The reported outcome of one step."""

    error: Exception | None

    @property
    def kept(self) -> bool:
        return self.error is None

    @property
    def uncertain(self) -> bool:
        return isinstance(self.error, StoreUncertain)


async def told(step: Any) -> Told:
    try:
        await step
    except StoreError as error:
        return Told(error)
    return Told(None)


@pytest.fixture
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="segue-", dir=fast_folder()) as folder:
        yield Path(folder)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("size", brief([10, 60_000], [60_000]))
async def test_the_outcome_of_a_failed_append_is_reported_correctly(
    folder: Path, kind: str, lasting: bool, size: int
):
    call, code, torn = FAULTS[kind]
    at = 0
    while True:
        at += 1 if size < 1000 or at < 8 else 5
        place = folder / str(at)
        place.mkdir()
        with failing(Fault(call, code, at, lasting, torn)) as fault:
            struck = await append_with(fault, place, size)
        if not struck:
            break
        assert at < 200
    assert at > 1 or call == "read", "the fault never struck"


async def append_with(fault: Fault, place: Path, size: int) -> bool:
    """Append with the fault, then check the outcome after a crash, a reopening and further work."""
    before, wanted = ["one", "two"], "three " + "x" * size
    async with await segue.store.open(stores.create(place / "segue.db")) as store:
        lease = await begin(store, before)
        await transcripts.load(store, lease.session_id)  # so that the reader is connected
        fault.armed = True
        outcome = await told(transcripts.append(store, lease, [said(wanted)]))
        fault.armed = False
        # cp and not Python: this process must not open the files of a database that it has open.
        subprocess.run(["cp", "-a", place, f"{place}-crashed"], check=True)
        after = await texts(store, lease.session_id)
        again = await told(transcripts.append(store, lease, [said("four")]))
    expected = [*before, wanted] if outcome.kept else before
    if outcome.uncertain:
        assert after in (before, [*before, wanted])
        expected = after
    assert after == expected, f"told {outcome.error!r}, found {len(after)} messages"
    assert again.kept, f"cannot go on after {outcome.error!r}: {again.error!r}"
    assert await reopened(place, lease.session_id) == [*expected, "four"]
    crashed = await reopened(Path(f"{place}-crashed"), lease.session_id)
    if outcome.uncertain:
        assert crashed in (before, [*before, wanted])
    else:
        assert crashed == expected, f"told {outcome.error!r}; after a crash {len(crashed)}"
    return bool(fault.struck)


async def begin(store: Store, words: list[str]) -> Lease:
    await owners.ensure(store, "me")
    session = await sessions.create(store, "me", Platform.LOCAL)
    lease = await leases.acquire(store, session.id, "a terminal")
    await transcripts.append(store, lease, list(map(said, words)))
    return lease


async def texts(store: Store, session: str) -> list[str]:
    return [message.content for message in await transcripts.load(store, session)]


async def reopened(place: Path, session: str) -> list[str]:
    (place / "segue.db-shm").unlink(missing_ok=True)  # so that the log is read again
    async with await segue.store.open(f"sqlite://{place}/segue.db") as store:
        return await texts(store, session)


@pytest.mark.parametrize("kind", brief(FAULTS, ["a write is torn", "a sync fails", "a read fails"]))
async def test_a_handoff_moves_completely_or_not_at_all_after_any_fault(folder: Path, kind: str):
    call, code, torn = FAULTS[kind]
    for at in range(1, 200):
        place = folder / str(at)
        place.mkdir()
        with failing(Fault(call, code, at, torn=torn)) as fault:
            async with await segue.store.open(stores.create(place / "segue.db")) as store:
                lease = await begin(store, ["one"])
                claim = await claimed(store, lease)
                fault.armed = True
                outcome = await told(
                    handoffs.complete(store, claim, address=TOPIC, messages=[said("here")])
                )
                fault.armed = False
                subprocess.run(["cp", "-a", place, f"{place}-crashed"], check=True)
        for where in (place, Path(f"{place}-crashed")):
            (where / "segue.db-shm").unlink(missing_ok=True)
            found = await state(f"sqlite://{where}/segue.db", lease.session_id)
            moved = (State.COMPLETED, TOPIC, ["one", "here"])
            stayed = (State.RUNNING, None, ["one"])
            if outcome.uncertain:
                assert found in (moved, stayed)
            else:
                assert found == (moved if outcome.kept else stayed), outcome.error
        if not fault.struck:
            return
    raise AssertionError("it never ended")


async def claimed(store: Store, lease: Lease) -> Handoff:
    asked = await handoffs.request(store, lease.session_id, Platform.TELEGRAM, lease=lease)
    claim = await handoffs.claim(store, asked.id)
    assert claim is not None
    return claim


async def state(url: str, session_id: str) -> tuple[Any, ...]:
    async with await segue.store.open(url) as store:
        (handoff,) = await handoffs.history(store, session_id)
        session = await sessions.get(store, session_id)
        assert session is not None
        return handoff.state, session.address, await texts(store, session_id)


async def test_a_nudge_that_cannot_be_sent_does_not_fail_the_write(tmp_path: Path):
    async with await segue.store.open(f"sqlite://{tmp_path}/segue.db") as store:
        lease = await begin(store, ["one"])
        loop = tmp_path / "segue.db-run" / "unreachable.sock"
        loop.symlink_to(loop)
        asked = await handoffs.request(store, lease.session_id, Platform.TELEGRAM, lease=lease)
        assert await handoffs.pending(store) == (asked,)


async def test_a_locked_database_is_reported_as_busy_and_works_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT", 0.1)
    async with await segue.store.open(f"sqlite://{tmp_path}/segue.db") as store:
        lease = await begin(store, ["one"])
        other = apsw.Connection(str(tmp_path / "segue.db"))  # which does not use our gate
        other.execute("BEGIN IMMEDIATE")
        outcome = await told(transcripts.append(store, lease, [said("two")]))
        assert type(outcome.error) is StoreError
        assert "locked for too long" in str(outcome.error)
        other.execute("ROLLBACK")
        other.close()
        await transcripts.append(store, lease, [said("two")])
        assert await texts(store, lease.session_id) == ["one", "two"]


# A server that stops


class OwnServer:
    """A PostgreSQL of this test, to stop, start and configure."""

    def __init__(self, server: postgres.Server) -> None:
        self.folder = server._folder
        self.url = server.url("postgres")

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", f"{self.folder}/data")

    def start(self, sockets: Path | None = None) -> None:
        options = f"-k {sockets or self.folder} -c listen_addresses='' -c fsync=off"
        command = ("pg_ctl", "start", "-w", "-D", f"{self.folder}/data")
        self._run(*command, "-l", f"{self.folder}/log", "-o", options)

    def _run(self, program: str, *arguments: str) -> None:
        account = postgres._unprivileged()
        subprocess.run(
            [postgres._binaries() / program, *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )

    def own(self, folder: Path) -> None:
        if account := postgres._unprivileged():
            os.chown(folder, account.pw_uid, account.pw_gid)

    @contextmanager
    def admin(self) -> Generator[psycopg.Connection[Any]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            yield connection

    def wait_for(self, condition: str) -> int:
        """The process that serves one of the store's connections, once there is one."""
        return until(lambda: self.find(condition))

    def find(self, condition: str) -> int:
        """The same, or 0 if there is none now."""
        ours = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'segue %'"
        sql = f"{ours} AND {condition}"
        with self.admin() as admin:
            row = admin.execute(sql.encode()).fetchone()
            return row[0] if row else 0

    def settle(self) -> None:
        """Wait until the store knows for certain that the server has not just crashed."""
        sql = (
            "SELECT clock_timestamp() > interval '2 seconds'"
            " + greatest(pg_postmaster_start_time(), checkpoint_time) FROM pg_control_checkpoint()"
        )
        with self.admin() as admin:
            until(lambda: admin.execute(sql).fetchone() == (True,))

    def cut(self, pid: int) -> None:
        with self.admin() as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


@pytest.fixture(scope="module")
def own_server() -> Generator[OwnServer]:
    with postgres.running() as server:
        yield OwnServer(server)


@pytest.fixture
def clean_server(own_server: OwnServer) -> OwnServer:
    with own_server.admin() as admin:
        admin.execute("DROP SCHEMA IF EXISTS segue CASCADE")
    return own_server


@asynccontextmanager
async def begun(server: OwnServer) -> AsyncGenerator[tuple[Store, Lease]]:
    async with await segue.store.open(server.url) as store:
        yield store, await begin(store, ["one"])


@pytest.mark.real
async def test_a_server_that_stops_is_reported_and_the_same_store_works_when_it_is_back(
    clean_server: OwnServer,
):
    async with begun(clean_server) as (store, lease):
        await asyncio.to_thread(clean_server.stop)
        try:
            with pytest.raises(StoreError, match=r"does not answer|failed"):
                await transcripts.append(store, lease, [said("lost")])
            with pytest.raises(StoreError, match=r"does not answer|failed"):
                await transcripts.load(store, lease.session_id)
            with pytest.raises(StoreError, match="does not answer"):
                await segue.store.open(clean_server.url)
        finally:
            await asyncio.to_thread(clean_server.start)
        await transcripts.append(store, lease, [said("two")])
        assert await texts(store, lease.session_id) == ["one", "two"]


@pytest.mark.real
async def test_the_outcome_of_an_append_while_the_server_stops_is_reported_correctly(
    clean_server: OwnServer,
):
    async with begun(clean_server) as (store, _):
        for _ in range(3):
            leases = [await begin(store, []) for _ in range(6)]
            enough = asyncio.Event()
            logs = [asyncio.create_task(appending(store, lease, enough)) for lease in leases]
            await asyncio.to_thread(clean_server.stop)
            await asyncio.to_thread(clean_server.start)
            enough.set()
            for lease, log in zip(leases, logs, strict=True):
                kept, uncertain = await log
                found = await texts(store, lease.session_id)
                assert [text for text in found if text not in uncertain] == kept
                assert len(found) == len(set(found))


async def appending(
    store: Store, lease: Lease, enough: asyncio.Event
) -> tuple[list[str], set[str]]:
    """Append repeatedly, and return what was kept and what may have been."""
    kept: list[str] = []
    uncertain: set[str] = set()
    for n in itertools.count():
        if enough.is_set():
            break
        outcome = await told(transcripts.append(store, lease, [said(str(n))]))
        if outcome.kept:
            kept.append(str(n))
        elif outcome.uncertain:
            uncertain.add(str(n))
    return kept, uncertain


@pytest.mark.real
async def test_an_idle_connection_that_was_cut_is_replaced(clean_server: OwnServer):
    async with begun(clean_server) as (store, lease):
        for n in range(5):
            with clean_server.admin() as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE application_name LIKE 'segue %'"
                )
            await transcripts.append(store, lease, [said(f"{n}")])
        assert await texts(store, lease.session_id) == ["one", *map(str, range(5))]


@pytest.mark.real
async def test_a_transaction_cut_before_the_commit_has_no_effect_and_is_retried(
    clean_server: OwnServer,
):
    async with begun(clean_server) as (store, lease):
        with clean_server.admin() as admin:
            with admin.transaction():
                admin.execute("SELECT * FROM segue.sessions FOR UPDATE")
                append = asyncio.create_task(transcripts.append(store, lease, [said("two")]))
                pid = await asyncio.to_thread(
                    clean_server.wait_for, "wait_event_type = 'Lock' AND query LIKE '%UPDATE%'"
                )
                await asyncio.to_thread(clean_server.cut, pid)
            await append
        assert await texts(store, lease.session_id) == ["one", "two"]


@pytest.mark.real
async def test_a_connection_cut_at_a_commit_that_took_effect_is_a_success(
    clean_server: OwnServer,
):
    await asyncio.to_thread(clean_server.settle)
    async with begun(clean_server) as (store, lease):
        # Every commit now waits, after it is written, for a replica that never confirms.
        await asyncio.to_thread(configure, clean_server, "synchronous_standby_names", "'nobody'")
        try:
            kept = ["one"]
            pid = 0
            while not pid:  # the server may need a moment to start that
                kept.append(f"{len(kept)}")
                append = asyncio.create_task(transcripts.append(store, lease, [said(kept[-1])]))
                if pid := await waiting(clean_server, append):
                    await asyncio.to_thread(clean_server.cut, pid)
                await append
        finally:
            await asyncio.to_thread(configure, clean_server, "synchronous_standby_names", "''")
        assert await texts(store, lease.session_id) == kept


async def waiting(server: OwnServer, append: asyncio.Task[int]) -> int:
    """The process in which the append waits for its commit, or 0 if it is finished."""
    while not append.done():
        if pid := await asyncio.to_thread(server.find, "wait_event = 'SyncRep'"):
            return pid
    return 0


def configure(server: OwnServer, name: str, value: str) -> None:
    with server.admin() as admin:
        admin.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
        admin.execute("SELECT pg_reload_conf()")
        until(lambda: admin.execute(f"SHOW {name}".encode()).fetchone() == (value.strip("'"),))


HOLD = """
CREATE FUNCTION segue.hold() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON segue.messages DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION segue.hold();
"""


@contextmanager
def commits_held(server: OwnServer) -> Generator[psycopg.Connection[Any]]:
    """Inside, a COMMIT of messages waits before it is written."""
    with server.admin() as admin:
        admin.execute(HOLD.encode())
        admin.execute("SELECT pg_advisory_lock(7)")
        yield admin


@pytest.mark.real
async def test_a_connection_cut_at_a_commit_that_had_no_effect_is_a_failure(
    clean_server: OwnServer,
):
    async with begun(clean_server) as (store, lease):
        with commits_held(clean_server) as admin:
            append = asyncio.create_task(transcripts.append(store, lease, [said("two")]))
            pid = await asyncio.to_thread(clean_server.wait_for, "wait_event = 'advisory'")
            await asyncio.to_thread(clean_server.cut, pid)
            with pytest.raises(StoreError, match="not saved"):
                await append
            admin.execute("SELECT pg_advisory_unlock(7)")
        assert await texts(store, lease.session_id) == ["one"]
        await transcripts.append(store, lease, [said("three")])
        assert await texts(store, lease.session_id) == ["one", "three"]


@pytest.mark.real
@pytest.mark.parametrize("reused", [False, True], ids=["forgotten", "given to another"])
async def test_a_commit_cut_off_by_a_crash_of_the_server_is_reported_correctly(
    clean_server: OwnServer, reused: bool
):
    """The id of a transaction that wrote nothing is used again after a crash."""
    elsewhere = Path(tempfile.mkdtemp(prefix="segue-", dir="/tmp"))
    clean_server.own(elsewhere)
    # So that uncommitted data is not written in the background.
    await asyncio.to_thread(configure, clean_server, "wal_writer_delay", "'10s'")
    async with begun(clean_server) as (store, lease):
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, elsewhere)
            holding = commits_held(clean_server)
            admin = holding.__enter__()
            admin.execute("CHECKPOINT")
            append = asyncio.create_task(transcripts.append(store, lease, [said("two")]))
            await asyncio.to_thread(clean_server.wait_for, "wait_event = 'advisory'")
            await asyncio.to_thread(clean_server.stop)
            admin.close()
            if reused:
                await asyncio.to_thread(clean_server.start, elsewhere)
                await asyncio.to_thread(write_something, elsewhere)
                await asyncio.to_thread(clean_server.stop)
            await asyncio.to_thread(clean_server.start)
            outcome = await told(append)
        found = await texts(store, lease.session_id)
        assert found == ["one"], "it cannot have been written"
        assert not outcome.kept, "told that it was kept, which it was not"


def write_something(sockets: Path) -> None:
    with psycopg.connect(f"postgresql://postgres@/postgres?host={sockets}") as connection:
        for _ in range(3):
            connection.execute("CREATE TEMPORARY TABLE IF NOT EXISTS something (a INT)")
            connection.execute("SELECT pg_current_xact_id()")
            connection.commit()


@pytest.mark.real
async def test_a_wrong_password_is_reported_without_showing_it(clean_server: OwnServer):
    hba = clean_server.folder / "data" / "pg_hba.conf"
    kept = hba.read_text()
    hba.write_text("local all guarded scram-sha-256\n" + kept)
    try:
        with clean_server.admin() as admin:
            admin.execute("DROP ROLE IF EXISTS guarded")
            admin.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
            admin.execute("SELECT pg_reload_conf()")
        url = clean_server.url.replace("postgres@", "guarded:secret@")
        with pytest.raises(
            StoreError, match=r"does not answer: .*password authentication failed"
        ) as error:
            await segue.store.open(url)
        assert "secret" not in str(error.value)
    finally:
        hba.write_text(kept)


@pytest.mark.real
async def test_a_failed_write_is_rolled_back(clean_server: OwnServer):
    def half(tx: Tx, lease: Lease) -> None:
        transcripts.append(tx, lease, [said("half")])
        raise errors.full("nowhere")

    async with begun(clean_server) as (store, lease):
        with pytest.raises(StoreError, match="No space is left"):
            await store.write(half, lease)
        assert await texts(store, lease.session_id) == ["one"]
