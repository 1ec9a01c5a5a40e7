"""The common part of the chat platform fakes: a process, real HTTP, state, and a control interface.

A fake is a **peer** of the gateway. It listens at two addresses. At one it answers the bot in the
platform's protocol. At the other, which stays open while the platform is down, it carries out the
actions of a test; the test's **driver** sends them.

A fake of another platform is a package with these modules:

    snapshot.py  its settings, and its chats, threads and messages: what it adds to the shared types
    state.py     a `State`: ids, lookups, and the platform's rules for chats and threads
    methods.py   the calls of the bot: parameters, strict checks, effect, answer
    control.py   a `Control`: what its users can do, and the updates that this causes
    driver.py    a `Driver`: names the actions of the control
    server.py    a `Server`: parses requests, encodes answers
    process.py   a `Peer`, and the `Fake` that starts it: `running`, `serving`
    __main__.py  calls `main` with that `Fake`

A platform with a REST interface names its calls with `rest`, which also has the server for them.
`rpc` reads calls by the name of a method, `jsonrpc` those of JSON-RPC. `templates` has a platform's
objects as data, `shapes` what the bot sends. `sockets` pushes updates until the bot acknowledges
them; `sessions` numbers them and keeps them for a bot that comes back, and `gateway` has sessions
with opcodes. `event_streams` pushes updates once, and `hub` posts them to a webhook. `snowflakes`
are ids with a time. `uploads` takes files before their message, `keys` makes calls repeatable.
`segue.testing.websocket` makes a connection of the bot a WebSocket.

Updates wait in `State.updates`, which can hold, repeat and confirm them. The bot polls for them, or
the fake takes them from there and pushes them, through a socket or a webhook.
"""

from __future__ import annotations

from segue.testing.peers.control import Control as Control
from segue.testing.peers.driver import WITHIN as WITHIN
from segue.testing.peers.driver import Action as Action
from segue.testing.peers.driver import Driver as Driver
from segue.testing.peers.driver import Obey as Obey
from segue.testing.peers.driver import OrderRefused as OrderRefused
from segue.testing.peers.errors import Malformed as Malformed
from segue.testing.peers.errors import Refuse as Refuse
from segue.testing.peers.faults import Trouble as Trouble
from segue.testing.peers.main import main as main
from segue.testing.peers.outages import Outage as Outage
from segue.testing.peers.process import Fake as Fake
from segue.testing.peers.process import Peer as Peer
from segue.testing.peers.pulse import Pulse as Pulse
from segue.testing.peers.server import Record as Record
from segue.testing.peers.server import Server as Server
from segue.testing.peers.snapshot import Button as Button
from segue.testing.peers.snapshot import Called as Called
from segue.testing.peers.snapshot import Chat as Chat
from segue.testing.peers.snapshot import Draft as Draft
from segue.testing.peers.snapshot import File as File
from segue.testing.peers.snapshot import FileKind as FileKind
from segue.testing.peers.snapshot import Interaction as Interaction
from segue.testing.peers.snapshot import Message as Message
from segue.testing.peers.snapshot import Settings as Settings
from segue.testing.peers.snapshot import Shown as Shown
from segue.testing.peers.snapshot import Status as Status
from segue.testing.peers.snapshot import Thread as Thread
from segue.testing.peers.snapshot import Upload as Upload
from segue.testing.peers.snapshot import User as User
from segue.testing.peers.state import Place as Place
from segue.testing.peers.state import State as State
from segue.testing.peers.updates import Updates as Updates
