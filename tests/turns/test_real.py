"""Complete turns with the real embedded model."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

import segue.store
from segue import config
from segue.agent.models.local.runtime import QWEN, has_weights
from segue.config import Approvals, Settings
from segue.core.address import Address, ChatType, HomeChannel, Platform
from segue.core.approval import Policy
from segue.core.events import TurnDone
from segue.core.session import ME
from segue.jobs import reminders
from segue.jobs.queries import jobs
from segue.store import Store, gateways, owners, sessions, transcripts
from segue.system import files
from segue.turns import Turns
from segue.turns.agents import Agents
from tests.agent.models.local.conftest import end

pytestmark = pytest.mark.real


@pytest.fixture
def cwd() -> Generator[Path]:
    """The same path in every run, for one test at a time.

    The prompt names it, and the model's answer depends on every word of the prompt.
    """
    folder = Path(tempfile.gettempdir()) / f"segue-test-of-the-model-{os.getuid()}"
    with folder.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder
        shutil.rmtree(folder)


@pytest.fixture
def local(settings: Settings, tmp_path: Path) -> Generator[Settings]:
    """Settings with the embedded model, which runs in a separate server."""
    fetched = config.load().models_folder
    assert has_weights(fetched), f"no weights in {fetched}: run `make test-real`"
    folder = tmp_path / "models"
    files.make_private_folder(folder)
    (folder / QWEN.file).symlink_to(fetched / QWEN.file)
    shutil.copy(fetched / f"{QWEN.file}.verified", folder)
    store = f"sqlite://{tmp_path}/segue.db"
    yield structs.replace(settings, model="local", models_folder=folder, store=store)
    end(folder)


@asynccontextmanager
async def started(local: Settings) -> AsyncGenerator[tuple[Store, Turns]]:
    """The program, from its start to its end."""
    async with (
        await segue.store.open(local.store) as store,
        Turns(store, Agents(store, local, more_tools=reminders.tools)) as turns,
    ):
        await owners.ensure(store, ME)
        yield store, turns


async def test_the_conversation_continues_after_everything_was_stopped(local: Settings, cwd: Path):
    async def say(turns: Turns, words: str) -> None:
        events = [event async for event in turns.take_turn(session.id, words)]
        assert events[-1] == TurnDone(), events

    async with started(local) as (store, turns):
        session = await sessions.create(store, ME, Platform.LOCAL, cwd=str(cwd))
        await say(turns, "My name is Anna and I work as a baker.")
        await say(turns, "What is the capital of France?")
    end(local.models_folder)
    async with started(local) as (store, turns):
        await say(turns, "What is my name and what is my job?")
        kept = await transcripts.load(store, session.id)
        found = await sessions.get(store, session.id)
    answer = kept.messages[-1].content
    assert "Anna" in answer
    assert "baker" in answer
    assert found is not None
    assert found.title  # the model found the title
    assert len(found.title) <= 40
    assert found.usage.input > found.usage.output > 0


async def test_the_model_uses_a_tool_of_the_session(local: Settings, cwd: Path):
    (cwd / "train.txt").write_text("The train leaves at 17:45.\n")
    async with started(local) as (store, turns):
        session = await sessions.create(store, ME, Platform.LOCAL, cwd=str(cwd))
        words = "Read the file train.txt and tell me what it says."
        events = [event async for event in turns.take_turn(session.id, words)]
        kept = await transcripts.load(store, session.id)
    assert events[-1] == TurnDone()
    assert [m.role.value for m in kept] == ["user", "assistant", "tool", "assistant"]
    assert kept.messages[2].tool_name == "read_file"
    assert "17:45" in kept.messages[-1].content


async def test_the_model_makes_a_reminder(local: Settings, cwd: Path):
    local = structs.replace(local, approvals=Approvals(policy=Policy.AUTO))
    async with started(local) as (store, turns):
        await gateways.announce(store, "a gateway", [], seconds=3600)
        await owners.introduced(store, ME)
        dm = Address(platform=Platform.TELEGRAM, chat_type=ChatType.DM, chat_id="1")
        await owners.set_home(store, ME, HomeChannel(address=dm, name="Anna"))
        session = await sessions.create(store, ME, Platform.LOCAL, cwd=str(cwd))
        words = "Remind me in 20 minutes to take the bread out of the oven."
        events = [event async for event in turns.take_turn(session.id, words)]
        (job,) = await jobs.list_jobs(store, ME)
    assert events[-1] == TurnDone()
    assert job.due is not None
    assert job.due - job.created > timedelta(minutes=19)
    assert "bread" in job.prompt
