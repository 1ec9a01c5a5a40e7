"""A gateway that serves the page and six platforms at once.

Five platforms are the fakes of `segue.testing`, in separate processes. Matrix is configured with a
server that refuses connections: its adapter and its library are loaded, and it keeps trying to
connect, but it has no rooms and no keys. An account in use needs more memory than is measured here.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from pathlib import Path

import segue
import segue.store
from benchmarks import bare
from benchmarks.alternation import of_process, of_program
from benchmarks.figures import Figure, median, milliseconds
from segue.core.address import Platform
from segue.core.session import ME
from segue.store import Store, gateways, owners
from segue.store.gateways import LinkState
from tests.fakes import discord, slack, telegram, whatsapp
from tests.fakes import signal as signal_cli
from tests.harness.gateway_processes import Process

READY = 80.0
"""The most that a start may cost, as a multiple of a bare interpreter."""
MEMORY = 110.0
_WITHIN = 30.0
_SETTLE = 1.0
_LOOK = 0.005


def measure(*, quick: bool) -> Iterator[Figure]:
    starts = 2 if quick else 8
    alone = min(of_program(bare.INTERPRETER) for _ in range(starts))
    ready, started, memory = asyncio.run(_measure(starts))
    name = "gateway with seven platforms: from its start until all but Matrix are connected"
    yield milliseconds(name, median(ready))
    name = "gateway with seven platforms: CPU from its start until all but Matrix are connected"
    yield milliseconds(name, min(started), bare.interpreter(alone), READY)
    name = "gateway with seven platforms: idle memory"
    yield Figure(name=name, value=memory, unit="MB", target=MEMORY)


async def _measure(starts: int) -> tuple[list[float], list[float], float]:
    ready: list[float] = []
    started: list[float] = []
    memory = 0.0
    with tempfile.TemporaryDirectory() as folder, _settings(Path(folder)) as settings:
        environment = {
            "HOME": folder,
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(segue.__file__).parents[1]),
            "SEGUE_CONFIG": str(settings),
            "SEGUE_STORE": f"sqlite://{folder}/segue.db",
            "SEGUE_MODEL": "scripted",
        }
        async with await segue.store.open(environment["SEGUE_STORE"]) as store:
            await owners.ensure(store, ME)
            await owners.introduced(store, ME)
            for number in range(starts):
                async with _gateway(environment, store, f"{folder}/gateway.log") as gateway:
                    started.append(of_process(gateway.pid))
                    ready.append(gateway.ready)
                    if number == starts - 1:
                        await asyncio.sleep(_SETTLE)
                        memory = gateway.memory
    return ready, started, memory


@contextlib.contextmanager
def _settings(folder: Path) -> Generator[Path]:
    """Start the platforms, and yield the settings of a gateway that serves them all."""
    with contextlib.ExitStack() as stack:
        start = stack.enter_context
        chat, server = start(telegram.running()), start(discord.running())
        space, phone = start(slack.running()), start(whatsapp.running())
        number = start(signal_cli.running())
        made = {
            "telegram": {"url": chat.url, "token": chat.token},
            "discord": {"url": server.url, "token": server.token},
            "slack": {"url": space.url, "token": space.token, "app_token": space.app_token},
            "whatsapp": {
                "url": phone.url,
                "token": phone.token,
                "phone": whatsapp.PHONE,
                "app_secret": whatsapp.APP_SECRET,
            },
            "signal": {"url": number.url, "account": number.token},
            "matrix": {
                "url": f"http://127.0.0.1:{_closed_port()}",
                "token": "syt_tests",
                "invites_from": "@anna:localhost",
            },
        }
        path = folder / "config.toml"
        text = "".join(_section(f"platforms.{name}", values) for name, values in made.items())
        path.write_text(f"{text}[web]\nport = 0\nlan = false\n", "utf-8")
        path.chmod(0o600)
        yield path


def _section(name: str, values: Mapping[str, str]) -> str:
    lines = [f"[{name}]", *(f'{key} = "{value}"' for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _closed_port() -> int:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return closed.getsockname()[1]


@contextlib.asynccontextmanager
async def _gateway(
    environment: Mapping[str, str], store: Store, log: str
) -> AsyncGenerator[Process]:
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "segue", "gateway", "run", "--log", log),
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_WITHIN):
            while True:
                if await _is_connected(store):
                    break
                await asyncio.sleep(_LOOK)
        yield Process(process.pid, time.monotonic() - began)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def _is_connected(store: Store) -> bool:
    links = [link for gateway in await gateways.alive(store) for link in gateway.links.values()]
    connected = {link.platform for link in links if link.state is LinkState.CONNECTED}
    return connected == {link.platform for link in links} - {Platform.MATRIX} and len(links) == 7
