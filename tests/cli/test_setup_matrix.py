"""The commands of docs/matrix.md, run against the real Synapse."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import shlex
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from segue.testing.http import Request, Response, serving
from tests import program
from tests.fakes.matrix import MatrixPeer, MatrixUser
from tests.fakes.matrix import peer as peer
from tests.fakes.synapse import Account
from tests.harness import household
from tests.harness.element import element
from tests.harness.gateways import CODE, none_left
from tests.harness.household import HANDED_OFF, Household
from tests.harness.terminal import Person
from tests.harness.terminal import person as person
from tests.rigs.matrix import MatrixRig

pytestmark = pytest.mark.real

DOCUMENT = (Path(__file__).parents[2] / "docs" / "matrix.md").read_text("utf-8")


@pytest.fixture
def home(person: Person, runner: asyncio.Runner, peer: MatrixPeer) -> Generator[Household]:
    """A household whose settings name no platform."""
    opened = household.opened(person, MatrixRig)
    made = runner.run(opened.__aenter__())
    Path(person.environment["SEGUE_CONFIG"]).write_text("")
    yield made
    runner.run(opened.__aexit__(None, None, None))


@contextlib.asynccontextmanager
async def a_bot(home: Household) -> AsyncGenerator[tuple[MatrixUser, Account, str]]:
    """Anna, an account for the bot, and the server's name, which is not its address."""
    server = home.rig.peer.server
    bot = await asyncio.to_thread(server.register, f"segue-{secrets.token_hex(4)}")

    async def well_known(request: Request) -> Response:
        assert request.target == "/.well-known/matrix/client"
        return Response(body=json.dumps({"m.homeserver": {"base_url": server.url}}).encode())

    async with serving(well_known) as name, none_left(home.person):
        yield home.rig.driver.users[home.anna], bot, name


async def invite(anna: MatrixUser, home: Household, bot: Account, **more: Any) -> str:
    """Start a direct message with the bot, as clients do."""
    given = {"preset": "trusted_private_chat", "is_direct": True, "invite": [bot.user_id], **more}
    home.chat = (await anna.call("POST", "/createRoom", given))["room_id"]
    home.rig.driver.rooms[home.chat] = anna
    return home.chat


def squeezed(text: str) -> str:
    """The text without blanks, where the terminal may have broken a line."""
    return re.sub(r"\s+", "", text)


async def test_the_set_up_prints_what_the_document_shows_and_leads_to_a_handoff(home: Household):
    [(command, block)] = re.findall(r"\$ \.venv/bin/segue (.*?)\n(.*?)```", DOCUMENT, re.DOTALL)
    async with a_bot(home) as (anna, bot, name):
        local = bot.user_id.partition(":")[0][1:]
        async with home.person.opens(*command.split(), lines=120) as shown:
            answers = {"Homeserver": name, "Your own user id": anna.id, "User name": local}
            for question, answer in {**answers, "Password": bot.password}.items():
                await shown.see(question)
                shown.say(answer)
            await shown.shows("Keep it secret.", 60)
            [code] = re.findall(r"Send (\S+) to the bot within 10 minutes", shown.text)
            room = await invite(anna, home, bot)
            await anna.say(room, code)
            await shown.shows("Done. To hand off a conversation, type /handoff matrix in it.", 60)
            assert await shown.end() == 0
            printed = squeezed(shown.text)
        ours = {"https://example.org": name, "@anna:example.org": anna.id, "8N2D-VGKQ": code}
        ours |= {"@segue:example.org": bot.user_id, ": segue": f": {local}"}
        ours["/home/me/.config/segue/config.toml"] = home.person.environment["SEGUE_CONFIG"]
        [device] = re.findall(rf"{re.escape(squeezed(bot.user_id))},device(\w+)\.", printed)
        for line in filter(None, map(str.strip, block.splitlines())):
            for theirs, mine in {**ours, "GHTYAJCE": device}.items():
                line = line.replace(theirs, mine)
            assert squeezed(line) in printed
        assert bot.password not in printed
        assert (await home.sees("It works.")).thread is not None
        async with home.terminal("what is 2 and 2?") as conversation:
            conversation.say("/handoff matrix")
            assert await conversation.end() == 0
        arrived = await home.sees(HANDED_OFF)
        await anna.say(room, "go on", arrived.thread)
        await home.sees("(3) go on", arrived.thread)
        for others in re.findall(r"`segue ((?:config set|doctor|gateway status)[^`]*)`", DOCUMENT):
            told = await home.shell(*shlex.split(others))
            assert told.returncode == 0, told
        assert "The home room is" in (await home.shell("doctor")).stdout


async def test_the_line_for_scripts_and_a_comparison_of_emoji_lead_to_an_encrypted_room(
    home: Household,
):
    [line] = re.findall(r"```sh\n\.venv/bin/segue (setup matrix .*)\n```", DOCUMENT)
    async with a_bot(home) as (anna, bot, name):
        local = bot.user_id.partition(":")[0][1:]
        line = line.replace("https://example.org", name).replace("@anna:example.org", anna.id)
        words = shlex.split(line.replace("--user segue", f"--user {local}"))
        where: Any = {"environment": {**CODE, **home.person.environment}, "cwd": home.person.cwd}
        given = f"{bot.password}\n".encode()
        told = await asyncio.to_thread(program.run, *words, **where, given=given)
        assert "Started a gateway" in told.stdout, told
        assert bot.password not in (await home.shell("config", "show")).stdout
        async with element(home.rig.peer.server, anna.account) as client:
            room = await client("direct", user=bot.user_id)
            members = dict[str, Any]()
            while bot.user_id not in members:
                members = (await anna.call("GET", f"/rooms/{quote(room)}/joined_members"))["joined"]
            emoji = await client("verify", user=bot.user_id, room=room)
            told = await home.shell("setup", "matrix", "--owner", anna.id)
            assert "no device that reads this room is verified" in told.stderr, told
            verifying = asyncio.create_task(home.shell("verify", "--yes"))
            await client("confirm")
            told = await verifying
            assert all(sign.strip("\ufe0f") in told.stdout for sign, _ in emoji)
            assert "Verified." in told.stdout
            await client("verified", user=bot.user_id)
            told = await home.shell("setup", "matrix")
            assert "Sent a message in a new thread" in told.stdout, told
            assert "one of your devices is verified" in (await home.shell("doctor")).stdout
            await client("see", room=room, text="It works.")
