"""`segue backup` and `segue restore`: what was saved comes back, and nothing else is lost."""

from __future__ import annotations

import asyncio
import json
import re
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import segue.store
from segue.core.address import Platform, Sender
from segue.core.session import ME
from segue.store import (
    Clock,
    Store,
    archives,
    database,
    leases,
    owners,
    pairings,
    sessions,
    transcripts,
)
from segue.store.archives import StoreState
from segue.store.pairings import Credential
from segue.testing.clock import FakeClock
from tests.fakes import postgres
from tests.harness import stores
from tests.harness.command_line import Command
from tests.program import PATH
from tests.store import make_old_store
from tests.store.conftest import data_folder as data_folder
from tests.store.processes import Troupe, stage_door
from tests.store.samples import said
from tests.store.test_old_stores import conversations, put, written

ORIGIN = "http://127.0.0.1:8790"
SETTINGS = 'model = "a/b"\n[keys]\nopenai = "sk-not-a-real-key"\n'


class Machine:
    """A user's account, and the two commands in it."""

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder = folder
        self.data = folder / "data" / "segue"
        self.settings = folder / "config" / "segue" / "config.toml"
        self.environment = {
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "SEGUE_STORE": url,
            "SEGUE_CONFIG": "",
        }
        self.url = url or f"sqlite://{self.data}/segue.db"
        self.backup = Command("backup", self.environment)
        self.restore = Command("restore", self.environment)

    def say(self, *texts: str) -> None:
        """Add a session with these messages."""

        async def write() -> None:
            async with await segue.store.open(self.url) as store:
                await owners.ensure(store, ME)
                session = await sessions.create(store, ME, Platform.LOCAL)
                lease = await leases.acquire(store, session.id, "a terminal")
                await transcripts.append(store, lease, list(map(said, texts)))

        self.data.mkdir(0o700, parents=True, exist_ok=True)
        asyncio.run(write())

    def conversations(self) -> list[dict[str, Any]]:
        async def read() -> list[dict[str, Any]]:
            async with await segue.store.open(self.url) as store:
                return await conversations(store)

        return asyncio.run(read())

    def texts(self) -> list[list[str]]:
        return [[m["content"] for m in c["messages"]] for c in self.conversations()]

    def act(
        self,
        act: Callable[[Store, str], Awaitable[None]],
        text: str = "",
        clock: Clock | None = None,
    ) -> None:
        """Do this with the session that begins with that message."""

        async def run() -> None:
            async with await segue.store.open(self.url, clock=clock) as store:
                first = {c["messages"][0]["content"]: c["id"] for c in await conversations(store)}
                await act(store, first.get(text, ""))

        self.data.mkdir(0o700, parents=True, exist_ok=True)
        asyncio.run(run())

    def pair(self, browser: str, secret: str) -> None:
        """Pair a browser with the page."""

        async def admit() -> None:
            async with await segue.store.open(self.url) as store:
                await owners.ensure(store, ME)
                key, _ = pairings.link_keys(await pairings.link(store, ME))
                sender = Sender(platform=Platform.WEB, user_id=browser)
                await pairings.admit(store, key, sender, secret, ORIGIN)

        asyncio.run(admit())

    def credential(self, browser: str) -> Credential | None:
        """What the page accepts from that browser."""

        async def read() -> Credential | None:
            async with await segue.store.open(self.url) as store:
                return await pairings.credential(store, browser, ORIGIN)

        return asyncio.run(read())

    def configure(self, text: str = SETTINGS) -> None:
        self.settings.parent.mkdir(0o700, parents=True, exist_ok=True)
        self.settings.write_text(text)
        self.settings.chmod(0o600)

    def keep_keys(self, text: str = "seeds") -> Path:
        """Write keys as the adapter of Matrix has them."""
        device = self.data / "matrix" / "@bot%3Aexample.org" / "DEVICE"
        device.mkdir(0o700, parents=True, exist_ok=True)
        (device / "seeds.json").write_text(text)
        connection = apsw.Connection(str(device / "keys.db"))
        connection.execute("CREATE TABLE IF NOT EXISTS keys (key TEXT)")
        connection.execute("DELETE FROM keys")
        connection.execute("INSERT INTO keys VALUES (?)", (text,))
        connection.close()
        return device


