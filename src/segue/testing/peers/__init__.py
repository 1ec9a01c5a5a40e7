"""What the fakes of chat platforms have in common: a process, real HTTP, and a test that commands.

A fake is a **peer** of the gateway. It has two doors: at one it answers the bot in its platform's
own protocol, and at the other, which stays open while the platform is down, it takes the orders of
a test, whose **hands** give them. All that it is at a moment is its world; `Clear` makes it anew.

A fake of one more platform is a package with these modules of its own, and what they name:

    orders.py    what its people can do, each an `Order`; `Shown`; the union of all, with `Shared`
    world.py     a `World`: its state, its updates, and what each order comes to
    doors.py     a `Doors`: how a request of the bot is answered
    hands.py     a `Hands`: its people's, as methods
    running.py   a `Peer`, and the `Fake` that starts it: `running`, `serving`
    __main__.py  `main` of that `Fake`
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
