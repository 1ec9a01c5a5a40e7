"""The Discord fake's HTTP interface for the bot: the REST API, the gateway and the CDN.

Headers and buckets: `topics/rate-limits.mdx`; `User-Agent`: `reference.mdx`. The `Via` header is
that of the proxy in front of Discord: discord.py takes a 429 without it for a ban.
"""

from __future__ import annotations

from segue.testing.http import Request
from segue.testing.websocket import WebSocket
from tests.fakes.discord.control import Control
from tests.fakes.discord.errors import check, refuse
from tests.fakes.discord.methods import ROUTES, Methods
from tests.fakes.discord.snapshot import Settings
from tests.fakes.discord.state import State
from tests.fakes.protocols.gateway import GatewaySocket
from tests.fakes.protocols.rest import RestServer


class Server(RestServer[Settings, State]):
    control = Control
    routes = ROUTES
    methods = Methods
    errors = refuse
    headers = {"Via": "1.1 google"}  # noqa: RUF012

    def fresh(self, settings: Settings) -> State:
        return State(settings, self.pulse)

    async def connect(self, wire: WebSocket, target: str) -> None:
        state, token = self.state, "" if self.state.settings.revoked else self.token
        socket = GatewaySocket(state.gateway, wire, token, state.errors, self.outages.now)
        wire.is_compressed = "compress=zlib-stream" in target
        if "v=10" not in target or "encoding=json" not in target:
            raise socket.mistake(4012, "Invalid API version")
        await socket.serve(*state.settings.heartbeats)

    def check(self, request: Request, *, is_open: bool) -> None:
        if not is_open:
            allowed = not self.state.settings.revoked and f"Bot {self.token}"
            check(request.headers.get("authorization") == allowed, 401)
            if not request.headers.get("user-agent", "").startswith("DiscordBot ("):
                raise refuse(40333, mistake=True)
            if wait := self.state.wait(0, self.state.settings.per_second, 0, 1):
                raise refuse.too_often(wait, everywhere=True)