def key_in(device: Path) -> str:
    connection = apsw.Connection(str(device / "keys.db"))
    try:
        return connection.execute("SELECT key FROM keys").get
    finally:
        connection.close()


@pytest.fixture
def home(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "home")


@pytest.fixture
def other(tmp_path: Path) -> Machine:
    """An empty machine."""
    return Machine(tmp_path / "other")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "my backup"


@pytest.fixture(scope="module")
def door() -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="segue-") as folder, stage_door(Path(folder)) as door:
        yield door


@pytest.fixture
def troupe(door: str) -> Generator[Troupe]:
    troupe = Troupe(door)
    yield troupe
    troupe.close()


@pytest.fixture(scope="module")
def server() -> Generator[postgres.Server]:
    with postgres.running() as server:
        yield server


# There and back


def test_a_backup_is_restored_on_an_empty_machine(home: Machine, other: Machine, file: Path):
    home.configure()
    home.keep_keys()
    home.say("hello", "world")
    home.pair("b1", secret="1234")
    shown = home.backup(str(file))
    assert shown.startswith("Saved the store, the settings and the keys for Matrix in ")
    assert f"{file}: 1 session.\nIt is not encrypted, and may hold secrets such as keys." in shown
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {path.name for path in file.parent.iterdir()} == {home.folder.name, file.name}
    shown = other.restore(str(file))
    assert shown.startswith(f"Restored 1 session from {file}, made on ")
    assert "Kept" not in shown
    assert other.conversations() == home.conversations()
    assert other.credential("b1") == Credential(secret="1234", owner=ME, is_link=False)
    assert other.settings.read_text() == SETTINGS
    assert stat.S_IMODE(other.settings.stat().st_mode) == 0o600
    device = other.data / "matrix" / "@bot%3Aexample.org" / "DEVICE"
    assert (device / "seeds.json").read_text() == "seeds"
    assert key_in(device) == "seeds"
    visible = [p for p in other.folder.rglob("*") if p.is_file() and p.lstat().st_mode & 0o077]
    assert not visible


def test_a_restore_that_fails_after_the_store_says_where_the_old_one_is(
    home: Machine, other: Machine, file: Path
):
    home.configure()
    home.say("hello")
    home.backup(str(file))
    other.say("something else")
    other.settings.mkdir(parents=True)
    shown = other.restore.refused("--force", str(file))
    (kept,) = other.data.glob("segue.db.before-*")
    assert f"Kept what was there: {kept}" in shown


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def test_a_backup_under_load_holds_what_was_said_before_it(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, file: Path, troupe: Troupe
):
    with ExitStack() as stack:
        home = Machine(tmp_path / "home")
        other = Machine(tmp_path / "other")
        if engine == "postgres":
            server: postgres.Server = request.getfixturevalue("server")
            home = Machine(tmp_path / "home", stack.enter_context(server.database()))
            other = Machine(tmp_path / "other", stack.enter_context(server.database()))
        back_up_under_load(home, other, file, troupe)


def back_up_under_load(home: Machine, other: Machine, file: Path, troupe: Troupe) -> None:
    home.say("before")
    writer = troupe.opened(home.url)
    session = writer.ask("session")
    writer.ask("acquire", session=session)
    writer.tell("append_for_ever", session=session, first=0)
    last = 0
    while last < 50:
        last = writer.hear()["kept"]
    home.backup(str(file))
    while writer.hear()["kept"] < last + 50:
        pass
    writer.kill()
    other.restore(str(file))
    numbers = next(c["messages"] for c in other.conversations() if c["id"] == session)
    assert [m["content"] for m in numbers] == [str(n) for n in range(len(numbers))]
    assert len(numbers) > last
    everything = next(c["messages"] for c in home.conversations() if c["id"] == session)
    assert everything[: len(numbers)] == numbers
    other.say("it goes on")


@pytest.mark.real
def test_a_postgres_store_of_every_version_is_restored_as_it_was(
    server: postgres.Server, tmp_path: Path
):
    with server.database() as first, server.database() as second:
        home, other = Machine(tmp_path / "home", first), Machine(tmp_path / "other", second)
        for version in make_old_store.numbers():
            put(version, first)
            stores.drop(second)
            file = tmp_path / f"{version}.backup"
            home.backup(str(file))
            other.restore(str(file))
            assert other.conversations() == written(version)


