"""The commands of docs/signal.md, run against the Signal fake in the place of signal-cli."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

from segue.platforms.signal.spec import COMMAND
from segue.testing.http import bind
from tests.fakes.signal import ME, NUMBER, Driver, serving
from tests.harness.gateways import ROOT, none_left, segue_says
from tests.harness.pty import CODE
from tests.harness.terminal import Person
from tests.program import constants

DOCUMENT = (Path(__file__).parents[2] / "docs" / "signal.md").read_text("utf-8")
PROGRAM = """#!/bin/sh
echo $$ > {folder}/pid
echo "$@" > {folder}/options
export PYTHONPATH={path}
exec {python} -m tests.fakes.signal --port {port} --settings '{{"accounts": []}}' > {folder}/urls
"""
PATIENT = constants({"segue.platforms.signal.setup.START_SECONDS": 600.0})
"""A slow machine may need longer than a user wants to wait. The test has a time limit itself."""


@contextlib.asynccontextmanager
async def at_home(person: Person, url: str) -> AsyncGenerator[None]:
    home = Path(person.environment["HOME"])
    async with none_left(person):
        person.environment.update(
            SEGUE_CONFIG=str(home / "config.toml"),
            SEGUE_GATEWAY_LOG=str(home / "gateway.log"),
            SEGUE_SIGNAL_URL=url,
            **PATIENT,
        )
        yield


@contextlib.contextmanager
def installed(person: Person, folder: Path) -> Generator[str]:
    """A program `signal-cli` that is the fake. Yields where its daemon listens."""
    with contextlib.closing(bind()) as reserved:  # the fake can share the port, and no other
        port = reserved.getsockname()[1]
        program, given = folder / "signal-cli", {"folder": folder, "python": sys.executable}
        path = f"{CODE['PYTHONPATH']}{os.pathsep}{ROOT}"
        program.write_text(PROGRAM.format(**given, port=port, path=path))
        program.chmod(0o700)
        person.environment["PATH"] = f"{folder}:{os.defpath}"
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            os.kill(int((folder / "pid").read_text()), signal.SIGTERM)


def squeezed(text: str) -> str:
    """The text without blanks, where the terminal may have broken a line."""
    return re.sub(r"\s+", "", text)


async def test_the_set_up_prints_what_the_document_shows(person: Person, tmp_path: Path):
    [(command, block)] = re.findall(r"\$ \.venv/bin/segue (.*?)\n(.*?)```", DOCUMENT, re.DOTALL)
    with installed(person, tmp_path) as url:
        async with at_home(person, url), person.opens(*command.split(), lines=120) as shown:
            await shown.shows("sgnl://linkdevice", 100)  # it starts a Python
            [_, control] = (tmp_path / "urls").read_text().split()
            async with Driver(control) as phone:
                [link] = (await phone.until(lambda it: it.calls.get("finishLink", 0) > 0)).links
                await phone.scan(link, NUMBER)
                await shown.shows("Keep it secret.")
                [code] = re.findall(r"Send (\S+) to Note to Self", shown.text)
                await phone.say(ME.id, ME.id, code)
                await shown.shows("Done. To hand off a conversation, type /handoff signal")
                assert await shown.end() == 0
                assert any("It works." in text for text in (await phone.look()).texts)
                assert await phone.errors() == ()
            printed = squeezed(shown.text)
    assert (tmp_path / "options").read_text().split()[3:] == COMMAND.split()[4:]
    ours = {"K82J-2WPV": code, "uuid=…": "uuid=1", "(the QR code)": ""}
    ours |= {"/usr/local/bin/": f"{tmp_path}/", "127.0.0.1:8080": url.removeprefix("http://")}
    [ours[".venv/bin/segue setup"]] = re.findall(r"`([^`]*seguesetup)", printed)
    ours["/home/me/.config/segue/config.toml"] = person.environment["SEGUE_CONFIG"]
    for line in filter(None, map(str.strip, block.splitlines())):
        for theirs, mine in ours.items():
            line = line.replace(theirs, mine)
        assert squeezed(line) in printed


async def test_the_other_commands_of_the_document_work(person: Person):
    [line] = re.findall(r"```sh\nsegue (setup signal .*)\n```", DOCUMENT)
    others = re.findall(r"`segue ((?:config set|doctor)[^`]*)`", DOCUMENT)
    assert COMMAND in DOCUMENT
    async with serving() as peer, peer.driver() as driver, at_home(person, peer.url):
        for words in (line.replace("http://127.0.0.1:8080", peer.url), *others):
            told = await asyncio.to_thread(segue_says, person, *shlex.split(words))
            assert told.returncode == 0, told.stderr
        assert await driver.errors() == ()
