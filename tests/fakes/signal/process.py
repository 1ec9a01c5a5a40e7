"""Start the Signal fake in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.signal.driver import Driver
from tests.fakes.signal.server import Server
from tests.fakes.signal.snapshot import NUMBER, Settings


class Peer(peers.Peer):
    """A running fake. Its token is the account's number: the daemon has no secrets."""

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.signal", token=NUMBER, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
