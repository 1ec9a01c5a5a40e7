"""Gateways race for a thousand due runs and are killed in the middle of them. Each due time happens
once, and what it reports arrives once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import segue.store
from segue.core.address import HomeChannel, Platform
from segue.core.transcript import Kind, Role
from segue.jobs.queries import jobs, reports
from segue.jobs.queries.runs import ABANDONED
from segue.jobs.schedule import Every, Once
from segue.jobs.values import NewJob, RunState, parse_targets
from segue.store import Store, bindings, gateways, owners, transcripts
from segue.store.base import Row, Tx
from segue.store.processes import whose
from segue.store.values import micros, moment
from tests import program
from tests.crash.conftest import Fakes
from tests.crash.model import TASK, WORD, WordModel
from tests.crash.world import outgoing, until
from tests.fakes import postgres
from tests.harness import quiet_adapter
from tests.harness.pty import CODE
from tests.program import Program
from tests.rigs import GenericRig
from tests.store.model import fast_folder

OWNERS, EACH = 5, 200
RUNS = OWNERS * EACH
KILLS = 9
WITHIN = 300.0
ROOT = Path(__file__).parents[2]
MODEL = "openai/gpt-test"
"""The model of the runs that use a tool. The others repeat what they hear."""


@dataclass(frozen=True, slots=True)
class Found:
    """A run as the store has it at the end."""

    word: str
    due: int
    state: str
    attempt: int
    error: str | None
    session_id: str | None
    """None if its text is delivered as it is."""


@dataclass
class Race:
    folder: Path
    url: str
    store: Store
    rig: GenericRig
    model: WordModel
    environments: list[dict[str, str]]
    """Those of the gateways."""
    gateways: dict[int, Program] = field(default_factory=dict[int, Program])
    kills: int = 0

    # Gateways

    async def start(self, number: int) -> None:
        with (self.folder / "errors").open("ab") as errors:
            gateway = program.start(
                *("gateway", "run", "--log", f"{self.folder}/gateway.log"),
                environment=self.environments[number],
                cwd=self.folder,
                output=errors.fileno(),
                errors=errors.fileno(),
            )
        self.gateways[number] = gateway

        async def is_alive() -> bool:
            assert gateway.poll() is None, (self.folder / "errors").read_text()
            alive = await gateways.alive(self.store)
            return gateway.pid in {whose(it.process)[1] for it in alive}

        await until(is_alive, f"gateway {number} is there", WITHIN)

    async def kill(self, number: int) -> bool:
        """Kill the gateway in the middle of a run. Return whether there was one left."""
        gateway = self.gateways[number]
        while await self.finished() < RUNS:
            await asyncio.to_thread(gateway.stop)
            if gateway.pid in await self.store.read(_at_work):
                gateway.kill()
                await asyncio.to_thread(gateway.wait)
                self.kills += 1
                return True
            gateway.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.005)
        return False

    def close(self) -> None:
        for gateway in self.gateways.values():
            gateway.kill()
            gateway.wait()

    # Jobs

    async def fill(self) -> dict[str, int]:
        """Make all jobs, due at once, and return the due time of each by its word."""
        names = [f"owner{n}" for n in range(OWNERS)]
        for owner in names:
            await owners.ensure(self.store, owner)
            chat = await self.rig.chat(self.rig.dm, [await self.rig.user(owner)])
            home = HomeChannel(address=self.rig.address(self.rig.dm, chat))
            await owners.set_home(self.store, owner, home)
        return await self.store.write(_fill, names)

    async def finished(self) -> int:
        return await self.store.read(_finished)

    async def over(self) -> None:
        """Wait until every run has ended and every report was sent."""

        async def is_over() -> bool:
            if await self.finished() < RUNS or await reports.waiting(self.store, [*Platform]):
                return False
            homes = [chat for chat, _ in await self.chats()]
            every = [row for chat in homes for row in await outgoing(self.store, chat)]
            return all(row.finished for row in every)

        await until(is_over, "every run has ended", WITHIN)

    async def chats(self) -> list[tuple[str, str]]:
        """Each owner's chat and its session."""
        found: list[tuple[str, str]] = []
        for n in range(OWNERS):
            (home,) = await owners.homes(self.store, f"owner{n}")
            binding = await bindings.get(self.store, home.address)
            found.append((home.address.chat_id, binding.session_id if binding else ""))
        return found


def _finished(tx: Tx) -> int:
    return tx.one("SELECT count(*) FROM runs WHERE finished IS NOT NULL")[0]


def _at_work(tx: Tx) -> set[int]:
    """The processes that carry out a run."""
    rows = tx.rows("SELECT DISTINCT process FROM runs WHERE state = 'running'")
    return {whose(process)[1] for (process,) in rows}


def _fill(tx: Tx, owners: Sequence[str]) -> dict[str, int]:
    due: dict[str, int] = {}
    for number in range(RUNS):
        word = f"w{number}"
        at = moment(tx.now) + timedelta(milliseconds=1 + number % 50)
        hour = timedelta(hours=1)
        uses_a_tool = number % 10 == 0
        job = NewJob(
            name=word,
            prompt=f"{word} {TASK}" if uses_a_tool else f"{word} is what it says",
            schedule=Once(at) if number % 2 else Every(hour, at - hour),
            zone="UTC",
            deliver=parse_targets("telegram"),
            verbatim=number % 10 > 4,
            model=MODEL if uses_a_tool else None,
            allows=("shell",) if uses_a_tool else (),
        )
        jobs.create(tx, owners[number % len(owners)], job)
        due[word] = micros(at)
    return due


