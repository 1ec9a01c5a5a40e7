"""Start the WhatsApp fake in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.whatsapp.driver import Driver
from segue.testing.whatsapp.server import Server
from segue.testing.whatsapp.snapshot import Settings

TOKEN = "EAAthetokenofthesystemuserfortests"  # noqa: S105 - it opens nothing but this


class Peer(peers.Peer):
    """A running fake."""

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="segue.testing.whatsapp", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
