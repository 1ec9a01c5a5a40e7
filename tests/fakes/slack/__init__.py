"""A strict fake of Slack: the Web API and Socket Mode on loopback, for the real slack-bolt.

    async with serving() as peer, peer.driver() as driver:       # or: with running() as peer
        anna = await driver.user("Anna")
        chat = await driver.chat(Kind.CHANNEL, [anna])
        app = AsyncApp(client=AsyncWebClient(peer.token, base_url=peer.base_url))
        await AsyncSocketModeHandler(app, peer.app_token).connect_async()
        ts = await driver.say(anna, chat, "hello")
        shown = await driver.until(lambda shown: "hi Anna" in shown.texts, chat=chat)
        assert not shown.errors

Its modules name the pages of docs.slack.dev, and the client libraries, that its answers come from.
It is stricter than Slack where that finds bugs: it knows only the methods, arguments and blocks
that a bot like ours needs, and records any other call in `errors`. Faults take the names of the
methods, `reply` for a `chat.postMessage` with a `thread_ts`, `upload` and `download`.
"""

from __future__ import annotations

from segue.testing.peers import Trouble as Trouble
from segue.testing.peers import Upload as Upload
from tests.fakes.slack.control import Driver as Driver
from tests.fakes.slack.server import FAKE as FAKE
from tests.fakes.slack.server import TOKEN as TOKEN
from tests.fakes.slack.server import Peer as Peer
from tests.fakes.slack.server import running as running
from tests.fakes.slack.server import serving as serving
from tests.fakes.slack.state import BOT as BOT
from tests.fakes.slack.state import COMMAND as COMMAND
from tests.fakes.slack.state import OTHER_TEAM as OTHER_TEAM
from tests.fakes.slack.state import TEAM as TEAM
from tests.fakes.slack.state import Kind as Kind
from tests.fakes.slack.state import Message as Message
from tests.fakes.slack.state import Settings as Settings
from tests.fakes.slack.state import Shown as Shown
