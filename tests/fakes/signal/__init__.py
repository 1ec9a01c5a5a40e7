"""A strict fake of `signal-cli daemon --http`: JSON-RPC and the event stream on loopback.

    async with serving() as peer, peer.driver() as driver:       # or: with running() as peer
        anna = await driver.user("Anna")
        chat = await driver.chat(Kind.DM, [anna])
        sent = await driver.say(anna, chat, "hello")
        shown = await driver.until(lambda shown: "hi Anna" in shown.texts, chat=chat)
        assert not shown.errors

Written from signal-cli 0.14.6: `man/signal-cli-jsonrpc.5.adoc`, and the sources that its modules
name. `tests/testing/test_signal_real.py` compares its answers with those of a real daemon. It is
stricter where that finds bugs: it knows only the methods and parameters that a bot like ours needs.

The daemon keeps nothing for a client that is away: an event goes to the clients that listen then.
Without any, messages stay on Signal's server (`--receive-mode=on-connection`), or are lost
(`on-start`, the daemon's default). Faults take the names of the methods, and `edit` for a `send`
with an `editTimestamp`.
"""

from __future__ import annotations

from segue.testing.peers import Trouble as Trouble
from segue.testing.peers import Upload as Upload
from tests.fakes.signal.control import Driver as Driver
from tests.fakes.signal.server import FAKE as FAKE
from tests.fakes.signal.server import Peer as Peer
from tests.fakes.signal.server import running as running
from tests.fakes.signal.server import serving as serving
from tests.fakes.signal.state import ME as ME
from tests.fakes.signal.state import NUMBER as NUMBER
from tests.fakes.signal.state import Failure as Failure
from tests.fakes.signal.state import Kind as Kind
from tests.fakes.signal.state import Message as Message
from tests.fakes.signal.state import Settings as Settings
from tests.fakes.signal.state import Shown as Shown
from tests.fakes.signal.state import Style as Style
