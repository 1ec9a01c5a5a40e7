"""Start the Discord fake in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.discord.driver import Driver
from tests.fakes.discord.server import Server
from tests.fakes.discord.snapshot import Settings

TOKEN = "MTEwMDAwMDAwMDAwMDAwMDAwMQ.Gtests.the_token_of_the_bot_for_tests_00000001"


class Peer(peers.Peer):
    """A running fake. Set `discord.http.Route.BASE` and the default gateway to two of its URLs."""

    @property
    def base_url(self) -> str:
        return f"{self.url}/api/v10"

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.discord", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