@pytest.mark.real
def test_a_replaced_postgres_store_is_kept_in_another_schema(
    server: postgres.Server, tmp_path: Path, file: Path, troupe: Troupe
):
    with server.database() as url:
        home = Machine(tmp_path / "home", url)
        home.say("first")
        home.backup(str(file))
        home.say("second")
        assert "is newer than the backup" in home.restore.refused(str(file))
        assert len(home.texts()) == 2
        program = troupe.opened(url)
        assert f"Type `kill {program.pid}`" in home.restore.refused("--force", str(file))
        program.ask("close")
        shown = home.restore("--force", str(file))
        assert home.texts() == [["first"]]
        kept = next(w for w in shown.split() if w.startswith("segue_before_"))
        with psycopg.connect(url) as connection:
            found = connection.execute(f"SELECT count(*) FROM {kept}.sessions".encode()).fetchall()
        assert found == [(2,)]


def test_what_is_replaced_is_kept(home: Machine, file: Path):
    home.configure()
    device = home.keep_keys()
    home.say("first")
    home.backup(str(file))
    home.configure("# other\n")
    home.keep_keys("others")
    value = home.restore.json(str(file))
    store, keys, settings = value["replaced"]
    assert Path(settings).read_text() == "# other\n"
    assert home.settings.read_text() == SETTINGS
    assert key_in(Path(keys) / device.relative_to(home.data / "matrix")) == "others"
    assert key_in(device) == "seeds"
    kept = Machine(home.folder, f"sqlite://{store}")
    assert kept.texts() == [["first"]] == home.texts()


def test_the_settings_of_the_backup_say_where_the_store_is(
    home: Machine, other: Machine, file: Path, tmp_path: Path
):
    home.say("first")
    place = tmp_path / "elsewhere" / "mine.db"
    home.configure(f'store = "sqlite://{place}"\n')
    refused = home.backup.refused(str(file))
    assert "There is no store at" in refused
    place.parent.mkdir()
    Machine(home.folder, f"sqlite://{place}").say("there")
    home.backup(str(file))
    place.parent.rename(tmp_path / "moved")
    assert f"mkdir -p -m 700 {place.parent}" in other.restore.refused(str(file))
    place.parent.mkdir()
    other.restore(str(file))
    assert Machine(other.folder, f"sqlite://{place}").texts() == [["there"]]


def test_settings_with_an_error_are_saved_and_restored_as_they_are(
    home: Machine, other: Machine, file: Path
):
    home.say("first")
    home.configure("modle = 'x'\n")
    done = home.backup.run(str(file))
    assert done.exit_code == 0, done.output
    assert f"Warning: there is an error in {home.settings}: " in done.stderr
    other.restore(str(file))
    assert other.settings.read_text() == "modle = 'x'\n"
    assert other.texts() == [["first"]]
    home.configure("stroe = 'sqlite:///elsewhere.db'\n")
    assert "it is not clear what store is" in home.backup.refused(str(file.with_name("second")))
    assert not file.with_name("second").exists()


def test_a_damaged_or_lost_store_is_replaced(home: Machine, file: Path):
    home.say("first")
    home.backup(str(file))
    store = home.data / "segue.db"
    store.write_bytes(b"damaged" * 1000)
    (replaced,) = home.restore.json(str(file))["replaced"]
    assert Path(replaced).read_bytes() == b"damaged" * 1000
    assert home.texts() == [["first"]]
    for end in ("", "-wal", "-shm"):
        (home.data / f"segue.db{end}").unlink(missing_ok=True)
    home.restore(str(file))
    assert home.texts() == [["first"]]


# Progress


def last_states(screen: str) -> list[str]:
    """What each line of a terminal shows in the end."""
    return [line.rpartition("\r")[2].rstrip() for line in screen.split("\n")]


def assert_rising(screen: str, *steps: str) -> None:
    """Assert that each of these steps showed several parts of it, up to the whole."""
    for step in steps:
        parts = [int(part) for part in re.findall(rf"{step}: (\d+) %", screen)]
        assert parts == sorted(set(parts))
        assert len(parts) > 1
        assert parts[-1] == 100


