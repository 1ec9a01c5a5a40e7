"""Runs work that might never finish in a separate process, which can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from msgspec import Struct


class ScriptResult(Struct, frozen=True):
    output: str
    code: int | None
    """The exit code, or None if it was killed after the timeout."""


async def run_isolated(script: str, given: str, seconds: float) -> ScriptResult:
    """Run `script`, one of our own files that needs only the standard library, in a separate
    process with `given` as its input."""
    # -I ignores the working directory and the environment. Another command that runs at the same
    # time could read the environment.
    return await run(sys.executable, "-I", "-S", script, env={}, given=given, seconds=seconds)


async def run(
    *command: str,
    env: Mapping[str, str],
    seconds: float,
    given: str = "",
    cwd: Path | None = None,
) -> ScriptResult:
    """Run `command` with `given` as its input. Raise OSError if it cannot be started."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env=env,
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
    return ScriptResult(output.decode("utf-8", "replace"), code)


async def _talk(process: asyncio.subprocess.Process, given: bytes, output: bytearray) -> None:
    """Send all the input, then collect the output. The script must read before it writes."""
    stdin = cast("asyncio.StreamWriter", process.stdin)
    with contextlib.suppress(ConnectionError):  # it has ended, and the exit code shows why
        stdin.write(given)
        await stdin.drain()
    stdin.close()
    while chunk := await cast("asyncio.StreamReader", process.stdout).read(65536):
        output += chunk
