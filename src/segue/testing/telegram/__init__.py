"""A strict Telegram for tests: the Bot API behind real HTTP, for the real python-telegram-bot.

It answers as Telegram does, in its codes and words, and refuses what is malformed, unknown or
beyond its limits. Run in a process of its own, it keeps what it did however the gateway dies:

    with running() as peer:                       # or: async with serving() as peer, in-process
        async with peer.hands() as hands:
            anna = await hands.user("Anna")
            chat = await hands.chat(Kind.FORUM, [anna], manage_topics=True)
            bot = telegram.Bot(peer.token, base_url=peer.base_url, base_file_url=peer.file_url)
            ...
            thread = (await bot.create_forum_topic(chat, "Moving in")).message_thread_id
            await hands.say(anna, chat, "hello", thread=thread)
            shown = await hands.until(lambda shown: "hi Anna" in shown.texts, chat=chat)
            assert not shown.errors

Each module names the pages of core.telegram.org/bots/api, or the sources and issues of
tdlib/telegram-bot-api, that its answers were taken from. What a bot should never do, such as to
call with a parameter that there is not, is answered with 400 and noted in `errors`.

It is stricter than Telegram where that finds mistakes: parameters that are not known are refused,
the name of a topic is never cut off, and only HTML is read as markup. Trouble of every kind of
`Trouble` can be had for any method; BROKEN is a 502 in HTML.
"""

from __future__ import annotations

from segue.testing.peers import Trouble as Trouble
from segue.testing.telegram.control import Upload as Upload
from segue.testing.telegram.driver import Hands as Hands
from segue.testing.telegram.driver import OrderRefused as OrderRefused
from segue.testing.telegram.entities import Entity as Entity
from segue.testing.telegram.entities import cleaned as cleaned
from segue.testing.telegram.process import TOKEN as TOKEN
from segue.testing.telegram.process import Peer as Peer
from segue.testing.telegram.process import running as running
from segue.testing.telegram.process import serving as serving
from segue.testing.telegram.snapshot import Button as Button
from segue.testing.telegram.snapshot import Called as Called
from segue.testing.telegram.snapshot import FileKind as FileKind
from segue.testing.telegram.snapshot import Kind as Kind
from segue.testing.telegram.snapshot import Message as Message
from segue.testing.telegram.snapshot import Origin as Origin
from segue.testing.telegram.snapshot import OriginKind as OriginKind
from segue.testing.telegram.snapshot import Settings as Settings
from segue.testing.telegram.snapshot import Shown as Shown
from segue.testing.telegram.snapshot import Status as Status
from segue.testing.telegram.snapshot import Topic as Topic
