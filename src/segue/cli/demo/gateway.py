"""The demo's gateway, in a separate process, and its model.

The gateway serves the page only. It exits with the process that started it, however that one ends:
standard input closes then. It also removes the demo's folder, in case the other process could not.
The model is the user's, the embedded one, or a scripted stand-in if requested.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import quote

from msgspec.structs import replace

from segue import config
from segue.agent.models.base import Prompt
from segue.agent.models.catalog import SCRIPTED
from segue.agent.models.choice import Choice, Models, choose
from segue.agent.models.local import runtime
from segue.agent.models.local.runtime import QWEN, has_weights
from segue.agent.models.scripted import ScriptedModel
from segue.cli import first_model
from segue.config import Approvals, ResetSettings, Settings, WebSettings
from segue.core.address import Platform
from segue.core.errors import DemoFailed, LocalMissing, NoModel, PullFailed
from segue.core.text import count, one_line
from segue.core.transcript import Role, words
from segue.gateway import log_file
from segue.store import Store, Topic, gateways
from segue.store.gateways import LinkState
from segue.terminal.output import is_interactive, notice
from segue.web import endpoints

_IDLE_MINUTES = 0.05
"""Minutes until the embedded model is unloaded after the demo, unless it was loaded before."""
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.1
_MAX_REASON = 300
_NAMED = re.compile(r"\bcalled ([A-Z]\w+)")
_CANNOT_ASK = (
    "there is no terminal to ask on whether to download the embedded one. Add --yes to download it,"
    " or --scripted to use scripted answers instead"
)
_INSTEAD = (
    "The demo goes on with scripted answers: everything in it is real, except that no model thinks."
)


def choose_model(settings: Settings, *, yes: bool, scripted: bool) -> Choice:
    """Return the model to use, downloading the embedded one if the user agrees.

    With `yes`, nothing is asked, and scripted answers replace a model that cannot be downloaded.
    Raises a ModelError if there is no model.
    """
    if scripted:
        return Choice(name=SCRIPTED, why="You asked for scripted answers.")
    try:
        return asyncio.run(choose(settings))
    except (NoModel, LocalMissing):
        if not (yes or is_interactive()):
            raise NoModel(reason=_CANNOT_ASK) from None
    try:
        first_model.pull(settings.models_folder, ask=not yes)
    except PullFailed as error:
        if not yes:
            raise
        notice(str(error))
        notice(_INSTEAD)
        return Choice(name=SCRIPTED, why="The embedded model could not be downloaded.")
    return asyncio.run(choose(settings))


def installed_parts(settings: Settings) -> list[str]:
    """Return which parts of the embedded model are there, in words."""
    folder = settings.models_folder
    found: list[str] = []
    if has_weights(folder, QWEN):
        found.append(f"the model in {one_line(str(folder))}")
    elif (folder / f"{QWEN.file}.part").exists():
        found.append(f"a part of the model in {one_line(str(folder))}")
    if runtime.has_package():
        found.append(f"the Python package {runtime.PACKAGE}, which runs the model")
    return found


def models(name: str) -> Models | None:
    """Return the stand-in, or None for a real model."""
    return StandIn() if name == SCRIPTED else None


class StandIn:
    """Names the boat that it finds in the prompt, so a right answer proves that it was there."""

    async def get(self, wanted: str | None) -> ScriptedModel:
        return ScriptedModel(itertools.repeat(_answer))

    async def close(self) -> None: ...


def _answer(prompt: Prompt) -> str:
    said = [words(message) for message in prompt.messages if message.role is Role.USER]
    names = [found[1] for text in said if (found := _NAMED.search(text))]
    boat = f"which name the boat {names[-1]}" if names else "which do not name a boat"
    seen = count(len(prompt.messages), "message")
    return f"I am a script, not a real model. I got {seen}, {boat}."


def demo_settings(settings: Settings, folder: Path, model: str) -> Settings:
    """Return the user's settings for the model, and the demo's own for everything else."""
    return replace(
        settings,
        store=f"sqlite://{quote(str(folder / 'segue.db'))}",
        gateway_log=_log(folder),
        model=model,
        idle_minutes=_IDLE_MINUTES,
        approvals=Approvals(),
        platforms={},
        web=WebSettings(port=0),
        reset=ResetSettings(zone=settings.zone),
    )


def _log(folder: Path) -> Path:
    return folder / "gateway.log"


# Used by the demo


@contextlib.asynccontextmanager
async def run_gateway(store: Store, folder: Path, model: str) -> AsyncGenerator[str]:
    """Run the gateway, and yield the page's URL once it is served."""
    log_file.make(_log(folder))
    with _log(folder).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__, str(folder), model),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,  # so that the demo handles Ctrl-C
        )
    try:
        yield await _wait_until_served(store, process, folder)
    finally:
        await _end(process)


async def _wait_until_served(
    store: Store, process: asyncio.subprocess.Process, folder: Path
) -> str:
    async with store.listen(Topic.HANDOFFS) as wake:
        while process.returncode is None:
            gateway = await gateways.serving(store, Platform.WEB)
            connected = gateway and gateway.links[Platform.WEB].state is LinkState.CONNECTED
            if connected and (url := endpoints.page_url(gateway)):
                return url
            await wake.wait(_POLL_SECONDS)
    words = _log(folder).read_text("utf-8", "replace").strip().splitlines()
    reason = words[-1].strip().rstrip(".")[:_MAX_REASON] if words else "its log is empty"
    raise DemoFailed(reason=f"the gateway stopped: {reason}")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:  # a running turn would delay the exit for too long
        process.kill()
        await process.wait()


# The gateway process


def main(folder: Path, model: str) -> None:
    """Serve until the demo ends, then remove its folder."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
        from segue.gateway.service import serve  # noqa: PLC0415 - heavy, and here only

        log_file.write_to(_log(folder))
        asyncio.run(serve(demo_settings(config.load(), folder, model), models=models(model)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
