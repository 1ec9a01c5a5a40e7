"""The embedded model as the agent uses it, with a fake runtime."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from segue.agent.models.base import End, Model, Prompt, Stop, Text
from segue.agent.models.local import runtime
from segue.agent.models.local.model import LocalModel
from segue.core.errors import LocalMissing, ModelCutOff, ModelError
from segue.core.transcript import Message, Role
from tests.agent.models.local.conftest import CONTENT, until
from tests.agent.models.local.index import weights

TINY = weights(content=CONTENT)


@contextlib.asynccontextmanager
async def local(folder: Path) -> AsyncGenerator[Model]:
    model = LocalModel(folder=folder, weights=TINY)
    try:
        yield model
    finally:
        await model.close()


def prompt(text: str, max_tokens: int = 4096) -> Prompt:
    said = Message(Role.USER, text, datetime(2026, 1, 1, tzinfo=UTC))
    return Prompt(system="", messages=(said,), max_tokens=max_tokens)


async def ask(model: Model, text: str, max_tokens: int = 4096) -> str:
    heard = [piece async for piece in model.stream(prompt(text, max_tokens))]
    assert isinstance(heard[-1], End)
    assert heard[-1].stop is Stop.DONE
    return "".join(piece.text for piece in heard if isinstance(piece, Text))


async def test_the_local_model_has_its_name_and_limits(tmp_path: Path):
    async with local(tmp_path) as model:
        assert (model.name, model.context, model.small, model.images) == (
            "local",
            8192,
            True,
            False,
        )


async def test_several_turns_use_one_server(shared: Path):
    async with local(shared) as model:
        first, second = await ask(model, "hello"), await ask(model, "hello")
    assert first.endswith(": hello")
    assert first == second, "the answers name the process"


async def test_programs_share_the_server(shared: Path):
    async with local(shared) as one, local(shared) as other:
        first, second = await asyncio.gather(ask(one, "hello"), ask(other, "hello"))
    assert first == second


async def test_missing_runtime_and_weights_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runtime, "PACKAGE", "segue_no_such_package")
    async with local(tmp_path) as model:
        with pytest.raises(LocalMissing) as caught:
            await ask(model, "hello")
        assert "segue_no_such_package and its weights" in str(caught.value.fields["missing"])


async def test_an_existing_part_is_not_reported_as_missing(here: Path):
    (here / TINY.file).unlink()
    async with local(here) as model:
        with pytest.raises(LocalMissing) as caught:
            await ask(model, "hello")
        assert caught.value.fields["missing"] == "its weights (0 MB)"


async def test_a_server_that_was_killed_between_turns_is_started_again(here: Path):
    async with local(here) as model:
        first = await ask(model, "hello")
        os.kill(int(first.partition(":")[0]), signal.SIGKILL)
        assert await ask(model, "hello") != first


async def test_a_server_that_dies_before_it_answers_is_started_again_once(here: Path):
    async with local(here) as model:
        assert (await ask(model, "die once")).endswith(": die once")
        with pytest.raises(ModelError, match="it ended before it answered"):
            await ask(model, "die")
        assert (await ask(model, "hello")).endswith(": hello")


async def test_a_server_that_dies_during_an_answer_is_reported_and_the_next_turn_works(here: Path):
    async with local(here) as model:
        pieces = model.stream(prompt("die in the middle"))
        assert await anext(pieces) == Text("I was ab")
        with pytest.raises(ModelCutOff) as caught:
            await anext(pieces)
        assert caught.value.fields["provider"] == "the embedded model"
        assert (await ask(model, "hello")).endswith(": hello")


async def test_closing_the_answer_drops_the_connection(shared: Path):
    async with local(shared) as model:
        async with contextlib.aclosing(model.stream(prompt("go on"))) as pieces:
            assert await anext(pieces) == Text("and ")
        await until((shared / "left").exists)


async def test_answers_have_a_default_token_limit(shared: Path):
    async with local(shared) as model:
        sent = json.loads(await ask(model, "request"))
        assert (sent["max_tokens"], sent["temperature"]) == (1024, 0)
        assert json.loads(await ask(model, "request", max_tokens=7))["max_tokens"] == 7


async def test_a_proxy_in_the_environment_is_not_used(
    shared: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with local(shared) as model:
        assert (await ask(model, "hello")).endswith(": hello")


async def test_the_log_has_a_size_limit(here: Path):
    log = here / "run" / "server.log"
    model = LocalModel(folder=here, weights=TINY, idle=2)
    answering = asyncio.create_task(ask(model, "shout"))
    await until(lambda: log.exists() and log.stat().st_size > 1_000_000)
    await until(lambda: log.stat().st_size < 1_000_000)
    await answering
    await model.close()


def test_checking_for_the_local_model_loads_nothing_heavy():
    script = (
        "import sys; import segue.agent.models.local.runtime, segue.agent.models.local.runtime;"
        "print(sorted({'httpx2', 'xllamacpp', 'zipfile'} & sys.modules.keys()))"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[]"
