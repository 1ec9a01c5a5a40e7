"""Start a gateway in the background, and stop the one that is running."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import IO

from segue.core.errors import StoreError, UserError
from segue.core.text import one_line
from segue.gateway import log_file
from segue.store import Store, Topic, gateways
from segue.store.gateways import GatewayRecord, LinkState
from segue.store.processes import machine, whose

START_TIMEOUT = 30.0
"""Seconds until a new gateway must be present in the store."""
STOP_TIMEOUT = 70.0
"""Seconds until a gateway must have exited. Running turns get 30 of them, and it exits after 60."""
_DAEMON = "segue.cli.daemon"
"""The program to run. It is not imported, because the CLI is a layer above the gateway."""
_POLL_SECONDS = 0.1
_REASON_LENGTH = 300


def here(gateways: Sequence[GatewayRecord]) -> list[GatewayRecord]:
    """The gateways that run on this machine."""
    return [gateway for gateway in gateways if _pid(gateway) is not None]


def _pid(gateway: GatewayRecord) -> int | None:
    """The gateway's process id, or None if it runs on another machine or has exited."""
    where, pid = whose(gateway.process)
    if where != machine():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None  # the store on another machine notices later
    except PermissionError:
        pass  # it runs under another account
    return pid


# Starting


async def start(
    store: Store, log: Path, *, lan: bool = False, seconds: float = START_TIMEOUT
) -> GatewayRecord:
    """Start a gateway that outlives this program, and return once it is present in the store. With
    `lan`, its page listens on the local network regardless of the settings. Raise UserError if this
    machine already has one, or, with its error output, if it exits first."""
    for gateway in here(await gateways.alive(store)):
        platforms = ", ".join(sorted(gateway.platforms)) or "nothing"
        raise already_serving(gateway.name, platforms)
    log_file.make(log)
    with tempfile.TemporaryFile() as words:
        async with _spawned(words, log, ["--lan"] if lan else []) as child:
            return await _shown(store, child, words, seconds)


def already_serving(name: str, platforms: str) -> UserError:
    return UserError(
        f"{name} already serves {platforms}. Type `segue gateway status` to look at it, or `segue"
        " gateway stop` to stop it first."
    )


class _Child:
    """The started gateway, as seen through a pipe."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.ended = False
        self.shown = False

    def read(self, pipe: int) -> None:
        """Read the process id, which the child writes at once. The next read is the end of file."""
        if said := os.read(pipe, 64):
            self.pid = int(said)
        else:
            self.ended = True
            asyncio.get_running_loop().remove_reader(pipe)


@contextlib.asynccontextmanager
async def _spawned(words: IO[bytes], log: Path, options: Sequence[str]) -> AsyncGenerator[_Child]:
    """Start the child. When the block ends, terminate it unless it is present in the store."""
    ours, theirs = os.pipe()
    loop = asyncio.get_running_loop()
    child = _Child()
    # Shielded: after a cancellation the spawn still finishes, and it needs its end of the pipe.
    spawning = loop.run_in_executor(None, _spawn, theirs, words, log, options)
    try:
        await asyncio.shield(spawning)
        loop.add_reader(ours, child.read, ours)
        yield child
    finally:
        loop.remove_reader(ours)
        if child.pid is None and not child.ended:
            child.read(ours)
        if child.pid is not None and not child.shown and not child.ended:
            os.kill(child.pid, signal.SIGTERM)
        os.close(ours)


def _spawn(pipe: int, words: IO[bytes], log: Path, options: Sequence[str]) -> None:
    try:
        subprocess.run(
            [sys.executable, "-P", "-m", _DAEMON, str(pipe), str(log), *options],
            check=False,  # it exits at once; the pipe reports on its child
            cwd=Path.home(),  # do not keep the terminal's directory in use
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            pass_fds=(pipe,),
            start_new_session=True,
        )
    finally:
        os.close(pipe)


async def _shown(store: Store, child: _Child, words: IO[bytes], seconds: float) -> GatewayRecord:
    deadline = time.monotonic() + seconds
    async with store.listen(Topic.HANDOFFS) as wake:
        while time.monotonic() < deadline:
            for gateway in await gateways.alive(store):
                if whose(gateway.process) == (machine(), child.pid):
                    child.shown = True
                    return gateway
            if child.ended:
                raise log_file.not_started(_last_of(words))
            await wake.wait(_POLL_SECONDS)
    raise log_file.not_started(f"it was not ready within {seconds:.0f} seconds, and was ended")


async def until_connected(store: Store, gateway: GatewayRecord, seconds: float) -> GatewayRecord:
    """The gateway's state once its connection attempts have finished, or after `seconds`."""
    deadline = time.monotonic() + seconds
    async with store.listen(Topic.HANDOFFS) as wake:
        while time.monotonic() < deadline:
            alive = {found.process: found for found in await gateways.alive(store)}
            gateway = alive.get(gateway.process, gateway)
            connecting = any(h.state is LinkState.CONNECTING for h in gateway.links.values())
            if not connecting or gateway.process not in alive:
                break
            await wake.wait(_POLL_SECONDS)
    return gateway


def _last_of(words: IO[bytes]) -> str:
    """The last line of the error output, without the "Error: " prefix and the full stop."""
    words.seek(0)
    said = words.read().decode("utf-8", "replace").strip().splitlines()
    last = one_line(said[-1].strip().removeprefix("Error: "), _REASON_LENGTH) if said else ""
    return last.rstrip(". ") or "it ended without a word"


# Stopping


async def stop(store: Store, *, seconds: float = STOP_TIMEOUT) -> list[GatewayRecord]:
    """Stop the gateways of this machine and wait until they have exited. Raise UserError if there
    is none, if one cannot be stopped from here, or after a timeout."""
    alive = await gateways.alive(store)
    if not (mine := here(alive)):
        for gateway in alive:
            where, _ = whose(gateway.process)
            if where != machine():
                raise _elsewhere(gateway.name, f"the machine {where}")
        raise UserError("No gateway is running. Type `segue gateway start`.")
    for gateway in mine:
        _end(gateway)
    await _gone(store, mine, seconds)
    return mine


def _end(gateway: GatewayRecord) -> None:
    """Send SIGTERM to the gateway if it is still running."""
    _, pid = whose(gateway.process)
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise _elsewhere(gateway.name, "another account of this machine") from error


def _elsewhere(name: str, where: str) -> UserError:
    return UserError(
        f"{name} cannot be stopped from here: it belongs to {where}. Type `segue gateway stop`"
        " there."
    )


async def _gone(store: Store, gateways: Sequence[GatewayRecord], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    async with store.listen(Topic.HANDOFFS) as wake:
        while time.monotonic() < deadline:
            gateways = await _left(store, gateways)
            if not gateways:
                return
            await wake.wait(_POLL_SECONDS)
    _, pid = whose(gateways[0].process)
    raise UserError(
        f"{gateways[0].name} did not stop within {seconds:.0f} seconds. Type `segue gateway logs`"
        f" to see what it is doing, or `kill -9 {pid}`. The next gateway continues its work."
    )


async def _left(store: Store, asked: Sequence[GatewayRecord]) -> list[GatewayRecord]:
    """Those of the gateways that still run. If the store is gone, their process ids say so."""
    try:
        alive = {gateway.process for gateway in await gateways.alive(store)}
    except StoreError:
        return here(asked)
    return [gateway for gateway in here(asked) if gateway.process in alive]
