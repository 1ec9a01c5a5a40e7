"""The common part of the chat platform fakes: a process, real HTTP, and a control interface.

A fake is a **peer** of the gateway. It listens at two **doors**. At one it answers the bot in the
platform's protocol. At the other, which stays open while the platform is down, it takes orders from
a test; the test's **hands** send them. Its whole state is its world, which `Clear` resets.

A fake of another platform is a package with these modules:

    control.py   what its users can do, each an `Order`; `Shown`; the union of all, with `Shared`
    world.py     a `World`: its state, its updates, and a handler for each order
    server.py    a `Doors`: answers the bot's requests
    driver.py    a `Hands`: the orders as methods
    process.py   a `Peer`, and the `Fake` that starts it: `running`, `serving`
    __main__.py  calls `main` with that `Fake`
"""

from __future__ import annotations

from segue.testing.peers.control import Clear as Clear
from segue.testing.peers.control import Fail as Fail
from segue.testing.peers.control import Look as Look
from segue.testing.peers.control import Order as Order
from segue.testing.peers.control import Shared as Shared
from segue.testing.peers.control import Shown as Shown
from segue.testing.peers.control import Trouble as Trouble
from segue.testing.peers.driver import WITHIN as WITHIN
from segue.testing.peers.driver import Hands as Hands
from segue.testing.peers.driver import Obey as Obey
from segue.testing.peers.driver import OrderRefused as OrderRefused
from segue.testing.peers.errors import Refuse as Refuse
from segue.testing.peers.faults import Faults as Faults
from segue.testing.peers.faults import Garble as Garble
from segue.testing.peers.main import main as main
from segue.testing.peers.process import Fake as Fake
from segue.testing.peers.process import Peer as Peer
from segue.testing.peers.pulse import Pulse as Pulse
from segue.testing.peers.server import Doors as Doors
from segue.testing.peers.server import Steps as Steps
from segue.testing.peers.tls import tls as tls
