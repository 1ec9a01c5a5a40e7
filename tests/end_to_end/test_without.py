"""A gateway without Telegram does not pay for its library."""

from __future__ import annotations

import asyncio
import importlib
import signal
import subprocess
import sys
from pathlib import Path

from segue.core.address import Platform
from segue.platforms import registry
from segue.store.gateways import LinkState
from tests.end_to_end.conftest import TELEGRAM, WITHIN, Home
from tests.harness.gateways import begin_python

LIBRARIES = {"telegram", "httpx"}
PROGRAM = f"""
import sys
from segue.cli.main import main
try:
    main(["gateway", "run"])
finally:
    print(*sorted({LIBRARIES} & sys.modules.keys()))
"""
"""`segue gateway run`, which tells in the end what it has loaded."""


async def test_a_gateway_without_telegram_never_loads_its_library(home: Home):
    write(home, '[platforms.telegram]\nenabled = false\ntoken = "1:a"\n')
    assert await loaded(home, Platform.WEB) == []


def write(home: Home, settings: str) -> None:
    Path(home.person.environment["SEGUE_CONFIG"]).write_text(settings)


def test_one_with_telegram_does():
    importlib.import_module(registry.SPECS[TELEGRAM].make.partition(":")[0])
    assert sys.modules.keys() >= LIBRARIES


async def loaded(home: Home, platform: Platform) -> list[str]:
    """Which libraries a gateway has in the end, after it has served that platform."""
    with begin_python(home.person, "-c", PROGRAM) as gateway:
        await home.until_link(LinkState.CONNECTED, platform)
        gateway.send_signal(signal.SIGTERM)
        told, complaints = await asyncio.to_thread(communicate, gateway)
    assert gateway.returncode == 0, complaints
    return told.split()


def communicate(process: subprocess.Popen[str]) -> tuple[str, str]:
    return process.communicate(timeout=WITHIN)
