"""Opening a store: what is refused, what is created, and that nothing else is touched."""

# ruff: noqa: ASYNC240 - nothing else runs here.

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import apsw
import psycopg
import pytest

import segue.store
from segue.core.address import Platform
from segue.core.errors import SessionHeld, StoreClosed, StoreError
from segue.store import Store, database, leases, owners, sessions, sqlite, transcripts
from tests.fakes import postgres
from tests.store.processes import Troupe, stage_door
from tests.store.samples import said

NOBODY = 65534


def address_of(path: Path) -> str:
    return f"sqlite://{path}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "segue.db"


async def make(path: Path) -> tuple[str, list[str]]:
    """A closed store with one session of some length, all in one file."""
    texts = [f"words {n} " + "x" * 900 for n in range(200)]
    async with await segue.store.open(address_of(path)) as store:
        session = await fill(store, texts)
    with_sqlite(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    return session, texts


async def fill(store: Store, texts: list[str]) -> str:
    await owners.ensure(store, "me")
    session = await sessions.create(store, "me", Platform.LOCAL)
    lease = await leases.acquire(store, session.id, "a terminal")
    await transcripts.append(store, lease, list(map(said, texts)))
    return session.id


async def load(url: str, session: str) -> list[str]:
    async with await segue.store.open(url) as store:
        return [message.content for message in await transcripts.load(store, session)]


def with_sqlite(path: Path, sql: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def everything(folder: Path) -> dict[str, str]:
    """Every file and folder below it, with its content."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


# Newer and older


async def test_a_newer_store_is_refused_and_unchanged(url: str):
    async with await segue.store.open(url) as store:
        session = await fill(store, ["hello"])
    set_version(url, 99)
    with pytest.raises(StoreError, match=r"schema 99; this version supports \d+"):
        await segue.store.open(url)
    set_version(url, database.LATEST)
    assert await load(url, session) == ["hello"]


def set_version(url: str, version: int) -> None:
    if url.startswith("sqlite"):
        with_sqlite(Path(url.removeprefix("sqlite://")), f"PRAGMA user_version = {version}")
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE segue.schema_version SET version = %s", (version,))


# Damaged


def overwrite(path: Path, start: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(random.Random(start).randbytes(size))


DAMAGE = {
    "its name": lambda path, size: overwrite(path, 0, 16),
    "its header": lambda path, size: overwrite(path, 16, 52),
    "its first page": lambda path, size: overwrite(path, 100, 3996),
    "its middle": lambda path, size: overwrite(path, 4096, size - 8192),
    "its end": lambda path, size: overwrite(path, size // 2, size - size // 2),
    "cut to half": lambda path, size: os.truncate(path, size // 2),
    "cut to a page": lambda path, size: os.truncate(path, 4096),
    "cut within the header": lambda path, size: os.truncate(path, 50),
    "cut to nothing": lambda path, size: os.truncate(path, 0),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_store_is_reported_and_not_repaired(path: Path, damage: str):
    session, _ = await make(path)
    DAMAGE[damage](path, path.stat().st_size)
    damaged = path.read_bytes()
    with pytest.raises(StoreError, match="damaged"):
        await load(address_of(path), session)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("seed", range(20))
async def test_a_damaged_page_is_reported_if_it_is_read(path: Path, seed: int):
    session, texts = await make(path)
    page = random.Random(seed).randrange(1, path.stat().st_size // 4096)
    overwrite(path, page * 4096, 4096)
    try:
        found = await load(address_of(path), session)
    except StoreError as error:
        if "is damaged" not in str(error):
            raise
        return
    assert found == texts


# Foreign


def foreign(path: Path, kind: str) -> None:
    match kind:
        case "text":
            path.write_text("Dear diary, " * 100)
        case "a few bytes":
            path.write_bytes(b"hi")
        case "nothing":
            path.touch()
        case "another database":
            with_sqlite(path, "CREATE TABLE mine (a); INSERT INTO mine VALUES (1)")
        case "another database with a log":
            connection = apsw.Connection(str(path))
            connection.pragma("journal_mode", "wal")
            connection.execute("CREATE TABLE mine (a); INSERT INTO mine VALUES (1)")
            shutil.copytree(path.parent, path.parent.with_name("copy"))  # as after a crash
            connection.close()
            shutil.rmtree(path.parent)
            path.parent.with_name("copy").rename(path.parent)
        case "another program's database":
            with_sqlite(path, "PRAGMA application_id = 7; CREATE TABLE mine (a)")
        case "an empty database":
            with_sqlite(path, "PRAGMA user_version = 1")
        case _:
            raise AssertionError(kind)


@pytest.mark.parametrize(
    "kind",
    [
        "text",
        "a few bytes",
        "nothing",
        "another database",
        "another database with a log",
        "another program's database",
        "an empty database",
    ],
)
async def test_a_foreign_file_is_refused_and_unchanged(tmp_path: Path, kind: str):
    path = tmp_path / "theirs" / "data.db"
    path.parent.mkdir()
    foreign(path, kind)
    before = everything(path.parent)
    with pytest.raises(StoreError, match="is not a Segue store"):
        await segue.store.open(address_of(path))
    assert everything(path.parent) == before


async def test_a_file_that_replaced_the_store_is_refused_and_unchanged(path: Path):
    await make(path)
    for file in path.parent.glob("segue.db*"):
        if file.is_file():
            file.unlink()
    foreign(path, "another database")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a Segue store"):
        await segue.store.open(address_of(path))
    assert path.read_bytes() == before


async def test_a_folder_is_not_a_store(path: Path):
    path.mkdir()
    with pytest.raises(StoreError, match="is not a Segue store"):
        await segue.store.open(address_of(path))
    assert everything(path.parent) == {str(path): "folder"}


@pytest.mark.real
@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE segue.theirs (a INT)",
        "SELECT 1",
        "CREATE TABLE segue.schema_version (name TEXT)",
    ],
)
async def test_a_foreign_schema_is_refused_and_unchanged(
    postgres_server: postgres.Server, theirs: str
):
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'segue'"
    with postgres_server.database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA segue")
        connection.execute(theirs.encode())
        before = connection.execute(tables).fetchall()
        with pytest.raises(StoreError, match="is not a Segue store"):
            await segue.store.open(url)
        assert connection.execute(tables).fetchall() == before


# Missing


async def test_a_missing_folder_is_named_and_not_created(tmp_path: Path):
    with pytest.raises(StoreError, match="mkdir") as error:
        await segue.store.open(f"sqlite://{tmp_path}/not/there.db")
    assert str(tmp_path / "not") in str(error.value)
    assert everything(tmp_path) == {}


async def test_a_file_is_not_a_folder(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"The folder .* does not exist"):
        await segue.store.open(f"sqlite://{tmp_path}/file/segue.db")


async def test_a_missing_store_is_not_created_again(path: Path):
    await make(path)
    path.unlink()
    with pytest.raises(StoreError, match="existed before"):
        await segue.store.open(address_of(path))
    assert not path.exists()


async def test_a_store_that_vanishes_while_it_is_open_is_not_created_again(path: Path):
    async with await segue.store.open(address_of(path)) as store:
        session = await fill(store, ["hello"])
        lease = await leases.acquire(store, session, "a terminal", take_over=True)
        path.unlink()
        with pytest.raises(StoreError, match="existed before"):
            await transcripts.append(store, lease, [said("into the void")])
        with pytest.raises(StoreError, match="existed before"):
            await segue.store.open(address_of(path))
        assert not path.exists()
    with pytest.raises(StoreError, match="existed before"):
        await segue.store.open(address_of(path))
    assert not path.exists()


async def test_a_store_whose_file_was_replaced_while_it_is_open_is_not_written(path: Path):
    other = path.with_name("other.db")
    await make(other)
    async with await segue.store.open(address_of(path)) as store:
        session = await fill(store, ["hello"])
        lease = await leases.acquire(store, session, "a terminal", take_over=True)
        other.rename(path)
        with pytest.raises(StoreError, match="existed before"):
            await transcripts.append(store, lease, [said("into the void")])


async def test_an_interrupted_creation_is_completed(path: Path):
    path.with_name("segue.db-run").mkdir(0o700)
    path.touch(0o600)
    async with await segue.store.open(address_of(path)) as store:
        session = await fill(store, ["hello"])
    assert await load(address_of(path), session) == ["hello"]


# Private


@pytest.fixture(scope="module")
def door() -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="segue-") as folder, stage_door(Path(folder)) as door:
        yield door


@pytest.fixture
def troupe(door: str) -> Generator[Troupe]:
    troupe = Troupe(door)
    yield troupe
    troupe.close()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777], ids=oct)
def test_files_are_private_under_any_umask(troupe: Troupe, mask: int):
    with tempfile.TemporaryDirectory(prefix="segue-") as name:
        folder = Path(name)
        player, other = troupe.player(), troupe.player()
        if os.geteuid() == 0:  # root can read everything, so the check would pass
            os.chown(folder, NOBODY, NOBODY)
            for one in (player, other):
                one.ask("become", user=NOBODY)
        player.ask("umask", mask=mask)
        player.ask("open", url=f"sqlite://{folder}/segue.db")
        session = player.ask("session")
        player.ask("acquire", session=session)
        player.ask("append", session=session, texts=["hello"])
        player.tell("drain")  # listens, which makes a socket
        other.ask("open", url=f"sqlite://{folder}/segue.db")
        other.ask("acquire", session=session, take_over=True)
        other.ask("request", session=session)  # nudges that socket
        player.tell("enough")
        player.answer()

        modes = {p.name: p.lstat().st_mode for p in folder.rglob("*")}
        assert {"segue.db", "segue.db-wal", "segue.db-shm", "segue.db-run"} <= set(modes)
        for name, mode in modes.items():
            expected = 0o700 if stat.S_ISDIR(mode) else 0o600
            assert stat.S_ISSOCK(mode) or stat.S_IMODE(mode) == expected, (name, oct(mode))
            assert not stat.S_IMODE(mode) & 0o077 or stat.S_ISSOCK(mode), (name, oct(mode))


async def test_a_file_that_was_left_open_to_others_becomes_private(path: Path):
    path.with_name("segue.db-run").mkdir(0o755)
    path.touch()
    path.chmod(0o644)
    async with await segue.store.open(address_of(path)) as store:
        await fill(store, ["hello"])
        for file in path.parent.rglob("*"):
            assert not file.stat().st_mode & 0o077, file


# Symlinks


async def test_a_symlink_leads_to_the_same_store_with_the_same_locks(tmp_path: Path):
    real = tmp_path / "real" / "segue.db"
    real.parent.mkdir()
    (tmp_path / "link.db").symlink_to(real)
    (tmp_path / "folder").symlink_to(real.parent)
    names = [real, tmp_path / "link.db", tmp_path / "folder" / "segue.db"]
    for name in names:  # also a symlink to a missing target
        async with await segue.store.open(address_of(name)) as store:
            session = await fill(store, ["hello"])
            for other in names:
                async with await segue.store.open(address_of(other)) as again:
                    with pytest.raises(SessionHeld):
                        await leases.acquire(again, session, "another terminal")
                    lease = await leases.acquire(again, session, "another", take_over=True)
                    await transcripts.append(again, lease, [said("on")])
                await leases.acquire(store, session, "a terminal", take_over=True)
            loaded = await transcripts.load(store, session)
            assert [message.content for message in loaded] == ["hello", "on", "on", "on"]
    assert {p.name for p in tmp_path.iterdir()} == {"real", "link.db", "folder"}


async def test_a_symlink_created_before_the_store_leads_to_one_store(tmp_path: Path):
    real = tmp_path / "real" / "segue.db"
    real.parent.mkdir()
    (tmp_path / "link.db").symlink_to(real)
    async with await segue.store.open(address_of(tmp_path / "link.db")) as store:
        session = await fill(store, ["hello"])
    assert await load(address_of(real), session) == ["hello"]


async def test_names_that_need_escaping_are_read_correctly(tmp_path: Path):
    path = tmp_path / "my store #1? 100%.db"
    url = f"sqlite://{tmp_path}/my%20store%20%231%3F%20100%25.db"
    async with await segue.store.open(url):
        assert path.exists()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "/just/a/path.db",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite:no/such/folder/relative.db",
        "sqlite://relative/path.db",
        "sqlite://me:secret@host/path.db",
        "sqlite:///no/such/folder/with\0zero.db",
        "sqlite:///no/such/folder/with%00zero.db",
        "sqlite:///no/such/folder/name.db?mode=secret",
        "sqlite:///no/such/folder/name.db#secret",
        "mysql://me:secret@host/database",
        "postgresql://me:secret@host",
        "postgresql://me:secret@host/",
        "postgresql://host?password=secret",
        "postgresql:me:secret@host/database",
        "postgresql:/me:secret@host/database",
        "postgresql://me:secret@host:port/database",
        "postgresql://me:secret@[host/database",
        "postgresql://me:secret@host/database?no_such_option=1",
        "me:secret@host/database",
        "host=somewhere password=secret dbname=mine",
    ],
)
async def test_an_invalid_store_url_is_refused_without_showing_its_password(url: str):
    with pytest.raises(StoreError, match="is not a store") as error:
        await segue.store.open(url)
    assert "secret" not in str(error.value)


# Unreachable


@pytest.mark.real
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@127.0.0.1:1/database",
        "postgresql://me:secret@/database?host=/nowhere",
        "postgresql://me@127.0.0.1:1/database?password=secret",
    ],
)
async def test_an_unreachable_server_is_reported_without_showing_the_password(url: str):
    with pytest.raises(StoreError, match="does not answer") as error:
        await segue.store.open(url)
    assert "secret" not in str(error.value)


@pytest.mark.real
async def test_a_missing_database_is_reported(postgres_server: postgres.Server):
    url = postgres_server.url("not_there").replace("postgres@", "postgres:secret@")
    with pytest.raises(StoreError, match=r"does not answer: .*not_there") as error:
        await segue.store.open(url)
    assert "secret" not in str(error.value)


@pytest.mark.real
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_that_is_not_utf_8_is_refused(
    postgres_server: postgres.Server, encoding: str
):
    with postgres_server.database(encoding) as url:
        with pytest.raises(StoreError, match=f"{encoding}.*createdb --encoding=UTF8"):
            await segue.store.open(url)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT to_regnamespace('segue')").fetchone() == (None,)


def test_a_missing_driver_is_named():
    script = (
        "import asyncio, sys\n"
        "sys.modules['psycopg'] = None\n"
        "import segue.store\n"
        "from segue.core.errors import StoreError\n"
        "try:\n"
        "    asyncio.run(segue.store.open('postgresql://me:secret@host/database'))\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    assert "`make extra NAME=postgres`" in done.stdout
    assert "secret" not in done.stdout


# Closing


async def test_closing_is_idempotent(url: str):
    store = await segue.store.open(url)
    other = await segue.store.open(url)
    await store.close()
    await store.close()
    session = await fill(other, ["hello"])
    await other.close()
    assert await load(url, session) == ["hello"]
    with pytest.raises(StoreClosed):
        await owners.ensure(store, "me")


async def test_a_refused_store_leaves_nothing_open(path: Path):
    await make(path)
    set_version(address_of(path), 99)
    descriptors = Path("/proc/self/fd")
    before = len([*descriptors.iterdir()])
    for _ in range(5):
        with pytest.raises(StoreError):
            await segue.store.open(address_of(path))
    assert len([*descriptors.iterdir()]) == before
    assert not sqlite._open_here[path]
    left = {p.name for p in path.with_name("segue.db-run").iterdir()}
    assert left == {"created", "turn", "gate"}
