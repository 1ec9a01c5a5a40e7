"""The commands of docs/whatsapp.md, run against the WhatsApp fake."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from tests import program
from tests.fakes.whatsapp import APP_SECRET, PHONE, Driver, Peer, serving
from tests.harness.gateways import CODE, none_left, segue_says
from tests.harness.networks import reserved_port
from tests.harness.terminal import Person

DOCUMENT = (Path(__file__).parents[2] / "docs" / "whatsapp.md").read_text("utf-8")


@contextlib.asynccontextmanager
async def whatsapp(person: Person) -> AsyncGenerator[tuple[Peer, Driver, str]]:
    """A fake, and the address of the webhook, as if a tunnel led to it."""
    home = Path(person.environment["HOME"])
    with reserved_port() as port:
        (home / "config.toml").write_text(f"[web]\nport = {port}\n", "utf-8")
        async with serving() as peer, peer.driver() as driver, none_left(person):
            person.environment.update(
                SEGUE_CONFIG=str(home / "config.toml"),
                SEGUE_GATEWAY_LOG=str(home / "gateway.log"),
                SEGUE_WHATSAPP_URL=peer.url,
            )
            yield peer, driver, f"http://127.0.0.1:{port}/hooks/whatsapp"
            assert await driver.errors() == ()


def squeezed(text: str) -> str:
    """The text without blanks, where the terminal may have broken a line."""
    return re.sub(r"\s+", "", text)


def verify_token(printed: str) -> str:
    [token] = re.findall(r"theverifytoken([0-9a-f]{32})\.", squeezed(printed))
    return token


async def test_the_set_up_prints_what_the_document_shows(person: Person):
    [(command, block)] = re.findall(r"\$ \.venv/bin/segue (.*?)\n(.*?)```", DOCUMENT, re.DOTALL)
    async with whatsapp(person) as (peer, driver, hook):
        anna = await driver.user("Anna")
        async with person.opens(*command.split(), lines=120) as shown:
            for question, value in (
                ("Phone number ID:", PHONE),
                ("Access token (not shown)", peer.token),
                ("App secret (not shown)", APP_SECRET),
            ):
                await shown.see(question)
                shown.say(value)
            await shown.shows("Waiting for that.", 40)
            token = verify_token(shown.text)
            await driver.subscribe(hook, token)
            await shown.shows("Keep it secret.", 40)
            [code] = re.findall(r"Send (\S+) to the bot within 10 minutes", shown.text)
            await driver.say(anna, code)
            await shown.shows("Done. To hand off a conversation, type /handoff whatsapp in it.", 40)
            assert await shown.end() == 0
            printed = squeezed(shown.text)
    ours = {"5c1e…": token, "https://segue.example.org/hooks/whatsapp": hook, "8N2D-VGKQ": code}
    ours["/home/me/.config/segue/config.toml"] = person.environment["SEGUE_CONFIG"]
    for line in filter(None, map(str.strip, block.splitlines())):
        for theirs, mine in ours.items():
            line = line.replace(theirs, mine)
        assert squeezed(line) in printed
    assert "group" not in printed
    for secret in (peer.token, APP_SECRET):
        assert secret not in printed


async def test_the_lines_for_scripts_lead_to_a_message_in_the_chat(person: Person):
    [line] = re.findall(r"```sh\nsegue (setup whatsapp .*) < secrets\.txt\n```", DOCUMENT)
    async with whatsapp(person) as (peer, driver, hook):
        await driver.wrote(await driver.user("Anna"))
        where: Any = {"environment": {**CODE, **person.environment}, "cwd": person.cwd}
        secrets = f"{peer.token}\n{APP_SECRET}\n".encode()

        async def run() -> Any:
            return await asyncio.to_thread(program.run, *shlex.split(line), **where, given=secrets)

        first = await run()
        assert first.returncode == 1, "the webhook has not been entered"
        await driver.subscribe(hook, verify_token(first.stdout))
        await driver.until(lambda shown: shown.verified)
        second = await run()
        assert second.returncode == 0, second.stderr
        await driver.until(lambda shown: any("It works." in text for text in shown.texts))
        others = re.findall(r"[`\n]segue ((?:config set|doctor|gateway status)[^`\n]*)", DOCUMENT)
        assert {it.split()[0] for it in others} == {"config", "doctor", "gateway"}
        for words in others:
            told = await asyncio.to_thread(segue_says, person, *shlex.split(words))
            assert told.returncode == 0, told.stdout + told.stderr
