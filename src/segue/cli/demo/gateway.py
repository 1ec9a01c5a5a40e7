"""The demo's own gateway, in a process of its own: it serves the page and nothing else.

It ends with whoever started it, however that one ends: the end of standard input tells. So it is
also the one to remove the demo's folder if nobody else is left to do it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from segue import config
from segue.cli.demo.model import models
from segue.config import Approvals, Settings, WebSettings
from segue.core.address import Platform
from segue.core.errors import DemoFailed
from segue.core.reset import ResetPolicies
from segue.gateway import log_file
from segue.store import Store, Topic
from segue.store.gateways import Link
from segue.web import links

_IDLE_MINUTES = 0.05
"""The embedded model leaves memory so soon after the demo, unless it was there before."""
_FAREWELL = 5.0
_LOOK = 0.1
_REASON = 300


def staged(settings: Settings, folder: Path, model: str) -> Settings:
    """The person's settings, as far as the model needs them; everything else is the demo's own."""
    return replace(
        settings,
        store=f"sqlite://{quote(str(folder / 'segue.db'))}",
        gateway_log=_log(folder),
        model=model,
        idle_minutes=_IDLE_MINUTES,
        approvals=Approvals(),
        platforms={},
        web=WebSettings(port=0),
        resets=ResetPolicies(),
    )


def _log(folder: Path) -> Path:
    return folder / "gateway.log"


# For the demo


@contextlib.asynccontextmanager
async def running(store: Store, folder: Path, model: str) -> AsyncGenerator[str]:
    """The gateway, once it serves the page, whose address this is."""
    log_file.make(_log(folder))
    with _log(folder).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__, str(folder), model),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,  # so that Ctrl-C is ours to pass on
        )
    try:
        yield await _serving(store, process, folder)
    finally:
        await _end(process)


async def _serving(store: Store, process: asyncio.subprocess.Process, folder: Path) -> str:
    async with store.listen(Topic.HANDOFFS) as wake:
        while process.returncode is None:
            gateway = await store.gateways.serving(Platform.WEB)
            connected = gateway and gateway.links[Platform.WEB].state is Link.CONNECTED
            if connected and (url := links.url(gateway)):
                return url
            await wake.wait(_LOOK)
    words = _log(folder).read_text("utf-8", "replace").strip().splitlines()
    reason = words[-1].strip().rstrip(".")[:_REASON] if words else "it said nothing"
    raise DemoFailed(reason=f"the gateway ended: {reason}")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_FAREWELL):
            await process.wait()
    except TimeoutError:  # a turn that runs would get longer than anybody wants to wait here
        process.kill()
        await process.wait()


# The process itself


def main(folder: Path, model: str) -> None:
    """Serve until the demo ends, however it does; then nothing of it is left."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
        from segue.gateway.service import serve  # noqa: PLC0415 - heavy, and here only

        log_file.write_to(_log(folder))
        asyncio.run(serve(staged(config.load(), folder, model), models=models(model)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _leave(_signal: int, _frame: object) -> NoReturn:
    sys.exit(0)


def _end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
