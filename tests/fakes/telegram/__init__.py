"""A strict fake of Telegram: the Bot API behind real HTTP, for the real python-telegram-bot.

It answers with Telegram's codes and texts, and refuses malformed, unknown and over-limit requests.
In a separate process, its state survives a killed gateway:

    with running() as peer:                       # or: async with serving() as peer, in-process
        async with peer.driver() as driver:
            anna = await driver.user("Anna")
            chat = await driver.chat(Kind.FORUM, [anna], manage_topics=True)
            bot = telegram.Bot(peer.token, base_url=peer.base_url)
            thread = (await bot.create_forum_topic(chat, "Moving in")).message_thread_id
            await driver.say(anna, chat, "hello", thread=thread)
            shown = await driver.until(lambda shown: "hi Anna" in shown.texts, chat=chat)
            assert not shown.errors

Its modules name the pages of core.telegram.org/bots/api, or the sources and issues of
tdlib/telegram-bot-api, that its answers come from. It is stricter than Telegram where that finds
bugs: it knows only the methods, parameters and tags that we use, and records any other call in
`errors`. Faults for file downloads use the method name `download`.
"""

from __future__ import annotations

from segue.testing.peers import FileKind, OrderRefused, Status, Trouble, Upload
from tests.fakes.telegram.control import Driver
from tests.fakes.telegram.markup import cleaned
from tests.fakes.telegram.server import FAKE as FAKE
from tests.fakes.telegram.server import TOKEN, Peer, running, serving
from tests.fakes.telegram.state import Kind, Message, Settings, Shown, Topic

__all__ = [
    "TOKEN", "Driver", "FileKind", "Kind", "Message", "OrderRefused", "Peer", "Settings", "Shown",
    "Status", "Topic", "Trouble", "Upload", "cleaned", "running", "serving",
]  # fmt: skip