def test_each_step_is_shown_on_a_terminal(home: Machine, other: Machine, file: Path):
    home.configure()
    home.keep_keys()
    home.say("a long text " * 500_000)
    code, screen = home.backup.on_screen(str(file))
    assert code == 0
    assert_rising(screen, "Copying the store", "Writing the backup")
    steps = ["the store", "the settings", "the keys for Matrix"]
    assert last_states(screen)[:4] == [
        *(f"Copying {step}: done" for step in steps),
        "Writing the backup: done",
    ]
    code, screen = other.restore.on_screen(str(file))
    assert code == 0
    assert_rising(screen, "Checking the backup", "Restoring the store")
    assert last_states(screen)[:5] == [
        "Checking the backup: done",
        "Checking its store: done",
        "Restoring the store: done",
        "Restoring the keys for Matrix: done",
        "Restoring the settings: done",
    ]


@pytest.mark.real
def test_the_part_of_a_postgres_store_that_is_done_is_shown(
    server: postgres.Server, tmp_path: Path, file: Path
):
    with server.database() as first, server.database() as second:
        home = Machine(tmp_path / "home", first)
        other = Machine(tmp_path / "other", second)
        home.say("a long text " * 500_000)
        code, screen = home.backup.on_screen(str(file))
        assert code == 0
        assert_rising(screen, "Copying the store", "Writing the backup")
        code, screen = other.restore.on_screen(str(file))
        assert code == 0
        assert_rising(screen, "Checking the backup", "Restoring the store")
        assert other.texts() == home.texts()


def test_a_step_that_fails_keeps_its_line(home: Machine, other: Machine, file: Path):
    home.say("first")
    home.backup(str(file))
    file.write_bytes(file.read_bytes()[:-20_000])
    code, screen = other.restore.on_screen(str(file))
    assert code == 1
    shown, error, *_ = last_states(screen)
    assert re.fullmatch(r"Checking the backup(…|: \d+ %)", shown)
    assert error.startswith("Error: ")


# Encryption


def test_an_encrypted_backup_needs_its_passphrase(home: Machine, other: Machine, file: Path):
    home.say("a secret")
    home.backup("--encrypt", str(file), given="open sesame\n")
    assert b"a secret" not in file.read_bytes()
    assert "Send it to standard input" in other.restore.refused(str(file), given="")
    assert "the passphrase is wrong" in other.restore.refused(str(file), given="close\n")
    assert not (other.data / "segue.db").exists()
    other.restore(str(file), given="open sesame\n")
    assert other.texts() == [["a secret"]]


# Refusals


def test_a_backup_never_replaces_a_file(home: Machine, file: Path):
    home.say("hello")
    file.write_text("mine")
    assert "exists already" in home.backup.refused(str(file))
    assert file.read_text() == "mine"


def test_a_backup_names_a_folder_that_is_missing(home: Machine, tmp_path: Path):
    home.say("hello")
    refused = home.backup.refused(str(tmp_path / "missing" / "b"))
    assert f"there is no folder {tmp_path}/missing. Nothing was changed. Type `mkdir -p" in refused


def test_a_backup_never_replaces_a_link_that_leads_nowhere(home: Machine, file: Path):
    home.say("hello")
    file.symlink_to("/nonexistent")
    assert "exists already" in home.backup.refused(str(file))
    assert file.is_symlink()


def test_two_backups_with_one_name_do_not_meet(home: Machine, other: Machine, tmp_path: Path):
    home.say("hello")
    files = [tmp_path / str(number) / "backup" for number in range(3)]
    for file in files:
        file.parent.mkdir()
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "segue", "backup", str(file)],
            env={**home.environment, "PATH": PATH},
        )
        for file in files
    ]
    assert [program.wait() for program in running] == [0, 0, 0]
    for file in files:
        other.restore("--force", str(file))
        assert other.texts() == [["hello"]]
    assert not list(home.data.glob(".*"))


