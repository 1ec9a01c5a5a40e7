"""A strict chat platform for tests, behind real HTTP.

It behaves as chat platforms do, and refuses malformed, unknown and over-limit requests. In a
separate process, its state survives a killed gateway:

    with running() as peer:                       # or: async with serving() as peer, in-process
        async with peer.driver() as driver:
            anna = await driver.user("Anna")
            chat = await driver.chat(Shape.FORUM, [anna], name="Team")
            adapter = PeerAdapter(Platform.TELEGRAM, peer.url, peer.token)
            ...
            await driver.say(anna, chat, "hello")
            shown = await driver.until(lambda shown: "hi Anna" in shown.texts, chat=chat)

# The protocol

A call is `POST /v1/<method>` with `Authorization: Bearer <token>` and a JSON object. The answer is
200 with JSON, or another status with `{"code", "reason", "retry_after"}`. A 429 also has a
Retry-After header. `segue.testing.platform.wire` defines every field.

    me           {}                                         → {id, name, rules}
    updates      {offset?, seconds?, limit?}                → {frames, next}
    send         {chat, text, thread?, format?, key?, buttons?} → {id, thread}
    edit         {chat, message, text, format?, buttons?}   → null
    typing       {chat, thread?}                            → null
    open_thread  {chat, title, key?}                        → {chat, thread}
    file         {file}                                     → its bytes

- `updates` waits up to `seconds` for an update. `offset` permanently confirms updates before it;
  unconfirmed updates are delivered again. Only one poll runs at a time: a second one ends the first
  with 409 conflict. A frame is the JSON text of an update: `{kind, id, chat, user, thread}` and,
  depending on its kind (message, edit, command, button, joined), a message or the data of a button.
  The bot's own messages are delivered too (`rules.echo`), and those of other bots (`user.bot`).
- `key` is an idempotency key: repeating a call with its key has no further effect and returns the
  same answer. A different call with a used key is refused. Where `rules.keys` is false, any key is
  refused.
- `format` is `plain` or `markup` (Markdown). An unclosed code block is bad_markup.
- `open_thread`: in a DM and a forum a thread is a topic. In a group and a channel it starts at a
  message with the title, and has the id of that message.
- 400: malformed, not_supported, empty, too_long, bad_markup, bad_button, not_changed (an edit that
  changes nothing), no_threads, too_large, bad_offset. 401: unauthorized. 403: forbidden,
  no_permission (to open threads), not_yours. 404: unknown_method, and chat, thread, message or file
  followed by _not_found. 409: conflict, key_reused. 413: too_long. 429: slow_down; the call had no
  effect. 500: internal; the call may have had an effect.

The control interface is one URL on a separate port, so it stays up while the platform is down. It
takes the actions of `segue.testing.platform.control`, which `Driver` sends.
"""

from __future__ import annotations

from segue.testing.peers import Trouble as Trouble
from segue.testing.peers import Upload as Upload
from segue.testing.platform.adapter import PeerAdapter as PeerAdapter
from segue.testing.platform.control import Driver as Driver
from segue.testing.platform.server import FAKE as FAKE
from segue.testing.platform.server import Peer as Peer
from segue.testing.platform.server import running as running
from segue.testing.platform.server import serving as serving
from segue.testing.platform.state import Message as Message
from segue.testing.platform.state import Shape as Shape
from segue.testing.platform.state import Shown as Shown
from segue.testing.platform.state import Thread as Thread
from segue.testing.platform.wire import Rules as Rules
