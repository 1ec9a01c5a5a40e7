"""Start the test platform in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.platform.driver import Driver
from segue.testing.platform.server import Server
from segue.testing.platform.wire import Rules

TOKEN = "the-token-of-the-bot"  # noqa: S105 - it opens nothing but this


class Peer(peers.Peer):
    """A running platform."""

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="segue.testing.platform", token=TOKEN, settings=Rules, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
