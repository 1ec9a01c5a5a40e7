"""A user's client as Element has it: matrix-js-sdk, in a process of Node.

It exchanges encrypted messages only with devices that are signed by their owners, and verifies
users, not devices.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from tests.fakes.synapse import Account, Server

LIBRARY = Path(sys.prefix) / "matrix-js-sdk"
"""Where `make test-real` installs it."""
_PROGRAM = Path(__file__).with_suffix(".mjs")
_RECOVERY = "5e" * 32
"""The recovery key of every user: with it, a user's second device signs itself."""
_LINE = 1 << 20


class Element:
    """One device of a user. Its methods are the commands of `element.mjs`."""

    device_id: str

    def __init__(self, process: Process, user_id: str) -> None:
        self._process, self.user_id = process, user_id

    async def __call__(self, name: str, **given: str) -> Any:
        """Run a command, and return what it found."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": name, **given}).encode() + b"\n")
        async with asyncio.timeout(40):
            answer = json.loads(await self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["found"]


@contextlib.asynccontextmanager
async def element(server: Server, account: Account) -> AsyncGenerator[Element]:
    """A new device of that user, signed in."""
    process = await asyncio.create_subprocess_exec(
        "node", _PROGRAM, LIBRARY, stdin=PIPE, stdout=PIPE, limit=_LINE
    )
    client = Element(process, account.user_id)
    try:
        given = {"url": server.url, "user": account.user_id, "password": account.password}
        client.device_id = await client("start", **given, recovery=_RECOVERY)
        yield client
    finally:
        process.kill()
        await process.communicate()
