"""The part of `segue setup signal` before its questions: a running daemon that has an account."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

from segue.core.address import Platform
from segue.platforms.errors import Lost, Refused, not_set_up
from segue.platforms.signal.client import SignalClient
from segue.platforms.signal.spec import COMMAND, GET
from segue.platforms.spec import SetupTerminal

START_SECONDS = 30.0
"""How long the daemon may take to answer its first call."""
_RETRY_SECONDS = 0.2
_DETACHED = '"$@" </dev/null >/dev/null 2>&1 & echo $!'
_LOCAL = ("127.0.0.1", "localhost", "::1")
_SCAN = (
    "On your phone, open Signal, Settings, Linked devices, press Link new device, and scan this"
    " code. Segue then reads and writes messages as you, as a linked device."
)
_REGISTER = (
    "To use a separate number instead, type `signal-cli -a NUMBER register`, then `signal-cli -a"
    " NUMBER verify CODE`, and `segue setup signal --account NUMBER`."
)


async def prepare(values: Mapping[str, str], terminal: SetupTerminal) -> Mapping[str, str]:
    """Start the daemon if it is installed and does not run, and link an account if it has none.
    Return the values with the account. Raise PlatformError."""
    client = SignalClient(values.get("account", ""), values.get("url", ""), 20.0)
    try:
        try:
            await client.version()
        except Lost as lost:
            if lost.arrived:
                raise
            await _start(client, terminal)
        try:
            await client.find_account()
        except Refused as refused:
            if refused.status != 401:
                raise
            await _link(client, terminal)
    except (Refused, Lost) as error:
        raise not_set_up(Platform.SIGNAL, error.reason) from error
    finally:
        await client.close()
    return {**values, "account": client.account}


async def _start(client: SignalClient, terminal: SetupTerminal) -> None:
    """Start the daemon, and return when it answers."""
    at = urlsplit(client.url)
    program = shutil.which("signal-cli")
    if at.hostname not in _LOCAL:
        raise Refused(400, f"no signal-cli daemon answers at {client.url}")
    if program is None:
        reason = f"signal-cli is neither running nor installed. {GET} Or start it: {COMMAND}"
        raise Refused(400, reason)
    options = COMMAND.replace("127.0.0.1:8080", f"{at.hostname}:{at.port or 80}").split()[1:]
    terminal.say(f"Starting {program} {' '.join(options)}")
    if not await _answers([program, *options], client):
        raise Refused(400, f"signal-cli did not start. To see why, type `{COMMAND}`")
    terminal.say("It runs until this machine stops. docs/signal.md says how to start it at boot.")


async def _answers(command: Sequence[str], client: SignalClient) -> bool:
    """Start a daemon that outlives this process. Return True when it answers, or False if it ends
    or takes too long."""
    run = partial(subprocess.run, start_new_session=True, stdout=subprocess.PIPE, check=True)
    shell = await asyncio.to_thread(run, ["sh", "-c", _DETACHED, "sh", *command])
    process = int(shell.stdout)
    try:
        async with asyncio.timeout(START_SECONDS):
            while True:
                with contextlib.suppress(Lost):
                    await client.version()
                    return True
                await asyncio.sleep(_RETRY_SECONDS)
                os.kill(process, 0)  # fails if the process has ended
    except (TimeoutError, ProcessLookupError):
        return False


async def _link(client: SignalClient, terminal: SetupTerminal) -> None:
    """Link signal-cli as a second device of the account of the phone that scans the code."""
    if not terminal.asks:
        name = client.account or "yet"
        raise Refused(401, f"signal-cli has no account {name}. Run this in a terminal. {_REGISTER}")
    uri = await client.call("startLink", str, "deviceLinkUri")
    terminal.say(_SCAN)
    terminal.show(uri)
    terminal.say(_REGISTER)
    given = {"deviceLinkUri": uri, "deviceName": "Segue"}
    client.account = await client.call("finishLink", str, "number", **given)
    terminal.say(f"Linked to {client.account}.")
