"""Start the Slack fake in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from tests.fakes.slack.driver import Driver
from tests.fakes.slack.server import APP_TOKEN, Server
from tests.fakes.slack.snapshot import Settings

TOKEN = "xoxb-100000001-100000002-thetokenofthebotfortests"


class Peer(peers.Peer):
    """A running fake. Pass its `base_url` to slack_sdk's web client."""

    app_token = APP_TOKEN

    @property
    def base_url(self) -> str:
        return f"{self.url}/api/"

    def driver(self) -> Driver:
        """Return new driver, for use in an `async with`."""
        return Driver(self.obey or self.control)


FAKE = peers.Fake(
    package="tests.fakes.slack", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
