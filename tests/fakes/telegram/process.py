"""Start the Telegram fake in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.telegram.driver import Driver
from tests.fakes.telegram.server import Server
from tests.fakes.telegram.snapshot import Settings

TOKEN = "7000000001:the_token_of_the_bot_for_tests_00001"


class Peer(peers.Peer):
    """A running fake. Pass its `base_url` to python-telegram-bot."""

    @property
    def base_url(self) -> str:
        return f"{self.url}/bot"

    def driver(self) -> Driver:
        """Return a new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.telegram", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
