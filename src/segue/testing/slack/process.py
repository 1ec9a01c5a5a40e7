"""Start the Slack fake in a separate process, or in this one."""

from __future__ import annotations

from segue.testing import peers
from segue.testing.slack.driver import Driver
from segue.testing.slack.server import APP_TOKEN, Server
from segue.testing.slack.snapshot import Settings

TOKEN = "xoxb-100000001-100000002-thetokenofthebotfortests"  # noqa: S105 - it opens nothing but this


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
    package="segue.testing.slack", token=TOKEN, settings=Settings, server=Server, peer=Peer
)
running = FAKE.running
serving = FAKE.serving
