"""A strict chat platform for tests, behind real HTTP.

It is modelled on what chat platforms do, and refuses what is malformed, unknown or beyond its
limits. Run in a process of its own, it keeps what it did however the gateway dies:

    with running() as peer:                       # or: async with serving() as peer, in-process
        async with peer.hands() as hands:
            anna = await hands.user("Anna")
            chat = await hands.chat(Shape.FORUM, [anna], name="Team")
            adapter = PeerAdapter(Platform.TELEGRAM, peer.url, peer.token)
            ...
            await hands.say(anna, chat, "hello")
            shown = await hands.until(lambda shown: "hi Anna" in shown.texts, chat=chat)

# The protocol

A call is `POST /v1/<method>` with `Authorization: Bearer <token>` and a JSON object. It is
answered with 200 and JSON, or with another status and `{"code", "reason", "retry_after"}`; a 429
has a Retry-After header too. `segue.testing.platform.wire` has every field.

    me           {}                                         → {id, name, rules}
    updates      {offset?, seconds?, limit?}                → {frames, next}
    send         {chat, text, thread?, format?, key?, buttons?} → {id, thread}
    edit         {chat, message, text, format?, buttons?}   → null
    typing       {chat, thread?}                            → null
    open_thread  {chat, title, key?}                        → {chat, thread}
    file         {file}                                     → its bytes

- `updates` waits up to `seconds` for one. `offset` confirms all before it, for good; those that
  were not confirmed come again. One poll at a time: a second one ends the first with 409 conflict.
  A frame is the JSON text of an update: `{kind, id, chat, user, thread}` and, by its kind
  (message, edit, command, button, joined), a message or the data of a button. The bot's own
  messages come as well (`rules.echo`), and those of other bots (`user.bot`).
- `key`: the same call under the same key has its effect once and the same answer; another call
  under that key is refused. Where `rules.keys` is false, a key is refused.
- `format`: `plain` or `markup`; in Markdown, a block of code that is not closed is bad_markup.
- `open_thread`: in a DM and a forum a thread is a topic; in a group and a channel it hangs from a
  message with its title, whose id it has.
- 400: malformed, not_supported, empty, too_long, bad_markup, bad_button, not_changed (an edit to
  what the message says already), no_threads, too_large, bad_offset. 401: unauthorized. 403:
  forbidden, no_permission (to open threads), not_yours. 404: unknown_method, and chat, thread,
  message or file followed by _not_found. 409: conflict, key_reused. 413: too_long. 429: slow_down;
  nothing was done. 500: internal; it may have been done.

The control side is one URL at a port of its own, so that it is there while the platform is down.
It takes the orders of `segue.testing.platform.control`, which `Hands` gives.
"""

from __future__ import annotations

from segue.testing.peers import Trouble as Trouble
from segue.testing.platform.adapter import PeerAdapter as PeerAdapter
from segue.testing.platform.control import Message as Message
from segue.testing.platform.control import Shape as Shape
from segue.testing.platform.control import Shown as Shown
from segue.testing.platform.control import Thread as Thread
from segue.testing.platform.control import Upload as Upload
from segue.testing.platform.driver import Hands as Hands
from segue.testing.platform.process import Peer as Peer
from segue.testing.platform.process import running as running
from segue.testing.platform.process import serving as serving
from segue.testing.platform.wire import Rules as Rules
