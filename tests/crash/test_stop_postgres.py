"""SIGTERM for a gateway whose PostgreSQL is gone while the model thinks: nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

import segue.store
from segue.core.address import Platform, Sender
from segue.core.session import ME
from segue.store import Store, owners
from segue.testing.platform import Driver, Peer, Shape, serving
from tests.fakes import postgres
from tests.harness.database_proxy import DatabaseProxy
from tests.harness.gateway_processes import environment
from tests.harness.household import EchoModel
from tests.harness.pty import CODE
from tests.program import Program, constants, start

TELEGRAM = Platform.TELEGRAM
WITHIN = 40.0
QUICK = {
    "segue.gateway.service.STOP_TIMEOUT": 0.5,
    "segue.gateway.service.FLUSH_TIMEOUT": 0.5,
    "segue.gateway.service.CLOSE_TIMEOUT": 2.0,
    "segue.store.connections.ANSWER_SECONDS": 2.0,
    "segue.store.connections.PING_SECONDS": 1.0,
}

pytestmark = pytest.mark.real


@contextlib.contextmanager
def gateway(folder: Path, peer: Peer, url: str, model: str) -> Generator[Program]:
    """A running gateway. It is killed at the end."""
    given = {
        **CODE,
        **environment(folder, peer, TELEGRAM),
        "SEGUE_STORE": url,
        "SEGUE_MODEL": "openai/gpt-test",
        "OPENAI_BASE_URL": model,
        "OPENAI_API_KEY": "sk-test",
        **constants(QUICK),
    }
    with (folder / "output").open("ab") as output:
        number = output.fileno()
        process = start(
            *("gateway", "run"), environment=given, cwd=str(folder), output=number, errors=number
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def chat_of_owner(store: Store, driver: Driver) -> tuple[str, str]:
    await owners.ensure(store, ME)
    await owners.introduced(store, ME)
    user = await driver.user("Anna")
    await owners.link(store, Sender(platform=TELEGRAM, user_id=user), ME)
    return user, await driver.chat(Shape.DM, [user])


@pytest.mark.parametrize("how", ["refuses", "stalls"])
async def test_a_gateway_whose_database_is_gone_exits_after_sigterm_and_loses_nothing(
    postgres_server: postgres.Server, tmp_path: Path, how: str
):
    model = EchoModel()
    with postgres_server.database() as url:
        async with (
            model.serving() as address,
            serving() as peer,
            peer.driver() as driver,
            DatabaseProxy(url).running() as proxy,
            await segue.store.open(url) as store,
        ):
            user, chat = await chat_of_owner(store, driver)
            model.hold("think")
            with gateway(tmp_path, peer, proxy.url, address) as first:
                await driver.say(user, chat, "think about it")
                await model.hears("think")
                proxy.is_up = False
                if how == "refuses":
                    proxy.cut()
                else:
                    proxy.stall()
                first.terminate()
                assert await asyncio.to_thread(first.wait, WITHIN) == 0
            assert "gateway has stopped" in (tmp_path / "output").read_text()
            proxy.is_up = True
            proxy.flow()
            model.let_go()
            with gateway(tmp_path, peer, proxy.url, address):
                await driver.message("(1) think about it", chat=chat, within=WITHIN)


async def test_a_terminal_whose_database_is_gone_can_be_left(
    postgres_server: postgres.Server, tmp_path: Path
):
    with postgres_server.database() as url:
        async with DatabaseProxy(url).running() as proxy, asyncio.timeout(WITHIN):
            terminal = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "segue"),
                env={
                    **CODE,
                    "HOME": str(tmp_path),
                    "PATH": "/usr/bin:/bin",
                    "SEGUE_STORE": proxy.url,
                    "SEGUE_MODEL": "scripted",
                },
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert terminal.stdin is not None
            assert terminal.stdout is not None
            terminal.stdin.write(b"hello\n")
            await terminal.stdout.readuntil(b"hello")
            proxy.is_up = False
            proxy.cut()
            _, errors = await terminal.communicate(b"/quit\n")
    assert terminal.returncode == 1
    assert b"does not answer" in errors
    assert b"Traceback" not in errors
