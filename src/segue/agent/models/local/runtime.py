"""The package that runs the weights: xllamacpp, in the one version that Segue was tried with."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from segue.agent.models.local.pip import pip
from segue.core.errors import PullFailed

PACKAGE = "xllamacpp"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
"""Written by `make lock`: the version and the hashes of its files."""


def present() -> bool:
    """Whether it is installed. It is not loaded to find out."""
    return importlib.util.find_spec(PACKAGE) is not None


async def install(told: Callable[[str], None]) -> None:
    """Install it into this environment, unless it is there, and see that it can be loaded; `told`
    hears what pip says. Or raise PullFailed."""
    if not present():
        await pip(
            "install",
            "--require-hashes",
            "--no-deps",
            "--only-binary=:all:",
            "--progress-bar=off",
            f"--requirement={REQUIREMENTS}",
            told=told,
        )
        importlib.invalidate_caches()
    if reason := await _fault():
        raise PullFailed(reason=reason)


def why(error: ImportError) -> str:
    """Why it cannot be loaded, and what helps."""
    if "libgomp" in str(error):
        return "the system's libgomp.so.1 is missing; on Debian and Ubuntu: apt install libgomp1"
    return f"{PACKAGE} cannot be loaded: {error}"


async def _fault() -> str:
    """Why it cannot be loaded, empty when it can; tried apart, since it may take all with it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        f"import {PACKAGE}",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if not process.returncode:
        return ""
    lines = said.decode("utf-8", "replace").strip().splitlines() or ["it crashes"]
    return why(ImportError(lines[-1].removeprefix("ImportError: ")))
