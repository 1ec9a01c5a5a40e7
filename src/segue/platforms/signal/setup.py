"""The part of `segue setup signal` before its questions: a running daemon that has an account."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
from collections.abc import Mapping
from urllib.parse import urlsplit

from segue.core.address import Platform
from segue.core.errors import SetupFailed
from segue.platforms.errors import Lost, Refused
from segue.platforms.signal.client import FAILURES, SignalClient
from segue.platforms.signal.spec import COMMAND, GET
from segue.platforms.spec import SetupTerminal

PROGRAM = "signal-cli"
STARTS_SECONDS = 30.0
_LOOK = 0.2
_LINK_SECONDS = 180.0
_LOCAL = ("127.0.0.1", "localhost", "::1")
_SCAN = (
    "On your phone, open Signal, Settings, Linked devices, press Link new device, and scan this"
    " code. Segue then reads and writes as you, on a device of its own."
)
_REGISTER = (
    "To use a number of its own instead, type `signal-cli -a NUMBER register`, then `signal-cli -a"
    " NUMBER verify CODE`, and `segue setup signal --account NUMBER`."
)


async def prepare(values: Mapping[str, str], terminal: SetupTerminal) -> Mapping[str, str]:
    """Start the daemon if it is installed and does not run, and link an account if it has none.
    Return the values with the account. Raise SetupFailed or ConnectFailed."""
    client = SignalClient(values.get("account", ""), values.get("url", ""), 20.0)
    try:
        with FAILURES.connecting():
            if not await _answers(client):
                await _start(client, terminal)
            return {**values, "account": await _account(client, terminal)}
    finally:
        await client.close()


async def _answers(client: SignalClient) -> bool:
    try:
        await client.version()
    except Lost as lost:
        if lost.arrived:
            raise
        return False
    return True


async def _start(client: SignalClient, terminal: SetupTerminal) -> None:
    at = urlsplit(client.url)
    if at.hostname not in _LOCAL:
        raise _failed(f"no signal-cli daemon answers at {client.url}")
    if (program := shutil.which(PROGRAM)) is None:
        raise _failed(f"signal-cli is neither running nor installed. {GET} Or start it: {COMMAND}")
    options = COMMAND.replace("127.0.0.1:8080", f"{at.hostname}:{at.port or 80}").split()[1:]
    terminal.say(f"Starting {program} {' '.join(options)}")
    process = await asyncio.to_thread(_spawn, [program, *options])
    deadline = asyncio.get_running_loop().time() + STARTS_SECONDS
    while not await _answers(client):
        if not _is_running(process) or asyncio.get_running_loop().time() > deadline:
            raise _failed(f"signal-cli did not start. To see why, type `{COMMAND}`")
        await asyncio.sleep(_LOOK)
    terminal.say("It runs until this machine stops. docs/signal.md says how to start it at boot.")


def _spawn(command: list[str]) -> int:
    """Start a process that outlives this one, and return its id."""
    shell = ["sh", "-c", '"$@" </dev/null >/dev/null 2>&1 & echo $!', "sh", *command]
    made = subprocess.run(shell, start_new_session=True, stdout=subprocess.PIPE, check=True)
    return int(made.stdout)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def _account(client: SignalClient, terminal: SetupTerminal) -> str:
    found = await client.accounts()
    if client.account and (found is None or client.account in found):
        return client.account
    if client.account:
        raise _failed(f"signal-cli has no account {client.account}. {_REGISTER}")
    if found is None:
        raise _failed("the daemon was started for one account; name it with --account")
    if len(found) > 1:
        raise _failed(
            f"signal-cli has several accounts ({', '.join(found)}); choose with --account"
        )
    return found[0] if found else await _link(client, terminal)


async def _link(client: SignalClient, terminal: SetupTerminal) -> str:
    """Link signal-cli as a second device of the account of the phone that scans the code."""
    if not terminal.asks:
        raise _failed(f"signal-cli has no account yet. Run this in a terminal. {_REGISTER}")
    uri = await client.call("startLink", str, "deviceLinkUri", own=False)
    terminal.say(_SCAN)
    terminal.show(uri)
    terminal.say(_REGISTER)
    try:
        link = functools.partial(client.call, "finishLink", str, "number", own=False)
        number = await link(seconds=_LINK_SECONDS, deviceLinkUri=uri, deviceName="Segue")
    except Refused as refused:
        raise _failed(refused.reason) from refused
    terminal.say(f"Linked to {number}.")
    return number


def _failed(reason: str) -> SetupFailed:
    return SetupFailed(platform=Platform.SIGNAL, reason=reason)
