"""Work that might never end, done in a process of its own, which can be ended."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True, slots=True)
class Outcome:
    output: str
    code: int | None
    """The exit code; None when it was stopped because it took too long."""


async def apart(script: str, given: str, seconds: float) -> Outcome:
    """What `script`, a file of ours that needs only the standard library, makes of `given`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",  # nothing from the working directory or the environment
        "-S",
        script,
        env={},  # a command that runs at the same time could read it
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output = bytearray()
    try:
        async with asyncio.timeout(seconds):
            await _talk(process, given.encode("utf-8", "surrogatepass"), output)
            code = await process.wait()
    except TimeoutError:
        code = None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return Outcome(output.decode("utf-8", "replace"), code)


async def _talk(process: asyncio.subprocess.Process, given: bytes, output: bytearray) -> None:
    """Give it everything, then keep what it says; it must not speak before it has heard all."""
    stdin = cast("asyncio.StreamWriter", process.stdin)
    with contextlib.suppress(ConnectionError):  # it is gone, and its exit code will say so
        stdin.write(given)
        await stdin.drain()
    stdin.close()
    while chunk := await cast("asyncio.StreamReader", process.stdout).read(65536):
        output += chunk