def _runs(tx: Tx) -> list[Found]:
    rows: list[Row] = tx.rows(
        "SELECT j.name, r.due, r.state, r.attempt, r.error, j.session_id"
        " FROM runs r JOIN jobs j ON j.id = r.job_id"
    )
    return [Found(*row) for row in rows]


def _reported(tx: Tx) -> list[str]:
    """The job of each report."""
    rows = tx.rows(
        "SELECT j.name FROM reports p JOIN runs r ON r.id = p.run_id JOIN jobs j ON j.id = r.job_id"
    )
    return [name for (name,) in rows]


def words(texts: Sequence[str]) -> Counter[str]:
    """The number of texts about each word."""
    return Counter(word for text in texts for word in {*WORD.findall(text)})


@contextlib.asynccontextmanager
async def race(rig: GenericRig, url: str, folder: Path, number: int) -> AsyncGenerator[Race]:
    """Gateways on that store. On SQLite two of them cannot serve the same platform."""
    async with contextlib.AsyncExitStack() as stack:
        model = WordModel()
        model.command = f"echo {{word}} >> {folder}/done"
        base = await stack.enter_async_context(model.serving())
        store = await stack.enter_async_context(await segue.store.open(url))
        beside = f'[platforms.discord]\nadapter = "{quiet_adapter.NAME}"\n'
        environments: list[dict[str, str]] = []
        for n in range(number):
            settings = folder / f"config{n}.toml"
            own = beside if n and url.startswith("sqlite") else rig.settings()
            settings.write_text(f"[web]\nenabled = false\n{own}")
            settings.chmod(0o600)
            environments.append(
                {
                    "PYTHONPATH": f"{CODE['PYTHONPATH']}:{ROOT}",
                    "HOME": str(folder),
                    "PATH": program.PATH,
                    "SEGUE_STORE": url,
                    "SEGUE_CONFIG": str(settings),
                    "SEGUE_MODEL": "scripted",
                    "OPENAI_BASE_URL": base,
                    "OPENAI_API_KEY": "sk-test",
                    **program.constants(rig.constants),
                }
            )
        running = Race(folder, url, store, rig, model, environments)
        stack.callback(running.close)
        for n in range(number):
            await running.start(n)
        yield running


async def run(racing: Race, seed: int) -> None:
    chance = random.Random(seed)
    due = await racing.fill()
    for ended in sorted(chance.sample(range(1, RUNS * 9 // 10), KILLS)):

        async def is_next(ended: int = ended) -> bool:
            return await racing.finished() >= ended

        await until(is_next, f"run {ended} has ended", WITHIN)
        victim = chance.randrange(len(racing.environments))
        if await racing.kill(victim):
            await racing.start(victim)
    await racing.over()
    assert racing.kills, "it was over before anything was killed"
    await check(racing, due)


async def check(racing: Race, due: dict[str, int]) -> None:
    found = await racing.store.read(_runs)
    assert {run.word: run.due for run in found} == due
    assert len(found) == RUNS, "a due time happened twice"
    for run in found:
        abandoned = run.state == RunState.FAILED and run.error == ABANDONED
        assert abandoned or run.state == RunState.REPORTED, run
    assert max(run.attempt for run in found) > 1, "no run was interrupted"
    once = Counter(due.keys())
    assert Counter(await racing.store.read(_reported)) == once
    await _check_sessions(racing, found)
    seen: Counter[str] = Counter()
    told: Counter[str] = Counter()
    for chat, session in await racing.chats():
        view = await racing.rig.look(chat)
        seen += words([message.text for message in view.messages])
        transcript = await transcripts.load(racing.store, session)
        told += words([m.content for m in transcript if m.role is Role.ASSISTANT])
    assert seen == once, "on the platform"
    assert told == once, "in the conversations"


async def _check_sessions(racing: Race, found: Sequence[Found]) -> None:
    """Each run asked the agent once, and each tool was used at most once."""
    done = (racing.folder / "done").read_text().split()
    assert len(done) == len({*done}), "a tool was used twice"
    for run in found:
        if run.session_id is None:
            continue
        asked = [
            message.content
            for message in await transcripts.load(racing.store, run.session_id)
            if message.role is Role.USER and message.kind is Kind.SYNTHETIC
        ]
        assert len(asked) <= 1, run
        if re.search(TASK, "".join(asked)) and run.attempt == 1:
            assert run.word in done, run


@pytest.fixture
def folder() -> Any:
    with tempfile.TemporaryDirectory(prefix="segue-", dir=fast_folder()) as made:
        yield Path(made)


@pytest.mark.kill
async def test_two_gateways_on_sqlite_run_each_due_time_once(fakes: Fakes, folder: Path, seed: int):
    peer = fakes.of(GenericRig)
    async with (
        GenericRig.opened(peer) as rig,
        race(rig, f"sqlite://{folder}/segue.db", folder, 2) as racing,
    ):
        await run(racing, seed)


@pytest.mark.real
async def test_three_gateways_on_postgres_run_each_due_time_once(
    fakes: Fakes, folder: Path, postgres_server: postgres.Server, seed: int
):
    peer = fakes.of(GenericRig)
    with postgres_server.database() as url:
        async with GenericRig.opened(peer) as rig, race(rig, url, folder, 3) as racing:
            await run(racing, seed)
