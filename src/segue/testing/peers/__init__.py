"""The common part of the chat platform fakes: a process, real HTTP, state, and a control interface.

A fake is a **peer** of the gateway. It listens at two addresses. At one it answers the bot in the
platform's protocol. At the other, which stays open while the platform is down, it carries out the
actions of a test; the test's **driver** sends them.

A fake of another platform is a package with these modules:

    state.py     a `State`: ids, lookups, errors, and the platform's rules for chats and threads
    control.py   a `Control`: what its users can do, and the updates that this causes; a `Driver`
                 that names these actions
    server.py    a `Server`: the calls of the bot, with strict checks, their effects and answers;
                 a `Peer`, and the `FAKE` that starts it: `running`, `serving`
    __main__.py  calls `main` with that `FAKE`

Updates wait in `State.updates`, which can hold, repeat and confirm them. The bot polls for them, or
the fake takes them from there and pushes them, through a socket or a webhook.
"""

from __future__ import annotations

from segue.testing.peers.control import WITHIN as WITHIN
from segue.testing.peers.control import Action as Action
from segue.testing.peers.control import Control as Control
from segue.testing.peers.control import Driver as Driver
from segue.testing.peers.control import Obey as Obey
from segue.testing.peers.control import OrderRefused as OrderRefused
from segue.testing.peers.faults import Malformed as Malformed
from segue.testing.peers.faults import Outage as Outage
from segue.testing.peers.faults import Refuse as Refuse
from segue.testing.peers.faults import Trouble as Trouble
from segue.testing.peers.process import Fake as Fake
from segue.testing.peers.process import Peer as Peer
from segue.testing.peers.process import main as main
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
from segue.testing.peers.updates import Pulse as Pulse
from segue.testing.peers.updates import Updates as Updates
