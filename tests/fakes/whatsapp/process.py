"""Start the WhatsApp fake in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.whatsapp.driver import Driver
from tests.fakes.whatsapp.server import Server
from tests.fakes.whatsapp.snapshot import Settings

TOKEN = "EAAthetokenofthesystemuserfortests"


class Peer(peers.Peer):
    """A running fake."""

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.whatsapp", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
