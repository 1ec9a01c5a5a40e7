"""After a power cut all committed data is there, and any or none of the marks."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import apsw
import pytest

import segue.store
from segue.core.address import Platform
from segue.core.session import Session
from segue.handoffs import queries as handoffs
from segue.handoffs.values import Step
from segue.store import Store, gateways, leases, owners, sessions, transcripts
from tests.store.model import fast_folder
from tests.store.samples import said


class Disk(apsw.VFS):
    """A disk that keeps only what is synced in `folder`."""

    def __init__(self, folder: Path, kept: Path) -> None:
        self.syncs = 0
        self._folder = folder
        self._kept = kept
        super().__init__("disk", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return SyncedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        if Path(filename).parent == self._folder:
            (self._kept / Path(filename).name).unlink(missing_ok=True)

    def keep(self, path: Path) -> None:
        if path.parent == self._folder:
            self.syncs += 1
            shutil.copy(path, self._kept / path.name)

    async def after_the_cut(self) -> Store:
        """The store, as the next process finds it."""
        found = Path(tempfile.mkdtemp(dir=self._folder))
        shutil.copytree(self._kept, found, dirs_exist_ok=True)
        return await segue.store.open(f"sqlite://{found}/segue.db")


class SyncedFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._disk.keep(self._path)


@pytest.fixture
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="segue-", dir=fast_folder()) as folder:
        yield Path(folder)


@pytest.fixture
def disk(folder: Path) -> Generator[Disk]:
    """Every database that is opened is on it."""
    (folder / "disk").mkdir()
    disk = Disk(folder, folder / "disk")
    yield disk
    disk.unregister()


async def begun(store: Store) -> Session:
    await owners.ensure(store, "me")
    return await sessions.create(store, "me", Platform.LOCAL)


async def test_committed_messages_survive_a_power_cut(folder: Path, disk: Disk):
    async with await segue.store.open(f"sqlite://{folder}/segue.db") as store:
        session = await begun(store)
        for number in range(50):
            lease = await leases.acquire(store, session.id, "the terminal", seconds=60)
            await transcripts.append(store, lease, [said(f"{number}")])
            await leases.release(store, lease)
            if number % 10:
                continue
            async with await disk.after_the_cut() as found:
                kept = await transcripts.load(found, session.id)
            assert [message.content for message in kept] == [str(n) for n in range(number + 1)]


async def test_no_lease_survives_a_power_cut(folder: Path, disk: Disk):
    async with await segue.store.open(f"sqlite://{folder}/segue.db") as store:
        session = await begun(store)
        lost = await leases.acquire(store, session.id, "the terminal", seconds=60)
        async with await disk.after_the_cut() as found:
            lease = await leases.acquire(found, session.id, "the next one")
            await transcripts.append(found, lease, [said("and on")])
            assert lease.process != lost.process


async def test_writing_a_mark_does_not_wait_for_the_disk(folder: Path, disk: Disk):
    async with await segue.store.open(f"sqlite://{folder}/segue.db") as store:
        session = await begun(store)
        before = disk.syncs
        lease = await leases.acquire(store, session.id, "the terminal")
        lease = await leases.renew(store, lease)
        await gateways.announce(store, "a gateway", [Platform.TELEGRAM])
        assert disk.syncs == before
        await transcripts.append(store, lease, [said("hello")])
        assert disk.syncs > before


async def test_a_message_batched_with_a_mark_waits_for_the_disk(folder: Path, disk: Disk):
    async with await segue.store.open(f"sqlite://{folder}/segue.db") as store:
        session = await begun(store)
        lease = await leases.acquire(store, session.id, "the terminal")
        words = [str(n) for n in range(20)]
        appends = [transcripts.append(store, lease, [said(word)]) for word in words]
        marks = [leases.renew(store, lease) for _ in words]
        await asyncio.gather(*itertools.chain(*zip(appends, marks, strict=True)))
        async with await disk.after_the_cut() as found:
            kept = await transcripts.load(found, session.id)
    assert [message.content for message in kept] == words


async def test_a_requested_handoff_does_not_survive_a_power_cut(folder: Path, disk: Disk):
    async with await segue.store.open(f"sqlite://{folder}/segue.db") as store:
        session = await begun(store)
        lease = await leases.acquire(store, session.id, "the terminal")
        before = disk.syncs
        asked = await handoffs.request(store, session.id, Platform.WEB, lease=lease)
        assert await handoffs.claim(store, asked.id) is not None
        assert disk.syncs == before
        async with await disk.after_the_cut() as found:
            assert await handoffs.in_flight(found) == ()
            await leases.acquire(found, session.id, "the next one")


async def test_a_handoff_that_has_reached_the_platform_survives_a_power_cut(
    folder: Path, disk: Disk
):
    async with await segue.store.open(f"sqlite://{folder}/segue.db") as store:
        session = await begun(store)
        lease = await leases.acquire(store, session.id, "the terminal")
        asked = await handoffs.request(store, session.id, Platform.WEB, lease=lease)
        claim = await handoffs.claim(store, asked.id)
        assert claim is not None
        await handoffs.record_step(store, claim, Step.OPENING)
        async with await disk.after_the_cut() as found:
            (known,) = await handoffs.in_flight(found)
            assert (known.id, known.step) == (asked.id, Step.OPENING)


@pytest.mark.fuzz
async def test_every_acknowledged_write_survives_a_power_cut_at_any_moment(
    folder: Path, disk: Disk, seed: int
):
    chance = random.Random(seed)
    kept: dict[str, list[str]] = {}
    async with await segue.store.open(f"sqlite://{folder}/segue.db") as store:
        for number in range(200):
            if not kept or chance.random() < 0.1:
                kept[(await begun(store)).id] = []
            session = chance.choice(list(kept))
            words = [f"{number}.{n}" for n in range(chance.randint(1, 4))]
            lease = await leases.acquire(store, session, "the terminal", take_over=True)
            await transcripts.append(store, lease, [said(word) for word in words])
            kept[session] += words
            if chance.random() < 0.5:
                await leases.release(store, lease)
            if chance.random() < 0.8:
                continue
            async with await disk.after_the_cut() as found:
                for there, texts in kept.items():
                    loaded = await transcripts.load(found, there)
                    assert [message.content for message in loaded] == texts
