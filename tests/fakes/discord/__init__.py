"""A strict fake of Discord: the REST API (v10), the gateway and the CDN, for the real discord.py.

    with running() as peer:                       # or: async with serving() as peer, in-process
        async with peer.driver() as driver:
            anna = await driver.user("Anna")
            chat = await driver.chat(Kind.TEXT, [anna])
            discord.http.Route.BASE = peer.base_url
            DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(peer.socket_url)
            ...
            await driver.say(anna, chat, "hello")
            shown = await driver.until(lambda shown: "hi Anna" in shown.texts, chat=chat)
            assert not shown.errors

Ids are integers. The id of a thread is that of a channel wherever an action takes a `channel`.

Its modules name the pages of discord/discord-api-docs, the sources of client libraries and the
issues that its answers come from. It is stricter than Discord where that finds bugs: it knows only
the calls and fields that we use, and records any other in `errors`. Faults are ordered by the name
of a call in `methods.py`, such as `create_message`, or `download`; their `chat` is the channel, for
calls in its threads too. A message that the bot missed is `unconfirmed` until it resumes its
session or reads the message's channel.
"""

from __future__ import annotations

from segue.testing.peers import Trouble, Upload
from tests.fakes.discord.control import Driver
from tests.fakes.discord.server import FAKE as FAKE
from tests.fakes.discord.server import TOKEN, Peer, running, serving
from tests.fakes.discord.state import BOT, USUAL, Flag, Kind, Permission, Settings, Shown

__all__ = [
    "BOT", "TOKEN", "USUAL", "Driver", "Flag", "Kind", "Peer", "Permission", "Settings", "Shown",
    "Trouble", "Upload", "running", "serving",
]  # fmt: skip
