"""The commands of docs/slack.md, run against the Slack fake."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import segue.store
from segue.core.address import Platform
from segue.core.session import ME
from segue.store import gateways, owners
from tests import program
from tests.fakes.slack import COMMAND, Driver, Kind, Peer, serving
from tests.harness.gateways import CODE, none_left, segue_says
from tests.harness.terminal import Person

DOCUMENT = (Path(__file__).parents[2] / "docs" / "slack.md").read_text("utf-8")


@contextlib.asynccontextmanager
async def slack(person: Person) -> AsyncGenerator[tuple[Peer, Driver]]:
    home = Path(person.environment["HOME"])
    async with serving() as peer, peer.driver() as driver, none_left(person):
        person.environment.update(
            SEGUE_CONFIG=str(home / "config.toml"),
            SEGUE_GATEWAY_LOG=str(home / "gateway.log"),
            SEGUE_SLACK_URL=peer.url,
        )
        yield peer, driver
        assert await driver.errors() == ()


def squeezed(text: str) -> str:
    """The text without blanks, where the terminal may have broken a line."""
    return re.sub(r"\s+", "", text)


async def test_the_set_up_prints_what_the_document_shows(person: Person):
    [(command, block)] = re.findall(r"\$ \.venv/bin/segue (.*?)\n(.*?)```", DOCUMENT, re.DOTALL)
    async with slack(person) as (peer, driver):
        anna = await driver.user("Anna")
        chat = await driver.chat(Kind.IM, [anna])
        async with person.opens(*command.split(), lines=120) as shown:
            for question, token in (("Bot token", peer.token), ("App-level", peer.app_token)):
                await shown.see(question)
                shown.say(token)
            await shown.shows("Keep it secret.", 40)
            [code] = re.findall(r"Send (\S+) to the bot within 10 minutes", shown.text)
            await driver.say(anna, chat, code)
            await shown.shows("Done. To hand off a conversation, type /handoff slack in it.", 40)
            assert await shown.end() == 0
            printed = squeezed(shown.text)
    ours = {"Acme": "Segue", "8N2D-VGKQ": code, "D0123456789": chat}
    ours["/home/me/.config/segue/config.toml"] = person.environment["SEGUE_CONFIG"]
    for line in filter(None, map(str.strip, block.splitlines())):
        for theirs, mine in ours.items():
            line = line.replace(theirs, mine)
        assert squeezed(line) in printed
    assert not re.search(re.escape(peer.token), printed)


async def test_the_line_for_scripts_leads_to_a_message_in_the_channel(person: Person):
    [line] = re.findall(r"```sh\nsegue (setup slack .*) < tokens\.txt\n```", DOCUMENT)
    async with slack(person) as (peer, driver):
        anna = await driver.user("Anna")
        channel = await driver.chat(Kind.CHANNEL, [anna])
        words = shlex.split(line.replace("U0123456789", anna).replace("C0123456789", channel))
        tokens = f"{peer.token}\n{peer.app_token}\n"
        where: Any = {"environment": {**CODE, **person.environment}, "cwd": person.cwd}
        told = await asyncio.to_thread(program.run, *words, **where, given=tokens.encode())
        assert told.returncode == 0, told.stderr
        shown = await driver.until(lambda it: any("It works." in text for text in it.texts))
        assert [it.mentions for it in shown.messages if it.mentions] == [(f"<@{anna}>",)]
        for others in re.findall(
            r"`segue ((?:config set|doctor|gateway status|pair)[^`]*)`", DOCUMENT
        ):
            told = await asyncio.to_thread(segue_says, person, *shlex.split(others))
            assert told.returncode == 0, told.stderr


async def test_an_owner_who_does_not_exist_is_refused_before_anything_is_saved(person: Person):
    async with slack(person) as (peer, driver):
        anna = await driver.user("Anna")
        channel = await driver.chat(Kind.CHANNEL, [anna])
        words = ["--token", peer.token, "--app-token", peer.app_token, "--home", channel]
        told = await asyncio.to_thread(
            segue_says, person, "setup", "slack", *words, "--owner", "U0999999999"
        )
        assert told.returncode == 1
        assert "There is no slack user U0999999999, so nothing was changed." in told.stderr
        assert "type `segue setup slack` without it" in " ".join(told.stderr.split())
        assert "Saved" not in told.stdout
        async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
            assert await owners.homes(store, ME) == ()
            assert await owners.identities(store, ME) == ()
            assert await gateways.alive(store) == ()


async def test_a_code_in_a_chat_without_the_app_is_reported_in_the_terminal(person: Person):
    async with slack(person) as (peer, driver):
        anna = await driver.user("Anna")
        own = await driver.chat(Kind.IM, [anna])
        theirs = await driver.chat(Kind.IM, [anna, await driver.user("Eve")])
        await driver.do("rights", None, user=anna, chat=theirs, joined=False)
        words = ["--token", peer.token, "--app-token", peer.app_token]
        async with person.opens("setup", "slack", *words, lines=120) as shown:
            await shown.shows("Keep it secret.", 40)
            [code] = re.findall(r"Send (\S+) to the bot within 10 minutes", shown.text)
            await driver.command(anna, theirs, COMMAND, f"start {code}")
            await shown.shows("where you sent the code, so it is not your home", 20)
            await driver.command(anna, own, COMMAND, "sethome")
            await shown.shows("Done. To hand off a conversation, type /handoff slack in it.", 40)
            assert await shown.end() == 0
        async with await segue.store.open(person.environment["SEGUE_STORE"]) as store:
            homes = await owners.homes(store, ME)
        assert [it.address.chat_id for it in homes if it.platform is Platform.SLACK] == [own]
        told = await asyncio.to_thread(segue_says, person, "status")
        assert f"slack dm {theirs}, just now, failed: the app is not in that channel" in told.stdout
