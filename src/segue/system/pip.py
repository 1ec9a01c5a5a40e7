"""Runs pip, which applies the user's own package index settings."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from segue.core.errors import PullFailed

_GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_ALWAYS = ("--disable-pip-version-check", "--no-input", "--no-color")


async def install(
    locked: Path, report: Callable[[str], None], *, from_source: Sequence[str] = ()
) -> None:
    """Install the packages of a lock file, checked by their hashes. Raise PullFailed on failure.
    `report` receives each line of pip's output.

    No package is built here, since that may need a compiler, except those named in `from_source`.
    """
    await run(
        "install",
        "--require-hashes",
        "--no-deps",
        "--only-binary=:all:",
        *(f"--no-binary={name}" for name in from_source),
        "--progress-bar=off",
        f"--requirement={locked}",
        report=report,
    )
    importlib.invalidate_caches()


async def run(
    *arguments: str, scratch: Path | None = None, report: Callable[[str], None] | None = None
) -> None:
    """Run pip for this Python. Raise PullFailed with pip's error message if it fails. `report`
    receives each line of output. Temporary files go to `scratch`."""
    # -P, because the user's working directory may contain a module called pip.
    command = [sys.executable, "-P", "-m", "pip", *arguments, *_ALWAYS]
    if scratch is not None:
        command = ["env", f"TMPDIR={scratch}", *command]
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=1024 * 1024,
        )
    except OSError as error:
        raise PullFailed(reason=f"pip could not be started: {error.strerror}") from error
    lines: deque[str] = deque(maxlen=100)
    try:
        async for line in cast("asyncio.StreamReader", process.stdout):
            lines.append(line.decode("utf-8", "replace").strip())
            if report is not None:
                report(lines[-1])
        code = await process.wait()
    finally:
        await _end(process)
    if code:
        raise _complaint(lines, code)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(_GRACE):
                await process.wait()
        except TimeoutError:
            process.kill()
    await process.wait()


def _complaint(lines: deque[str], code: int) -> PullFailed:
    if any(line.endswith("No module named pip") for line in lines):
        reason = f"this Python has no pip; type `{sys.executable} -m ensurepip` first"
        return PullFailed(reason=reason)
    errors = [line.partition(":")[2].strip() for line in lines if line.upper().startswith("ERROR:")]
    said = errors or [line for line in lines if line] or [f"exit code {code}"]
    return PullFailed(reason=f"pip says: {said[-1][:300].rstrip('. ')}")
