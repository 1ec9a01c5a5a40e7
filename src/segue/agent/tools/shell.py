"""Running a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Annotated, cast

import msgspec

from segue.agent.tools.base import OUTPUT_LIMIT, Risk, Tool, ToolFailed, Workplace, shorten

LONGEST = 600
_KEEP = 4 * OUTPUT_LIMIT
_GRACE = 2.0


class ShellArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, msgspec.Meta(description="The command, as typed in a shell.")]
    seconds: Annotated[
        int, msgspec.Meta(ge=1, le=LONGEST, description="How long it may take at the most.")
    ] = 60


def shell(environment: dict[str, str]) -> Tool[ShellArguments]:
    """The tool that runs commands with `environment`, which must hold no secret of ours."""

    async def work(arguments: ShellArguments, place: Workplace) -> str:
        return await _run(arguments, place, environment)

    return Tool(
        name="shell",
        description="Run a command in a shell, in the working directory, and see its output.",
        risk=Risk.RUN,
        arguments=ShellArguments,
        work=work,
        tell=lambda arguments, place: f"run in {place.cwd}:\n{arguments.command}",
    )


async def _run(arguments: ShellArguments, place: Workplace, environment: dict[str, str]) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            arguments.command,
            cwd=place.cwd,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # a group of its own, so that all it started can be stopped
        )
    except OSError as error:
        raise ToolFailed(f"The command could not be started: {error.strerror}") from error
    output = bytearray()
    ended = ""
    try:
        async with asyncio.timeout(arguments.seconds):
            left_out = await _collect(cast("asyncio.StreamReader", process.stdout), output)
            await process.wait()
    except TimeoutError:
        left_out = 0
        ended = f"[stopped: it took longer than {arguments.seconds} seconds]"
    finally:
        await _stop(process)
    text = output.decode("utf-8", "replace")
    if left_out:
        ended = f"[stopped: it printed more than {_KEEP:,} bytes]"
    elif not ended and process.returncode:
        ended = f"[exit code {process.returncode}]"
    return "\n".join(filter(None, (shorten(text.rstrip()), ended))) or "[no output]"


async def _collect(stdout: asyncio.StreamReader, output: bytearray) -> bool:
    """Read until the end; True when there was more than anybody would want to read."""
    while chunk := await stdout.read(65536):
        output += chunk[: _KEEP - len(output)]
        if len(output) >= _KEEP:
            return True
    return False


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the command and everything that it started and left in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
