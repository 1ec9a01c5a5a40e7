"""A real gateway in a separate process, connected to the test platform."""

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
from segue.testing.platform import Driver, Peer

WITHIN = 30.0
_NOWHERE = "nowhere"
"""The id of a chat that does not exist, so the snapshot contains no messages."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """A connected gateway process."""

    pid: int
    ready: float
    """Seconds from start to connection."""

    @property
    def memory(self) -> float:
        """Resident memory in megabytes."""
        lines = Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines()
        (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
        return kilobytes / 1000

    @property
    def processor(self) -> float:
        """CPU seconds used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def environment(folder: Path, peer: Peer, platform: Platform) -> dict[str, str]:
    """Return the environment in which the program serves the test platform as `platform`.

    The store is in `folder`. The model is the scripted one, which repeats the message and takes no
    time.
    """
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
async def gateway(environment: Mapping[str, str], driver: Driver) -> AsyncGenerator[Process]:
    """Run a gateway; yield once it is connected. SIGTERM stops it. Its output goes to its log."""
    polls = await _polls(driver)
    log = Path(environment["SEGUE_GATEWAY_LOG"])
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "segue", "gateway", "run", "--log", str(log)),
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        # A gateway polls as soon as it is connected.
        await driver.until(
            lambda shown: shown.calls.get("updates", 0) > polls, chat=_NOWHERE, within=WITHIN
        )
        yield Process(process.pid, time.monotonic() - began)
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def _polls(driver: Driver) -> int:
    return (await driver.look(_NOWHERE)).calls.get("updates", 0)