def test_a_part_that_changes_while_it_is_written_makes_no_backup(tmp_path: Path):
    parts = tmp_path / "parts"
    parts.mkdir()
    part = parts / "store.db"
    part.write_bytes(b"a" * 100)

    def change(done: int, whole: int) -> None:
        part.write_bytes(b"b" * 100)

    state = StoreState(engine="sqlite", schema=1, newest=0, sessions=0)
    with pytest.raises(OSError, match=r"store\.db has changed meanwhile"):
        archives.write(parts, tmp_path / "b", state, datetime.now(UTC), "", change)
    assert list(tmp_path.iterdir()) == [parts]


def test_a_backup_without_space_leaves_nothing_behind(home: Machine, tmp_path: Path):
    home.say("hello")
    program = [sys.executable, "-m", "segue", "backup", str(tmp_path / "b")]
    limited = ["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *program]
    done = subprocess.run(
        limited, env={**home.environment, "PATH": PATH}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The ")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_newer_data_is_replaced_only_by_force(home: Machine, file: Path):
    home.say("first")
    home.backup(str(file))
    home.say("second")
    refused = home.restore.refused(str(file))
    assert "is newer than the backup" in refused
    assert "segue restore --force" in refused
    assert len(home.texts()) == 2
    home.restore("--force", str(file))
    assert home.texts() == [["first"]]


async def _rename(store: Store, session: str) -> None:
    await sessions.rename(store, session, "Another title")


async def _delete(store: Store, session: str) -> None:
    await sessions.delete(store, session)


async def _undo(store: Store, session: str) -> None:
    await transcripts.undo(store, await leases.acquire(store, session, "a terminal"))


async def _append(store: Store, session: str) -> None:
    await transcripts.append(store, await leases.acquire(store, session, "a terminal"), [said("b")])


async def _remove_note(store: Store, session: str) -> None:
    await owners.remove_note(store, ME, 1)


async def _begin(store: Store, session: str) -> None:
    await owners.ensure(store, ME)
    begun = await sessions.create(store, ME, Platform.LOCAL)
    lease = await leases.acquire(store, begun.id, "a terminal")
    await transcripts.append(store, lease, [said("a")])


async def _add_note(store: Store, session: str) -> None:
    await owners.ensure(store, ME)
    await owners.add_note(store, ME, f"a note, {session}")


CHANGES = [_rename, _delete, _undo, _append, _remove_note]


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def test_a_change_without_a_time_is_replaced_only_by_force(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, file: Path
):
    with ExitStack() as stack:
        home = Machine(tmp_path / "home")
        if engine == "postgres":
            server: postgres.Server = request.getfixturevalue("server")
            home = Machine(tmp_path / "home", stack.enter_context(server.database()))
        home.act(_add_note)
        for text in ("first", "second", "third"):
            home.say(text)
        home.backup(str(file))
        home.restore(str(file))
        for act in CHANGES:
            for text in ("second", "third"):
                home.act(act, text)
                assert "is newer than the backup" in home.restore.refused(str(file)), (act, text)
                home.restore("--force", str(file))
                home.restore(str(file))


def test_a_message_in_the_second_of_the_one_before_is_replaced_only_by_force(
    home: Machine, file: Path
):
    home.act(_begin, clock=FakeClock())
    home.backup(str(file))
    home.act(_append, "a", clock=FakeClock())
    refused = home.restore.refused(str(file))
    assert "is newer than the backup" in refused
    assert "last used" not in refused, "both times are the same"
    assert home.texts() == [["a", "b"]]


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def test_an_earlier_state_is_replaced_without_force(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path, file: Path
):
    with ExitStack() as stack:
        home = Machine(tmp_path / "home")
        if engine == "postgres":
            server: postgres.Server = request.getfixturevalue("server")
            home = Machine(tmp_path / "home", stack.enter_context(server.database()))
        home.act(_add_note)
        home.say("first")
        early = tmp_path / "early"
        home.backup(str(early))
        for step in (lambda: home.say("second"), lambda: home.act(_add_note, "first")):
            step()
            file.unlink(missing_ok=True)
            home.backup(str(file))
            home.restore("--force", str(early))
            home.restore(str(file))
        assert sorted(home.texts()) == [["first"], ["second"]]


def test_a_backup_without_figures_is_compared_by_its_newest_time(
    home: Machine, file: Path, tmp_path: Path
):
    home.say("first")
    home.backup(str(file))

    def forget(manifest: dict[str, Any]) -> None:
        del manifest["store"]["contents"]

    rewrite(file, tmp_path / "parts", forget)
    home.restore(str(file))
    home.say("second")
    assert "is newer than the backup" in home.restore.refused(str(file))


def test_a_store_that_is_open_is_not_replaced(home: Machine, file: Path, troupe: Troupe):
    home.say("first")
    home.backup(str(file))
    program = troupe.opened(home.url)
    refused = home.restore.refused("--force", str(file))
    assert f"Type `kill {program.pid}`" in refused
    assert "is in use" in refused
    program.kill()
    home.restore(str(file))


def test_a_damaged_backup_changes_nothing(home: Machine, other: Machine, file: Path):
    home.say("first")
    home.backup(str(file))
    whole = file.read_bytes()
    for size in (0, 100, 512, 1000, 5000, len(whole) // 2, len(whole) - 20_000):
        file.write_bytes(whole[:size])
        refused = other.restore.refused(str(file))
        assert "Nothing was changed." in refused
    for place in (600, 2000, len(whole) // 2):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        assert "Nothing was changed." in other.restore.refused(str(file))
    assert not (other.data / "segue.db").exists()
    assert "is not a backup of Segue" in other.restore.refused("/etc/passwd")
    assert "cannot be read" in other.restore.refused(str(file.parent / "missing"))


def rewrite(file: Path, parts: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest of a backup."""
    with tarfile.open(file) as tar:
        tar.extractall(parts, filter="data")
    manifest = json.loads((parts / "manifest.json").read_text())
    change(manifest)
    (parts / "manifest.json").write_text(json.dumps(manifest))
    with tarfile.open(file, "w") as tar:
        for name in ("manifest.json", "store.db"):
            tar.add(parts / name, name)


@pytest.mark.parametrize("newer", ["format", "schema"])
def test_a_backup_of_a_newer_version_is_refused(
    home: Machine, other: Machine, file: Path, tmp_path: Path, newer: str
):
    home.say("first")
    home.backup(str(file))

    def change(manifest: dict[str, Any]) -> None:
        manifest["program"] = "99.0.0"
        if newer == "format":
            manifest["format"] = 2
            del manifest["store"]
        else:
            manifest["store"]["schema"] = database.LATEST + 1

    rewrite(file, tmp_path / "parts", change)
    assert "newer version of Segue (99.0.0)" in other.restore.refused(str(file))


def test_a_backup_of_the_other_engine_is_refused(home: Machine, other: Machine, file: Path):
    home.say("first")
    home.backup(str(file))
    refused = other.restore.refused(str(file), SEGUE_STORE="postgresql://me@localhost/segue")
    assert "holds a store on SQLite" in refused


# Before an upgrade


def test_an_upgrade_makes_a_backup_first_and_keeps_two(
    home: Machine, caplog: pytest.LogCaptureFixture
):
    home.data.mkdir(0o700, parents=True)
    folder = home.data / "segue.db-backups"
    for version in (20, 21, 22):
        _put(version, home)
        assert home.conversations() == written(version)
    kept = sorted(folder.iterdir())
    assert [path.name.partition("-schema-")[2] for path in kept] == ["21.segue", "22.segue"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert f"Making a backup of it first: {kept[-1]}" in caplog.text
    home.restore("--force", str(kept[-1]))
    assert home.conversations() == written(22)


def test_an_upgrade_says_on_the_terminal_where_its_backup_is(home: Machine):
    home.data.mkdir(0o700, parents=True)
    put(21, home.url)
    code, screen = Command("sessions", home.environment).on_screen(columns=300)
    assert code == 0
    (kept,) = (home.data / "segue.db-backups").iterdir()
    first, second, *listed = screen.splitlines()
    assert first == f"The store needs an upgrade. Making a backup of it first: {kept}"
    assert second == "The backup is complete. Upgrading the store from schema 21."
    assert listed


def _put(version: int, home: Machine) -> None:
    """Put a store there, and leave the backups of the one before."""
    folder = home.data / "segue.db-backups"
    aside = home.folder / "aside"
    if folder.exists():
        folder.rename(aside)
    put(version, home.url)
    if aside.exists():
        aside.rename(folder)


# Killed

STRIDES = [
    29,
    pytest.param(5, marks=pytest.mark.kill),
    pytest.param(1, marks=[pytest.mark.kill, pytest.mark.long]),
]
"""The steps between two kills, in `make test`, `make test-kill` and `make test-long`."""
POSTGRES_STRIDES = [
    pytest.param(17, marks=pytest.mark.kill),
    pytest.param(1, marks=[pytest.mark.kill, pytest.mark.long, pytest.mark.timeout(1800)]),
]


def was_killed(troupe: Troupe, machine: Machine, words: list[str], step: int) -> bool:
    """Run a command of `segue` and kill it at this step. Return False if it has fewer steps."""
    program = troupe.player()
    program.tell("command_and_die", words=words, environment=machine.environment, at=step)
    try:
        program.answer()
    except EOFError:
        program.ended()
    else:
        return False
    troupe.close()
    return True


@pytest.mark.parametrize("stride", STRIDES)
def test_a_backup_that_was_killed_is_whole_or_missing(
    home: Machine, other: Machine, file: Path, troupe: Troupe, stride: int
):
    home.configure()
    home.keep_keys()
    home.say("first")
    step = 0
    for step in range(1, 2000, stride):
        file.unlink(missing_ok=True)
        if not was_killed(troupe, home, ["backup", str(file)], step):
            break
        if file.exists():
            other.restore("--force", str(file))
            assert other.texts() == [["first"]]
    assert not list(file.parent.glob(".*"))
    assert not list(home.data.glob(".*"))
    assert home.texts() == [["first"]]
    assert step > 20, f"only {step} steps were seen"


@pytest.mark.parametrize("stride", STRIDES)
def test_a_restore_that_was_killed_leaves_the_old_or_the_new(
    home: Machine, other: Machine, file: Path, troupe: Troupe, stride: int
):
    home.configure()
    home.keep_keys("new")
    home.say("new")
    home.backup(str(file))
    step = 0
    for step in range(1, 2000, stride):
        machine = Machine(other.folder / str(step))
        machine.say("old")
        machine.configure("# old\n")
        device = machine.keep_keys("old")
        if not was_killed(troupe, machine, ["restore", "--force", str(file)], step):
            break
        assert machine.texts() in ([["old"]], [["new"]])
        assert machine.settings.read_text() in ("# old\n", SETTINGS)
        assert key_in(device) == (device / "seeds.json").read_text()
        machine.restore("--force", str(file))
        assert machine.texts() == [["new"]]
        assert key_in(device) == "new"
        assert not list(machine.data.glob(".*"))
    assert step > 20, f"only {step} steps were seen"


@pytest.mark.real
@pytest.mark.parametrize("stride", POSTGRES_STRIDES)
def test_a_postgres_backup_that_was_killed_is_whole_or_missing(
    server: postgres.Server, tmp_path: Path, file: Path, troupe: Troupe, stride: int
):
    with server.database() as first, server.database() as second:
        home = Machine(tmp_path / "home", first)
        other = Machine(tmp_path / "other", second)
        home.configure()
        home.keep_keys()
        home.say("first")
        step = 0
        for step in range(1, 2000, stride):
            file.unlink(missing_ok=True)
            if not was_killed(troupe, home, ["backup", str(file)], step):
                break
            if file.exists():
                other.restore("--force", str(file))
                assert other.texts() == [["first"]]
        assert step > 50, f"only {step} steps were seen"
        assert home.texts() == [["first"]]
        other.restore("--force", str(file))
        assert other.texts() == [["first"]]


@pytest.mark.real
@pytest.mark.parametrize("stride", POSTGRES_STRIDES)
def test_a_postgres_restore_that_was_killed_leaves_the_old_or_the_new(
    server: postgres.Server, tmp_path: Path, file: Path, troupe: Troupe, stride: int
):
    with server.database() as first, server.database() as second:
        home = Machine(tmp_path / "home", first)
        home.say("new")
        home.backup(str(file))
        machine = Machine(tmp_path / "other", second)
        step = 0
        for step in range(1, 2000, stride):
            stores.drop(second)
            machine.say("old")
            if not was_killed(troupe, machine, ["restore", "--force", str(file)], step):
                break
            assert machine.texts() in ([["old"]], [["new"]])
        assert step > 50, f"only {step} steps were seen"
        assert machine.texts() == [["new"]]
