"""Start the Signal fake in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.signal.driver import Driver
from segue.testing.signal.server import Server
from segue.testing.signal.snapshot import NUMBER, Settings


class Peer(peers.Peer):
    """A running fake. Its token is the account's number: the daemon has no secrets."""

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="segue.testing.signal", token=NUMBER, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
