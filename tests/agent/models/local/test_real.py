"""The embedded model with the real runtime and the real weights."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Generator, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue import config
from segue.agent.loop import Agent
from segue.agent.models.base import End, Piece, Prompt, Text
from segue.agent.models.local import pull, runtime
from segue.agent.models.local.model import LocalModel
from segue.agent.models.local.runtime import QWEN, has_weights
from segue.agent.models.local.serve import RunFolder, ServerAddress
from segue.agent.tools import files
from segue.agent.tools.base import Tool, Workplace
from segue.approvals.rules import Rules
from segue.core.approval import Answer
from segue.core.errors import ContextTooLong, ModelCutOff
from segue.core.events import MessageAdded, TurnDone
from segue.core.transcript import Message, Role, Transcript
from segue.system import files as system_files
from segue.system import locks
from tests.agent.models.local.conftest import end, until

pytestmark = pytest.mark.real

SYSTEM = "You are Segue, a helpful assistant. Answer briefly."
LONG = "Count from 1 to 500, one number a line."


@pytest.fixture(scope="session")
def fetched() -> Path:
    """The weights. `make test-real` downloads them, as a user would, before it runs any test."""
    folder = config.load().models_folder
    assert has_weights(folder), f"no weights in {folder}: run `make test-real`"
    return folder


@pytest.fixture
def folder(fetched: Path, tmp_path: Path) -> Generator[Path]:
    """The same weights in a separate folder, so that a test has a separate server."""
    ours = tmp_path / "models"
    system_files.make_private_folder(ours)
    (ours / QWEN.file).symlink_to(fetched / QWEN.file)
    shutil.copy(fetched / f"{QWEN.file}.verified", ours)
    yield ours
    end(ours)


@contextlib.asynccontextmanager
async def local(folder: Path, idle: float = 600.0) -> AsyncGenerator[LocalModel]:
    model = LocalModel(folder=folder, idle=idle)
    try:
        yield model
    finally:
        await model.close()


def said(text: str) -> Message:
    return Message(Role.USER, text, datetime.now(UTC))


def prompt(*messages: Message) -> Prompt:
    return Prompt(system=SYSTEM, messages=messages)


async def ask(model: LocalModel, text: str) -> str:
    heard = [piece async for piece in model.stream(prompt(said(text)))]
    assert isinstance(heard[-1], End)
    assert heard[-1].usage.output > 0
    return words(heard)


def words(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Text))


def reached(folder: Path) -> ServerAddress:
    state = LocalModel(folder=folder)._server._state()
    assert state is not None
    return state


def running(folder: Path) -> bool:
    return locks.is_locked(RunFolder(folder / "run").lock)


async def never(*_: object) -> Answer:
    raise AssertionError("nobody is asked about reading")


async def turn(model: LocalModel, cwd: Path, messages: list[Message], *tools: Tool[Any]) -> str:
    """Take a turn, which adds to `messages`, and return the last answer."""
    agent = Agent(
        model=model,
        system=SYSTEM,
        place=Workplace(cwd=cwd),
        tools={tool.name: tool for tool in tools},
        rules=Rules(),
        approve=never,
    )
    events = [e async for e in agent.turn(Transcript(tuple(messages)), asyncio.Event())]
    assert isinstance(events[-1], TurnDone), events
    messages += [event.message for event in events if isinstance(event, MessageAdded)]
    return messages[-1].content


def test_the_weights_can_be_downloaded_and_have_the_right_hash(fetched: Path):
    assert has_weights(fetched)
    assert pull._sha256(fetched / QWEN.file) == QWEN.sha256


async def test_the_runtime_can_be_loaded():
    said: list[str] = []
    await runtime.install(said.append)
    assert not said, "it is there already"


async def test_the_fake_runtime_has_only_names_of_the_real_one():
    script = (
        "import importlib.util, sys, xllamacpp;"
        "spec = importlib.util.spec_from_file_location('stand_in', sys.argv[1]);"
        "fake = importlib.util.module_from_spec(spec); spec.loader.exec_module(fake);"
        "real = xllamacpp.CommonParams();"
        "print([n for n, v in fake._KNOWN.items() if type(getattr(real, n)) is not type(v)])"
    )
    stand_in = Path(__file__).parent / "runtime" / "xllamacpp.py"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stand_in, stdout=asyncio.subprocess.PIPE
    )
    assert (await process.communicate())[0] == b"[]\n"


async def test_the_conversation_continues_after_the_server_is_killed(folder: Path):
    messages = [said("My name is Anna and I work as a baker.")]
    async with local(folder) as model:
        await turn(model, folder, messages)
        messages.append(said("What is the capital of France?"))
        assert "Paris" in await turn(model, folder, messages)
        first = reached(folder).pid
        os.kill(first, signal.SIGKILL)
        messages.append(said("What is my name and what is my job?"))
        answer = await turn(model, folder, messages)
    assert "Anna" in answer
    assert "baker" in answer
    assert reached(folder).pid != first


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("secret.txt", "The code word is marmalade.", "marmalade"),
        ("train.txt", "The train leaves at 17:45.", "17:45"),
    ],
)
async def test_the_model_reads_a_file_with_a_tool(
    folder: Path, tmp_path: Path, name: str, content: str, word: str
):
    (tmp_path / name).write_text(f"{content}\n")
    messages = [said(f"Read the file {name} and tell me what it says.")]
    async with local(folder) as model:
        answer = await turn(model, tmp_path, messages, files.READ, files.LIST)
    (call,) = messages[1].tool_calls
    assert call.name == "read_file"
    assert word in answer


async def test_requests_without_the_key_are_refused(folder: Path):
    async with local(folder) as model:
        await ask(model, "Say hello.")
    url = reached(folder).url
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    with httpx2.Client(trust_env=False) as client:
        for key, status in (("wrong", 401), (reached(folder).key, 200)):
            headers = {"Authorization": f"Bearer {key}"}
            answer = client.post(f"{url}/chat/completions", json=body, headers=headers)
            assert answer.status_code == status
        assert client.get(url.removesuffix("/v1")).status_code in {401, 404}, "no page for browsers"


async def test_two_programs_share_one_server(folder: Path):
    script = (
        "import asyncio, sys; from pathlib import Path;"
        "from tests.agent.models.local.test_real import ask_once;"
        "print(asyncio.run(ask_once(Path(sys.argv[1]))))"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, folder, env=environment, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    pids = [(await process.communicate())[0] for process in processes]
    assert [int(pid) for pid in pids] == [reached(folder).pid] * 2


async def ask_once(folder: Path) -> int:
    async with local(folder) as model:
        assert await ask(model, "Say hello.")
    return reached(folder).pid


async def test_an_idle_server_stops_and_is_started_again(folder: Path):
    async with local(folder, idle=2) as model:
        await ask(model, "Say hello.")
        await until(lambda: not running(folder))
        assert await ask(model, "Say hello.")


async def test_a_server_that_is_killed_during_an_answer_is_reported_and_the_next_turn_works(
    folder: Path,
):
    async with local(folder) as model:
        async with contextlib.aclosing(model.stream(prompt(said(LONG)))) as pieces:
            await anext(pieces)
            os.kill(reached(folder).pid, signal.SIGKILL)
            with pytest.raises(ModelCutOff):
                await drain(pieces)
        assert await ask(model, "Say hello.")


async def drain(pieces: AsyncGenerator[Piece]) -> None:
    async for _ in pieces:
        pass


async def test_an_abandoned_answer_does_not_delay_the_next(folder: Path):
    async with local(folder) as model:
        async with contextlib.aclosing(model.stream(prompt(said(LONG)))) as pieces:
            await anext(pieces)
        # Its whole answer would take more than 25 seconds, at 40 tokens a second.
        async with asyncio.timeout(20):
            assert await ask(model, "Say hello.")


async def test_a_conversation_that_is_too_long_is_reported(folder: Path):
    async with local(folder) as model:
        with pytest.raises(ContextTooLong) as caught:
            await ask(model, "tell me more " * 9000)
        assert caught.value.fields["model"] == "the embedded model"
        assert await ask(model, "Say hello.")
