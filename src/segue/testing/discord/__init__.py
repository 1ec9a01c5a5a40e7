"""A strict fake of Discord: the REST API (v10), the gateway and the CDN, for the real discord.py.

    with running() as peer:                       # or: async with serving() as peer, in-process
        async with peer.driver() as driver:
            anna = await driver.user("Anna")
            chat = await driver.chat(Kind.TEXT, [anna])
            discord.http.Route.BASE = peer.base_url
            DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(peer.gateway)
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

from segue.testing.discord.driver import Driver as Driver
from segue.testing.discord.process import TOKEN as TOKEN
from segue.testing.discord.process import Peer as Peer
from segue.testing.discord.process import running as running
from segue.testing.discord.process import serving as serving
from segue.testing.discord.snapshot import BOT as BOT
from segue.testing.discord.snapshot import USUAL as USUAL
from segue.testing.discord.snapshot import Flag as Flag
from segue.testing.discord.snapshot import Kind as Kind
from segue.testing.discord.snapshot import Permission as Permission
from segue.testing.discord.snapshot import Settings as Settings
from segue.testing.discord.snapshot import Shown as Shown
from segue.testing.peers import Trouble as Trouble
from segue.testing.peers import Upload as Upload
