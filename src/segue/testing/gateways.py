"""A real gateway in a process of its own, which serves the test platform."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path

import segue
from segue.core.address import Platform
from segue.testing.platform.driver import Hands
from segue.testing.platform.process import Peer

WITHIN = 30.0
_NOWHERE = "nowhere"
"""No chat: what is shown of it is short."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """A gateway that is connected."""

    pid: int
    ready: float
    """Seconds from its start until it was."""

    @property
    def memory(self) -> float:
        """Megabytes that it has now."""
        lines = Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines()
        (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
        return kilobytes / 1000

    @property
    def processor(self) -> float:
        """Seconds of a processor's time that it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def environment(folder: Path, peer: Peer, platform: Platform) -> dict[str, str]:
    """What lets the program serve the test platform as `platform`, with its store in `folder` and a
    model that takes no time: it repeats what it hears."""
    settings = folder / "config.toml"
    settings.write_text(
        f"[platforms.{platform}]\n"
        'adapter = "segue.testing.platform.adapter:make"\n'
        f'url = "{peer.url}"\n'
        f'token = "{peer.token}"\n'
    )
    settings.chmod(0o600)
    return {
        "HOME": str(folder),
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(segue.__file__).parents[1]),
        "SEGUE_CONFIG": str(settings),
        "SEGUE_STORE": f"sqlite://{folder}/segue.db",
        "SEGUE_GATEWAY_LOG": str(folder / "gateway.log"),
        "SEGUE_MODEL": "scripted",
    }


@contextlib.asynccontextmanager
async def gateway(environment: Mapping[str, str], hands: Hands) -> AsyncGenerator[Process]:
    """One that is ready; at the end it is told to stop. What it says goes to its log."""
    polls = await _polls(hands)
    log = Path(environment["SEGUE_GATEWAY_LOG"])
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "segue", "gateway", "run", "--log", str(log)),
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        # Its first poll is the first thing that it does once it is connected.
        await hands.until(
            lambda shown: shown.calls.get("updates", 0) > polls, chat=_NOWHERE, within=WITHIN
        )
        yield Process(process.pid, time.monotonic() - began)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def _polls(hands: Hands) -> int:
    return (await hands.look(_NOWHERE)).calls.get("updates", 0)
